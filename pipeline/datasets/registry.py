"""The registry of known data sets: what they are called, where their files are and how to prepare them.

All of it is data (``datasets.toml``, where the keys are explained); users add their own files of the
same form. Nothing here reads a row: `resolve` ends with the addresses of files that exist, and opening them reads
what tells their format.
"""

from __future__ import annotations

import difflib
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ikmap.tasks import task_named
from pipeline.datasets.download import DownloadError, download
from pipeline.datasets.spec import COMPRESSION_SUFFIXES, CSV_KEYS, DatasetSpec, Files, Label, Split, is_web, parse_spec
from pipeline.errors import InputError
from pipeline.readers import CsvFormat, Source, open_source, without
from pipeline.readers.base import WIDE, check_columns
from pipeline.readers.files import find_file
from pipeline.readers.open import format_asked, format_of
from pipeline.readers.several import named_files
from pipeline.tables import TableAsked, TableSource, open_table
from pipeline.tables.opened import TABLES
from pipeline.watching.plain_text import not_utf8

#: Used when the user names neither a data set nor an input: it ships inside a dependency.
EMBEDDED = "digits"

#: Called as ``progress(file_name, bytes_so_far, bytes_in_all or None)`` while a file is downloaded.
FileProgress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class ResolvedDataset:
    """A data set whose files are there to be read.

    Parameters
    ----------
    name : str
    train_url : str
        Local path, or an address that the readers understand.
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
    table : TableAsked
        What is asked of a table.
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
    table: TableAsked = field(default_factory=TableAsked)

    @property
    def test_rows(self) -> str:
        """What the test rows are, in the word that ``metrics.json`` has for it.

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
        train = self._opened(self.train_url, self.n_columns)
        test = None if self.test_url is None else self._opened(self.test_url, train.n_columns, train)
        return train, test

    @property
    def csv(self) -> dict[str, Any]:
        """What the definition says about CSV files, such as the delimiter; the rest is found out from the file."""
        return {key: getattr(self, key) for key in CSV_KEYS if getattr(self, key) is not None}

    def _needs_labels(self) -> bool:
        """Whether the task needs labels. An unknown task is refused elsewhere, with a line of its own."""
        try:
            return task_named(self.task).needs_labels
        except ValueError:
            return True

    def _opened(self, url: str, n_columns: int | None, like: Source | None = None) -> Source:
        needed = self.label is not None or self._needs_labels()
        csv = CsvFormat(**self.csv)
        named = named_files(url)
        several = len(named) > 1 or bool(named[0].partition)
        first = find_file(named[0].url)
        asked_format = format_asked(first, self.format, csv)
        kind = format_of(first, asked_format)
        if isinstance(like, TableSource) or (like is None and (several or kind in TABLES)):
            columns = like.columns if isinstance(like, TableSource) else None
            asked = replace(self.table, drop=(*self.drop, *self.table.drop))
            if columns is not None:
                asked = replace(asked, plan={}, categories=(), drop=(), kept=None)
            table = open_table(url, asked_format, self.label, asked, require_label=needed, columns=columns, csv=csv)
            if len(table.columns) < WIDE or several:
                self._refuse_keys_of_csv(url, table)
                if columns is None:
                    check_columns(url, len(table.columns) + len(self.drop), n_columns)
                return table
        if several:
            raise InputError(f"{url}: found {len(named)} files, expected one, as the training data is no table")
        if self.table.as_json():
            raise InputError(
                f"{url}: found a file of format {kind}, expected CSV, Parquet or Arrow with fewer than {WIDE:,} "
                f"columns, for which {', '.join(self.table.as_json())} is given"
            )
        source = open_source(named[0].url, asked_format, self.label, n_columns, require_label=needed, csv=csv)
        self._refuse_keys_of_csv(url, source)
        return without(source, self.drop)

    def _refuse_keys_of_csv(self, url: str, source: Source) -> None:
        if self.csv and source.format != "csv":
            key, value = next(iter(self.csv.items()))
            if not self.registered:
                raise InputError(f"{url}: read as {source.format}, but --{key} is for CSV; leave it out")
            raise InputError(
                f"{url}: read as {source.format}, but data set {self.name} is defined with {key} = {value!r}, for CSV; "
                'give format = "csv" there, or leave it out'
            )


@dataclass(frozen=True)
class Registry:
    """The data sets by name, built-in ones first."""

    specs: Mapping[str, DatasetSpec]

    def __iter__(self) -> Iterator[DatasetSpec]:
        return iter(self.specs.values())

    def find(self, name: str) -> DatasetSpec:
        """Return the data set called `name`, or with that alias; upper and lower case do not matter.

        Raises
        ------
        InputError
            There is none; the nearest names are suggested.
        """
        known = {alias.lower(): spec for spec in self for alias in (spec.name, *spec.aliases)}
        if spec := known.get(name.lower()):
            return spec
        near = difflib.get_close_matches(name.lower(), known, n=6, cutoff=0.6)
        suggested = list(dict.fromkeys(known[alias].name for alias in near))[:3]
        hint = f"did you mean {' or '.join(suggested)}?" if suggested else f"known: {', '.join(self.specs)}"
        raise InputError(f"unknown data set '{name}': {hint}")


def default_data_dir() -> Path:
    """Return where data sets live: IKMAP_DATA_DIR, else `ikmap` in the user's cache directory."""
    if chosen := os.environ.get("IKMAP_DATA_DIR"):
        return Path(chosen).expanduser()
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache) / "ikmap"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ikmap"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "ikmap"
    return Path.home() / ".cache" / "ikmap"


def load_registry(extra: Path | None = None, data_dir: Path | None = None) -> Registry:
    """Read the built-in data sets and the user's.

    Parameters
    ----------
    extra : Path, optional
        TOML file of the user (``--dataset-file``).
    data_dir : Path, optional
        Its ``*.toml`` files are read too, where they define data sets.

    Raises
    ------
    InputError
        A file cannot be read, is not TOML, has an unknown or ill-typed key, or a name that is taken.
    """
    with resources.as_file(resources.files("pipeline.datasets") / "datasets.toml") as path:
        sources: list[tuple[Path, Path | None]] = [(path, None)]
        if extra is not None:
            sources.append((extra, extra.parent))
        for found in sorted(data_dir.glob("*.toml")) if data_dir else []:
            if extra is None or found.resolve() != extra.resolve():
                sources.append((found, found.parent))

        specs: dict[str, DatasetSpec] = {}
        owners: dict[str, tuple[Path, str]] = {}
        for path, folder in sources:
            tables = _read_toml(path).get("dataset")
            if tables is None and path != extra:
                continue  # some other TOML file that happens to lie in the data directory
            if not isinstance(tables, dict):
                raise InputError(f"{path}: found no data set, expected a table [dataset.NAME]")
            for name, table in tables.items():
                spec = parse_spec(path, folder, name, table)
                for alias in (name, *spec.aliases):
                    owner = owners.setdefault(alias.lower(), (path, name))
                    if owner != (path, name):
                        raise InputError(
                            f"{path}: data set '{name}': {alias} is taken by {owner[1]} of {owner[0].name}"
                        )
                specs[name] = spec
    return Registry(specs)


def resolve(
    spec: DatasetSpec,
    data_dir: Path,
    *,
    progress: FileProgress | None = None,
    timeout: float = 60.0,
) -> ResolvedDataset:
    """Find the files of a data set, downloading to `data_dir` those that are not there.

    Looked for beside the defining file and in `data_dir`, as they are or with .bz2, .xz or .gz.

    Raises
    ------
    InputError
        A file is neither there nor to be had; one line names it, its address and where to put it.
    """
    files, missing = _look(spec, data_dir)
    if missing:
        _fetch(spec, files, missing, data_dir, progress, timeout)
    found = [_local(name, spec, data_dir) for name in files.names]
    assert found[0] is not None
    return ResolvedDataset(
        name=spec.name,
        train_url=found[0],
        test_url=found[1] if len(found) > 1 else None,
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


def missing_files(spec: DatasetSpec, data_dir: Path) -> list[str]:
    """Names of the files of a data set that :func:`resolve` would have to download."""
    return _look(spec, data_dir)[1]


def _look(spec: DatasetSpec, data_dir: Path) -> tuple[Files, list[str]]:
    """The files of a data set, and the names of those that are not there."""
    if spec.package is not None:
        files = Files(train=_packaged(spec), divide=spec.divide)
    else:
        # The variant of which most is there; the first of them where several are.
        files = min(spec.files, key=lambda files: sum(_local(n, spec, data_dir) is None for n in files.names))
    return files, [name for name in files.names if _local(name, spec, data_dir) is None]


def _packaged(spec: DatasetSpec) -> str:
    """Path of a file that ships inside an installed package."""
    assert spec.package is not None
    assert spec.resource is not None
    try:
        found = find_spec(spec.package)  # does not import it, which may take seconds
    except ModuleNotFoundError:  # nor is there what it would be a part of
        found = None
    if found is None or found.origin is None:
        raise InputError(f"{spec.name}: comes with the Python package {spec.package}, not installed here")
    path = Path(found.origin).parent / spec.resource
    if not path.is_file():
        raise InputError(f"{path}: no such file, expected it inside the Python package {spec.package}")
    return str(path)


def _stem(name: str) -> str:
    """File name without its compression suffix."""
    for suffix in COMPRESSION_SUFFIXES[1:]:
        name = name.removesuffix(suffix)
    return name


def _local(name: str, spec: DatasetSpec, data_dir: Path) -> str | None:
    """Path of the file if it exists. An address that a reader opens is returned unchecked."""
    if is_web(name):
        name = name.rsplit("/", 1)[-1]
    elif "://" in name:
        return name
    for folder in (spec.folder, data_dir):
        for suffix in COMPRESSION_SUFFIXES if folder else ():
            path = os.path.join(folder or "", _stem(name) + suffix)
            if os.path.isfile(path):
                return os.path.abspath(path)
    return None


def _fetch(
    spec: DatasetSpec,
    files: Files,
    missing: list[str],
    data_dir: Path,
    progress: FileProgress | None,
    timeout: float,
) -> None:
    """Download the missing files, or say what to fetch by hand."""
    lacking = [name for name in missing if not files.addresses(name)]
    if lacking:
        folders = data_dir if spec.folder in (None, data_dir) else f"{spec.folder} or {data_dir}"
        raise InputError(
            f"{spec.name}: {' and '.join(lacking)} (or with .bz2, .xz, .gz) not found in {folders}, "
            "and no address to download from is known: put it there, or name its directory with --data-dir"
        )
    for done, name in enumerate(missing):
        reason: DownloadError | None = None
        for address in files.addresses(name):
            file = address.rsplit("/", 1)[-1]
            tell = None if progress is None else partial(progress, file)
            try:
                download(address, data_dir / file, sha256=files.sha256.get(file), progress=tell, timeout=timeout)
            except DownloadError as error:
                reason = reason or error
                if error.missing:
                    continue  # perhaps it is there in another compression
            else:
                reason = None
            break
        if reason is not None:
            wanted = " and ".join(files.addresses(name)[0] for name in missing[done:])
            raise InputError(
                f"{spec.name}: download failed ({reason}): fetch {wanted} by hand into {data_dir}"
            ) from reason


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot read the data set file ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {not_utf8('TOML')}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not a TOML file: {error}") from error
