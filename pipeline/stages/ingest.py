"""Ingest: read the files by fragments, store their rows in parts, and split them into training and test rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from itertools import accumulate
from typing import Literal, cast

import numpy as np

from ikmap.json_values import Json, JsonObject, MutableJsonObject
from ikmap.rows import Rows
from ikmap.tasks import AUTO, BadLabel, LabelRequest, TaskKind, task_kind
from ikmap.tasks import Task as LearningTask
from ikmap.tasks.by_labels import BY_LABELS
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import (
    IngestResult,
    LearnedRecord,
    PartName,
    PartRecord,
    PartsRecord,
    RangesRecord,
    SideRecord,
)
from pipeline.rows.density import encodes_dense, is_dense
from pipeline.rows.encoding import ENCODING, LEVELS
from pipeline.rows.parts import WEIGHTS, learned_of, write_part
from pipeline.rows.prepared import DATA, SCALE, Preparation, PreparedRows, refuse_unseen_labels
from pipeline.rows.ranges import ranges_of
from pipeline.rows.row_weights import every_task, refuse_ignored_weights
from pipeline.rows.split import Split
from pipeline.rows.split_rule import SplitRule
from pipeline.running.dispatch import Task
from pipeline.running.stage import Context, Stage
from pipeline.sources import Fragment, Source
from pipeline.sources.base import RawRows, is_wide, other_columns
from pipeline.sources.columns.plan_file import NAME as PLAN_FILE
from pipeline.sources.columns.plan_file import plan_text
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.task import refuse_unsuited, requested_task, requested_word
from pipeline.sources.table_source import TableSource
from pipeline.stages.encode import fit_encoding, ids_of_plain
from pipeline.stages.split import beside_of, say_weights, split_rows, split_rule_of, split_sides
from pipeline.storage.durable import write_text
from pipeline.storage.store import Store

SCALE_ROWS = 1 << 18
TEXTS = ("csv", "libsvm")
"""Formats in which a row is a line."""


def ingest(context: Context, data: ResolvedDataset, *, every: bool = False) -> IngestResult:
    """Read the training file, then the test file where there is one, into the store.

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
    params = context.params
    kind = requested_task(params, data)  # before a row is read
    if kind.name == AUTO:
        refuse_ignored_weights(params, data.table.weight, every_task())
    else:
        refuse_ignored_weights(params.settled(kind), data.table.weight, [kind.name])
    leaves_out = data.inliers is not None and not every
    train, test = data.sources
    for line in train.said() if isinstance(train, TableSource) else ():
        context.events.message(line)
    n_tasks = len(train.fragments()) + (len(test.fragments()) if test else 0)
    # The number of tasks that find ranges is known when the rows are counted, that of tasks by labels when those are.
    stage = Stage(context, "ingest", None if params.scale == "minmax" or leaves_out else n_tasks)
    files = [(train, "train")]
    # With the columns known beforehand the files are read side by side; else the second has the columns of the first.
    if test is not None and train.n_columns is not None:
        files.append((test, "test"))
    parts = _ingest_files(stage, files, kind)
    train_parts = parts["train"]
    columns = train.n_columns or max(part["columns"] for part in train_parts)
    rows, nnz = total(train_parts, "rows"), total(train_parts, "nnz")
    if rows == 0:
        raise InputError(f"{train.url}: found no rows, expected some to train on")
    if columns == 0:
        raise InputError(f"{train.url}: found no features in any row, expected some")
    preparation = Preparation(
        n_columns=columns,
        column_names=list(train.column_names) if train.column_names else None,
        dense=is_dense(train.sparse, rows, columns, nnz),
        task=find_task(train.url, train_parts, data, params, context.events.message),
        divide=data.divide,
        weighted=data.table.weight is not None,
    )
    refuse_ignored_weights(params.settled(preparation.task.kind), data.table.weight, [preparation.task.name])
    refuse_unseen_labels([part["found"] for part in train_parts], preparation.task, train.url)
    split_rule = split_rule_of(params)
    if split_rule is not None:
        split_rule.refuse(preparation.task, data.inliers)

    if test is not None:
        if train.column_names and test.column_names and train.column_names != test.column_names:
            raise InputError(other_columns(test.url, test.column_names, train.column_names))
        if "test" not in parts:
            parts |= _ingest_files(stage, [(replace(test, n_columns=columns), "test")], kind)
        test_parts = parts["test"]
        test_rows = total(test_parts, "rows")
        if test_rows == 0:
            raise InputError(f"{test.url}: found no rows, expected some to test on")
        refuse_unseen_labels([part["found"] for part in test_parts], preparation.task, test.url)
        nnz += total(test_parts, "nnz")
        sides = {
            "train": _side(train.url, train_parts, Split("all", rows)),
            "test": _side(test.url, test_parts, Split("all", test_rows)),
        }
    elif split_rule is not None:
        of_parts = [(part["name"], int(part["rows"])) for part in train_parts]
        n_train = data.split.train_rows(rows, train.url)
        part_args = (context.store, split_rule, of_parts, preparation.task, n_train)
        (record,) = stage.run(split_rows, [Task("divide", part_args)])
        sides = split_sides(train.url, train_parts, record)
    else:
        n_train = data.split.train_rows(rows, train.url)
        split = Split(data.split.rule, rows, n_train, True, params.seed)
        sides = {"train": _side(train.url, train_parts, split)}
        # All other rows are test rows: to shuffle all rows once more would take as long as to store them.
        test_counts = [part["rows"] - k for part, k in zip(train_parts, sides["train"]["counts"], strict=True)]
        sides["test"] = {**sides["train"], "counts": test_counts, "split": asdict(replace(split, train=False))}
    if isinstance(train, TableSource):
        missing = sum(part.get("missing", 0) for side in parts.values() for part in side)
        is_encoded = not train.is_plain or missing > 0
    else:
        is_encoded = False
    if data.drop:
        context.events.message(
            f"{train.url}: {len(data.drop)} columns are left out, as the definition of data set {data.name} says: "
            f"{', '.join(data.drop)}"
        )
    for line in preparation.task.codec.summary.notes:
        context.events.message(line)
    left_out: dict[str, int] = {}
    if leaves_out:
        before = sum(sides["train"]["counts"])
        leave_out_rows(stage, sides["train"], preparation, data)
        left_out["rows_left_out"] = before - sum(sides["train"]["counts"])
    attributes = {"preparation": preparation.as_json(), "sides": sides}
    context.store.set_attributes(DATA, attributes)
    table: MutableJsonObject = {} if data.table.id is None else {"id": data.table.id}
    table |= say_weights(context, data.table.weight, train_parts)
    if is_encoded:
        assert isinstance(train, TableSource)
        encoder, ids = fit_encoding(
            stage, train.columns, train.request.encode, preparation.task, by_targets=not every, url=train.url
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
            nnz = encoder.entries * sum(total(side_parts, "rows") for side_parts in parts.values())
        attributes["preparation"] = preparation.as_json()
        context.store.set_attributes(DATA, attributes)
        for line in encoder.lines():
            context.events.message(line)
        table["columns_plan"] = [column.as_json() for column in encoder.columns]
        write_text(context.run.path / PLAN_FILE, plan_text(encoder.columns))
    else:
        ids = ids_of_plain(PreparedRows(context.store, "train", DATA)) if isinstance(train, TableSource) else []
    table |= {"ids": ids} if ids else {}
    if params.scale == "minmax":
        fit_scaling(stage, preparation)
        scaled = replace(preparation, scale="minmax")
        context.store.set_attributes(DATA, {**attributes, "preparation": scaled.as_json()})
    if ranges := ranges_of(PreparedRows(context.store, "train", DATA)):
        table["ranges"] = ranges
    result = {
        "rows_train": sum(sides["train"]["counts"]),
        "rows_test": sum(sides["test"]["counts"]),
        "columns": columns,
        "nnz": nnz,
        **about_task(preparation.task),
        **left_out,
        **table,
        "test": data.test_rows if split_rule is None or test is not None else split_rule.test_rows,
    }
    outputs = [DATA, *([ENCODING] if is_encoded else []), *([SCALE] if params.scale == "minmax" else [])]
    return stage.finish(cast("IngestResult", result), outputs)


def _ingest_files(stage: Stage, files: Sequence[tuple[Source, str]], kind: TaskKind) -> dict[str, list[PartRecord]]:
    """Read files side by side; return the parts of each."""
    split_rule = split_rule_of(stage.context.params)
    tasks = [
        Task(
            f"{side}-{fragment.number:05d}",
            (
                stage.context.store,
                source,
                fragment,
                f"{DATA}/{side}",
                kind.name,
                split_rule if side == "train" else None,
            ),
            large=is_wide(source),
            ordered=True,
        )
        for source, side in files
        for fragment in source.fragments()
    ]
    parts: dict[str, list[PartRecord]] = {side: [] for _, side in files}
    for task, record in zip(tasks, stage.run(ingest_fragment, tasks), strict=True):
        parts[task.name.rpartition("-")[0]] += record["parts"]
    return parts


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
    parts: list[PartRecord] = []
    kept = 0
    # No record promises them: they are read to see whether they are complete.
    while store.is_verified(name := _part_name(folder, fragment, kept)):
        parts.append(store.need(name)["part"])
        store.keep(name)
        kept += 1
    read = written = 0
    for number, block in enumerate(source.read(fragment, skip=kept), start=kept):
        # An empty part keeps the numbering of blocks, on which resuming relies.
        part, size = store_block(
            store,
            _part_name(folder, fragment, number),
            block.X,
            block.y,
            block.url or source.url,
            known_kind,
            partial(place, source, block),
            **beside_of(split_rule, block, partial(place, source, block)),
        )
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


def place(source: Source, block: RawRows, row: int) -> str:
    """Return the file of a row of a block, and its line of text there, or its row."""
    return f"{block.url or source.url}: {'line' if source.format in TEXTS else 'row'} {block.first_line + row}"


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
        part["missing"] = int(np.isnan(X).sum())
    if beside and WEIGHTS in beside:
        part["weight"] = float(beside[WEIGHTS].sum())
    return part, write_part(store, name, X, labels, part_labels, {"part": part, **attributes}, beside)


def _part_name(folder: str, fragment: Fragment, block: int) -> str:
    return f"{folder}/{fragment.number:05d}-{block:05d}"


def total(parts: Iterable[PartRecord], key: Literal["rows", "nnz", "bytes_written"]) -> int:
    """Sum over parts."""
    return sum(int(part[key]) for part in parts)


def find_task(
    url: str, parts: list[PartRecord], data: ResolvedDataset, params: Params, say: Callable[[str], None]
) -> LearningTask:
    """Return the task, by the labels of all parts; where the labels alone decide it, say so.

    Raises
    ------
    InputError
        Nothing can be learned from the labels.
    """
    kind = requested_task(params, data)
    try:
        request = LabelRequest(*requested_word(params, data), data.two_class, data.inliers)
        labels = [part["found"] for part in parts]
        task = kind.find(labels, request)
    except ValueError as error:
        raise InputError(f"{url}: {error}") from None
    if kind.name == AUTO:
        refuse_unsuited(params.settled(task.kind), task.kind, f"by the labels of {url}")
        say(BY_LABELS.reason(labels, task.kind))
    return task


def about_task(task: LearningTask) -> JsonObject:
    """Return the fields of ``data`` in ``metrics.json`` that describe a task."""
    return {"task": task.name, **task.codec.summary.fields}


def _side(url: str, parts: list[PartRecord], split: Split) -> SideRecord:
    """Return what :class:`~pipeline.rows.prepared.PreparedRows` reads: file, parts, and the number of rows of each."""
    rows = [int(part["rows"]) for part in parts]
    firsts = accumulate(rows[:-1], initial=0)
    # Shuffling millions of rows takes a while, in which the workers have nothing to do.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = list(pool.map(lambda first, n: int(split.of_part(first, n).size), firsts, rows))
    names: list[PartName] = [{"name": part["name"], "rows": part["rows"]} for part in parts]
    return {"url": url, "parts": names, "counts": counts, "split": asdict(split)}


def leave_out_rows(stage: Stage, side: SideRecord, preparation: Preparation, data: ResolvedDataset) -> None:
    """Leave out the training rows that the task does not learn from: count the other rows of each part.

    Raises
    ------
    InputError
        The task learns from none of them.
    """
    tasks, first = [], 0
    for k, part in enumerate(side["parts"]):
        tasks.append(Task(f"learned-{k:05d}", (stage.context.store, preparation, Split(**side["split"]), first, part)))
        first += part["rows"]
    side["counts"] = [record["learned"] for record in stage.run(learned_rows, tasks)]
    side["learned"] = True
    if not sum(side["counts"]):
        raise InputError(
            f"{data.train_url}: found no training row with the label {', '.join(data.inliers or ())} (--inliers); "
            "give another --seed or --test-size"
        )


def learned_rows(store: Store, preparation: Preparation, split: Split, first: int, part: PartName) -> LearnedRecord:
    """Task: count the training rows of a part, which begins at row `first`, that the task learns from."""
    numbers = split.of_part(first, part["rows"])
    return {"learned": int(learned_of(store, part["name"], numbers, preparation).size)}


def refuse_sparse_scaling(preparation: Preparation) -> None:
    """Refuse sparse data, which scaling would make dense.

    Raises
    ------
    InputError
    """
    if not preparation.dense:
        raise InputError(
            "--scale minmax: found sparse data, which it would fill, expected dense data; "
            "leave it out, or scale the file beforehand"
        )


def fit_scaling(stage: Stage, preparation: Preparation) -> None:
    """Find the range of every column over the training rows."""
    refuse_sparse_scaling(preparation)
    store = stage.context.store
    n = PreparedRows(store, "train").n_rows
    tasks = [
        Task(f"scale-{start // SCALE_ROWS:05d}", (store, start, min(start + SCALE_ROWS, n)))
        for start in range(0, n, SCALE_ROWS)
    ]
    records = stage.run(column_ranges, tasks)
    low = np.min([record["low"] for record in records], axis=0)
    high = np.max([record["high"] for record in records], axis=0)
    store.write_group(SCALE, {"low": low, "high": high}, {})


def column_ranges(store: Store, start: int, stop: int) -> RangesRecord:
    """Task: find the lowest and highest value of each column over some training rows."""
    low, high = [], []
    for _, block in PreparedRows(store, "train").blocks(start, stop):
        X = cast("Rows", block.rows)
        low.append(X.min(axis=0))
        high.append(X.max(axis=0))
    return {"low": np.min(low, axis=0).tolist(), "high": np.max(high, axis=0).tolist()}
