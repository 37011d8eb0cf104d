"""A fitted classifier on the features of a dense map: a linear SVM on approximate features, for example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import Label
from ikmap.learners.linear_model import LinearModel, decision_to_index
from ikmap.learners.rows import check_rows, n_rows
from ikmap.model import Model
from ikmap.rows import Rows

BLOCK = 1024
"""Rows whose features are in memory at a time."""


class FeatureMap(Protocol):
    """A map of rows to dense features."""

    def transform(self, X: Rows, n_threads: int | None = None, /) -> Floats: ...


@dataclass(frozen=True, eq=False)
class MappedModel(Model):
    """A map of rows to dense features, and a linear model on them.

    Parameters
    ----------
    map : Model
        With ``transform(X, n_threads)``.
    linear : LinearModel
    """

    kind: ClassVar[str] = "mapped"
    version: ClassVar[int] = 1

    map: FeatureMap
    linear: LinearModel

    @property
    def learner(self) -> str:
        """Name of the learner that made the model."""
        return self.linear.learner

    @property
    def classes(self) -> list[Label]:
        """Class labels by class number."""
        return self.linear.classes

    def decision_function(self, rows: Rows, n_threads: int | None = None) -> Floats:
        """Return decision values, float64 of shape (n, K), one column for two classes, independently for each row.

        Raises
        ------
        ValueError
            If ``rows`` do not fit the model; row and column are named.
        """
        check_rows(rows)
        blocks = [
            self.linear.decision_function(self.map.transform(rows[start : start + BLOCK], n_threads))
            for start in range(0, max(1, n_rows(rows)), BLOCK)
        ]
        return np.concatenate(blocks)

    def predict_index(self, rows: Rows) -> np.ndarray:
        """Return class numbers, int32; 0 means the second of two classes, and ties go to the lowest number."""
        return decision_to_index(self.decision_function(rows))

    def predict(self, rows: Rows) -> np.ndarray:
        """Return the class label of every row."""
        labels: np.ndarray = np.asarray(self.classes)[self.predict_index(rows)]
        return labels
