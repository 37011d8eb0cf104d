"""A detector of drift that watches the losses of a learner along its stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ikmap.drift import DETECTORS
from ikmap.tasks.criteria import drift_losses
from pipeline.record_types import LearnRecord
from pipeline.streams.participant import Participant, Standing, StreamBlock


class DriftWatch(Participant):
    """The losses of a learner, watched by a detector in the order in which labels are shown.

    An alarm is dated to the row whose loss raised it; where labels come late, to the rows that had been predicted by
    then.

    Parameters
    ----------
    kind : str
        Name of a detector of :data:`ikmap.drift.DETECTORS`.
    delta : float or None
    """

    prefix: ClassVar[str] = "drift."

    def __init__(self, kind: str, delta: float | None) -> None:
        self._detector = DETECTORS[kind](delta)

    def begin_chunk(self, standing: Standing, k: int) -> None:
        self._drifts: list[int] = []

    def rows_learned(self, standing: Standing, block: StreamBlock) -> None:
        for answers in block.answers:
            losses = drift_losses(standing.task, answers.targets, answers.predicted)
            for at in self._detector.update(losses).tolist():
                self._drifts.append(block.first + (len(block) if answers.late else at + 1))
                block.alarmed = True

    def end_chunk(self) -> LearnRecord:
        return {"drifts": self._drifts}

    def checkpoint(self) -> Mapping[str, np.ndarray]:
        return self._detector.checkpoint()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._detector.restore(arrays)
