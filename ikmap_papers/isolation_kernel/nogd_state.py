"""NOGD: online gradient descent on Nystroem features (algorithms.md 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ikmap.arrays import Floats, Int32s
from ikmap.json_values import JsonObject, Label
from ikmap.kernels import kernel_as_dict
from ikmap.kernels.base import AnyKernel
from ikmap.learners.kernel.kernel_model import KernelModel
from ikmap.learners.kernel.support_set import support_set_bytes
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.mapped_model import MappedModel
from ikmap.learners.online.kernel_ogd import KernelOGDState
from ikmap.learners.online.ogd import OGDProgress
from ikmap.learners.rows import check_classes, check_rows, n_columns, n_rows
from ikmap.maps.nystroem import NystroemMap
from ikmap.maps.projection import project
from ikmap.rows import Rows
from ikmap_papers.isolation_kernel._nogd_loops import nogd_pass

BLOCK = 1024
"""Rows whose features are in memory at a time."""


def rank_of(b: int) -> int:
    """Return the number r of features for b points: a fifth, rounded, at least 1."""
    return max(1, int(0.2 * b + 0.5))


@dataclass
class LinearState:
    """Online gradient descent on the hinge loss of dense features, and the average of the weights if it is wanted.

    Parameters
    ----------
    weights : ndarray of float64, shape (r, K)
        K = 1 for two classes (class 1 positive), else one column per class, one against the rest. Changed in place.
    eta : float
    n_updates : ndarray of int64, shape (K,)
        Steps taken by each class.
    n_seen, n_support : int
        Rows seen, and rows on which some class took a step.
    total : ndarray of float64, shape (r, K), optional
        Sum of the weights as they were after each row that was stepped on. Predictions on the way are made with the
        weights as they are; the model, if there is a sum, with their average.
    """

    weights: Floats
    eta: float
    n_updates: np.ndarray
    n_seen: int = 0
    n_support: int = 0
    total: Floats | None = None

    @classmethod
    def start(cls, n_features: int, n_classes: int, eta: float, average: bool) -> Self:
        """Return the state before the first row: all weights are 0."""
        outputs = 1 if n_classes == 2 else n_classes
        total = np.zeros((n_features, outputs)) if average else None
        return cls(np.zeros((n_features, outputs)), eta, np.zeros(outputs, dtype=np.int64), total=total)

    def partial_fit(self, z: Floats, y: np.ndarray) -> Int32s:
        """Predict and then learn from each row of features in turn; return the predicted classes."""
        predicted = np.empty(y.size, dtype=np.int32)
        total = np.empty((0, 0)) if self.total is None else self.total
        labels = y.astype(np.int32, copy=False)
        self.n_support += int(nogd_pass(z, labels, self.weights, total, self.eta, predicted, self.n_updates))
        self.n_seen += y.size
        return predicted

    def model(self, classes: list[Label], params: JsonObject) -> LinearModel:
        """Return the classifier with the current weights, or with their average."""
        coef = self.weights.copy() if self.total is None or self.n_support == 0 else self.total / self.n_support
        about: JsonObject = {"eta": self.eta, "divisor": 1.0, **params}
        return LinearModel(coef, np.zeros(coef.shape[1]), 1.0, "nogd", classes, about)

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copy of the state as plain arrays, for :meth:`restore`."""
        return {
            **({} if self.total is None else {"total": self.total.copy()}),
            "table": self.weights.copy(),
            "n_updates": self.n_updates.copy(),
            "scalars": np.array([self.eta, 1.0]),
            "counts": np.array([self.n_seen, self.n_support], dtype=np.int64),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state of a :meth:`checkpoint`; the arrays are copied."""
        n_seen, n_support = (int(v) for v in arrays["counts"])
        total = np.array(arrays["total"], order="C") if "total" in arrays else None
        weights = np.array(arrays["table"], dtype=np.float64, order="C")
        return cls(weights, float(arrays["scalars"][0]), np.array(arrays["n_updates"]), n_seen, n_support, total)


@dataclass
class NOGDState:
    """The state of NOGD: the map, and linear online gradient descent on its features.

    Parameters
    ----------
    kernel : Kernel
    n_classes : int
    b : int
        Number of points of the map.
    rank : int, optional
        Number r of features at most; default: a fifth of b.
    eta : float
        Step size, > 0.
    average : bool
        The model has the average of the weights after each update.
    map : NystroemMap, optional
        A map from points chosen before. Without one, the run begins as :class:`KernelOGDState` until it has b support
        points (`points="violators"` of the paper's library); these are the points of the map, and the weights go on
        from the sum of their features, each times the step taken on it.
    n_threads : int, optional
        No matter of the result.
    """

    kernel: AnyKernel
    n_classes: int
    b: int = 100
    rank: int | None = None
    eta: float = 0.5
    average: bool = False
    map: NystroemMap | None = None
    n_threads: int | None = None
    _dual: KernelOGDState | None = field(default=None, init=False, repr=False)
    _linear: LinearState | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.b < 1:
            raise ValueError(f"b must be at least 1, got {self.b}")
        if self.map is None:
            self._dual = KernelOGDState(self.kernel, self.n_classes, self.eta, self.n_threads)
        else:
            self._linear = self._start(self.map)

    def _start(self, map: NystroemMap) -> LinearState:
        return LinearState.start(map.n_features, self.n_classes, self.eta, average=self.average)

    @property
    def n_seen(self) -> int:
        """Number of rows that it has learned from."""
        return sum(state.n_seen for state in (self._dual, self._linear) if state is not None)

    @property
    def n_support(self) -> int:
        """Number of rows on which some class took a step."""
        return sum(state.n_support for state in (self._dual, self._linear) if state is not None)

    def partial_fit(self, rows: Rows, y: np.ndarray) -> OGDProgress:
        """Predict and then learn from each row in turn.

        Parameters
        ----------
        rows : dense array or CSR matrix, n rows
        y : ndarray of int, shape (n,)
            Class numbers.

        Raises
        ------
        ValueError
            If rows or classes are not valid; nothing has been learned then.
        """
        n, y, before = n_rows(rows), np.asarray(y), self.n_support
        check_rows(rows, None if self.map is None else n_columns(self.map.points))
        check_classes(y, n, self.n_classes)
        rows = self.kernel.checked(rows)
        predicted, done = [np.zeros(0, dtype=np.int32)], 0
        if self._linear is None:
            assert self._dual is not None
            # A row becomes one support point at most: so many rows bring no more than there is room for.
            while done < n and (room := self.b - self._dual.n_support):
                part = slice(done, done + room)
                predicted.append(self._dual.partial_fit(rows[part], y[part]).predicted)
                done += predicted[-1].size
            if self._dual.n_support == self.b:
                self._turn()
        for start in range(done, n, BLOCK):
            assert self._linear is not None
            assert self.map is not None
            z = self.map.transform(rows[start : start + BLOCK], self.n_threads)
            predicted.append(self._linear.partial_fit(z, y[start : start + BLOCK]))
        return OGDProgress(np.concatenate(predicted), self.n_support - before)

    def _turn(self) -> None:
        """Turn from support points to features of a map on the support points so far."""
        assert self._dual is not None
        support = self._dual.support.arrays()
        assert support is not None
        points, signs = support
        self.map = NystroemMap.fit(points, self.kernel, self.rank or rank_of(self.b), self.n_threads)
        self._linear = self._start(self.map)
        # sum_i beta_i xhat_i, which is beta times the pseudo-inverse of M: what the library starts from.
        steps = self.map.transform(points, self.n_threads)
        self._linear.weights = self.eta * project(np.ascontiguousarray(steps.T), signs, self.n_threads)

    def model(self, classes: list[Label], params: JsonObject | None = None) -> MappedModel | KernelModel:
        """Return the current classifier: a :class:`MappedModel`, or a :class:`KernelModel` before there is a map."""
        if self._linear is None:
            assert self._dual is not None
            return self._dual.model(classes, params)
        asked = {"kernel": kernel_as_dict(self.kernel), "b": self.b, "average": self.average, **(params or {})}
        linear = self._linear.model(classes, asked)
        assert self.map is not None
        return MappedModel(self.map, linear)

    def decision_function(self, rows: Rows) -> Floats:
        """Return decisions of the current model, shape (n, K), one column for two classes."""
        if self._linear is None:
            assert self._dual is not None
            return self._dual.decision_function(rows)
        values: np.ndarray = self.model(list(range(self.n_classes))).decision_function(rows)
        return values

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return the state as plain arrays, for :meth:`restore`."""
        arrays: dict[str, np.ndarray] = {}
        for name, state in (("dual", self._dual), ("linear", self._linear)):
            if state is not None:
                arrays |= {f"{name}-{key}": array for key, array in state.checkpoint().items()}
        if self._dual is not None and self.map is not None:
            arrays["matrix"] = self.map.matrix
        return arrays

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """Continue from a :meth:`checkpoint` of a run with the same parameters, and the same map if it was given."""
        parts: dict[str, dict[str, np.ndarray]] = {"dual": {}, "linear": {}, "matrix": {}}
        for key, array in arrays.items():
            name, _, inner = key.partition("-")
            parts[name][inner] = array
        if self._dual is not None:
            support = self._dual.restore(parts["dual"]).support.arrays()
            self.map = self._linear = None
            if "matrix" in arrays and support is not None:
                self.map = NystroemMap(support[0], arrays["matrix"], kernel_as_dict(self.kernel))
        if parts["linear"]:
            self._linear = LinearState.restore(parts["linear"])
        return self


def nogd_bytes(
    d: int, nnz_per_row: float | None = None, b: int = 100, rank: int | None = None, n_classes: int = 2
) -> int:
    """Return the largest number of bytes that a run takes beside any number of rows.

    Parameters
    ----------
    d : int
        Number of columns. Of cells: t.
    nnz_per_row : float, optional
        Entries of a CSR row; None: the rows are dense, or cells.
    b, rank, n_classes
        The same as in :class:`NOGDState`.
    """
    r, outputs = rank or rank_of(b), 1 if n_classes == 2 else n_classes
    # Blocks of CSR rows are copied, and laid out as the points are.
    rows = support_set_bytes(b, d) if nnz_per_row is None else support_set_bytes(b, d, int((b + BLOCK) * nnz_per_row))
    # The matrix of the points, its eigenvectors and LAPACK's workspace; then kernel and features of a block.
    return rows + 8 * (4 * b * b + r * b + BLOCK * (b + 2 * r) + 2 * (b + r) * outputs)
