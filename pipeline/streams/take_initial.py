"""Take in the initial rows of an unbounded source: they are the training rows of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ikmap.json_values import MutableJsonObject
from ikmap.tasks import AUTO, TaskKind
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import IngestResult, PartsRecord, SideRecord
from pipeline.rows.density import encodes_dense, is_dense
from pipeline.rows.encoding import ENCODING
from pipeline.rows.prepared import DATA, STREAM_DATA, Preparation, row_bytes
from pipeline.rows.row_weights import every_task, refuse_ignored_weights
from pipeline.running.measured import measured
from pipeline.running.stage import Context, Stage
from pipeline.sources.columns.plan_file import NAME as PLAN_FILE
from pipeline.sources.columns.plan_file import plan_text
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.table_source import TableSource
from pipeline.stages.encode import fit_encoding
from pipeline.stages.ingest import about_task, find_task, fit_scaling, leave_out_rows, total
from pipeline.stages.shuffle import chunk_rows_of
from pipeline.stages.split import say_weights
from pipeline.storage.durable import write_text
from pipeline.streams.intake import Intake


def take_initial(context: Context, intake: Intake, data: ResolvedDataset, n_initial: int) -> IngestResult:
    """Store the first rows, and the description of all rows that follows from them, such as columns and classes.

    Returns
    -------
    dict
        rows_train, rows_test (0), columns, nnz, task, and the task's summary of the labels.

    Raises
    ------
    InputError
        There are too few rows, or something is wrong with them.
    """
    store, params, url = context.store, context.params, intake.feed.url
    refuse_ignoring(params, intake.kind, data)
    stage = Stage(context, "ingest", None, n_initial)

    def say_rows(rows: int) -> None:
        if rows:
            context.events.task_done(stage.name, {"rows": rows})

    def work() -> PartsRecord:
        parts = intake.initial(n_initial, lambda d: chunk_rows_of(intake.block_rows, row_bytes(d)), say_rows)
        return {"rows": n_initial, "bytes_written": total(parts, "bytes_written"), "parts": parts}

    record = measured(work, ())
    stage.records.append(record)
    parts = record["parts"]
    sparse = "indices" in store.open_arrays(parts[0]["name"])
    columns, nnz = max(part["columns"] for part in parts), total(parts, "nnz")
    if sparse and data.n_columns is not None:
        columns = data.n_columns
    if columns == 0:
        raise InputError(f"{url}: found no features in any of the initial rows, expected some")
    names = intake.feed.column_names
    preparation = Preparation(
        n_columns=columns,
        column_names=list(names) if names else None,
        dense=is_dense(sparse, n_initial, columns, nnz),
        task=find_task(url, parts, data, params, context.events.message),
        weighted=data.table.weight is not None,
    )
    refuse_ignoring(params, preparation.task.kind, data)
    rows = [part["rows"] for part in parts]
    initial_side: SideRecord = {
        "parts": [{"name": part["name"], "rows": part["rows"]} for part in parts],
        "counts": rows,
        "split": {"rule": "all", "n_rows": n_initial},
    }

    if data.inliers is not None:
        leave_out_rows(stage, initial_side, preparation, data)
    source = intake.feed.source
    for line in [*(source.said() if isinstance(source, TableSource) else ()), *preparation.task.codec.summary.notes]:
        context.events.message(line)
    known = None if intake.feed.known is None else intake.feed.known.as_json()

    def prepared(preparation: Preparation) -> None:
        for name in (DATA, STREAM_DATA):
            attributes = {"preparation": preparation.as_json(), "sides": {"train": initial_side}, "known": known}
            store.set_attributes(name, attributes)

    prepared(preparation)
    table: MutableJsonObject = {} if data.table.id is None else {"id": data.table.id}
    table |= say_weights(context, data.table.weight, parts)
    if isinstance(source, TableSource) and (not source.is_plain or any(part.get("missing") for part in parts)):
        encoder, ids = fit_encoding(
            stage, source.columns, source.request.encode, preparation.task, by_targets=False, url=url
        )
        columns = len(encoder.names)
        preparation = replace(
            preparation,
            n_columns=columns,
            column_names=list(encoder.names),
            dense=encodes_dense(encoder, params.scale),
            encoded=True,
        )
        if not preparation.dense:
            nnz = encoder.entries * n_initial
        prepared(preparation)
        for line in encoder.lines():
            context.events.message(line)
        table["columns_plan"] = [column.as_json() for column in encoder.columns]
        table |= {"ids": ids} if ids else {}
        write_text(context.run.path / PLAN_FILE, plan_text(encoder.columns))
    if params.scale == "minmax":
        fit_scaling(stage, preparation)
        prepared(replace(preparation, scale="minmax"))
    result = {
        "rows_train": n_initial,
        "rows_test": 0,
        "columns": columns,
        "nnz": nnz,
        **about_task(preparation.task),
        **table,
    }
    return stage.finish(cast("IngestResult", result), [ENCODING] if preparation.encoded else [])


def refuse_ignoring(params: Params, kind: TaskKind, data: ResolvedDataset) -> None:
    """Refuse learners that count every row once, where a column has weights of rows.

    Raises
    ------
    InputError
    """
    if kind.name == AUTO:
        refuse_ignored_weights(params, data.table.weight, every_task())
    else:
        refuse_ignored_weights(params.settled(kind), data.table.weight, [kind.name])
