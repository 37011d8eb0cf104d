"""Verify that the files which records promise are there."""

from __future__ import annotations

from typing import Literal

from pipeline.record_types import TaskRecord
from pipeline.storage.predictions import digest_of_predictions
from pipeline.storage.rundir import RunDirectory

PROMISES: tuple[Literal["predicted", "decided"], ...] = ("predicted", "decided")
"""Fields of a record that promise predictions."""


def is_verified(run: RunDirectory, record: TaskRecord) -> bool:
    """Return whether the files that a record promises are there. Damage inside them is noticed when they are read."""
    promises = [record[key] for key in PROMISES if key in record]
    return all(map(run.store.holds, record.get("outputs", ()))) and all(
        digest_of_predictions(run.path, promise) == promise["sha256"] for promise in promises
    )


def stage_is_verified(run: RunDirectory, name: str) -> bool:
    """Return whether all outputs of a finished stage and its tasks are still there, and the records of the tasks."""
    finished = run.stage(name)
    if finished is None:
        return False
    records = run.records(name).values()
    # A record may be gone together with the output that it promises.
    return (
        len(records) >= finished.get("records", 0)
        and all(map(run.store.holds, finished.get("outputs", ())))
        and all(record is not None and (record.get("temporary") or is_verified(run, record)) for record in records)
    )
