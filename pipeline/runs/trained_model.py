"""The model of a finished run: find and open it, and compute its decisions for rows in memory."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ikmap.methods import LEARNERS, DecidesOtherwise, Learner, Map, capability, configured
from ikmap.methods.registry import is_known
from ikmap.partitioners import Partitions
from ikmap.rows import Rows, as_csr, as_dense, as_rows
from ikmap.tables import CATEGORY, NUMBER, ColumnPlan, RawTable
from ikmap.tables.column_plan import DROP
from ikmap.tables.raw import Levels
from ikmap.tasks import Task
from ikmap.tasks.capabilities import calibrated
from ikmap.tasks.classification.calibration import LOG_ODDS, Calibrator, fit_calibrator
from pipeline.errors import InputError
from pipeline.record_types import Promise, RecordView
from pipeline.resolve import worded
from pipeline.rows.encoding import ENCODING, StoredEncoder, load_encoder
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import DATA, READ_BYTES, STREAM_DATA, load_scaling
from pipeline.rows.values import check_values, kernel_in
from pipeline.running.compiling import words_of_learner, words_of_map
from pipeline.running.repair import needing_all_of
from pipeline.runs.folder import folder_of_run
from pipeline.sources import Source
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.datasets.spec import CSV_KEYS
from pipeline.stages.calibrate import READINGS
from pipeline.storage.durable import reading
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, Decider, load_decider, load_model
from pipeline.storage.predictions import PredictionFile, read_predictions
from pipeline.storage.rundir import MANIFEST, read_manifest_or_copy
from pipeline.storage.store import Store


@dataclass(frozen=True)
class TrainedModel:
    """The model of a finished run. Small and picklable; arrays stay in the run's store.

    Attributes
    ----------
    store : Store
    learner : str
    content_hash : str
        Content hash of the learner's model.
    fitted : Fitted or None
        Partitionings whose cells it was trained on; None: it takes the rows themselves.
    label : str, int or None
        Label column of the run.
    partitioner : str
    again : str
        Command that trains it anew.
    csv : tuple of (key, value)
        Options of CSV files in the definition of the run's data set
        (:attr:`~pipeline.sources.datasets.registry.ResolvedDataset.csv`).
    loops : frozenset of str
        Words of the loops that mapping and predicting need.
    options : mapping
        Options of the learner.
    table : TableRequest
        Request of the run for its table.
    reading : Calibrator or None
        Calibrator of decisions, with the threshold of classes.
    trained_on : mapping
        Size and checksum of the file with the training rows; empty where it is not known.
    predicted : mapping or None
        Promise of the learner's predictions of its stream; empty if the run ended before such promises were kept, None
        if there is no stream.
    """

    store: Store
    learner: str
    content_hash: str
    fitted: Fitted | None
    label: str | int | None
    partitioner: str
    again: str = ""
    csv: tuple[tuple[str, str], ...] = ()
    loops: frozenset[str] = frozenset()
    options: Mapping[str, object] = field(default_factory=dict)
    table: TableRequest = field(default_factory=TableRequest)
    reading: Calibrator | None = None
    trained_on: RecordView = field(default_factory=dict)
    predicted: Promise | None = None

    @property
    def report(self) -> str:
        """Path of the report of the run."""
        return str(Path(self.store.path).parent / "report.html")

    def preparation(self) -> Preparation:
        """Return how values and labels become features and targets, with the calibrated task."""
        with self._whole():
            attributes = self.store.need(DATA)
            # A stream is stored as prepared, but for the scale, which its initial rows decide.
            scale = (self.store.attributes(STREAM_DATA) or attributes)["preparation"]["scale"]
            with reading(f"{self.store.path}/{DATA}"):
                preparation = Preparation.from_json({**attributes["preparation"], "scale": scale})
        return replace(preparation, task=calibrated(preparation.task, self.reading))

    def columns(self) -> list[ColumnPlan] | None:
        """Return the columns of the training data before they were encoded; None for numbers without names.

        Those that were left out may hold anything now, which a word is of any type.
        """
        preparation = self.preparation()
        if preparation.encoded:
            columns = self._encoder().encoder.columns
            return [replace(column, kind=CATEGORY) if column.encoding == DROP else column for column in columns]
        return (
            None
            if preparation.column_names is None
            else [ColumnPlan(name, NUMBER) for name in preparation.column_names]
        )

    def features(self, X: Rows, levels: Levels | None, where: Callable[[int], str]) -> Rows:
        """Return the features of rows as they were read; `where` returns the name of a row for people.

        Raises
        ------
        InputError
            A value is missing where the training data had none.
        """
        preparation = self.preparation()
        if preparation.encoded:
            X = self._encoder().features(RawTable(as_dense(X), levels or (None,) * X.shape[1]))
        elif levels is not None and (missing := np.argwhere(np.isnan(np.asarray(X)))).size:
            row, column = missing[0].tolist()
            name = repr(preparation.column_names[column]) if preparation.column_names else str(column + 1)
            raise InputError(
                f"{where(row)}, column {name}: found a missing value, of which the training data had none; "
                "trained with --encode-numbers minmax, a model takes the median of the column for it"
            )
        with self._whole():
            scaling = load_scaling(self.store) if preparation.scale == "minmax" else None
        return preparation.features(X, scaling)

    def _encoder(self) -> StoredEncoder:
        with self._whole():
            return load_encoder(self.store)

    def _whole(self) -> AbstractContextManager[None]:
        """Surround all reading from the run: errors for damaged objects say what to do.

        Raises
        ------
        Damaged
        """
        return needing_all_of(self.again)

    def task(self) -> Task:
        """Return the task that reads the decisions of the learner."""
        task, learner = self.preparation().task, _learner(self.learner, self.options)
        decides_otherwise = None if learner is None else capability(learner, DecidesOtherwise)
        return task if decides_otherwise is None else decides_otherwise.decision_task(task)

    def has_seen(self, source: Source) -> bool:
        """Return whether the model was trained on rows of this file, by its size and checksum."""
        if not self.trained_on or source.size != self.trained_on.get("size"):
            return False
        return source.identity() == dict(self.trained_on)

    def load(self) -> tuple[Partitions | None, Decider]:
        """Return the models, from this process's cache or the store."""
        with self._whole():
            model = load_decider(self.store, f"{MODELS}/{self.learner}", self.content_hash)
            return None if self.fitted is None else self.fitted.load(self.store), model

    def predictions(self) -> np.ndarray:
        """Return the predictions of the learner for each row of its stream.

        Raises
        ------
        Damaged
        InputError
            The run was not on a stream.
        """
        folder = Path(self.store.path).parent
        if self.predicted is None:
            raise InputError(
                f"{folder}: found a run of flows.batch, expected one of flows.online, which predicts a stream"
            )
        if "sha256" in self.predicted:
            with self._whole():
                return read_predictions(folder, self.predicted)
        # Runs that ended before there were digests of whole files.
        dtype = self.task().decisions.dtype
        return PredictionFile(str(folder / f"predictions/{self.learner}.{dtype}"), dtype).read()


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
    path = folder_of_run(folder)
    manifest, _ = read_manifest_or_copy(path)
    with reading(path / MANIFEST):
        return _open(folder, path, manifest, learner)


def _open(folder: str, path: Path, manifest: RecordView, learner: str | None) -> TrainedModel:
    """Find the model in the manifest of a run."""
    online = "online" in manifest["identity"]
    program = f"flows.{'online' if online else 'batch'}"
    again = shlex.join(["python", "-m", program, "--config", str(path / "run.toml"), "--run-dir", str(path)])
    if manifest["status"] != "finished":
        raise InputError(f"--model {folder}: found an unfinished run, expected a finished one; to finish it: {again}")
    identity, stages = manifest["identity"], manifest["stages"]
    params = manifest.get("settled", identity["params"])
    learners = params["learners"]
    learner = learner or learners[0]
    if learner not in learners:
        raise InputError(f"--learner {learner}: not in this run, which has {', '.join(learners)}")
    trained = stages["stream"]["result"]["learners"][learner] if online else stages[f"train:{learner}"]["result"]
    fitted = None
    if "cells" in trained:
        # A map that grew with its stream is the one of its end.
        grown = stages["stream"]["result"].get("grown", []) if online else []
        own = stages["stream"]["result"].get("redrawn", {}) if online else {}
        stored = (*([own[learner]] if learner in own else []), *grown, *stages["partition"]["result"]["fitted"])
        models = [Fitted.of(model, t=0) for model in stored]  # the model itself knows t
        fitted = next(model for model in models if model.label == trained["cells"])
    store = Store(path / "store.zarr")
    again = f"{again} --fresh" if online else again
    with needing_all_of(again):
        encoded = store.need(DATA).get("preparation", {}).get("encoded", False)
        for name in (DATA, *([ENCODING] if encoded else []), *([fitted.name] if fitted else []), f"{MODELS}/{learner}"):
            store.need(name)
    partitioner, data = params["partitioner"], identity["data"]
    csv = tuple((key, data[key]) for key in CSV_KEYS if key in data)
    return TrainedModel(
        store, learner, trained["content_hash"], fitted, data["label"], partitioner, again, csv,
        _loops(params, learner, fitted), params.get("methods", {}).get(learner, {}),
        TableRequest.from_json(data.get("table", {})), _reading(store, params, stages, learner, again),
        next(iter(data.get("sources", ())), {}),
        stages["stream"]["result"].get("predicted", {}).get(learner, {}) if online else None,
    )  # fmt: skip


def _reading(store: Store, params: RecordView, stages: RecordView, learner: str, command: str) -> Calibrator | None:
    """Return the calibrator of a learner of a run; None: its decisions are read as they are."""
    if f"calibrate:{learner}" in stages:
        content_hash = stages[f"calibrate:{learner}"]["result"]["reading_hash"]
        with needing_all_of(command):
            return load_model(store, f"{READINGS}/{learner}", Calibrator, content_hash)
    method = _learner(learner, params.get("methods", {}).get(learner, {}))
    return fit_calibrator(LOG_ODDS) if method is not None and method.log_odds else None


def _loops(params: RecordView, learner: str, fitted: Fitted | None) -> frozenset[str]:
    """Return the words of the loops that scoring with a learner needs; none for a method that is not known here."""
    records = params.get("methods", {})
    method = _learner(learner, records.get(learner, {}))
    words = frozenset[str]() if method is None else words_of_learner(method, scoring=True)
    if fitted is None or not is_known(fitted.map):
        return words
    with worded():
        map_of_run, _ = configured(fitted.map, records.get(fitted.map, {}))
    return words | words_of_map(map_of_run) if isinstance(map_of_run, Map) else words


def _learner(name: str, record: Mapping[str, object]) -> Learner | None:
    """Return a learner with the options of a run; None: it is not known here."""
    if name not in LEARNERS:
        return None
    with worded():
        return LEARNERS[name].of_record(record)[0]


def slices(model: TrainedModel, n: int, preparation: Preparation) -> Iterator[slice]:
    """Yield the slices in which `n` rows are decided: neither features, cells nor decisions are many bytes."""
    partitions, _ = model.load()
    outputs = model.task().decisions.outputs
    width = max(8 * min(preparation.n_columns, 4096), 4 * partitions.n_partitions if partitions else 0, 8 * outputs)
    step = max(1, READ_BYTES // width)
    for begin in range(0, n, step):
        yield slice(begin, min(begin + step, n))


def decisions(
    model: TrainedModel, X: Rows, preparation: Preparation, where: Callable[[int], str], n_threads: int | None = 1
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield rows and their decision values, a bounded number of bytes at a time.

    Parameters
    ----------
    X : float64 ndarray or csr_array
        Features that :meth:`~pipeline.rows.prepared.Preparation.features` returns.
    where : callable
        Function from a row of X to its name for people.
    n_threads : int, optional
        Most threads that find cells; None: all usable cores.

    Yields
    ------
    slice, ndarray
        Decision values, float64, of shape (n, K).
    """
    partitions, predictor = model.load()
    X = X if preparation.dense else as_csr(X)
    for rows in slices(model, X.shape[0], preparation):
        features = partitions.cells(X[rows], n_threads=n_threads) if partitions else as_rows(X[rows])
        if partitions is None:
            check_values(model.learner, features, where, preparation.column_names, rows.start, kernel_in(predictor))
        yield rows, predictor.decision_function(features)
