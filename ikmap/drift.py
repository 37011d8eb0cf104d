"""Detectors of drift, which watch the losses of a learner along a stream and raise an alarm when they have risen.

`ADWIN` of Bifet and Gavalda, Learning from time-changing data with adaptive windowing (2007), keeps a window of the
latest losses and cuts off its older part where that differs from the newer one by more than chance allows; memory is
logarithmic in the window. `PageHinkley` adds up how far losses lie above their mean. Both take losses in [0, 1], give
the same bits in any pieces, and are plain arrays in a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ikmap._drift_loops import BUCKETS, LEVELS, adwin_pass, page_hinkley_pass
from ikmap.arrays import Floats

THRESHOLD, LEAST = 50.0, 30
"""Threshold of the Page-Hinkley test for the sum of losses above their mean, and least rows before an alarm."""


class Detector:
    """Base of the detectors, each with a meaning of its own for `delta`."""

    usual: float

    def __init__(self, delta: float | None = None) -> None:
        self.delta = self.usual if delta is None else float(delta)
        self._arrays = self._start()

    def _start(self) -> dict[str, np.ndarray]:
        raise NotImplementedError

    def _take(self, losses: np.ndarray, alarms: np.ndarray) -> None:
        raise NotImplementedError

    def update(self, losses: Floats) -> np.ndarray:
        """Take in losses, shape (n,), in their order; return the positions of those that raised an alarm."""
        alarms = np.zeros(losses.size, dtype=np.uint8)
        self._take(np.ascontiguousarray(losses, dtype=np.float64), alarms)
        return np.flatnonzero(alarms)

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return copies of the arrays of the state."""
        return {name: array.copy() for name, array in self._arrays.items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a :meth:`checkpoint`."""
        self._arrays = {name: np.array(arrays[name]) for name in self._arrays}


class ADWIN(Detector):
    """Adaptive windows, checked after every 32 losses; `delta` is about the probability of a false alarm."""

    usual = 0.002

    def _start(self) -> dict[str, np.ndarray]:
        shape = (LEVELS, BUCKETS + 2)
        counts = np.zeros(LEVELS, dtype=np.int64)
        return {"totals": np.zeros(shape), "spreads": np.zeros(shape), "counts": counts, "numbers": np.zeros(4)}

    def _take(self, losses: Floats, alarms: np.ndarray) -> None:
        of = self._arrays
        adwin_pass(losses, self.delta, of["totals"], of["spreads"], of["counts"], of["numbers"], alarms)

    @property
    def width(self) -> int:
        """Number of losses in the window."""
        return int(self._arrays["numbers"][0])


class PageHinkley(Detector):
    """The Page-Hinkley test: sums losses beyond their mean by more than `delta`, since the least sum."""

    usual = 0.005

    def _start(self) -> dict[str, np.ndarray]:
        return {"numbers": np.zeros(4)}

    def _take(self, losses: Floats, alarms: np.ndarray) -> None:
        page_hinkley_pass(losses, self.delta, THRESHOLD, LEAST, self._arrays["numbers"], alarms)


DETECTORS: dict[str, type[Detector]] = {"adwin": ADWIN, "page-hinkley": PageHinkley}
