"""Take in the initial rows of an unbounded source: they are the training rows of the run."""

from __future__ import annotations

from typing import cast

from ikmap.json_values import MutableJsonObject
from pipeline.errors import InputError
from pipeline.record_types import IngestResult, PartsRecord, SideRecord
from pipeline.rows.density import is_dense
from pipeline.rows.description import RowsDescription
from pipeline.rows.encoding import ENCODING
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import DATA, STREAM_DATA, row_bytes
from pipeline.rows.row_weights import refuse_ignored_weights
from pipeline.running.measured import measured
from pipeline.running.stage import Context, Stage
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.encode import encode
from pipeline.stages.first_rows import look_at_first_rows
from pipeline.stages.ingest import say_weights
from pipeline.stages.label import about_task, find_task, kind_of_task
from pipeline.stages.read import total
from pipeline.stages.scale import scale
from pipeline.stages.shuffle import chunk_rows_of
from pipeline.stages.split import leave_out_rows
from pipeline.streams.intake import COLUMNS, Intake


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
    kind_of_task(params, data)
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
    names, source = intake.feed.column_names, intake.feed.source
    preparation = Preparation(
        n_columns=columns,
        column_names=list(names) if names else None,
        dense=is_dense(sparse, n_initial, columns, nnz),
        task=find_task(url, parts, data, params, context.events.message, initial=True),
        weighted=data.table.weight is not None,
        label=None if source is None else source.label_name,
        label_last=source is not None and source.label_last,
    )
    refuse_ignored_weights(params.settled(preparation.task.kind), data.table.weight, [preparation.task.name])
    rows = [part["rows"] for part in parts]
    initial_side: SideRecord = {
        "parts": [{"name": part["name"], "rows": part["rows"]} for part in parts],
        "counts": rows,
        "split": {"rule": "all", "n_rows": n_initial},
    }

    if data.inliers is not None:
        initial_side = leave_out_rows(stage, initial_side, preparation, data)
    for line in [*([] if source is None else source.said()), *preparation.task.codec.summary.notes]:
        context.events.message(line)
    description = RowsDescription(preparation, {"train": initial_side}, (DATA, STREAM_DATA)).write(store)
    if intake.feed.known is not None:
        store.set_attributes(COLUMNS, intake.feed.known.as_json())
    table: MutableJsonObject = {} if data.table.id is None else {"id": data.table.id}
    table |= say_weights(context, data.table.weight, parts)
    encoder = None
    if source is not None:
        missing = sum(part.get("missing", 0) for part in parts)
        # The encoder goes by no labels: the initial rows are learned from as the others are, one after the other.
        encoded = encode(stage, description, source, missing, source.request.encode, by_targets=False)
        description, encoder = encoded.description, encoded.encoder
        table |= encoded.fields()
        table |= look_at_first_rows(stage, ids=encoder is None and source.plan.request is not None, ranges=False)
    description = scale(stage, description)
    if encoder is not None and not description.preparation.dense:
        nnz = encoder.entries * n_initial
    result = {
        "rows_train": n_initial,
        "rows_test": 0,
        "columns": description.preparation.n_columns,
        "nnz": nnz,
        **about_task(preparation.task),
        **table,
    }
    return stage.finish(cast("IngestResult", result), [] if encoder is None else [ENCODING])
