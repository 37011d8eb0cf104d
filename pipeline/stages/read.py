"""Read, the first step of ingest: one task for each fragment of a file stores its rows in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypedDict

import numpy as np

from ikmap.json_values import Json, JsonObject
from ikmap.methods.kinds import quoted
from ikmap.rows import Rows
from ikmap.tables.statistics import packed
from ikmap.tasks import AUTO, BadLabel, TaskKind, task_kind
from ikmap.tasks.by_labels import BY_LABELS
from pipeline.errors import InputError
from pipeline.record_types import PartRecord, PartsRecord
from pipeline.rows.encoding import LEVELS
from pipeline.rows.fitted_split import KEPT, checked
from pipeline.rows.parts import WEIGHTS, write_part
from pipeline.rows.prepared import DATA
from pipeline.rows.split_rule import STRATIFIED, SplitRule
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.sources import Fragment, Source
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.formats import shown_formats
from pipeline.storage.store import Store


class Beside(TypedDict, total=False):
    """Arguments of :func:`store_block`: arrays beside the rows, and the words of the values that rows are split by."""

    beside: dict[str, np.ndarray]
    kept_words: list[str]


@dataclass(frozen=True)
class StoredFile:
    """The rows of a source as they were read: the parts of the store that hold them."""

    source: Source
    parts: list[PartRecord]

    @property
    def url(self) -> str:
        """Path or URL of the source, as it was given."""
        return self.source.url

    @property
    def rows(self) -> int:
        """Number of rows."""
        return total(self.parts, "rows")

    @property
    def nnz(self) -> int:
        """Number of values that are not 0."""
        return total(self.parts, "nnz")

    @property
    def missing(self) -> int:
        """Number of missing cells."""
        return sum(part.get("missing", 0) for part in self.parts)

    @property
    def columns(self) -> int:
        """Number of feature columns: that of the source, or of the widest part."""
        return self.source.n_columns or max(part["columns"] for part in self.parts)

    @property
    def labels(self) -> list[JsonObject]:
        """Descriptions of the labels of each part."""
        return [part["found"] for part in self.parts]


def read(
    stage: Stage, sources: Mapping[str, Source], kind: TaskKind, split_rule: SplitRule | None
) -> dict[str, StoredFile]:
    """Read sources side by side into the store.

    Parameters
    ----------
    sources : mapping of {"train", "test"} to Source
    kind : TaskKind
        Kind of task that reads the labels.
    split_rule : SplitRule or None
        Rule whose values are kept beside the training rows.

    Raises
    ------
    InputError
        A file is wrong.
    """
    store = stage.context.store
    tasks = [
        Task(
            f"{side}-{fragment.number:05d}",
            (store, source, fragment, f"{DATA}/{side}", kind.name, split_rule if side == "train" else None),
            large=source.is_wide,
            ordered=True,
        )
        for side, source in sources.items()
        for fragment in source.fragments()
    ]
    parts: dict[str, list[PartRecord]] = {side: [] for side in sources}
    for task, record in zip(tasks, stage.run(ingest_fragment, tasks), strict=True):
        parts[task.name.rpartition("-")[0]] += record["parts"]
    return {side: StoredFile(source, parts[side]) for side, source in sources.items()}


def ingest_fragment(
    store: Store,
    source: Source,
    fragment: Fragment,
    folder: str,
    kind: str,
    split_rule: SplitRule | None = None,
) -> PartsRecord:
    """Task: store each block of a fragment as a part. Parts that an interrupted attempt completed are kept.

    `kind` is the name of a kind of task, of which a worker may lack the package.
    """
    try:
        known_kind = BY_LABELS if kind == AUTO else task_kind(kind)
    except ValueError as error:
        raise InputError(str(error)) from None
    parts = _complete_parts(store, folder, fragment)
    read = written = 0
    for number, block in enumerate(source.read(fragment, skip=len(parts)), start=len(parts)):
        # An empty part keeps the numbering of blocks, on which resuming relies.
        name, where = _part_name(folder, fragment, number), partial(source.place, block)
        beside = beside_of(split_rule, block, where)
        part, size = store_block(store, name, block.X, block.y, block.url or source.url, known_kind, where, **beside)
        written += size
        read += block.n_bytes
        parts.append(part)
    return {
        "rows": total(parts, "rows"),
        "bytes_read": read,
        "bytes_written": written,
        "outputs": [part["name"] for part in parts],
        "parts": parts,
    }


def _complete_parts(store: Store, folder: str, fragment: Fragment) -> list[PartRecord]:
    """Return the first parts of a fragment that an interrupted attempt completed, and keep them."""
    parts: list[PartRecord] = []
    # No record promises them: they are read to see whether they are complete.
    while store.is_verified(name := _part_name(folder, fragment, len(parts))):
        parts.append(store.need(name)["part"])
        store.keep(name)
    return parts


def _part_name(folder: str, fragment: Fragment, block: int) -> str:
    return f"{folder}/{fragment.number:05d}-{block:05d}"


def beside_of(split_rule: SplitRule | None, block: RawRows, where: Callable[[int], str]) -> Beside:
    """Return the arrays to store beside rows: words, weights, and the values that rows are split by."""
    arrays = {} if block.levels is None else {LEVELS: packed(block.levels)}
    if block.weights is not None:
        arrays[WEIGHTS] = block.weights
    if split_rule is None or split_rule.rule == STRATIFIED:
        return {"beside": arrays}
    if block.split_values is None:
        raise InputError(
            f"{where(0)}: found no table with names, expected {shown_formats(tables=True)} for "
            f"--split-by {split_rule.rule}:{quoted(split_rule.column)}"
        )
    values, words = block.split_values
    split_values = {KEPT: checked(split_rule, values, words, where)}
    beside: Beside = {"beside": arrays | split_values}
    if words is not None:
        beside["kept_words"] = list(words)
    return beside


def store_block(
    store: Store,
    name: str,
    X: Rows,
    y: np.ndarray | None,
    url: str,
    kind: TaskKind,
    where: Callable[[int], str],
    beside: Mapping[str, np.ndarray] | None = None,
    **attributes: Json,
) -> tuple[PartRecord, int]:
    """Store rows as they were read; return the record of the part, and the bytes written.

    `where` returns file and line of a row, counted from 0; `beside` is stored with the rows.

    Raises
    ------
    InputError
        The labels do not suit this kind of task.
    """
    try:
        labels, part_labels = kind.read(y, X.shape[0])
    except BadLabel as error:
        raise InputError(f"{where(error.row)}: {error}") from None
    except ValueError as error:
        raise InputError(f"{url}: {error}") from None
    part: PartRecord = {
        "name": name,
        "rows": int(X.shape[0]),
        "columns": int(X.shape[1]),
        "nnz": int(np.count_nonzero(X != 0)) if isinstance(X, np.ndarray) else int(X.nnz),
        "found": dict(part_labels),
    }
    if beside and LEVELS in beside:
        part["missing"] = int(np.count_nonzero(np.isnan(X)))
    if beside and WEIGHTS in beside:
        part["weight"] = float(beside[WEIGHTS].sum())
    return part, write_part(store, name, X, labels, part_labels, {"part": part, **attributes}, beside)


def total(parts: Iterable[PartRecord], key: Literal["rows", "nnz", "bytes_written"]) -> int:
    """Sum over parts."""
    return sum(int(part[key]) for part in parts)
