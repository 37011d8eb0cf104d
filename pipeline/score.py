"""Score: apply the model of a finished run to new data of any size and write one Parquet file."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client
from fsspec.core import url_to_fs

from ikmap.learners.linear_model import decision_to_index
from ikmap.model import Model
from ikmap.partitioners import Partitions
from ikmap.rows import Rows, as_csr, as_rows
from pipeline.baselines import check_values
from pipeline.compiling import prepare
from pipeline.engine import Record, Task, run_tasks, summarise
from pipeline.errors import InputError, writing
from pipeline.models import load_model
from pipeline.prepared import DATA, READ_BYTES, STREAM_DATA, Preparation, load_scaling, plain_label
from pipeline.progress import Events
from pipeline.readers import Block, Piece, Source, open_source
from pipeline.rundir import read_manifest
from pipeline.stages.partition import Fitted
from pipeline.stages.train import MODELS
from pipeline.store import Store

STAGE = "score"
ROW_GROUP = 1 << 17
"""Rows of a row group of the output."""
COPIED_ROWS = 1 << 16


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
    """

    store: Store
    learner: str
    content_hash: str
    fitted: Fitted | None
    label: str | int | None
    partitioner: str

    def preparation(self) -> Preparation:
        """How values and labels become features and class numbers."""
        attributes = self.store.attributes(DATA)
        assert attributes is not None
        # A stream is stored as prepared, but for the scale: that is found last, by its initial rows.
        scale = (self.store.attributes(STREAM_DATA) or attributes)["preparation"]["scale"]
        return Preparation(**{**attributes["preparation"], "scale": scale})

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
        raise InputError(f"--model {folder}: no such directory, expected that of a finished run")
    manifest = read_manifest(path)
    online = "online" in manifest["identity"]
    if manifest["status"] != "finished":
        again = f"python -m flows.{'online' if online else 'batch'} --config {path / 'run.toml'} --run-dir {path}"
        raise InputError(f"--model {folder}: found an unfinished run, expected a finished one; to finish it: {again}")
    identity, stages = manifest["identity"], manifest["stages"]
    learners = identity["params"]["learners"]
    learner = learner or learners[0]
    if learner not in learners:
        raise InputError(f"--learner {learner}: not in this run, which has {', '.join(learners)}")
    trained = stages["stream"]["result"]["learners"][learner] if online else stages[f"train:{learner}"]["result"]
    fitted = None
    if "psi" in trained:
        found = stages["partition"]["result"]["fitted"]
        fitted = next(Fitted(**model) for model in found if model["psi"] == trained["psi"])
    store = Store(path / "store.zarr")
    for name in (DATA, *([fitted.name] if fitted else []), f"{MODELS}/{learner}"):
        if store.attributes(name) is None:
            raise InputError(f"{store.path}: found no complete {name}, expected the store of a finished run")
    return TrainedModel(
        store, learner, trained["content_hash"], fitted, identity["data"]["label"], identity["params"]["partitioner"]
    )


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
        return open_source(url, format, label, n_columns, require_label=required, **sizes)  # type: ignore[arg-type]

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


@dataclass
class Output:
    """A file that is there whole or not at all. A context manager that owns the folder its parts are written to.

    Parameters
    ----------
    url : str
        Local path, or a URL that fsspec can write; the workers must see it too.

    Raises
    ------
    InputError
        On entering, if nothing can be written there.
    """

    url: str
    folder: str = field(init=False, default="")

    def __enter__(self) -> Self:
        with _writing(self.url):
            self._fs, self.path = url_to_fs(self.url)
            parent, _, name = self.path.rpartition("/")
            if self._fs.isdir(self.path):
                raise InputError(f"--output {self.url}: is a directory, expected a file")
            if self.is_local and not self._fs.isdir(parent or "/"):
                raise InputError(f"--output {self.url}: no such directory {parent}")
            folder = f"{parent}/.{name}.parts-{uuid4().hex[:8]}"
            if self.is_local:
                os.mkdir(folder, 0o700)
            else:
                self._fs.makedirs(folder)
            self.folder = folder
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Tasks that were cancelled may still be writing: what they add while the folder is emptied goes next time.
        for _ in range(5):
            with suppress(OSError):
                if not self._fs.exists(self.folder):
                    return
                self._fs.rm(self.folder, recursive=True)

    @property
    def is_local(self) -> bool:
        return "file" in self._fs.protocol

    def part(self, index: int) -> str:
        """Address of the part of a piece, for any process."""
        return str(self._fs.unstrip_protocol(f"{self.folder}/{index:06d}.parquet"))

    def join(self, parts: Sequence[str], schema: pa.Schema) -> int:
        """Make one file of the parts, in order, numbering the rows; then give it its name. Returns its bytes."""
        joined = f"{self.folder}/joined.parquet"
        with _writing(self.url):
            with self._fs.open(joined, "wb") as stream, pq.ParquetWriter(stream, schema) as writer:
                row = 0
                for table in _in_row_groups(self._tables(parts)):
                    numbers = np.arange(row, row + table.num_rows, dtype=np.int64)
                    numbered = table.add_column(0, "row", pa.array(numbers)).select(schema.names)
                    writer.write_table(numbered, row_group_size=ROW_GROUP)
                    row += table.num_rows
            size = int(self._fs.size(joined))
            self._fs.mv(joined, self.path)  # within one directory: another file of that name is replaced in one step
        return size

    def _tables(self, parts: Sequence[str]) -> Iterator[pa.Table]:
        for url in parts:
            path = self._fs._strip_protocol(url)
            with self._fs.open(path, "rb") as stream, pq.ParquetFile(stream) as part:
                for batch in part.iter_batches(COPIED_ROWS):
                    yield pa.Table.from_batches([batch])
            self._fs.rm_file(path)


@contextmanager
def _writing(url: str) -> Iterator[None]:
    """Turn what can go wrong while writing into one line."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ImportError, ValueError) as error:
        # fsspec says ValueError of an unknown protocol; one of ours is not to be dressed up as the user's.
        if isinstance(error, ValueError) and "protocol" not in str(error).lower():
            raise
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(f"--output {url}: cannot be written: {reason}") from error


def _in_row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Cut anew, so that the file does not depend on how its input was cut."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        while rows >= ROW_GROUP:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, ROW_GROUP).combine_chunks()
            waiting = [whole.slice(ROW_GROUP)]
            rows -= ROW_GROUP
    if rows:
        yield pa.concat_tables(waiting).combine_chunks()


def words_of_scoring(model: TrainedModel, data: NewData) -> frozenset[str]:
    """What scoring needs compiled: reading, mapping to cells, decisions."""
    rows = "dense" if model.preparation().dense else "sparse"
    mapped = {model.partitioner, "cells-online"} if model.fitted else set()
    return frozenset({data.source.format, rows, *mapped})


def score(client: Client, model: TrainedModel, data: NewData, output: Output, events: Events) -> dict[str, Any]:
    """Predict every row: one task per piece of the input, block by block; then join the parts in order.

    Returns
    -------
    dict
        rows, seconds, rows_per_second, compile_seconds (not among the seconds), learner, output, and where labels of
        the model's classes were found,
        rows_labelled and accuracy (fraction of those rows); stages: the record as in ``metrics.json``.

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
    tasks = [Task(f"{piece.index:06d}", (model, data, piece, output.part(piece.index))) for piece in pieces]
    records: dict[str, Record] = {}
    events.stage_started(STAGE, len(tasks))
    for task, record in run_tasks(client, f"{STAGE}-{uuid4().hex[:8]}", score_piece, tasks):
        records[task.name] = record
        events.task_done(STAGE, record)
    ordered = [records[task.name] for task in tasks]
    known, correct = (sum(record[key] for record in ordered) for key in ("known", "correct"))
    kind = _type_of(model.preparation().classes)
    written = output.join([task.args[-1] for task in tasks], _schema(kind, row=True, label=known > 0))
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
        "rows_labelled": known,
        "accuracy": correct / known if known else None,
        "stages": [summary],
    }


def score_piece(model: TrainedModel, data: NewData, piece: Piece, url: str) -> Record:
    """Task: predict the rows of one piece and write them as a Parquet file, one row group per block."""
    preparation = model.preparation()
    scaling = load_scaling(model.store) if preparation.scale == "minmax" else None
    classes = pa.array(plain_classes(preparation.classes), _type_of(preparation.classes))
    counts = dict.fromkeys(("rows", "bytes_read", "known", "correct"), 0)
    fs, path = url_to_fs(url)
    # A task that Dask does twice must not write to a file that the other attempt is writing.
    attempt = f"{path}.{uuid4().hex[:8]}"
    schema = _schema(classes.type)
    with writing(url), fs.open(attempt, "wb") as stream, pq.ParquetWriter(stream, schema) as writer:
        for block in data.source.read(piece):
            counts["bytes_read"] += block.n_bytes
            n = block.X.shape[0]
            if n == 0:
                continue
            X = block.X if data.columns is None else block.X[:, data.columns]
            of = f"{data.source.url}: " + (f"part {piece.index + 1}, " if piece.index else "")
            where = partial(_where, of, counts["rows"] + 1)
            predicted, decision = _predict(model, preparation.features(X, scaling), preparation, where)
            true = _class_numbers(block, preparation)
            counts["rows"] += n
            counts["known"] += int(np.count_nonzero(true >= 0))
            counts["correct"] += int(np.count_nonzero(true == predicted))
            label = classes.take(pa.array(true, mask=true < 0))
            table = pa.table([classes.take(pa.array(predicted)), pa.array(decision), label], schema=schema)
            writer.write_table(table, row_group_size=n)
    size = int(fs.size(attempt))
    fs.mv(attempt, path)
    return {**counts, "bytes_written": size}


def _where(of: str, first: int, row: int) -> str:
    """File and row, for people."""
    return f"{of}row {first + row}"


def _predict(
    model: TrainedModel, X: Rows, preparation: Preparation, where: Callable[[int], str]
) -> tuple[np.ndarray, np.ndarray]:
    """Class number (int32) and decision value (float64) of each row.

    With two classes the decision value is positive for the second one; with more it is that of the predicted class.
    """
    index, score = np.empty(X.shape[0], dtype=np.int32), np.empty(X.shape[0])
    for rows, decision in decisions(model, X, preparation, where):
        index[rows] = decision_to_index(decision)
        score[rows] = decision if decision.ndim == 1 else decision[np.arange(len(decision)), index[rows]]
    return index, score


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
        Decision values, float64: of shape (n,) with two classes, positive for the second one, else (n, classes).
    """
    partitions, predictor = model.load()
    n = X.shape[0]
    X = X if preparation.dense else as_csr(X)
    outputs = 1 if len(preparation.classes) == 2 else len(preparation.classes)
    width = max(8 * min(preparation.n_columns, 4096), 4 * partitions.n_partitions if partitions else 0, 8 * outputs)
    step = max(1, READ_BYTES // width)
    for begin in range(0, n, step):
        rows = slice(begin, min(begin + step, n))
        given: Any = partitions.cells(X[rows], n_threads=n_threads) if partitions else as_rows(X[rows])
        if partitions is None:
            check_values(model.learner, given, where, preparation.column_names, begin)
        yield rows, predictor.decision_function(given)


def _class_numbers(block: Block, preparation: Preparation) -> np.ndarray:
    """Class number of each row's label, int32; -1 where there is no label, or none that the model knows."""
    if block.y is None:
        return np.full(block.X.shape[0], -1, dtype=np.int32)
    found, codes = np.unique(block.y, return_inverse=True)
    numbers = [preparation.class_of(plain_label(value)) for value in found]
    return np.array([-1 if k is None else k for k in numbers], dtype=np.int32)[codes]


def _type_of(classes: Sequence[Any]) -> pa.DataType:
    """Of predictions: whole numbers, numbers or text, as the labels were."""
    if all(isinstance(label, int) for label in classes):
        return pa.int64()
    return pa.string() if any(isinstance(label, str) for label in classes) else pa.float64()


def plain_classes(classes: Sequence[Any]) -> list[Any]:
    """Classes of one type: text if one of them is."""
    return [str(label) for label in classes] if any(isinstance(label, str) for label in classes) else list(classes)


def _schema(kind: pa.DataType, *, row: bool = False, label: bool = True) -> pa.Schema:
    fields = [("row", pa.int64()), ("prediction", kind), ("score", pa.float64()), ("label", kind)]
    return pa.schema([fields[i] for i in range(4) if (i != 0 or row) and (i != 3 or label)])
