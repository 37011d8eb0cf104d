"""Types of the JSON records that a run keeps: what tasks return, what stages leave, what the manifest says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from ikmap.json_values import Json

type Record = dict[str, Any]
"""A JSON object whose keys its writer decides: the record of a task, the result of a stage, a document of Zarr."""
type RecordView = Mapping[str, Any]
"""The same, to read only."""


class WorkerBusy(TypedDict):
    """How long one worker was at work in a stage."""

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


class FinishedStage(TypedDict):
    """A finished stage in the manifest."""

    record: Summary
    result: Record
    outputs: NotRequired[list[str]]


class Session(TypedDict):
    """Seconds that processes have spent on something, and when the last one began, if it was stopped."""

    seconds: float
    session: NotRequired[float]


class Begun(Session):
    """When a stage was begun, in seconds of the run, and what was spent on it."""

    started: float


class Manifest(Session):
    """The manifest of a run."""

    schema_version: int
    id: str
    status: str
    started: str
    identity: dict[str, Json]
    stages: dict[str, FinishedStage]
    start_seconds: NotRequired[float]
    compile_seconds: NotRequired[float]
    settled: NotRequired[Record]
    stop_seconds: NotRequired[float]
