"""The criterion of a search over regressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.tasks.criteria import Criterion
from ikmap.tasks.metric import Metric
from ikmap.tasks.regression.kind import Regression
from ikmap.tasks.regression.presenter import R2

if TYPE_CHECKING:
    import numpy as np


class ExplainedVariance(Criterion):
    """R2, the share of the variance of the labels that predictions explain."""

    metric: ClassVar[Metric] = R2
    tasks: ClassVar[frozenset[str]] = frozenset({Regression.name})

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Return squared errors in units of the variance of the labels, below 0."""
        from ikmap.tasks.regression.codec import NumberCodec

        assert isinstance(self.task.codec, NumberCodec)
        return -(((target - predicted) / self.task.codec.deviation) ** 2)

    def score[N: (float, np.ndarray)](self, total: N, rows: N) -> N:
        return 1 + total / rows
