"""Linear models of the columns, without cells: what a map to cells has to be better than."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.learner import WholeLearner
from ikmap.methods.sample import Shape, Training

if TYPE_CHECKING:
    import numpy as np

    from ikmap.arrays import Floats
    from ikmap.learners.linear_model import LinearModel
    from ikmap.methods.learner import Summary
    from ikmap.rows import Rows

MOST_STEPS = 1000
"""Most steps of the solver."""


class LinearOnColumns(WholeLearner):
    """Logistic regression of classes, each against the others, or ridge regression of numbers, on the columns.

    Columns are brought to mean 0 and standard deviation 1 first; sparse ones keep their zeros. The solvers are
    scikit-learn's.
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

        from ikmap._threads import single_threaded_blas
        from ikmap.learners.linear_model import LinearModel

        n_classes, weight = len(training.classes), training.block.sample_weight
        mean, deviation = moments(training.rows)
        rows = standardized(training.rows, mean, deviation)
        with single_threaded_blas:  # the last bits of BLAS depend on the number of threads
            if not n_classes:
                coef, intercept = _ridge(rows, training.y, weight)
            elif n_classes == 2:
                coef, intercept = _logistic(rows, training.y == 1, weight)
            else:
                each = [_logistic(rows, training.y == k, weight) for k in range(n_classes)]
                coef, intercept = np.column_stack([own for own, _ in each]), np.concatenate([own for _, own in each])
        coef = np.ascontiguousarray(coef / deviation[:, None])
        return LinearModel(coef, intercept - mean @ coef, 1.0, self.about.name, training.classes), {}

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        # The standardized rows, what the solver keeps of each row, and its last steps.
        return int(2 * shape.rows_bytes + 64 * shape.n + 8 * 30 * shape.d)


def moments(rows: Rows) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column; the mean is 0 and the deviation that about 0 if sparse."""
    import numpy as np

    if isinstance(rows, np.ndarray):
        mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    else:
        mean = np.zeros(rows.shape[1])
        squares = np.bincount(rows.indices, weights=rows.data**2, minlength=rows.shape[1])
        deviation = np.sqrt(squares / rows.shape[0])
    return mean, np.where(deviation > 0, deviation, 1.0)


def standardized(rows: Rows, mean: Floats, deviation: Floats) -> Rows:
    """Return the rows with columns less their mean, over their deviation."""
    import numpy as np
    import scipy.sparse as sp

    if isinstance(rows, np.ndarray):
        scaled: Floats = (rows - mean) / deviation
        return scaled
    return sp.csr_array((rows.data / deviation[rows.indices], rows.indices, rows.indptr), shape=rows.shape)


def _logistic(rows: Rows, target: np.ndarray, weight: Floats | None) -> tuple[Floats, Floats]:
    """Return weights, shape (d, 1), and intercept of logistic regression; a class that is missing is never decided."""
    import warnings

    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if target.all() or not target.any():
        return np.zeros((rows.shape[1], 1)), np.full(1, 30.0 if target.all() else -30.0)
    model = LogisticRegression(max_iter=MOST_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, target, weight)
    return model.coef_.T, model.intercept_


def _ridge(rows: Rows, target: np.ndarray, weight: Floats | None) -> tuple[Floats, Floats]:
    import numpy as np
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=1.0, solver="cholesky" if isinstance(rows, np.ndarray) else "sparse_cg")
    model.fit(rows, target, weight)
    return np.atleast_2d(model.coef_).T, np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))
