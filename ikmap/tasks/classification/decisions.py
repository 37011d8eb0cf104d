"""The meaning of the decision values of a classifier: classes, scores and probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ikmap.json_values import Label
from ikmap.tasks.capabilities import Calibration
from ikmap.tasks.classification.codec import label_type, same_type
from ikmap.tasks.task import ColumnType, Decisions


@dataclass(frozen=True)
class ClassDecisions(Decisions):
    """Decisions of one column for two classes, at least 0 for the second, or of one column for each of more classes.

    With more classes the largest column wins, and in a tie the lowest class number.

    Attributes
    ----------
    labels : list of labels
        Labels by class number.
    calibration : Calibration or None
        Calibration of the learner, or None to take decisions as they are.
    """

    dtype: ClassVar[str] = "int32"

    labels: list[Label]
    calibration: Calibration | None = field(default=None, compare=False, repr=False)

    @property
    def outputs(self) -> int:
        return len(self.labels) if len(self.labels) > 2 else 1

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        return {
            "prediction": label_type(self.labels),
            "score": "float64",
            **dict.fromkeys(self._probability_columns, "float64"),
        }

    @property
    def _probability_columns(self) -> list[str]:
        has_probabilities = self.calibration is not None and self.calibration.has_probabilities
        return [f"probability_{label}" for label in self.labels] if has_probabilities else []

    def predict(self, decision: np.ndarray) -> np.ndarray:
        """Return class numbers."""
        from ikmap.learners.linear_model import decision_to_index

        if self.calibration is not None and decision.shape[1] == 1:
            return (decision[:, 0] >= self.calibration.threshold).astype(np.int32)
        return decision_to_index(decision)

    def values(self, decision: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return the class, its decision value (with two classes positive for the second one), and probabilities."""
        index = self.predict(decision)
        score = decision[:, 0] if decision.shape[1] == 1 else decision[np.arange(len(decision)), index]
        probability = self.probabilities(decision)
        each = {} if probability is None else dict(zip(self._probability_columns, probability.T, strict=True))
        return {"prediction": np.array(same_type(self.labels))[index], "score": score, **each}

    def probabilities(self, decision: np.ndarray) -> np.ndarray | None:
        if self.calibration is None or not self.calibration.has_probabilities:
            return None
        return self.calibration.probabilities(decision)
