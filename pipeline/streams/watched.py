"""A learner on a stream together with the detector that watches its losses: one state, with one checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ikmap.drift import DETECTORS, Detector
from ikmap.tasks import Task
from ikmap.tasks.criteria import drift_losses

PREFIX = "drift."


class Watched:
    """A state whose losses are watched; whatever it is asked for beside that, the learner's state answers.

    Parameters
    ----------
    state : state of a StreamLearner
    kind : str
        Of :data:`ikmap.drift.DETECTORS`.
    delta : float or None
    """

    def __init__(self, state: Any, kind: str, delta: float | None) -> None:
        self._state, self._kind, self._delta = state, kind, delta
        self._detector: Detector = DETECTORS[kind](delta)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def checkpoint(self) -> dict[str, np.ndarray]:
        """That of the learner, and that of the detector."""
        own = {PREFIX + name: array for name, array in self._detector.checkpoint().items()}
        return {**self._state.checkpoint(), **own}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """The state of which :meth:`checkpoint` gave these arrays."""
        of_state = {name: array for name, array in arrays.items() if not name.startswith(PREFIX)}
        found = type(self)(self._state.restore(of_state), self._kind, self._delta)
        found._detector.restore(
            {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        )
        return found

    def watch(self, losses: np.ndarray) -> np.ndarray:
        """Positions of the rows with whose losses an alarm was raised."""
        return self._detector.update(losses)


def alarms_of(state: Any, task: Task, targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Positions of rows that raise an alarm, among some whose labels were shown; nothing where nobody watches."""
    if not isinstance(state, Watched) or not targets.size:
        return np.zeros(0, dtype=np.int64)
    return state.watch(drift_losses(task, targets, predicted))
