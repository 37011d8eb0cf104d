"""Models that score rows by tables on their cells: the number of training rows in them, or their depth."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.json_values import JsonObject
from ikmap.learners._scores_loops import decisions
from ikmap.learners.rows import check_rows, n_rows, row_arrays
from ikmap.model import Model


@dataclass(frozen=True, eq=False)
class CellScores(Model):
    """Base of models that score a row by the mean of a table over its cells.

    Parameters
    ----------
    table : ndarray of float64, shape (n_columns,)
        A value for each cell.
    divisor : float
        The sum over the cells of a row is divided by it.
    threshold : float
        A row that scores above is novel.
    learner : str
        Name of the learner that made it.
    params : dict
        Settings of the learner, as JSON values.
    """

    table: np.ndarray
    divisor: float
    threshold: float
    learner: str
    params: JsonObject = field(default_factory=dict)

    def mean(self, rows: Cells) -> Floats:
        """Sum of the table over the cells of each row, by the divisor: float64, shape (n,); no cell adds nothing.

        Raises
        ------
        ValueError
            The rows do not fit the model; row and column are named.
        """
        complete = check_rows(rows, self.table.size)
        out = np.empty((n_rows(rows), 1))
        arrays = row_arrays(rows, complete=complete)
        decisions(arrays, np.ascontiguousarray(self.table[:, None]), self.divisor, np.zeros(1), out)
        return out[:, 0]

    def score(self, rows: Cells) -> np.ndarray:
        """Return the score of each row, float64 of shape (n,), larger for more novel rows."""
        raise NotImplementedError

    def decision_function(self, rows: Cells) -> Floats:
        """Return the scores less the threshold, float64 of shape (n, 1)."""
        return (self.score(rows) - self.threshold)[:, None]

    def above(self, threshold: float) -> Self:
        """Return the model with another threshold."""
        return replace(self, threshold=threshold)


@dataclass(frozen=True, eq=False)
class CellMasses(CellScores):
    """The isolation distributional kernel, with the number of training rows in each cell.

    The similarity of a row x and the distribution P of n training rows is the mean over the t partitionings of the
    share of these rows in the cell of x, which is the mean of the isolation kernel of x and all of them,
    ``K(delta_x, P) = sum_i K(x, x_i) / n``. The divisor is t n; the score is 1 - K, in [0, 1].

    Source: Ting, Xu, Washio and Zhou, Isolation Distributional Kernel, KDD 2020, sections 3 and 5.
    """

    kind: ClassVar[str] = "cell-masses"

    def score(self, rows: Cells) -> Floats:
        return 1.0 - self.mean(rows)


@dataclass(frozen=True, eq=False)
class CellDepths(CellScores):
    """The isolation forest, with the expected path length of the points in each leaf.

    The score is ``2 ** -(mean path length / c(psi))``, in (0, 1); the divisor is t c(psi).

    Source: Liu, Ting and Zhou, Isolation Forest, ICDM 2008, section 2 (scores) and algorithm 3.
    """

    kind: ClassVar[str] = "cell-depths"

    def score(self, rows: Cells) -> Floats:
        found: np.ndarray = np.exp2(-self.mean(rows))
        return found
