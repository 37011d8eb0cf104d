"""Explicit map of the additive chi-square kernel (algorithms.md 8.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ikmap.kernels.chi2 import refuse_negative
from ikmap.model import Model
from ikmap.rows import Rows, as_rows, check_finite

PERIODS = (0.8, 0.5, 0.4)
"""Period parameter for the orders 0, 1, 2: those of the implementation that the paper names."""


@dataclass(frozen=True, eq=False)
class Chi2Map(Model):
    """A map to 2b + 1 features for each column, which are 0 for a value of 0.

    Parameters
    ----------
    order : int
        b >= 0. The paper's experiments have 0: the map is then sqrt(period x).
    period : float, optional
        Period of the sampling, > 0; orders up to 2 have one of their own.

    Notes
    -----
    Source: Vedaldi and Zisserman, "Efficient additive kernels via explicit feature maps".
    """

    kind: ClassVar[str] = "chi2"
    version: ClassVar[int] = 1

    order: int = 0
    period: float | None = None

    def __post_init__(self) -> None:
        if self.order < 0 or (self.period is None and self.order >= len(PERIODS)):
            raise ValueError(f"order must be 0, 1 or 2, or come with a period; got {self.order!r}")
        if self.period is not None and not self.period > 0:
            raise ValueError(f"period must be a positive number, got {self.period!r}")

    def transform(self, X: Rows, n_threads: int | None = None) -> Rows:  # noqa: ARG002
        """Return features, dense or CSR as X is, shape (n, (2b + 1) d), with those of a column side by side.

        Raises
        ------
        ValueError
            If a value is not finite, or negative: the kernel is not defined there.
        """
        X = as_rows(X)
        check_finite(X)
        refuse_negative(X)
        width = 2 * self.order + 1
        if isinstance(X, np.ndarray):
            out = np.empty((*X.shape, width))
            self._features(X, out)
            return out.reshape(X.shape[0], X.shape[1] * width)
        values = np.empty((X.data.size, width))
        self._features(X.data, values)
        shape = (X.shape[0], X.shape[1] * width)
        index = np.int32 if max(shape[1], values.size) <= np.iinfo(np.int32).max else np.int64
        indices = X.indices.astype(index)[:, None] * width + np.arange(width, dtype=index)
        return sp.csr_array((values.ravel(), indices.ravel(), X.indptr.astype(index) * width), shape=shape)

    def _features(self, x: np.ndarray, out: np.ndarray) -> None:
        period = PERIODS[self.order] if self.period is None else self.period
        out[..., 0] = np.sqrt(x * period)
        if not self.order:
            return
        log = np.log(np.where(x > 0, x, 1.0))
        for i in range(1, self.order + 1):
            size = np.sqrt(2.0 * x * period / np.cosh(np.pi * i * period))
            out[..., 2 * i - 1] = size * np.cos(i * period * log)
            out[..., 2 * i] = size * np.sin(i * period * log)
