"""The meaning of the decision values of a regression: they are the predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ikmap.tasks.task import Decisions

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class NumberDecisions(Decisions):
    """Decisions of one column, the predicted number."""

    dtype: ClassVar[str] = "float64"

    def predict(self, decision: np.ndarray) -> np.ndarray:
        return decision[:, 0]
