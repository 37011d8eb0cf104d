"""Encode, the fourth step of ingest: count the training rows of a table once, choose how to encode columns, and fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ikmap.json_values import MutableJsonObject
from ikmap.tables import NUMBER, ColumnPlan, Encoder, EncodingRequest, Statistics, choose, fit
from ikmap.tables.ids import id_columns
from ikmap.tables.plan import ENOUGH
from ikmap.tables.statistics import MOST_LEVELS, LevelCounts, drawn_rows
from ikmap.tasks import Task as LearningTask
from ikmap.tasks.capabilities import EncodesWords, capability
from pipeline.errors import InputError
from pipeline.record_types import CountedRecord, TaskProgress
from pipeline.rows.density import encodes_dense
from pipeline.rows.description import RowsDescription
from pipeline.rows.encoding import save_encoder
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.split_rule import goes_by_time, keeps_groups
from pipeline.running.dispatch import Task, worker_addresses
from pipeline.running.stage import Stage
from pipeline.sources import Source
from pipeline.sources.columns.plan_file import NAME as PLAN_FILE
from pipeline.sources.columns.plan_file import plan_text
from pipeline.storage.durable import write_text
from pipeline.storage.store import Store

COUNTED = "data/counted"
"""Group of the store in which each task leaves its counts."""
TASK_ROWS = 3 << 19
"""Rows that a task counts, about: it reads one part after the other."""


@dataclass(frozen=True)
class EncodedRows:
    """The rows of a run, with an encoder if their columns need one.

    Attributes
    ----------
    description : RowsDescription
    encoder : Encoder or None
    ids : list of str
        Names of the encoded columns that look like ids.
    """

    description: RowsDescription
    encoder: Encoder | None
    ids: list[str]

    def nnz(self, values: int, rows: int) -> int:
        """Return the number of values that are not 0: as many in each sparse encoded row, else those that were read."""
        if self.encoder is None or self.description.preparation.dense:
            return values
        return self.encoder.entries * rows

    def fields(self) -> MutableJsonObject:
        """Return the fields of ``data`` in ``metrics.json`` that describe columns."""
        fields: MutableJsonObject = {}
        if self.encoder is not None:
            fields["columns_plan"] = [column.as_json() for column in self.encoder.columns]
        if self.ids:
            fields["ids"] = list(self.ids)
        return fields


def encode(
    stage: Stage,
    description: RowsDescription,
    source: Source,
    missing: int,
    request: EncodingRequest,
    *,
    by_targets: bool,
) -> EncodedRows:
    """Fit an encoder to the training rows, if the columns of their source need one.

    Parameters
    ----------
    missing : int
        Number of missing cells in all rows.
    by_targets : bool
        Whether an encoding may go by the targets.

    Raises
    ------
    InputError
        A column cannot be encoded, or no column is left.
    """
    if source.encodes(missing):
        return encode_columns(stage, description, source.column_plans, request, by_targets=by_targets, url=source.url)
    return EncodedRows(description, None, [])


def encode_columns(
    stage: Stage,
    description: RowsDescription,
    columns: Sequence[ColumnPlan],
    request: EncodingRequest,
    *,
    by_targets: bool,
    url: str,
) -> EncodedRows:
    """Fit an encoder of these columns to the training rows; describe the encoded rows, and write the plan of columns.

    Parameters
    ----------
    by_targets : bool
        Whether an encoding may go by the targets.

    Raises
    ------
    InputError
        A column cannot be encoded, or no column is left.
    """
    context, preparation = stage.context, description.preparation
    encoder, ids = fit_encoding(stage, columns, request, preparation.task, by_targets=by_targets, url=url)
    encoded = replace(
        preparation,
        n_columns=len(encoder.names),
        column_names=list(encoder.names),
        dense=encodes_dense(encoder, context.params.scale),
        encoded=True,
    )
    description = description.with_preparation(encoded).write(context.store)
    for line in encoder.lines():
        context.events.message(line)
    write_text(context.run.path / PLAN_FILE, plan_text(encoder.columns))
    return EncodedRows(description, encoder, ids)


def fit_encoding(
    stage: Stage,
    columns: Sequence[ColumnPlan],
    request: EncodingRequest,
    task: LearningTask,
    *,
    by_targets: bool,
    url: str,
) -> tuple[Encoder, list[str]]:
    """Fit the encoder on the training rows and store it; return it, and the names of columns that look like ids.

    Parameters
    ----------
    by_targets : bool
        Whether an encoding may go by the targets.

    Raises
    ------
    InputError
        A column cannot be encoded, or no column is left.
    """
    params = stage.context.params
    encodes = capability(task, EncodesWords) if by_targets else None
    output_names, unit_value = ([], 1.0) if encodes is None else encodes.encoding_outputs()
    statistics = count_rows(stage, columns, by_targets=bool(output_names))
    try:
        encoder = fitted_encoder(columns, statistics, request, output_names, unit_value, params.split_by)
    except ValueError as error:
        raise InputError(f"{url}: {error}") from None
    sparse = not encodes_dense(encoder, params.scale)
    save_encoder(stage.context.store, encoder, params.seed, sparse=sparse, split_by=params.split_by)
    return encoder, ids_of_encoded(encoder, statistics)


def fitted_encoder(
    columns: Sequence[ColumnPlan],
    statistics: Statistics,
    request: EncodingRequest,
    output_names: Sequence[str],
    unit_value: float,
    split_by: str | None,
) -> Encoder:
    """Return the encoder that the counts of the training rows give: choose an encoding of each column, and fit it.

    Raises
    ------
    ValueError
        A column cannot be encoded, or no column is left.
    """
    # Rows that come later have days and months of their own: those of the training rows tell nothing of them.
    plan = choose(columns, statistics, request, only_times="recurring" if goes_by_time(split_by) else "parts")
    # Rows of a group resemble each other: no word has so many rows that the labels of its own group do not matter.
    enough = None if keeps_groups(split_by) else ENOUGH
    return fit(plan, statistics, unit=unit_value, outputs=output_names or [""], enough=enough)


def ids_of_encoded(encoder: Encoder, statistics: Statistics) -> list[str]:
    """Return the names of the columns of numbers that look like ids in the rows drawn."""
    columns = zip(encoder.columns, encoder.encodings, strict=True)
    numbers = [j for j, (column, encoding) in enumerate(columns) if encoding is not None and column.kind == NUMBER]
    return [encoder.columns[numbers[k]].name for k in id_columns(statistics.drawn[:, numbers])]


def count_rows(stage: Stage, columns: Sequence[ColumnPlan], *, by_targets: bool) -> Statistics:
    """Count the training rows, some parts a task; return the sum of all counts.

    Words of a column whose encoding is yet to be chosen are counted up to the number from which on it is left out.
    """
    store, params = stage.context.store, stage.context.params
    groups = _groups(PreparedRows(store, "train").part_rows, len(worker_addresses(stage.context.client)))
    # By their parts: a run that goes on may have counts of other groups.
    labels = [f"{parts[0]:05d}-{parts[-1]:05d}" for parts in groups]
    names = [f"{COUNTED}/{label}" for label in labels]
    kinds = [column.kind for column in columns]
    limited = [j for j, column in enumerate(columns) if column.encoding == "auto"]
    of_all = kinds, limited, params.seed, params.split_by, by_targets
    tasks = [
        Task(f"counted-{label}", (store, name, parts, *of_all))
        for label, name, parts in zip(labels, names, groups, strict=True)
    ]
    counts = _Counts(store, limited)
    stage.run(count_parts, tasks, counts)
    return counts.total(names)


@dataclass
class _Counts:
    """A watcher of the tasks that count: it reads the counts of each that is done while others are at work.

    It holds the words of a limited column for a few groups only before it adds them up: of free text, there are as many
    different words as rows.
    """

    store: Store
    limited: Sequence[int]
    of_groups: dict[str, Statistics] = field(default_factory=dict)
    levels: dict[int, list[LevelCounts]] = field(default_factory=dict)

    def done(self, task: Task, record: CountedRecord, skipped: bool) -> TaskProgress:  # noqa: ARG002
        (name,) = record["outputs"]
        statistics = Statistics.unpacked(self.store.read_group(name)[1]["statistics"])
        self.of_groups[name] = replace(statistics, levels={})
        for j, counts in statistics.levels.items():
            held = self.levels.setdefault(j, [])
            held.append(counts)
            if j in self.limited and sum(len(part.words) for part in held) > MOST_LEVELS:
                held[:] = [LevelCounts.total(held).limited()]
        return {}

    def total(self, names: Sequence[str]) -> Statistics:
        """Return the sum of the counts of all groups, given their names in order."""
        levels = {j: LevelCounts.total(held) for j, held in self.levels.items()}
        return replace(Statistics.total([self.of_groups[name] for name in names]), levels=levels)

    def enough(self) -> bool:
        return False


def _groups(part_rows: Sequence[int], n_workers: int) -> list[list[int]]:
    """Group neighbouring parts into tasks of about as many rows each, at least one a worker if there are enough."""
    total = max(1, sum(part_rows))
    n_tasks = max(n_workers, -(-total // TASK_ROWS))
    middles = np.cumsum(part_rows) - np.asarray(part_rows) / 2
    group_of_part = np.minimum(middles * n_tasks // total, n_tasks - 1)
    return [np.flatnonzero(group_of_part == k).tolist() for k in np.unique(group_of_part)]


def count_parts(
    store: Store,
    output: str,
    parts: Sequence[int],
    kinds: Sequence[str],
    limited: Sequence[int],
    seed: int,
    split_by: str | None,
    by_targets: bool,
) -> CountedRecord:
    """Task: count the training rows of some parts, with very many words of limited columns left out."""
    train = PreparedRows(store, "train")
    task = train.preparation.task
    drawn = drawn_rows(train.n_rows, seed)
    counted, rows = [], 0
    encodes = capability(task, EncodesWords) if by_targets else None
    for p in parts:
        first, numbers, table, y = train.raw_part(p)
        wanted = np.zeros(numbers.size, dtype=np.bool_)
        wanted[drawn[slice(*np.searchsorted(drawn, [first, first + numbers.size]))] - first] = True
        no_targets = np.zeros((numbers.size, 0), dtype=np.int64)
        targets = no_targets if encodes is None else encodes.encoding_targets(y)
        counted.append(Statistics.of(table, kinds, train.encoding_folds(p, split_by, seed), targets, wanted))
        rows += numbers.size
    written = store.write_group(output, {"statistics": Statistics.total(counted).limited(limited).packed()}, {})
    return {"rows": 0, "counted": rows, "bytes_written": written, "outputs": [output], "temporary": True}
