"""A learner on a stream together with the detector that watches its losses: one state, with one checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from ikmap.drift import DETECTORS, Detector
from ikmap.methods.learner import State
from ikmap.tasks import Task
from ikmap.tasks.criteria import drift_losses

PREFIX = "drift."


class Watched:
    """A state whose losses are watched; all other attributes are those of the learner's state.

    Parameters
    ----------
    state : state of a StreamLearner
    kind : str
        Name of a detector of :data:`ikmap.drift.DETECTORS`.
    delta : float or None
    """

    def __init__(self, state: State, kind: str, delta: float | None) -> None:
        self._state, self._kind, self._delta = state, kind, delta
        self._detector: Detector = DETECTORS[kind](delta)

    def __getattr__(self, name: str) -> object:
        return getattr(self._state, name)

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return the checkpoint of the learner together with that of the detector."""
        own = {PREFIX + name: array for name, array in self._detector.checkpoint().items()}
        return {**self._state.checkpoint(), **own}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state whose checkpoint has these arrays."""
        of_state = {name: array for name, array in arrays.items() if not name.startswith(PREFIX)}
        restored = type(self)(self._state.restore(of_state), self._kind, self._delta)
        restored._detector.restore(
            {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        )
        return restored

    def watch(self, losses: np.ndarray) -> np.ndarray:
        """Return the positions of the rows whose losses have raised an alarm."""
        return self._detector.update(losses)


def alarms_of(state: object, task: Task, targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the positions of rows that raise an alarm, among rows with labels; none if the losses are not watched."""
    if not isinstance(state, Watched) or not targets.size:
        return np.zeros(0, dtype=np.int64)
    return state.watch(drift_losses(task, targets, predicted))
