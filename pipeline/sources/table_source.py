"""A table of one file or several as a source of rows: columns by name, in the order of the first file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from ikmap.json_values import JsonObject
from ikmap.tables import CATEGORY, NUMBER, ColumnPlan, RawTable
from pipeline.errors import InputError
from pipeline.sources.base import BLOCK_BYTES, FRAGMENT_BYTES, Fragment, RawRows, Source, check_columns, shown
from pipeline.sources.columns.cells import as_numbers, is_text
from pipeline.sources.columns.labels import choose_label
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.columns.weights import of_weight, weights_in
from pipeline.sources.formats.csv import LABEL, TextTable
from pipeline.sources.formats.csv_text import CsvFormat
from pipeline.sources.formats.delimited import TEXT_BLOCK_BYTES
from pipeline.sources.formats.table_file import Block, TableFile
from pipeline.sources.open import Sizes
from pipeline.sources.opened import files_with_rows


@dataclass(frozen=True)
class TableSource(Source):
    """Rows of a table. Blocks have NaN for missing cells, and codes for words (:attr:`RawRows.levels`).

    Attributes
    ----------
    given : str
        What the user has named: a file, a folder, a glob or a list.
    files : tuple of TableFile
    columns : tuple of ColumnPlan
        The feature columns.
    label : str or None
    text_labels : bool
    request : TableRequest
    kept : ColumnPlan or None
        The column by whose values rows are divided.
    """

    given: str
    files: tuple[TableFile, ...]
    columns: tuple[ColumnPlan, ...]
    label: str | None
    text_labels: bool
    request: TableRequest
    kept: ColumnPlan | None = None

    @property
    def format(self) -> str:  # type: ignore[override]
        return self.files[0].format

    @property
    def knows_rows(self) -> bool:  # type: ignore[override]
        return self.files[0].knows_rows

    @property
    def url(self) -> str:
        return self.given

    @property
    def size(self) -> int:
        return sum(file.file.size for file in self.files)

    @property
    def is_plain(self) -> bool:
        """Whether its columns are numbers and no encoding is asked for: then they are features as they are."""
        return not self.request.encodes and all(column.kind == NUMBER for column in self.columns)

    def identity(self) -> JsonObject:
        identities = [{**file.file.identity(), **dict(file.partition)} for file in self.files]
        if len(identities) == 1 and not self.files[0].partition:
            return identities[0]
        digest = hashlib.sha256(json.dumps(identities, sort_keys=True).encode()).hexdigest()
        return {"size": self.size, "sha256": digest}

    def least_rows(self) -> int:
        return sum(file.least_rows() for file in self.files)

    @property
    def id_type(self) -> pa.DataType | None:
        """Arrow type of the column that tells rows apart."""
        if self.request.id is None:
            return None
        types = dict(getattr(self.files[0], "fields", ()))
        id_type = types.get(self.request.id, pa.string())
        return id_type.value_type if pa.types.is_dictionary(id_type) else id_type

    @property
    def unused(self) -> list[str]:
        """Columns of the first file that are read for nothing."""
        known = {self.label, self.request.id, self.request.weight, *(column.name for column in self.columns)}
        return [name for name in self.files[0].names if name not in known]

    def said(self) -> list[str]:
        """How it is read, for people."""
        how = self.files[0].said()
        several = [f"{self.given}: {len(self.files)} files"] if len(self.files) > 1 else []
        above = self.request.above
        rule = [] if above is None else [f"label: 1 where {self.label} is above {above:g}, else 0"]
        return [*several, *([f"{self.files[0].file.url}: {how}"] if how else []), *rule]

    def fragments(self) -> list[Fragment]:
        fragments: list[Fragment] = []
        for file in self.files:
            for fragment in file.fragments(self.fragment_bytes, len(self.columns) + 1):
                fragments.append(Fragment(len(fragments), fragment.start, fragment.stop))
        return fragments

    def _file_of(self, fragment: Fragment) -> TableFile:
        at = fragment.number
        for file in self.files:
            here = len(file.fragments(self.fragment_bytes, len(self.columns) + 1))
            if at < here:
                return file
            at -= here
        raise AssertionError(fragment)

    def read(self, fragment: Fragment, skip: int = 0) -> Iterator[RawRows]:
        file = self._file_of(fragment)
        names, kinds, missing = self._wanted(file)
        try:
            for block in file.blocks(fragment, skip, names, kinds, missing, self.block_bytes):
                yield self._rows(file, block, names, missing)
        except InputError as error:
            raise of_weight(error, self.request.weight) from None

    def parse(self, text: bytes, line: int) -> RawRows:
        """Return the rows of some whole records of CSV, of which the first stands in that line."""
        (file,) = self.files
        assert isinstance(file, TextTable)
        names, kinds, missing = self._wanted(file)
        try:
            return self._rows(file, file.parse(text, line, names, kinds, missing), names, missing)
        except InputError as error:
            raise of_weight(error, self.request.weight) from None

    def _wanted(self, file: TableFile) -> tuple[list[str], list[str], frozenset[str]]:
        """Return names and kinds of the columns to be read from a file, and the cells that are missing ones."""
        missing = frozenset(self.request.missing) | {""}
        own = set(file.own_names)
        columns = {column.name: column for column in (*self.columns, *([self.kept] if self.kept else []))}
        wanted = [(column.name, column.kind) for column in columns.values() if column.name in own]
        request = self.request
        extra = [name for name in (self.label, request.id, request.weight) if name is not None and name in own]
        label_kind = NUMBER if not self.text_labels else LABEL
        kinds = dict.fromkeys(extra, LABEL)
        kinds |= {name: kind for name, kind in ((self.label, label_kind), (request.weight, NUMBER)) if name in kinds}
        names = [*(name for name, _ in wanted), *(name for name in extra if name not in dict(wanted))]
        return names, [kinds[name] if name in kinds else dict(wanted)[name] for name in names], missing

    def _rows(self, file: TableFile, block: Block, names: Sequence[str], missing: frozenset[str]) -> RawRows:
        by_name = dict(zip(names, block.columns, strict=True))
        rows = len(block.columns[0]) if block.columns else 0
        fixed = dict(file.partition)
        X = np.empty((len(self.columns), rows)).T  # column by column
        levels: list[tuple[str, ...] | None] = []
        for k, column in enumerate(self.columns):
            if column.name in by_name:
                cells = by_name[column.name]
            else:
                value = fixed[column.name]
                cells = pa.chunked_array([pa.repeat(pa.scalar(value, pa.string()), rows)])
            where = partial(self._where, file, block, column.name)
            X[:, k], words = _converted(cells, column, missing, where)
            levels.append(words)
        y = None
        if self.label is not None:
            if self.label in by_name:
                cells = by_name[self.label]
            else:
                cells = pa.chunked_array([pa.repeat(pa.scalar(fixed[self.label], pa.string()), rows)])
            y = self._labels(file, block, cells, missing)
        kept = None
        if self.kept is not None:
            cells = by_name.get(self.kept.name)
            if cells is None:
                cells = pa.chunked_array([pa.repeat(pa.scalar(fixed[self.kept.name], pa.string()), rows)])
            kept = _converted(cells, self.kept, missing, partial(self._where, file, block, self.kept.name))
        ids = None if self.request.id is None else self._ids(file, by_name, fixed, rows)
        weights = None
        if (name := self.request.weight) is not None:
            cells = by_name.get(name)
            if cells is None:
                cells = pa.chunked_array([pa.repeat(pa.scalar(fixed[name], pa.string()), rows)])
            weights = weights_in(cells, partial(self._where, file, block, name), file.nothing)
        plain = all(words is None for words in levels) and not np.isnan(X).any()
        if plain:
            X = np.ascontiguousarray(X)
        return RawRows(
            X, y, block.first_line, block.n_bytes, None if plain else tuple(levels),
            None if len(self.files) == 1 else file.file.url, ids, kept, weights,
        )  # fmt: skip

    def _ids(
        self, file: TableFile, by_name: Mapping[str, pa.ChunkedArray], fixed: Mapping[str, str | None], rows: int
    ) -> pa.ChunkedArray:
        name = self.request.id
        assert name is not None
        cells = by_name.get(name)
        if cells is None:
            cells = pa.chunked_array([pa.repeat(pa.scalar(fixed[name], pa.string()), rows)])
        try:
            return cells.cast(self.id_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InputError(
                f"{file.file.url}: column {shown(name)} (--id): found values of type {cells.type}, expected "
                f"{self.id_type} as in {self.files[0].file.url}"
            ) from None

    def _where(self, file: TableFile, block: Block, name: str, row: int) -> str:
        return f"{file.file.url}: {file.unit} {block.first_line + row}, column {shown(name)}"

    def _labels(self, file: TableFile, block: Block, cells: pa.ChunkedArray, missing: frozenset[str]) -> np.ndarray:
        assert self.label is not None
        where = partial(self._where, file, block, self.label)
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        if self.text_labels:
            words = cells.to_numpy() if is_text(cells.type) else cells.cast(pa.string()).to_numpy()
            labels = np.empty(len(words), dtype=object)
            labels[:] = [None if word is None else str(word).strip() for word in words]
            bad = [k for k, word in enumerate(labels) if not word or word in missing]
        else:
            try:
                values, _ = as_numbers(cells, NUMBER, frozenset({""}), where)
            except InputError as error:
                raise InputError(f"{str(error).partition('; if its cells')[0]} (the label)") from None
            labels = values
            bad = np.flatnonzero(np.isnan(values)).tolist()
        if bad and not self.request.unlabelled:  # else it is empty, or NaN
            word = labels[bad[0]] if self.text_labels else None
            unknown = " or a word of --missing" if not self.text_labels and file.unit == "line" else ""
            what = f"{shown(word)}, which stands for nothing (--missing)" if word else f"{file.nothing}{unknown}"
            raise InputError(f"{where(int(bad[0]))}: found {what}, expected a label")
        if self.text_labels:
            labels[bad] = ""
        elif self.request.above is not None:
            return np.where(np.isnan(labels), np.nan, labels > self.request.above)
        return labels


def _converted(
    cells: pa.ChunkedArray, column: ColumnPlan, missing: frozenset[str], where: Callable[[int], str]
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    def place(row: int) -> str:
        return str(where(row))

    try:
        return as_numbers(cells, column.kind, missing, place)
    except InputError as error:
        raise InputError(str(error).replace("--category COLUMN", f"--category {column.name}")) from None
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(
            f"{place(0)}: found values of type {cells.type} that cannot be read as a {column.kind}: "
            f"{' '.join(str(error).split())[:200]}; leave it out: --drop {column.name}"
        ) from error


def open_table(
    given: str,
    format: str = "auto",
    label: str | int | None = None,
    request: TableRequest = TableRequest(),  # noqa: B008 - immutable
    *,
    require_label: bool = True,
    columns: Sequence[ColumnPlan] | None = None,
    csv: CsvFormat = CsvFormat(),  # noqa: B008
    sizes: Sizes = Sizes(),  # noqa: B008
    files: tuple[TableFile, ...] | None = None,
) -> TableSource:
    """Open files as one table. Cheap: reads heads, footers and first rows.

    Parameters
    ----------
    given : str
        What the user has named: a file, a folder, a glob or a list.
    columns : sequence of ColumnPlan, optional
        The columns that there must be, of these kinds, such as those of the training data; others are left alone.
    files : tuple of TableFile, optional
        The files, where they are open.

    Raises
    ------
    InputError
        A file cannot be read, lacks a column, or has a column that is of no kind.
    """
    files = files or files_with_rows(given, format, label, csv)
    first = files[0]
    formats = {file.format for file in files}
    if len(formats) > 1:
        other = next(file for file in files if file.format != first.format)
        raise InputError(
            f"{other.file.url}: found a file of format {other.format}, expected {first.format} as {first.file.url} is; "
            "give files of one format"
        )
    names = first.names
    if request.drop and not first.has_names:
        raise InputError(
            f"{given}: found no column {request.drop[0]!r}, which is to be dropped, expected a table whose columns "
            "have names"
        )
    if columns is not None and request.id not in names:
        request = replace(request, id=None)
    request.refuse_unknown(first.file.url, names)
    beside = [name for name in (request.id, request.weight) if name is not None]
    apart = {*request.drop, *beside}
    # A column that is to be left out is the label only if it is named as such.
    open_names = [name for name in names if label is not None or name not in apart]
    at = choose_label(
        first.file.url,
        open_names if first.has_names else None,
        len(open_names),
        label,
        required=require_label,
        n_columns=None if columns is None else len(columns) + len(apart) - (len(names) - len(open_names)),
    )
    chosen = None if at is None else open_names[at]
    if chosen in apart:
        raise InputError(
            f"{first.file.url}: column {chosen!r} is the label, and is to be left out; expected one of both"
        )
    if columns is None:
        features = [name for name in names if name != chosen and name not in apart]
        if not features and request.drop:
            raise InputError(f"{given}: found no feature column that is not dropped, expected at least one to stay")
        if not features:
            check_columns(given, 0, None)
        own = [name for name in features if name in first.own_names]
        planned = {column.name: column for column in first.plan(own, request)}
        for name, _ in first.partition:
            if name in features:
                planned[name] = request.plan.get(name) or _plan_of_partition(name, files)
        columns = [planned[name] for name in features]
    elif not first.has_names:
        columns = _by_position(given, [name for name in names if name != chosen and name not in apart], columns)
    needed = [*(column.name for column in columns), *((chosen,) if chosen else ()), *beside]
    for file in files:
        for name in needed:
            if name not in file.names:
                raise InputError(
                    f"{file.file.url}: found no column {name!r}, expected it as in "
                    f"{'the training data' if file is first else first.file.url}; its columns are "
                    f"{', '.join(file.names[:12])}{', ...' if len(file.names) > 12 else ''}"
                )
    kept = None
    if request.kept is not None:
        name = request.kept
        same_name = [column for column in columns if column.name == name]
        kept = same_name[0] if same_name else first.plan([name], request)[0] if name in first.own_names else None
        kept = kept or _plan_of_partition(name, files)
        if name == chosen:
            raise InputError(f"{first.file.url}: column {name!r} is the label, expected another for --split-by")
    text = chosen is not None and (chosen not in first.own_names or first.label_is_text(chosen, request.missing))
    if text and request.above is not None:
        raise InputError(
            f"{first.file.url}: column {chosen!r} (the label): found words, expected numbers for --above "
            f"{request.above:g}"
        )
    block = TEXT_BLOCK_BYTES if first.format == "csv" else BLOCK_BYTES
    return TableSource(
        file=first.file,
        n_columns=len(columns),
        column_names=tuple(column.name for column in columns) if first.has_names else None,
        fragment_bytes=sizes.fragment or FRAGMENT_BYTES,
        block_bytes=sizes.block or block,
        given=given,
        files=files,
        columns=tuple(columns),
        label=chosen,
        text_labels=text,
        request=request,
        kept=kept,
    )


def _by_position(given: str, names: Sequence[str], columns: Sequence[ColumnPlan]) -> list[ColumnPlan]:
    """The columns of the training data under the numbers that they have in a file without names."""
    check_columns(given, len(names), len(columns))
    return [replace(column, name=name) for column, name in zip(columns, names, strict=True)]


def _plan_of_partition(name: str, files: Sequence[TableFile]) -> ColumnPlan:
    from pipeline.sources.columns.cells import number_in

    values = [dict(file.partition).get(name) for file in files]
    numbers = all(value is None or number_in(value) is not None for value in values)
    return ColumnPlan(name, NUMBER if numbers else CATEGORY, why="in the names of the folders")


def table_of(rows: RawRows) -> RawTable:
    """The cells of a block."""
    return RawTable(rows.X, rows.levels or (None,) * rows.X.shape[1])
