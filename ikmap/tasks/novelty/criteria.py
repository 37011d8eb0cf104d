"""The main metric of novelty, which does not rank learners."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.tasks.criteria import Criterion
from ikmap.tasks.metric import Metric
from ikmap.tasks.novelty.kind import Novelty
from ikmap.tasks.novelty.presenter import ALERT_RATE

if TYPE_CHECKING:
    import numpy as np


class AlertRate(Criterion):
    """Share of the rows above the threshold."""

    metric: ClassVar[Metric] = ALERT_RATE
    tasks: ClassVar[frozenset[str]] = frozenset({Novelty.name})

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Return a mask of the novel rows."""
        return predicted > 0
