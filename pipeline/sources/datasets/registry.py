"""Data sets whose files are there to be read: those of the registry, downloaded if need be, and those that users name.

Nothing here reads a row: `resolve` ends with the addresses of files that exist, and opening them reads what tells their
format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from ikmap.tasks import task_named
from pipeline.errors import InputError
from pipeline.record_types import Record
from pipeline.sources.columns.read_request import CsvFormat, ReadRequest, Sizes
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.datasets.download import DownloadError, download
from pipeline.sources.datasets.known import files_of, local_file, refuse_lacking
from pipeline.sources.datasets.spec import CSV_KEYS, DatasetSpec, Files, Label, Split
from pipeline.sources.open import NotCsv, open_source
from pipeline.sources.source import Source
from pipeline.urls import Location

#: Called as ``progress(file_name, bytes_so_far, bytes_in_all or None)`` while a file is downloaded.
FileProgress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class ResolvedDataset:
    """A data set whose files are there to be read.

    Parameters
    ----------
    name : str
    train_url : str
        Local path, or an address that a format can be read from.
    test_url : str or None
        None: `split` makes the test rows out of the training file's.
    task, format, n_columns, label, header, delimiter, encoding, split
        As in `datasets.toml`; `format` and `task` may be "auto", `n_columns`, `label`, `header`, `delimiter` and
        `encoding` None (not told).
    n_train, n_test : int or None
        Published numbers of rows, to check against.
    drop : tuple of str
        Columns of the files that are no features, as they give the label away.
    inliers : tuple of str, or None
        Labels of the rows that are normal, for novelty.
    two_class : pair of tuples of labels, or None
        Labels that become +1, labels that become -1.
    divide : float
        Every value is to be divided by this.
    table : TableRequest
        What is asked of a table.
    sizes : Sizes
        Aimed-at bytes of the fragments and blocks into which files are cut.
    registered : bool
        It has a definition that says what its files are; False: the user has named the files.
    """

    name: str
    train_url: str
    test_url: str | None = None
    task: str = "auto"
    format: str = "auto"
    n_columns: int | None = None
    n_train: int | None = None
    n_test: int | None = None
    label: str | int | None = None
    header: bool | tuple[str, ...] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    drop: tuple[str, ...] = ()
    two_class: tuple[tuple[Label, ...], tuple[Label, ...]] | None = None
    inliers: tuple[str, ...] | None = None
    divide: float = 1.0
    split: Split = field(default_factory=Split)
    registered: bool = False
    table: TableRequest = field(default_factory=TableRequest)
    sizes: Sizes = field(default_factory=Sizes)

    @property
    def test_rows(self) -> str:
        """Origin of the test rows, in the word that ``metrics.json`` has for it.

        "official": the test set that comes with a registered data set; "file": a test file that the user has named;
        "split": rows drawn by the seed; "last": the rows at the end of the file.
        """
        if self.test_url is not None:
            return "official" if self.registered else "file"
        return "last" if self.split.rule == "first" else "split"

    @cached_property
    def sources(self) -> tuple[Source, Source | None]:
        """The files, opened once: the columns of the first, where they are known, are those of the second.

        Raises
        ------
        InputError
            One of them cannot be read, or is not of the format that the definition speaks of, or they do not fit each
            other.
        """
        train = self._opened(self.train_url)
        return train, None if self.test_url is None else self._opened(self.test_url, train)

    @property
    def csv(self) -> Record:
        """Keys of the definition about CSV files, such as the delimiter; the rest is found out from the file."""
        return {key: getattr(self, key) for key in CSV_KEYS if getattr(self, key) is not None}

    def _needs_labels(self) -> bool:
        """Return whether the task needs labels. An unknown task is refused elsewhere, with a line of its own."""
        try:
            return task_named(self.task).labels.needed
        except ValueError:
            return True

    def _opened(self, url: str, like: Source | None = None) -> Source:
        request = ReadRequest(
            label=self.label,
            require_label=self.label is not None or self._needs_labels(),
            count=self.n_columns,
            csv=CsvFormat(**self.csv),
            table=replace(self.table, drop=(*self.drop, *self.table.drop)),
            sizes=self.sizes,
        )
        if like is not None:
            request = request.like(like.plan)
        try:
            return open_source(url, self.format, request)
        except NotCsv as error:
            if not self.registered:
                raise
            key, value = next(iter(self.csv.items()))
            raise InputError(
                f"{url}: read as {error.format}, but data set {self.name} is defined with {key} = {value!r}, for CSV; "
                'give format = "csv" there, or leave it out'
            ) from None


def resolve(
    spec: DatasetSpec,
    data_dir: Path,
    *,
    progress: FileProgress | None = None,
    timeout: float = 60.0,
) -> ResolvedDataset:
    """Find the files of a data set, downloading to `data_dir` those that are not there.

    Looked for beside the defining file and in `data_dir`, as they are or with .bz2, .xz, .gz or .zst.

    Raises
    ------
    InputError
        A file is neither there nor to be had; one line names it, its address and where to put it. Or one file would be
        both for training and for the test.
    """
    files, missing = files_of(spec, data_dir)
    if missing:
        refuse_lacking(spec, data_dir)
        _fetch(spec, files, missing, data_dir, progress, timeout)
    train, *test = [local_file(name, spec, data_dir) for name in files.names]
    assert train is not None
    if train in test:
        raise InputError(
            f"{spec.name}: found {train} for train and for test, expected two files; leave test out of the definition, "
            "and rows are held out"
        )
    return ResolvedDataset(
        name=spec.name,
        train_url=train,
        test_url=test[0] if test else None,
        task=spec.task,
        format=spec.format,
        n_columns=spec.n_columns,
        n_train=spec.n_train,
        n_test=spec.n_test,
        label=spec.label,
        header=spec.header,
        delimiter=spec.delimiter,
        encoding=spec.encoding,
        drop=spec.drop,
        two_class=spec.two_class,
        divide=files.divide,
        split=spec.split,
        registered=True,
    )


def _fetch(
    spec: DatasetSpec,
    files: Files,
    missing: list[Location],
    data_dir: Path,
    progress: FileProgress | None,
    timeout: float,
) -> None:
    """Download the missing files, or say what to fetch by hand."""
    for done, name in enumerate(missing):
        reason: DownloadError | None = None
        for file, address in files.addresses(name).items():
            tell = None if progress is None else partial(progress, file)
            sha256 = files.sha256.get(address.whole if name.is_web else file, files.sha256.get(address.name))
            try:
                download(address, data_dir / file, sha256=sha256, progress=tell, timeout=timeout)
            except DownloadError as error:
                reason = reason or error
                if error.missing:
                    continue  # perhaps it is there in another compression
            else:
                reason = None
            break
        if reason is not None:
            wanted = " and ".join(_by_hand(files.addresses(name)) for name in missing[done:])
            raise InputError(
                f"{spec.name}: download failed ({reason}): fetch {wanted} by hand into {data_dir}"
            ) from reason


def _by_hand(addresses: dict[str, Location]) -> str:
    """Return the best address of a file for people, and the name to keep the file under if that is another one."""
    name, address = next(iter(addresses.items()))
    return address if name == address.name else f"{address} (as {name})"
