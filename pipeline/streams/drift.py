"""A detector of drift that watches the losses of a learner along its stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ikmap.drift import DETECTORS
from ikmap.methods.learner import State
from ikmap.tasks import Task
from ikmap.tasks.criteria import drift_losses
from pipeline.record_types import LearnRecord
from pipeline.rows.stream_data import Stream
from pipeline.streams.participant import Block, Participant


class DriftWatch(Participant):
    """The losses of a learner, watched by a detector in the order in which labels are shown.

    An alarm is dated to the row whose loss raised it; where labels come late, to the rows that had been predicted by
    then.

    Parameters
    ----------
    task : Task
        Task that reads the decisions of the learner.
    kind : str
        Name of a detector of :data:`ikmap.drift.DETECTORS`.
    delta : float or None
    """

    prefix: ClassVar[str] = "drift."

    def __init__(self, task: Task, kind: str, delta: float | None) -> None:
        self._task, self._detector = task, DETECTORS[kind](delta)
        self._drifts: list[int] = []

    def begin_chunk(self, stream: Stream, k: int) -> None:
        self._drifts = []

    def rows_learned(self, learner: State, block: Block) -> None:
        for answers in block.answers:
            losses = drift_losses(self._task, answers.targets, answers.predicted)
            for at in self._detector.update(losses).tolist():
                self._drifts.append(block.first + (len(block) if answers.late else at + 1))
                block.alarmed = True

    def end_chunk(self) -> LearnRecord:
        return {"drifts": self._drifts}

    def checkpoint(self) -> Mapping[str, np.ndarray]:
        return self._detector.checkpoint()

    def restore(self, arrays: Mapping[str, np.ndarray], stream: Stream, chunks: int) -> None:
        self._detector.restore(arrays)
