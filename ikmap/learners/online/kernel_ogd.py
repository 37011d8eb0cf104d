"""Online gradient descent on the hinge loss in the dual, as a sum over all support points (algorithms.md 5.2).

The baseline that maps to features are measured against: its memory and the time of a prediction grow with the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import JsonObject, Label
from ikmap.kernels import kernel_as_dict
from ikmap.kernels.base import TILE, AnyKernel
from ikmap.learners.kernel.kernel_model import KernelModel
from ikmap.learners.kernel.support_set import SupportSet
from ikmap.learners.online._kernel_ogd_loops import dual_pass
from ikmap.learners.online.ogd import OGDProgress, steps_to_margin
from ikmap.learners.rows import Rows, check_classes, check_rows, n_columns, n_rows
from ikmap.model import row_parts, rows_of_parts


@dataclass
class KernelOGDState:
    """The state of a run, with all support points.

    Values of normalized kernels are rounded to whole steps (:meth:`Kernel.steps`), and those of others are added up in
    the order of the stream, so that sums, and with them the support set, depend neither on how the stream is cut into
    blocks nor on the number of threads. For the isolation kernel steps are exact, and every decision is that of the
    primal form, bit for bit (algorithms.md 5.5, OG1).

    Parameters
    ----------
    kernel : Kernel
    n_classes : int
        Two: one support set; more: one against the rest.
    eta : float
        Step size, > 0.
    n_threads : int, optional
        No matter of the result.

    Attributes
    ----------
    n_seen, n_support : int
        Rows seen, and rows that became support points.
    n_updates : ndarray of int64, shape (K,)
        Support points of each class.
    """

    kernel: AnyKernel
    n_classes: int
    eta: float = 0.5
    n_threads: int | None = None
    n_seen: int = field(default=0, init=False)
    n_updates: np.ndarray = field(init=False)
    support: SupportSet = field(init=False, repr=False)
    _columns: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.eta < np.inf:
            raise ValueError(f"eta must be a positive number, got {self.eta!r}")
        if self.n_classes < 2:
            raise ValueError(f"at least 2 classes are needed, got {self.n_classes}")
        outputs = 1 if self.n_classes == 2 else self.n_classes
        self.n_updates = np.zeros(outputs, dtype=np.int64)
        self.support = SupportSet(self.kernel, outputs)

    @property
    def n_support(self) -> int:
        """Number of rows that became support points of some class."""
        return len(self.support)

    def partial_fit(self, rows: Rows, y: np.ndarray) -> OGDProgress:
        """Predict and then learn from each row in turn.

        Parameters
        ----------
        rows : dense array, CSR matrix, or Cells for the isolation kernel; n rows
        y : ndarray of int, shape (n,)
            Class numbers.

        Raises
        ------
        ValueError
            If rows or classes are not valid; nothing has been learned then.
        """
        check_rows(rows, self._columns)
        n, y = n_rows(rows), np.asarray(y)
        check_classes(y, n, self.n_classes)
        rows = self.kernel.checked(rows)
        self._columns = n_columns(rows)
        predicted, before = np.empty(n, dtype=np.int32), self.n_support
        normalized = self.kernel.normalized
        margin = float(steps_to_margin(self.eta, self.kernel.unit)) if normalized else 1.0 / self.eta
        for start in range(0, n, TILE):
            inside = slice(start, min(start + TILE, n))
            block = rows[inside]
            sums = self.support.sums(block, self.n_threads)
            points = self.kernel.points(block)
            kernel = np.empty((sums.shape[0], sums.shape[0]))
            self.kernel.steps(points, points, kernel)
            steps = np.zeros(sums.shape, dtype=np.int8)
            dual_pass(kernel, sums, y[inside].astype(np.int32), margin, predicted[inside], steps)
            kept = np.flatnonzero(steps.any(axis=1))
            if kept.size:
                self.support.append(block[kept], steps[kept].astype(np.float64))
                self.n_updates += np.count_nonzero(steps, axis=0)
        self.n_seen += n
        return OGDProgress(predicted, self.n_support - before)

    def decision_function(self, rows: Rows) -> Floats:
        """Return decisions with the current support set, shape (n, K), one column for two classes."""
        check_rows(rows, self._columns)
        return self.eta * self.support.sums(rows, self.n_threads) / self.support.unit

    def model(self, classes: list[Label], params: JsonObject | None = None) -> KernelModel:
        """Return the classifier with the current support set, whose decisions equal :meth:`decision_function`."""
        support = self.support.arrays()
        points, coef = support or (np.zeros((0, self._columns or 0)), np.zeros((0, self.n_updates.size)))
        return KernelModel(
            points=points,
            coef=coef,
            intercept=np.zeros(self.n_updates.size),
            scale=self.eta,
            kernel=kernel_as_dict(self.kernel),
            learner="kernel_ogd",
            classes=classes,
            params={"eta": self.eta, **(params or {})},
        )

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return the state as plain arrays, for :meth:`restore`."""
        counts = np.array([self.n_seen, -1 if self._columns is None else self._columns])
        arrays = {"counts": counts, "n_updates": self.n_updates.copy()}
        support = self.support.arrays()
        if support is not None:
            points, coef = support
            arrays |= {**row_parts("points", points), "coef": coef.astype(np.int8)}
        return arrays

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """Continue from a :meth:`checkpoint` of a run with the same parameters, and return the state."""
        n_seen, columns = (int(v) for v in arrays["counts"])
        self.__post_init__()
        self.n_seen, self._columns = n_seen, None if columns < 0 else columns
        self.n_updates[:] = arrays["n_updates"]
        if "coef" in arrays:
            self.support.append(rows_of_parts("points", arrays, columns), arrays["coef"].astype(np.float64))
        return self
