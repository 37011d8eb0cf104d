"""A throwaway metric: what a stranger would write, in a file of its own. An entry point names the class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ikmap.tasks import Criterion, Metric, Sentences


class Within(Criterion):
    """Share of the predictions that are off by at most a tenth of the target."""

    metric: ClassVar[Metric] = Metric("within_tenth", "share", Sentences.about("Share within a tenth of the target"))
    tasks: ClassVar[frozenset[str]] = frozenset({"regression"})

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return np.abs(target - predicted) <= 0.1 * np.abs(target)
