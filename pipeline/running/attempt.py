"""Keep what was spent with a checkpoint, so that records count all attempts at a task, also those that were killed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import numpy as np

from pipeline.record_types import TaskRecord
from pipeline.running.measured import peak_rss_bytes

SPENT = "spent_so_far"
"""Name of the array of a checkpoint that says what was spent up to it."""


class Attempt:
    """Clock and counts of a task that goes on from the checkpoints of attempts that were killed.

    Attributes
    ----------
    before : TaskRecord
        What earlier attempts have spent up to the checkpoint that this one goes on from.
    """

    def __init__(self) -> None:
        # Loads Numba, which the caller of tasks need not have.
        from pipeline.running.working_clock import working_clock

        self._clock, self._began = working_clock, working_clock()
        self.before: TaskRecord = {}

    def spent(self, bytes_read: int) -> TaskRecord:
        """Return what all attempts have spent so far, where this one has read so many bytes."""
        return {
            "seconds": self.before.get("seconds", 0.0) + self._clock() - self._began,
            "bytes_read": self.before.get("bytes_read", 0) + bytes_read,
            "peak_rss_bytes": max(self.before.get("peak_rss_bytes", 0), peak_rss_bytes()),
        }


def with_spent(arrays: Mapping[str, np.ndarray], spent: TaskRecord) -> dict[str, np.ndarray]:
    """Return the arrays of a checkpoint with what was spent up to it."""
    return {**arrays, SPENT: np.array(json.dumps(spent))}


def without_spent(arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], TaskRecord]:
    """Return the arrays to which :func:`with_spent` has added, and what: nothing in files of earlier versions."""
    left = dict(arrays)
    spent = left.pop(SPENT, None)
    return left, {} if spent is None else cast("TaskRecord", json.loads(spent.item()))
