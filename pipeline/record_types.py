"""Types of the JSON records that a run keeps: what tasks return, what stages leave, what the manifest says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from ikmap.json_values import Json, JsonObject

if TYPE_CHECKING:
    from ikmap.learners.dual.certificate import SVMCertificate
    from ikmap.methods.values import Value

type Record = dict[str, Any]
"""A JSON object whose keys its writer decides: the record of a task, the result of a stage, a document of Zarr."""
type RecordView = Mapping[str, Any]
"""The same, to read only."""
type Result = Mapping[str, object]
"""The result of a stage, whichever stage it is."""
type Alert = tuple[int, int | str, float, float | None, int, str, *tuple[Json, ...]]
"""An alert: place in the stream from 0, number of the row, score above the threshold, threshold, block from 0, time,
and the id of the row if it has one."""


class WorkerBusy(TypedDict):
    """The time that one worker was at work in a stage."""

    name: str
    seconds_busy: float


class Summary(TypedDict):
    """A stage in ``metrics.json`` and in the manifest: sums over its tasks."""

    name: str
    started: float
    seconds: float
    rows: int
    rows_per_second: float
    bytes_read: int
    bytes_written: int
    peak_rss_bytes: int
    tasks: int
    tasks_skipped: int
    workers: list[WorkerBusy]
    seconds_before: NotRequired[float]


class Promise(TypedDict):
    """Predictions that a task has written: the file, where they stand in it, and their digest."""

    file: str
    dtype: str
    first: int
    rows: int
    sha256: str


class TaskProgress(TypedDict, total=False):
    """A finished task as progress shows it (:meth:`pipeline.monitoring.events.Events.task_done`)."""

    rows: int
    bytes_read: int
    bytes_written: int
    total_tasks: int
    compile_seconds: float
    skipped: bool
    note: str
    left: float


class StageProgress(TypedDict, total=False):
    """A finished stage as progress shows it (:meth:`pipeline.monitoring.events.Events.stage_finished`)."""

    seconds: float
    rows: int
    rows_per_second: float
    bytes_read: int
    bytes_written: int
    tasks: int
    tasks_skipped: int
    seconds_before: float


class TaskRecord(TypedDict, total=False):
    """The record of a task, of any stage.

    ``outputs`` names what the task wrote; ``temporary`` outputs serve the rest of the stage only. The last six fields
    are measured (:func:`pipeline.running.measured.measured`); seconds and peak memory include those that a task
    has noted of earlier attempts (:mod:`pipeline.running.attempt`).
    """

    rows: int
    bytes_read: int
    bytes_written: int
    outputs: list[str]
    temporary: bool
    predicted: Promise
    decided: Promise
    busy: dict[str, float]
    compile_seconds: float
    compiled: list[str]
    seconds: float
    peak_rss_bytes: int
    worker: str


class TargetsRecord(TaskRecord):
    """The record of a task that counts the training targets: of each class, or of numbers."""

    counted: JsonObject


# Ingest


class PartRecord(TypedDict):
    """A part of the rows that ingest has stored: what its rows turned out to be."""

    name: str
    rows: int
    columns: int
    nnz: int
    found: JsonObject
    missing: NotRequired[int]
    weight: NotRequired[float]
    bytes_written: NotRequired[int]


class PartName(TypedDict):
    """A stored part of the rows, by name."""

    name: str
    rows: int


class SideRecord(TypedDict):
    """Training or test rows, as an attribute of the store describes them: parts, and how many rows of each are meant.

    ``split`` has the fields of :class:`pipeline.rows.split.Split`, ``divided`` those of a
    :class:`pipeline.rows.fitted_split.FittedSplit`.
    """

    parts: list[PartName]
    counts: list[int]
    split: Record
    url: NotRequired[str]
    learned: NotRequired[bool]
    divided: NotRequired[JsonObject]


class PartsRecord(TaskRecord):
    """The record of a task that stores parts of the rows."""

    parts: list[PartRecord]


class CountsRecord(TaskRecord):
    """The number of training rows of each part of a file."""

    counts: list[int]


class SplitRecord(CountsRecord):
    """The record of the task that finds out which rows are training rows, by a column or by their targets."""

    divided: JsonObject


class FirstRowsRecord(TaskRecord):
    """Fields of ``data`` in ``metrics.json`` that describe the first training rows."""

    fields: JsonObject


class LearnedRecord(TaskRecord):
    """The number of training rows of a part that the task learns from."""

    learned: int


class RangesRecord(TaskRecord):
    """Lowest and highest value of each column."""

    low: list[float]
    high: list[float]


class CountedRecord(TaskRecord):
    """The number of training rows of a table that a task has counted."""

    counted: int


class IngestResult(TypedDict):
    """The result of the stage that takes in rows, without what it says of the task and of a table."""

    rows_train: int
    rows_test: int
    columns: int
    nnz: int


class ShuffleResult(TypedDict):
    """The result of the stage that makes a stream of the rows."""

    rows_initial: int
    chunk_rows: int
    rows_stream: NotRequired[int]
    block_rows: NotRequired[int]
    chunks: NotRequired[int]
    source: NotRequired[str]


# Cross-validation


class TrialRecord(TaskRecord):
    """The record of a task that scores values in cross-validation.

    Each of ``scores`` is a learner, a value, and for each C the packed scores of the rows held out.
    """

    held_out: int
    scores: list[tuple[str, Value, list[str]]]
    swept: NotRequired[Record]
    cpu_seconds: NotRequired[float]
    at: NotRequired[float]


class BudgetResult(TypedDict):
    """The use that a search made of its budget."""

    seconds: float
    spent: float
    reached: bool
    folds: dict[str, int]
    not_tried: JsonObject


class TunedResult(TypedDict):
    """The choice of cross-validation for a learner on rows, without the metric of the values."""

    parameter: str
    values: list[Value]
    chosen: Value
    folds_tried: NotRequired[list[int]]


class RaceRound(TypedDict):
    """Candidates of a learner after a round of a race: how many were compared, and which are left or dropped."""

    folds: int
    rows: int
    best: JsonObject
    candidates: int
    candidates_left: int
    left: list[Value]
    dropped: list[JsonObject]


class RaceResult(TypedDict):
    """The result of a race: the odds at which it leaves a candidate out, and the rounds of each learner."""

    odds: float
    rounds: dict[str, list[RaceRound]]


class SelectResult(TypedDict):
    """The result of cross-validation, without the metrics of what was tried.

    The values of the map's parameter stand under its name, of which psi is one.
    """

    rows: int
    folds: int
    search: str
    chosen: dict[str, Value]
    by: NotRequired[str | dict[str, str]]
    parameter: NotRequired[str]
    psi: NotRequired[list[int]]
    partitionings: NotRequired[int]
    folds_tried: NotRequired[dict[str, list[int]]]
    C: NotRequired[list[float]]
    chosen_C: NotRequired[dict[str, float]]
    tuned: NotRequired[dict[str, TunedResult]]
    swept: NotRequired[dict[str, Record]]
    edges: NotRequired[dict[str, list[JsonObject]]]
    race: NotRequired[RaceResult]
    budget: NotRequired[BudgetResult]


# Maps and cells


class FittedRecord(TaskRecord):
    """The record of a task that fits and stores a map."""

    most_cells: int
    t: int
    content_hash: str


class PartitionResult(TypedDict):
    """Fitted maps: the fields of :class:`pipeline.storage.fitted.Fitted` of each."""

    fitted: list[Record]


class GPURecord(TypedDict):
    """The GPU that a task used, and how its cells compared with the processor's."""

    device: JsonObject
    how: list[str]
    cells_checked: int
    mismatches: int


class GPUResult(TypedDict):
    """The entry ``gpu`` of ``metrics.json``."""

    devices: list[JsonObject]
    how: list[str]
    rows: int
    rows_of_processors: int
    cells_checked: int
    mismatches: int


class GPUTask(TaskRecord):
    """The record of a task that maps rows to cells, perhaps on a GPU."""

    gpu: NotRequired[GPURecord]


class UsedGPU(TypedDict, total=False):
    """An object that has the entry ``gpu`` only if a GPU was used."""

    gpu: GPUResult


class CellsRecord(GPUTask):
    """The record of a task that maps training or test rows to cells."""

    side: str
    map: str
    without_cells: NotRequired[int]
    census: Json


class CellsResult(UsedGPU):
    """The result of the stage that maps rows to cells."""

    counted: JsonObject


# Learners


class CalibrationRecord(TaskRecord):
    """Decision values of one fold, counted; None where the other folds lack a class, or cannot be divided again.

    ``too_few`` says why they cannot be divided.
    """

    evidence: Json
    too_few: NotRequired[str]


class CalibrationResult(TypedDict):
    """The calibration of a learner."""

    reading_hash: str
    calibration: Json
    decision_threshold: NotRequired[Json]


class ModelRecord(TaskRecord):
    """The record of a task that stores a model."""

    content_hash: str


class TrainedRecord(ModelRecord):
    """The record of a task that trains and stores a model; ``learner`` is the learner's summary."""

    learner: JsonObject


class SolutionRecord(TaskRecord):
    """The record of a task that solves linear problems; the one that solves all of them stores the model too."""

    certificate: SVMCertificate
    content_hash: NotRequired[str]


class TrainResult(TypedDict):
    """The result of training a learner, without the value of its map and its summary."""

    content_hash: str
    converged: NotRequired[bool]
    duality_gap: NotRequired[float]


class EvaluationRecord(TaskRecord):
    """Predictions of some test rows, added up: metrics, and weighted sums."""

    tally: Json
    weighed: NotRequired[JsonObject]


class IdsRecord(TaskRecord):
    """Ids of test rows, by their numbers."""

    ids: list[tuple[int, float | str | None]]


class ImportanceRecord(TaskRecord):
    """The loss of quality of predictions as each of some columns is shuffled."""

    columns: list[JsonObject]


class DependenceRecord(TaskRecord):
    """Partial dependence of one column."""

    dependence: JsonObject


class ImportanceResult(TypedDict):
    """The importance of each column, and the partial dependence of the first ones."""

    importance: list[JsonObject]
    importance_rows: int
    partial_dependence: list[JsonObject]


class LabelledRecord(TypedDict):
    """Rows whose labels came after the last chunk of a stream: how many, the sum of their scores, and metrics."""

    labelled: int
    scored: float
    tally: Json


class MapRecord(GPUTask):
    """The record of a task that maps a chunk of a stream: seconds by map."""

    map_seconds: dict[str, float]


class GrownRecord(ModelRecord):
    """The record of a task that stores a map which has grown: its most cells, and its cells before and after."""

    most_cells: int
    cells: list[int]


class LearnRecord(TaskRecord, total=False):
    """The record of a task in which a learner goes through a chunk of a stream, or through the initial rows.

    Each of ``blocks`` has its rows, the sum of their scores, seconds of predicting and of learning, support points, and
    the learner's traces.
    """

    train_seconds: float
    n_support: int
    blocks: list[list[Any]]
    labelled: list[int]
    alerts: Sequence[Alert]
    drifts: list[int]
    redraws: list[int]
    map_seconds_of_blocks: list[float]
    tally: Json


class EndRecord(TaskRecord, total=False):
    """Fields of a :class:`SavedRecord` that only some learners have: late labels, and a map of its own."""

    at_end: LabelledRecord
    redrawn: Record


class SavedRecord(EndRecord):
    """The record of a task that saves a learner at the end of its stream."""

    content_hash: str


class GrownResult(TypedDict, total=False):
    """Maps that have grown with a stream, and their cells before and after."""

    grown: list[Record]
    cells_grown: dict[str, list[int]]


class OwnMapsResult(TypedDict, total=False):
    """Maps that learners have of their own at the end of a stream, by learner."""

    redrawn: dict[str, Record]


class LateState(TypedDict):
    """The state of a file of late labels: the place reached, whether labels are text, and counts of labels.

    If the last labels of the initial rows stand further on, ``initial_end`` is the place behind them. ``unquoted``
    tells whether quotes around labels are left out.
    """

    offset: int
    line: int
    text: bool | None
    counts: dict[str, int]
    initial_end: NotRequired[int]
    unquoted: NotRequired[bool]


class LabelsResult(TypedDict, total=False):
    """Labels that came after their rows."""

    labels: JsonObject


class AlertsResult(TypedDict, total=False):
    """Alerts that were sent while a stream ran."""

    alerts: JsonObject


class StreamResult(UsedGPU, GrownResult, OwnMapsResult, AlertsResult, LabelsResult):
    """The result of the stream."""

    rows_stream: int
    chunks: int
    nnz: int
    predicted: dict[str, Promise]
    learners: dict[str, JsonObject]


# Scoring and studies


class ScoredRecord(TaskRecord):
    """The record of a task that has scored a piece of new data."""

    tally: Json
    rows_labelled: int
    sha256: str


class StudyRecord(TaskRecord):
    """The record of a part of a study."""

    result: Record


# The run


class FinishedStage(TypedDict):
    """A finished stage in the manifest.

    `records` is the number of records of tasks, which need not be the number of tasks in its summary: rows that another
    run has read come without records. Earlier versions have not written it. `obsolete` names the groups of the store
    that only this stage needed.
    """

    record: Summary
    result: Record
    outputs: NotRequired[list[str]]
    records: NotRequired[int]
    obsolete: NotRequired[list[str]]


class CandidateRecord(TaskRecord):
    """The record of a task that tries a candidate of a race: packed decisions, or why there are none."""

    failed: NotRequired[str]
    losses: NotRequired[list[list[float]]]
    decisions: NotRequired[str]
    shape: NotRequired[list[int]]
    fit_seconds: NotRequired[float]
    predict_seconds: NotRequired[float]
    trial_seconds: NotRequired[float]
    rounds: NotRequired[int]


class LeaderboardEntry(TypedDict):
    """A line of the leaderboard of a race: a model, how well it did, and what to type to get it."""

    name: str
    options: str
    loss: float | None
    error: float | None
    folds: int
    fit_seconds: float | None
    row_seconds: float | None
    note: str
    weights: dict[str, float]


class ChooseResult(TypedDict):
    """The result of the race that chooses a model: options of the run by methods, and how all candidates did."""

    learner: str
    partitioner: str
    scale: str
    options: dict[str, JsonObject]
    name: str
    loss: str
    rows: int
    folds: int
    budget: float
    spent: float
    by_budget: bool
    leaderboard: list[LeaderboardEntry]


class Session(TypedDict):
    """Seconds that processes have spent on something, and when the last one began, if it was stopped."""

    seconds: float
    session: NotRequired[float]


class Begun(Session):
    """The begin of a stage, in seconds of the run, and the time that was spent on it."""

    started: float


class Manifest(Session):
    """The manifest of a run."""

    schema_version: int
    id: str
    status: str
    started: str
    identity: JsonObject
    stages: dict[str, FinishedStage]
    start_seconds: NotRequired[float]
    compile_seconds: NotRequired[float]
    settled: NotRequired[JsonObject]
    chosen_toml: NotRequired[str]
    chosen_command: NotRequired[str]
    stop_seconds: NotRequired[float]
