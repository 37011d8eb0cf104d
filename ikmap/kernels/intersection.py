"""The intersection kernel of non-negative rows (algorithms.md 8.5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ikmap.kernels._min_max_loops import PANEL, dense_minima, sparse_minima
from ikmap.kernels._pairs_loops import bit_sums
from ikmap.kernels.chi2 import NonNegativeKernel
from ikmap.kernels.points import Points, check_columns, places_in
from ikmap.rows import Rows


@dataclass(frozen=True)
class IntersectionKernel(NonNegativeKernel["PanelPoints"]):
    """K(x, y) = sum_j min(x_j, y_j). Dense and sparse rows have the same values, to the bit."""

    name: ClassVar[str] = "intersection"
    normalized: ClassVar[bool] = False
    words: ClassVar[str] = "the intersection kernel"

    def points(self, rows: Rows) -> PanelPoints:
        """Return prepared rows."""
        return PanelPoints(rows)

    def values(self, left: PanelPoints, right: PanelPoints, out: np.ndarray) -> None:
        """Write the kernel values of all pairs to `out`.

        Raises
        ------
        ValueError
            If their numbers of columns differ.
        """
        check_columns(left, right)
        if left.binary and right.binary:
            bit_sums(left.words, right.word_columns, True, out)
        elif left.dense and right.dense:
            minima = np.empty((len(left.panels) * PANEL, len(right.panels) * PANEL))
            dense_minima(left.panels, right.panels, minima)
            out[:] = minima[: len(left), : len(right)]
        else:
            data, indices, indptr = left.entries
            used, others, owner, begin = right.sparse.inverted
            sparse_minima(data, places_in(used, indices), indptr, others, owner, begin, out)


class PanelPoints(Points):
    """Rows with a layout side by side in panels of 16."""

    @cached_property
    def panels(self) -> np.ndarray:
        """Rows in panels of 16, float64 of shape (ceil(n / 16), d, 16); the last panel is filled up with zeros."""
        n, d = self.rows.shape
        wide = np.zeros((-(-n // PANEL) * PANEL, d))
        wide[:n] = self.rows
        return np.ascontiguousarray(wide.reshape(-1, PANEL, d).transpose(0, 2, 1))

    @property
    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, columns and row starts of the sparse rows."""
        rows = self.sparse.rows
        assert not isinstance(rows, np.ndarray)
        return rows.data, rows.indices, rows.indptr.astype(np.int64)
