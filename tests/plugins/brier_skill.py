"""The Brier skill score of two classes: how much better probabilities are than the share of the second class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ikmap.tasks import Metric, Sentences
from ikmap.tasks.classification.criteria import ByProbabilities
from ikmap.tasks.criteria import ComparesRows, OfSums


class BrierSkill(ByProbabilities, ComparesRows, OfSums):
    metric: ClassVar[Metric] = Metric("brier_skill", "number", Sentences.about("Brier skill score"))
    tasks: ClassVar[frozenset[str]] = frozenset({"classification"})

    def terms(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        own = target == 1
        return np.stack([(self.probabilities(target, predicted)[:, 1] - own) ** 2, own], axis=1)

    def value(self, sums: np.ndarray, rows: int) -> float:
        return float(1 - sums[0] / (sums[1] * (1 - sums[1] / rows))) if 0 < sums[1] < rows else 0.0

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        terms = self.terms(target, predicted)  # of a fold
        base = terms[:, 1].mean()
        return 1 - terms[:, 0] / (base * (1 - base) or 1.0)
