"""Records of finished tasks: each promises that the outputs of its task are on the disk, and complete."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

from pipeline.errors import Damaged
from pipeline.record_types import TaskRecord
from pipeline.storage.durable import flush, read_json, taken, write_json
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.verify import is_verified

FLUSH_SECONDS = 1.0
"""Seconds between flushes of records, several at a time: one that is lost with the power costs only its task."""


class Records:
    """The records of one stage.

    Attributes
    ----------
    unflushed : set of str
        Files and directories that are still to be flushed, before the stage is done.
    """

    def __init__(self, run: RunDirectory, stage: str, say: Callable[[str], None]) -> None:
        self._run, self._stage, self._say = run, stage, say
        self.unflushed: set[str] = set()
        self._flushed = time.monotonic()

    def done(self, task: str) -> TaskRecord | None:
        """Return the record of a task, if there is one and the files that it promises are there."""
        try:
            record = cast("TaskRecord", read_json(self._run.task_record(self._stage, task)))
        except FileNotFoundError:
            return None
        except Damaged as damaged:
            self._say(f"{damaged}; the task is done again")
            return None
        return record if is_verified(self._run, record) else None

    def keep(self, task: str, record: TaskRecord) -> None:
        """Write the record of a task, once all files that this process has written before are on the disk."""
        flush(taken())
        path = self._run.task_record(self._stage, task)
        write_json(path, record, content=False, entry=False)
        self.unflushed |= {str(path), str(path.parent)}
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            flush(self.unflushed)
            self.unflushed, self._flushed = set(), time.monotonic()
