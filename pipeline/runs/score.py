"""Score: apply the model of a finished run to new data of any size; write one file, or a folder of parts."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from uuid import uuid4

import numpy as np
import pyarrow as pa
from distributed import Client

from ikmap.json_values import number_of
from ikmap.tasks import BadLabel
from ikmap.tasks import Task as LearningTask
from ikmap.tasks.scoring import accumulate, state_from, total
from pipeline.errors import InputError, writing
from pipeline.monitoring.events import Events
from pipeline.record_types import Record, ScoredRecord, TaskProgress
from pipeline.rows.prepared import READ_BYTES
from pipeline.running.compiling import prepare
from pipeline.running.dispatch import Task, run_tasks
from pipeline.running.measured import progress_of, summarise
from pipeline.runs.new_data import NewData
from pipeline.runs.score_output import Output, parquet_writer, sha256_of
from pipeline.runs.trained_model import TrainedModel, decisions, slices
from pipeline.sources import Fragment, RawRows, Source
from pipeline.sources.files.remote import filesystem

STAGE = "score"


def words_of_scoring(model: TrainedModel, data: NewData) -> frozenset[str]:
    """Return the words of the loops that scoring needs: reading, mapping to cells, decisions."""
    rows = "dense" if model.preparation().dense else "sparse"
    return frozenset({data.source.format, rows, *model.loops})


def score(client: Client, model: TrainedModel, data: NewData, output: Output, events: Events) -> Record:
    """Predict every row: one task per fragment of the input, block by block; then join the parts in order.

    Returns
    -------
    dict
        rows, seconds, rows_per_second, compile_seconds (not among the seconds), learner, output, task, rows_labelled
        (those with a label that the model knows), the metric of the task on these rows, such as accuracy (None without
        such rows), said (the metric in words, else None), seen (whether the model was trained on rows of this file);
        stages: the record as in ``metrics.json``.

    Raises
    ------
    InputError
        The data or the place of the output is at fault.
    """
    input_paths = {os.path.realpath(opened.file.path) for opened in data.source.files if opened.file.local}
    if output.is_local and os.path.realpath(output.path) in input_paths:
        raise InputError(f"--output {output.url}: is the input, expected another file")
    if seen := model.has_seen(data.source):
        events.message(
            f"warning: {data.source.url} is the file that the model was trained on, and rows that it has learned from "
            f"look better than new ones; for rows that were held out see {model.report}"
        )
    compile_seconds = prepare(client, words_of_scoring(model, data), events.message)
    started = time.perf_counter()
    fragments = data.source.fragments()
    wide = data.source.is_wide
    tasks = [
        Task(f"{fragment.number:06d}", (model, data, fragment, output.part(fragment.number)), large=wide, ordered=True)
        for fragment in fragments
    ]
    records: dict[str, ScoredRecord] = {}
    key = f"{STAGE}-{uuid4().hex[:8]}"

    def make_again(k: int) -> str:
        events.message(f"{tasks[k].args[-1]} is damaged (its SHA-256 is wrong); it is made again")
        ((_, record),) = run_tasks(client, key, score_fragment, [tasks[k]])
        return record["sha256"]

    events.stage_started(STAGE, len(tasks))
    for task, record in run_tasks(client, key, score_fragment, tasks):
        records[task.name] = record
        counts: TaskProgress = {
            "rows": record["rows"],
            "bytes_read": record["bytes_read"],
            "bytes_written": record["bytes_written"],
        }
        events.task_done(STAGE, counts)
    ordered = [records[task.name] for task in tasks]
    task_learned = model.task()
    metric, state = task_learned.kind.presenter.metric, total(task_learned, [record["tally"] for record in ordered])
    value = number_of(state.metrics()[metric.key]) if state.rows else None
    labelled = sum(record["rows_labelled"] for record in ordered)
    parts = [(str(task.args[-1]), record["sha256"]) for task, record in zip(tasks, ordered, strict=True)]
    written = output.join(
        parts, _schema(task_learned, row=True, label=labelled > 0, ids=ids_of(data.source)), make_again
    )
    seconds, compile_late = time.perf_counter() - started, defaultdict[str, float](float)
    for record in ordered:
        compile_late[record["worker"]] += record.get("compile_seconds", 0.0)
    compiled_late = min(max(compile_late.values(), default=0.0), seconds)
    summary = summarise(STAGE, ordered, 0.0, seconds - compiled_late)
    summary["bytes_written"] += written
    events.stage_finished(STAGE, progress_of(summary))
    return {
        "rows": summary["rows"],
        "seconds": summary["seconds"],
        "rows_per_second": summary["rows_per_second"],
        "compile_seconds": round(compile_seconds + compiled_late, 3),
        "learner": model.learner,
        "output": output.url,
        "task": task_learned.name,
        "rows_labelled": labelled,
        metric.key: value,
        "seen": seen,
        "said": None if value is None else metric.line(value),
        "stages": [summary],
    }


def score_fragment(model: TrainedModel, data: NewData, fragment: Fragment, url: str) -> ScoredRecord:
    """Task: predict the rows of one fragment and write them as a Parquet file, in row groups of bounded bytes."""
    preparation = model.preparation()
    task = model.task()
    tally, schema = state_from(task, None), _schema(task, ids=ids_of(data.source))
    n_rows = bytes_read = rows_labelled = 0
    fs, path = filesystem(url)
    # A task that Dask does twice must not write to a file that the other attempt is writing.
    attempt = f"{path}.{uuid4().hex[:8]}"
    with writing(url), fs.open(attempt, "wb") as stream, parquet_writer(stream, schema) as writer:
        for block in data.source.read(fragment):
            bytes_read += block.n_bytes
            n = block.X.shape[0]
            if n == 0:
                continue
            prefix = f"{block.url or data.source.url}: " + (f"part {fragment.number + 1}, " if fragment.number else "")
            first, n_rows = n_rows + 1, n_rows + n
            try:
                targets = task.codec.encode(block.y, n)
            except BadLabel as error:
                raise InputError(
                    f"{data.source.place(block, error.row)}: {error}, or an empty cell where a row has no label"
                ) from None
            unknown = task.codec.unknown(targets)
            rows_labelled += int((~unknown).sum())
            scored = ~unknown if task.kind.labels.needed else np.ones(n, dtype=np.bool_)
            label = task.codec.decode(np.where(unknown, np.zeros_like(targets), targets))
            label = pa.array(label, schema.field("label").type, mask=unknown)
            waiting: list[pa.Table] = []
            for rows in slices(model, n, preparation):
                place = partial(_place, data.source, block, rows.start)
                features = model.features(block.X[rows], block.levels, place)
                where = partial(_where, prefix, first + rows.start)
                ((_, decision),) = decisions(model, features, preparation, where)
                labelled = np.flatnonzero(scored[rows])
                if labelled.size:
                    tally = tally + accumulate(task, targets[rows][labelled], decision[labelled])
                columns = [] if block.ids is None else [block.ids[rows]]
                outputs = task.decisions.values(decision)
                columns += [pa.array(outputs[name], schema.field(name).type) for name in task.decisions.columns]
                waiting.append(pa.table([*columns, label[rows]], schema=schema))
                if rows.stop == n or sum(table.nbytes for table in waiting) >= READ_BYTES:
                    group = pa.concat_tables(waiting).combine_chunks()
                    writer.write_table(group, row_group_size=group.num_rows)
                    waiting = []
    size = int(fs.size(attempt))
    fs.mv(attempt, path)
    return {
        "rows": n_rows,
        "bytes_read": bytes_read,
        "rows_labelled": rows_labelled,
        "tally": tally.as_json(),
        "bytes_written": size,
        "sha256": sha256_of(fs, path),
    }


def _place(source: Source, block: RawRows, first: int, row: int) -> str:
    """Return the place of a row of a block, counted from its first of some rows."""
    return source.place(block, first + row)


def _where(prefix: str, first: int, row: int) -> str:
    """Return file and row, for people."""
    return f"{prefix}row {first + row}"


def ids_of(source: Source) -> tuple[str, pa.DataType] | None:
    """Return name and type of the column that tells rows apart, if there is one."""
    return None if source.id_column is None else (source.id_column, source.id_type)


def _schema(
    task: LearningTask, *, row: bool = False, label: bool = True, ids: tuple[str, pa.DataType] | None = None
) -> pa.Schema:
    """Return the columns of the output, in their order."""
    fields: Mapping[str, str] = {
        **task.decisions.columns,
        **({"label": next(iter(task.decisions.columns.values()))} if label else {}),
    }
    first = [("row", pa.int64())] if row else []
    if ids is not None:
        taken = {"row", "label", *fields}
        first.append((ids[0] if ids[0] not in taken else f"{ids[0]}_id", ids[1]))
    return pa.schema([*first, *((name, pa.type_for_alias(kind)) for name, kind in fields.items())])
