"""Ingest: read files into the store, find the task, split the rows, encode their columns and scale them."""

from __future__ import annotations

from typing import cast

from ikmap.json_values import MutableJsonObject
from ikmap.tasks import Task as LearningTask
from pipeline.errors import InputError
from pipeline.record_types import IngestResult, PartRecord
from pipeline.rows.density import is_dense
from pipeline.rows.description import RowsDescription
from pipeline.rows.encoding import ENCODING
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import DATA, SCALE
from pipeline.running.stage import Context, Stage
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.encode import encode
from pipeline.stages.first_rows import look_at_first_rows
from pipeline.stages.label import about_task, kind_of_task, label, refuse_unlike
from pipeline.stages.read import StoredFile, read
from pipeline.stages.scale import scale
from pipeline.stages.split import leave_out_rows, split, split_rule_of


def ingest(context: Context, data: ResolvedDataset, *, every: bool = False) -> IngestResult:
    """Store the rows of the training file, and of the test file where there is one, ready to learn from.

    Parameters
    ----------
    every : bool
        Whether rows stay that the task does not learn from: a stream predicts these, too.

    Returns
    -------
    dict
        rows_train, rows_test, columns, nnz, task, the task's summary of the labels, test (what the test rows are) - as
        in ``metrics.json``.

    Raises
    ------
    InputError
        If a file is wrong, labels cannot be learned, or files do not fit each other.
    """
    kind, split_rule = kind_of_task(context.params, data), split_rule_of(context.params)
    store, train, test = context.store, *data.sources
    leaves_out = data.inliers is not None and not every
    stage = _begin(context, data, leaves_out=leaves_out)
    # With the columns known beforehand the files are read side by side; else the second has the columns of the first.
    side_by_side = {} if test is None or train.n_columns is None else {"test": test}
    files = read(stage, {"train": train, **side_by_side}, kind, split_rule)
    task = label(context, data, files["train"])
    if test is not None:
        if not side_by_side:
            files |= read(stage, {"test": test.of_columns(files["train"].columns)}, kind, split_rule)
        refuse_unlike(files["train"], files["test"], task)
    sides = split(stage, data, files, task)
    _say_notes(context, data, task)
    preparation = _preparation(data, files["train"], task)
    learned = leave_out_rows(stage, sides["train"], preparation, data) if leaves_out else sides["train"]
    description = RowsDescription(preparation, {**sides, "train": learned}).write(store)
    table: MutableJsonObject = {} if data.table.id is None else {"id": data.table.id}
    table |= say_weights(context, data.table.weight, files["train"].parts)
    missing = sum(file.missing for file in files.values())
    encoded = encode(stage, description, train, missing, data.table.encode, by_targets=not every)
    table |= encoded.fields()
    plain_table = encoded.encoder is None and train.plan.request is not None
    compared = encoded.description.preparation.dense and context.params.scale == "none"
    table |= look_at_first_rows(stage, ids=plain_table, ranges=compared)
    description = scale(stage, encoded.description)
    result = {
        "rows_train": description.count("train"),
        "rows_test": description.count("test"),
        "columns": description.preparation.n_columns,
        "nnz": encoded.nnz(sum(file.nnz for file in files.values()), sum(file.rows for file in files.values())),
        **about_task(task),
        **({"rows_left_out": sum(sides["train"]["counts"]) - description.count("train")} if leaves_out else {}),
        **table,
        "test": data.test_rows if split_rule is None or test is not None else split_rule.test_rows,
    }
    outputs = {DATA: True, ENCODING: encoded.encoder is not None, SCALE: description.preparation.scale == "minmax"}
    return stage.finish(cast("IngestResult", result), [name for name, written in outputs.items() if written])


def _begin(context: Context, data: ResolvedDataset, *, leaves_out: bool) -> Stage:
    """Say how the training file is read, and begin the stage."""
    sources = [source for source in data.sources if source is not None]
    for line in sources[0].said():
        context.events.message(line)
    # The number of tasks that find ranges is known when the rows are counted, that of tasks by labels when those are.
    known = context.params.scale != "minmax" and not leaves_out
    n_tasks = sum(len(source.fragments()) for source in sources)
    return Stage(context, "ingest", n_tasks if known else None)


def _preparation(data: ResolvedDataset, train: StoredFile, task: LearningTask) -> Preparation:
    """Return how the rows are prepared, before they are encoded or scaled."""
    source = train.source
    return Preparation(
        n_columns=train.columns,
        column_names=list(source.column_names) if source.column_names else None,
        dense=is_dense(source.sparse, train.rows, train.columns, train.nnz),
        task=task,
        divide=data.divide,
        weighted=data.table.weight is not None,
        label=source.label_name,
        label_last=source.label_last,
    )


def _say_notes(context: Context, data: ResolvedDataset, task: LearningTask) -> None:
    """Say which columns the definition of the data set leaves out, and what the task says of the labels."""
    if data.drop:
        context.events.message(
            f"{data.sources[0].url}: {len(data.drop)} columns are left out, as the definition of data set {data.name} "
            f"says: {', '.join(data.drop)}"
        )
    for line in task.codec.summary.notes:
        context.events.message(line)


def say_weights(context: Context, column: str | None, parts: list[PartRecord]) -> dict[str, str]:
    """Say what rows weigh on average, where that changes what C means; return the entry of ``metrics.json``.

    Raises
    ------
    InputError
        All rows weigh nothing.
    """
    if column is None:
        return {}
    mean = sum(part["weight"] for part in parts) / sum(part["rows"] for part in parts)
    if mean == 0:
        raise InputError(f"--weight {column}: found 0 in every row, expected rows that count")
    if not 0.1 < mean < 10:
        context.events.message(
            f"--weight {column}: rows weigh {mean:.4g} on average, which is as good as a C so many times as large: "
            f"divide them by that, or give --C {1 / mean:.2g} in place of 1 (--C auto tries what suits weights near 1)"
        )
    return {"weight": column}
