"""What the perceptron knows between two blocks of rows; stored as a checkpoint, and in the end as a linear model."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np


@dataclass
class State:
    """One vector of weights for each class."""

    weights: np.ndarray
    eta: float
    margin: float
    n_seen: int = 0
    n_support: int = 0

    @classmethod
    def of_zeros(cls, n_columns: int, n_classes: int, eta: float, margin: float) -> State:
        return cls(np.zeros((n_columns, n_classes)), eta, margin)

    def partial_fit(self, rows: Any, y: np.ndarray) -> SimpleNamespace:
        predicted = np.empty(len(y), dtype=np.int64)
        for i, (columns, k) in enumerate(zip(rows.columns(), y, strict=True)):
            columns = columns[columns >= 0]  # -1 stands for "no cell", and would be the last weight
            scores = self.weights[columns].sum(axis=0)
            predicted[i] = scores[1] >= scores[0] if scores.size == 2 else scores.argmax()  # as a decision is read
            rival = np.where(np.arange(scores.size) == k, -np.inf, scores).argmax()
            if scores[k] - scores[rival] < self.margin:
                self.weights[columns, k] += self.eta
                self.weights[columns, rival] -= self.eta
                self.n_support += 1
        self.n_seen += len(y)
        return SimpleNamespace(predicted=predicted)

    def decision_function(self, rows: Any) -> np.ndarray:
        padded = np.vstack([self.weights, np.zeros(self.weights.shape[1])])  # its last row serves -1, for "no cell"
        scores = padded[rows.columns()].sum(axis=1)
        return scores[:, 1:] - scores[:, :1] if scores.shape[1] == 2 else scores  # (n, K) with K = 1 for two classes

    def model(self, classes: list[Any], params: dict[str, Any] | None = None) -> Any:
        from ikmap.learners.linear_model import LinearModel

        w = self.weights[:, 1:] - self.weights[:, :1] if len(classes) == 2 else self.weights
        return LinearModel(np.ascontiguousarray(w), np.zeros(w.shape[1]), 1.0, "perceptron", classes, params or {})

    def checkpoint(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights, "counts": np.array([self.n_seen, self.n_support])}

    def restore(self, arrays: dict[str, np.ndarray]) -> State:
        return State(arrays["weights"], self.eta, self.margin, *map(int, arrays["counts"]))
