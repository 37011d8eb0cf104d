"""Whether what records promise is there."""

from __future__ import annotations

from pipeline.record_types import RecordView
from pipeline.storage.predictions import digest_of_predictions
from pipeline.storage.rundir import RunDirectory


def is_verified(run: RunDirectory, record: RecordView) -> bool:
    """Whether the files that a record promises are there. Damage inside them is noticed when they are read."""
    promises = [record[what] for what in ("predicted", "decided") if what in record]
    return all(map(run.store.holds, record.get("outputs", ()))) and all(
        digest_of_predictions(run.path, promise) == promise["sha256"] for promise in promises
    )


def stage_is_verified(run: RunDirectory, name: str) -> bool:
    """Whether everything that a finished stage and its tasks wrote is still there, and so are their records."""
    finished = run.stage(name)
    outputs = finished.get("outputs", ()) if finished else ()
    return all(map(run.store.holds, outputs)) and all(
        record is not None and (record.get("temporary") or is_verified(run, record))
        for record in run.records(name).values()
    )
