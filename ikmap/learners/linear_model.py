"""A fitted linear model, of any learner."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.json_values import JsonObject, Label
from ikmap.learners._scores_loops import decisions
from ikmap.learners.rows import Rows, check_rows, n_rows, row_arrays
from ikmap.model import Model
from ikmap.rows import Rows as FeatureRows


@dataclass(frozen=True, eq=False)
class LinearModel(Model):
    """The weights of a binary (K = 1) or one-vs-rest (K classes) linear classifier, or of a regression.

    Parameters
    ----------
    coef : ndarray of float64, shape (n_columns, K), C order
    intercept : ndarray of float64, shape (K,)
    divisor : float
        The decision on a row of cells is ``sum_j coef[column_j] / divisor + intercept``: t for the kernel
        scale of algorithms.md 5.3, sqrt(t) for features 1/sqrt(t), 1 for raw ones. Dense and CSR rows bring
        their values, so nothing is divided there.
    learner : str
        Name of the learner that made it.
    classes : list
        Class labels, as JSON values. With K = 1 a decision >= 0 means ``classes[1]``. Empty where decisions are the
        predictions: then K is any number.
    params : dict
        Settings of the learner, as JSON values.
    """

    kind: ClassVar[str] = "linear"
    version: ClassVar[int] = 1

    coef: Floats
    intercept: Floats
    divisor: float
    learner: str
    classes: list[Label]
    params: JsonObject = field(default_factory=dict)

    def __post_init__(self) -> None:
        k = 1 if len(self.classes) == 2 else len(self.classes) or self.intercept.size
        if self.coef.ndim != 2 or self.coef.shape[1] != k or self.intercept.shape != (k,):
            raise ValueError(
                f"{len(self.classes)} classes need coef (n_columns, {k}) and intercept ({k},), "
                f"got {self.coef.shape} and {self.intercept.shape}"
            )

    def decision_function(self, rows: Rows) -> Floats:
        """Return decision values, float64 of shape (n, K), one column for two classes, independently for each row.

        Raises
        ------
        ValueError
            If ``rows`` do not fit the model; row and column are named.
        """
        complete = check_rows(rows, self.coef.shape[0])
        out = np.empty((n_rows(rows), self.coef.shape[1]))
        divisor = self.divisor if isinstance(rows, Cells) else 1.0
        decisions(row_arrays(rows, complete=complete), np.ascontiguousarray(self.coef), divisor, self.intercept, out)
        return out

    def predict_index(self, rows: Rows) -> np.ndarray:
        """Return class numbers, int32; 0 means the second of two classes, and ties go to the lowest number."""
        return decision_to_index(self.decision_function(rows))

    def predict(self, rows: Rows) -> np.ndarray:
        """Return the class label of every row."""
        labels: np.ndarray = np.asarray(self.classes)[self.predict_index(rows)]
        return labels


class OnOwnFeatures(Model):
    """Base of linear models on features, or cells, that they make of the rows themselves.

    A subclass has the linear model as a field.

    Attributes
    ----------
    linear : LinearModel
    """

    linear: LinearModel

    @property
    @abstractmethod
    def rows_at_once(self) -> int:
        """Number of rows whose features are in memory at a time."""

    @abstractmethod
    def features(self, rows: FeatureRows, n_threads: int | None = None) -> Rows:
        """Return the features, or cells, of some rows."""

    @property
    def learner(self) -> str:
        """Name of the learner that made the model."""
        return self.linear.learner

    @property
    def classes(self) -> list[Label]:
        """Class labels by class number."""
        return self.linear.classes

    def decision_function(self, rows: FeatureRows, n_threads: int | None = None) -> Floats:
        """Return decision values, float64 of shape (n, K), one column for two classes, independently for each row.

        Raises
        ------
        ValueError
            If ``rows`` do not fit the model; row and column are named.
        """
        check_rows(rows)
        step = self.rows_at_once
        blocks = [
            self.linear.decision_function(self.features(rows[start : start + step], n_threads))
            for start in range(0, max(1, n_rows(rows)), step)
        ]
        return np.concatenate(blocks)

    def predict_index(self, rows: FeatureRows) -> np.ndarray:
        """Return class numbers, int32; 0 means the second of two classes, and ties go to the lowest number."""
        return decision_to_index(self.decision_function(rows))

    def predict(self, rows: FeatureRows) -> np.ndarray:
        """Return the class label of every row."""
        labels: np.ndarray = np.asarray(self.classes)[self.predict_index(rows)]
        return labels


def decision_to_index(decision: Floats) -> np.ndarray:
    """Return class numbers, int32, from decisions of shape (n, K), or (n,) for K = 1; 0 means the second class."""
    single = decision.ndim == 1 or decision.shape[1] == 1
    return (decision.reshape(-1) >= 0 if single else decision.argmax(axis=1)).astype(np.int32)
