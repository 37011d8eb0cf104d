"""Linear models of the columns, without cells: what a map to cells has to be better than."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.learner import WholeLearner
from ikmap.methods.sample import Shape, Training

if TYPE_CHECKING:
    from ikmap.arrays import Floats
    from ikmap.learners.linear_model import LinearModel
    from ikmap.learners.rows import Block
    from ikmap.methods.learner import Summary
    from ikmap.rows import Rows

MOST_STEPS = 200
"""Most sweeps of the solver over the rows: what is compared with it need not be solved to the last digit."""
TOLERANCE = 0.01
"""Relative duality gap at which the solver ends."""
MOST_C = 32
"""Largest weight of the errors of rows, which are of length 1 on average; with fewer columns it is their number."""


class LinearOnColumns(WholeLearner):
    """Logistic regression of classes, each against the others, or ridge regression of numbers, on the columns.

    Columns are brought to mean 0 and the same standard deviation first; sparse ones keep their zeros.
    """

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="linear-model",
        title="linear model of the columns",
        on="rows",
        tasks=frozenset({"classification", "regression"}),
        models=("ikmap.learners.linear_model",),
    )

    @property
    def log_odds(self) -> bool:
        return True

    def takes_weights(self, task: str) -> bool:
        return True

    def fit(self, training: Training) -> tuple[LinearModel, Summary]:
        import numpy as np

        from ikmap.learners.linear_model import LinearModel

        mean, deviation = moments(training.rows)
        block = training.block._replace(rows=standardized(training.rows, mean, deviation))
        coef, intercept = _logistic(training, block) if training.classes else _ridge(block)
        coef = np.ascontiguousarray(coef / deviation[:, None])
        return LinearModel(coef, intercept - mean @ coef, 1.0, self.about.name, training.classes), {}

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        # The standardized rows, what the solver keeps of each row, and its last steps.
        return int(2 * shape.rows_bytes + 64 * shape.n + 8 * 30 * shape.d)


def moments(rows: Rows) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column, the latter times the square root of their number.

    The mean of a sparse column is taken to be 0. Rows are of length 1 on average then.
    """
    import numpy as np

    n, d = rows.shape
    if isinstance(rows, np.ndarray):
        mean, deviation = rows.mean(axis=0), rows.std(axis=0)
        # The deviation of a column that is always the same may be one of rounding, and new rows may have another value.
        used = rows.max(axis=0) > rows.min(axis=0)
    else:
        squares = np.bincount(rows.indices, weights=rows.data**2, minlength=d)
        mean, deviation = np.zeros(d), np.sqrt(squares / n)
        used = deviation > 0
    return mean, np.where(used, deviation, 1.0) * math.sqrt(max(1, int(used.sum())))


def standardized(rows: Rows, mean: Floats, deviation: Floats) -> Rows:
    """Return the rows with columns less their mean, over their deviation."""
    import numpy as np
    import scipy.sparse as sp

    if isinstance(rows, np.ndarray):
        scaled: Floats = (rows - mean) / deviation
        return scaled
    return sp.csr_array((rows.data / deviation[rows.indices], rows.indices, rows.indptr), shape=rows.shape)


def _logistic(training: Training, block: Block) -> tuple[Floats, Floats]:
    """Return weights, shape (d, K), and intercepts of logistic regression of each class against the others."""
    import warnings

    from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm

    C = float(min(training.rows.shape[1], MOST_C))
    params = SVMParams(loss="logistic", C=C, tol=TOLERANCE, fit_intercept=True, max_iter=MOST_STEPS, seed=training.seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="duality gap")  # ConvergenceWarning: slow to import
        fit = fit_linear_svm([block], len(training.classes), params, n_threads=training.n_threads)
    return fit.coef, fit.intercept


def _ridge(block: Block) -> tuple[Floats, Floats]:
    """Return weights, shape (d, 1), and intercept of ridge regression."""
    import numpy as np
    from sklearn.linear_model import Ridge

    from ikmap._threads import single_threaded_blas
    from ikmap.cells import Cells

    rows = block.rows
    assert not isinstance(rows, Cells)
    solver = "cholesky" if isinstance(rows, np.ndarray) else "sparse_cg"
    model = Ridge(alpha=1.0 / min(rows.shape[1], MOST_C), solver=solver)
    with single_threaded_blas:  # the last bits of BLAS depend on the number of threads
        model.fit(rows, block.y, block.sample_weight)
    return np.atleast_2d(model.coef_).T, np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))
