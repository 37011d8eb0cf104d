"""Score: apply the model of a finished run to new data of any size and write one Parquet file."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from distributed import Client
from fsspec.core import url_to_fs

from ikmap.methods import LEARNERS, MAPS, Learner, Map
from ikmap.model import Model
from ikmap.partitioners import Partitions
from ikmap.rows import Rows, as_csr, as_rows
from ikmap.tasks import LearningTask
from pipeline.compiling import prepare
from pipeline.dataset_spec import CSV_KEYS
from pipeline.dispatch import Task, run_tasks
from pipeline.engine import Record
from pipeline.errors import Damaged, InputError, writing
from pipeline.events import Events
from pipeline.fitted import Fitted
from pipeline.measured import summarise
from pipeline.models import MODELS, load_model
from pipeline.prepared import DATA, READ_BYTES, STREAM_DATA, Preparation, load_scaling
from pipeline.readers import Piece, Source, open_source
from pipeline.readers.base import is_wide
from pipeline.rundir import read_manifest_or_copy
from pipeline.score_output import Output, parquet_writer, sha256_of
from pipeline.store import Store
from pipeline.values import check_values, kernel_in

STAGE = "score"


@dataclass(frozen=True)
class TrainedModel:
    """What a finished run gives to score with. Small and picklable; arrays stay in the run's store.

    Attributes
    ----------
    store : Store
    learner : str
    content_hash : str
        Of the learner's model.
    fitted : Fitted or None
        The partitionings whose cells it was trained on; None: it takes the rows themselves.
    label : str, int or None
        The label column that the run was told of.
    partitioner : str
    again : str
        The command that trains it anew.
    csv : tuple of (key, value)
        What the definition of the run's data set tells of CSV files (:attr:`~pipeline.datasets.ResolvedDataset.csv`).
    loops : frozenset of str
        Words of the loops that mapping and predicting need.
    """

    store: Store
    learner: str
    content_hash: str
    fitted: Fitted | None
    label: str | int | None
    partitioner: str
    again: str = ""
    csv: tuple[tuple[str, Any], ...] = ()
    loops: frozenset[str] = frozenset()

    def preparation(self) -> Preparation:
        """How values and labels become features and targets."""
        attributes = self.store.need(DATA)
        # A stream is stored as prepared, but for the scale: that is found last, by its initial rows.
        scale = (self.store.attributes(STREAM_DATA) or attributes)["preparation"]["scale"]
        return Preparation.from_json({**attributes["preparation"], "scale": scale})

    def load(self) -> tuple[Partitions | None, Any]:
        """The models, from this process's cache or the store."""
        model = load_model(self.store, f"{MODELS}/{self.learner}", Model, self.content_hash)
        return None if self.fitted is None else self.fitted.load(self.store), model


def open_run(folder: str, learner: str | None = None) -> TrainedModel:
    """Find the model of a finished run.

    Parameters
    ----------
    learner : str, optional
        Default: the first one that the run trained.

    Raises
    ------
    InputError
        There is no run, it is unfinished or damaged, or it has no such learner.
    """
    path = Path(folder).expanduser().absolute()
    if not path.is_dir():
        said = "found a file, expected the directory" if path.exists() else "no such directory, expected that"
        raise InputError(f"--model {folder}: {said} of a finished run")
    manifest, _ = read_manifest_or_copy(path)
    online = "online" in manifest["identity"]
    again = f"python -m flows.{'online' if online else 'batch'} --config {path / 'run.toml'} --run-dir {path}"
    if manifest["status"] != "finished":
        raise InputError(f"--model {folder}: found an unfinished run, expected a finished one; to finish it: {again}")
    identity, stages = manifest["identity"], manifest["stages"]
    learners = identity["params"]["learners"]
    learner = learner or learners[0]
    if learner not in learners:
        raise InputError(f"--learner {learner}: not in this run, which has {', '.join(learners)}")
    trained = stages["stream"]["result"]["learners"][learner] if online else stages[f"train:{learner}"]["result"]
    fitted = None
    if "cells" in trained:
        # A map that grew with its stream is the one of its end.
        grown = stages["stream"]["result"].get("grown", []) if online else []
        models = [Fitted(**model) for model in (*grown, *stages["partition"]["result"]["fitted"])]
        fitted = next(model for model in models if model.label == trained["cells"])
    store = Store(path / "store.zarr")
    again = f"{again} --fresh" if online else again
    with _needing_all_of(again):
        for name in (DATA, *([fitted.name] if fitted else []), f"{MODELS}/{learner}"):
            store.need(name)
    partitioner, data = identity["params"]["partitioner"], identity["data"]
    csv = tuple((key, data[key]) for key in CSV_KEYS if key in data)
    return TrainedModel(
        store, learner, trained["content_hash"], fitted, data["label"], partitioner, again, csv,
        _loops(identity["params"], learner, fitted),
    )  # fmt: skip


def _loops(params: Mapping[str, Any], learner: str, fitted: Fitted | None) -> frozenset[str]:
    """Words of the loops that a method needs to score with; none of one that is not known here."""

    def options(of: Learner | Map) -> Any:
        return of.Options.of_record(params.get("methods", {}).get(of.name, {}))

    known = LEARNERS.get(learner)
    words = known.compiled(options(known), scoring=True) if known else frozenset[str]()
    mapping = MAPS.get(fitted.map) if fitted else None
    return words | (mapping.compiled(options(mapping)) if mapping else frozenset())


@contextmanager
def _needing_all_of(again: str) -> Iterator[None]:
    """Say what to do where something of a finished run is damaged."""
    try:
        yield
    except Damaged as damaged:
        raise InputError(f"{damaged}; restore it from a copy, or make the run again: {again}") from damaged


@dataclass(frozen=True)
class NewData:
    """A file to score.

    Attributes
    ----------
    source : Source
    columns : list of int or None
        Which of the file's columns is each of the model's; None: they are in the same order.
    """

    source: Source
    columns: list[int] | None


def open_data(
    model: TrainedModel, url: str, format: str = "auto", label: str | int | None = None, **sizes: int | None
) -> NewData:
    """Open data that must have the model's columns, by name where both have names. Labels are optional.

    Parameters
    ----------
    label : str or int, optional
        Label column of a table, which must then be there. Default: that of the run, where the file has it.
    **sizes
        `piece_bytes` and `block_bytes` of :func:`~pipeline.readers.open_source`.

    Raises
    ------
    InputError
        The file cannot be read, or has other columns.
    """
    preparation = model.preparation()
    expected = preparation.column_names
    required = label is not None
    label = label if required else model.label

    def opened(n_columns: int | None) -> Source:
        told: dict[str, Any] = {**dict(model.csv), **sizes}
        return open_source(url, format, label, n_columns, require_label=required, **told)

    try:
        source = opened(preparation.n_columns)
    except InputError:
        if expected is not None:  # which column it is says more than how many there are
            _same_names(url, opened(None).column_names, expected)
        raise
    names = source.column_names
    if expected is None or names is None or list(names) == expected:
        return NewData(source, None)
    _same_names(url, names, expected)
    place = {name: j for j, name in enumerate(names)}
    return NewData(source, [place[name] for name in expected])


def _same_names(url: str, found: Sequence[str] | None, expected: Sequence[str]) -> None:
    """Refuse a table that lacks a column of the training data, or has one too many."""
    names, wanted = set(found or expected), set(expected)
    for name in expected:
        if name not in names:
            raise InputError(f"{url}: found no column {name!r}, expected it as in the training data")
    for name in found or ():
        if name not in wanted:
            raise InputError(f"{url}: found column {name!r}, which the training data does not have")


def words_of_scoring(model: TrainedModel, data: NewData) -> frozenset[str]:
    """What scoring needs compiled: reading, mapping to cells, decisions."""
    rows = "dense" if model.preparation().dense else "sparse"
    return frozenset({data.source.format, rows, *model.loops})


def score(client: Client, model: TrainedModel, data: NewData, output: Output, events: Events) -> dict[str, Any]:
    """Predict every row: one task per piece of the input, block by block; then join the parts in order.

    Returns
    -------
    dict
        rows, seconds, rows_per_second, compile_seconds (not among the seconds), learner, output, task, rows_labelled
        (those with a label that the model knows), the figure of the task on these rows, such as accuracy (None where
        there are none), said (the same in words, else None); stages: the record as in ``metrics.json``.

    Raises
    ------
    InputError
        Anything is wrong with the data or the place of the output.
    """
    if (
        data.source.file.local
        and output.is_local
        and os.path.realpath(output.path) == os.path.realpath(data.source.file.path)
    ):
        raise InputError(f"--output {output.url}: is the input, expected another file")
    compile_seconds = prepare(client, words_of_scoring(model, data), events.message)
    started = time.perf_counter()
    pieces = data.source.pieces()
    wide = is_wide(data.source)
    tasks = [Task(f"{piece.index:06d}", (model, data, piece, output.part(piece.index)), large=wide) for piece in pieces]
    records: dict[str, Record] = {}
    key = f"{STAGE}-{uuid4().hex[:8]}"

    def again(k: int) -> str:
        events.message(f"{tasks[k].args[-1]} is damaged (its SHA-256 is wrong); it is made again")
        ((_, record),) = run_tasks(client, key, score_piece, [tasks[k]])
        return str(record["sha256"])

    events.stage_started(STAGE, len(tasks))
    with _needing_all_of(model.again):
        for task, record in run_tasks(client, key, score_piece, tasks):
            records[task.name] = record
            events.task_done(STAGE, record)
    ordered = [records[task.name] for task in tasks]
    learned = model.preparation().task
    figure, tally = learned.figure, learned.total([record["tally"] for record in ordered])
    value = learned.figures(tally)[figure.key] if tally.rows else None
    parts = [(task.args[-1], record["sha256"]) for task, record in zip(tasks, ordered, strict=True)]
    with _needing_all_of(model.again):
        written = output.join(parts, _schema(learned, row=True, label=tally.rows > 0), again)
    seconds, late = time.perf_counter() - started, Counter[str]()
    for record in ordered:
        late[record["worker"]] += record.get("compile_seconds", 0.0)
    compiled_late = min(max(late.values(), default=0.0), seconds)
    summary = summarise(STAGE, ordered, 0.0, seconds - compiled_late)
    summary["bytes_written"] += written
    events.stage_finished(STAGE, summary)
    return {
        "rows": summary["rows"],
        "seconds": summary["seconds"],
        "rows_per_second": summary["rows_per_second"],
        "compile_seconds": round(compile_seconds + compiled_late, 3),
        "learner": model.learner,
        "output": output.url,
        "task": learned.name,
        "rows_labelled": tally.rows,
        figure.key: value,
        "said": None if value is None else figure.line(value),
        "stages": [summary],
    }


def score_piece(model: TrainedModel, data: NewData, piece: Piece, url: str) -> Record:
    """Task: predict the rows of one piece and write them as a Parquet file, one row group per block."""
    preparation = model.preparation()
    scaling = load_scaling(model.store) if preparation.scale == "minmax" else None
    task = preparation.task
    tally, schema = task.tally_from(None), _schema(task)
    counts = dict.fromkeys(("rows", "bytes_read"), 0)
    fs, path = url_to_fs(url)
    # A task that Dask does twice must not write to a file that the other attempt is writing.
    attempt = f"{path}.{uuid4().hex[:8]}"
    with writing(url), fs.open(attempt, "wb") as stream, parquet_writer(stream, schema) as writer:
        for block in data.source.read(piece):
            counts["bytes_read"] += block.n_bytes
            n = block.X.shape[0]
            if n == 0:
                continue
            X = block.X if data.columns is None else block.X[:, data.columns]
            of = f"{data.source.url}: " + (f"part {piece.index + 1}, " if piece.index else "")
            where = partial(_where, of, counts["rows"] + 1)
            counts["rows"] += n
            targets = task.encode(block.y, n)
            unknown = task.unknown(targets)
            made: dict[str, list[np.ndarray]] = {name: [] for name in task.columns}
            for rows, decision in decisions(model, preparation.features(X, scaling), preparation, where):
                for name, values in task.values(decision).items():
                    made[name].append(values)
                known = np.flatnonzero(~unknown[rows])
                if known.size:
                    tally = tally + task.tally(targets[rows][known], decision[known])
            columns = [pa.array(np.concatenate(made[name]), schema.field(name).type) for name in made]
            label = task.decode(np.where(unknown, np.zeros_like(targets), targets))
            columns.append(pa.array(label, schema.field("label").type, mask=unknown))
            writer.write_table(pa.table(columns, schema=schema), row_group_size=n)
    size = int(fs.size(attempt))
    fs.mv(attempt, path)
    return {**counts, "tally": tally.as_json(), "bytes_written": size, "sha256": sha256_of(fs, path)}


def _where(of: str, first: int, row: int) -> str:
    """File and row, for people."""
    return f"{of}row {first + row}"


def decisions(
    model: TrainedModel, X: Rows, preparation: Preparation, where: Callable[[int], str], n_threads: int | None = 1
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield rows and their decision values, a bounded number of bytes at a time.

    Parameters
    ----------
    X : float64 ndarray or csr_array
        Features: what :meth:`~pipeline.prepared.Preparation.features` gives.
    where : callable
        Names a row of X for people.
    n_threads : int, optional
        At most this many threads find cells; None: all usable cores.

    Yields
    ------
    slice, ndarray
        Decision values, float64, of shape (n, K).
    """
    partitions, predictor = model.load()
    n = X.shape[0]
    X = X if preparation.dense else as_csr(X)
    outputs = preparation.task.outputs
    width = max(8 * min(preparation.n_columns, 4096), 4 * partitions.n_partitions if partitions else 0, 8 * outputs)
    step = max(1, READ_BYTES // width)
    for begin in range(0, n, step):
        rows = slice(begin, min(begin + step, n))
        given: Any = partitions.cells(X[rows], n_threads=n_threads) if partitions else as_rows(X[rows])
        if partitions is None:
            check_values(model.learner, given, where, preparation.column_names, begin, kernel_in(predictor))
        yield rows, predictor.decision_function(given)


def _schema(task: LearningTask, *, row: bool = False, label: bool = True) -> pa.Schema:
    """Columns of the output, in their order."""
    fields: Mapping[str, str] = {
        **({"row": "int64"} if row else {}),
        **task.columns,
        **({"label": task.label_type} if label else {}),
    }
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in fields.items()])
