"""Exact kernel ridge regression, which random features of the same kernel approximate."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.kernel_on_rows import OnKernel
from ikmap.methods.kernel_svm import MODELS
from ikmap.methods.learner import WholeLearner
from ikmap.methods.sample import Shape, Training
from ikmap.methods.squared import ALPHA_SCHEMA, SquaredErrors

if TYPE_CHECKING:
    from ikmap.learners.kernel.kernel_model import KernelModel
    from ikmap.methods.learner import Summary


class KernelRidge(OnKernel, WholeLearner, SquaredErrors):
    """Kernel ridge regression of targets less their mean, by the Cholesky factor of the kernel matrix."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="kernel-ridge",
        title="ridge regression with a kernel",
        on="rows",
        tasks=frozenset({"regression"}),
        models=MODELS,
        metrics_schema=ALPHA_SCHEMA,
    )
    # The time grows with the cube of the rows.
    compared_on: ClassVar[int | None] = 4000
    all_pairs: ClassVar[bool] = True

    def takes_weights(self, task: str) -> bool:
        return True

    def fit(self, training: Training) -> tuple[KernelModel, Summary]:
        import numpy as np

        from ikmap.kernels import kernel_as_dict
        from ikmap.learners.kernel.kernel_model import KernelModel
        from ikmap.learners.ridge.kernel_ridge import fit_kernel_ridge

        rows, y, weight = training.rows, training.y, training.block.sample_weight
        penalty: float | np.ndarray = self.alpha
        if weight is not None:
            counted = np.flatnonzero(weight)
            rows, y, weight = rows[counted], y[counted], weight[counted]
            penalty = self.alpha / weight
        mean = float(np.average(y, weights=weight))
        kernel = self.kernel.kernel(rows.shape[1])
        fit = fit_kernel_ridge(rows, y - mean, kernel, penalty, training.n_threads)
        model = KernelModel(
            points=fit.points,
            coef=fit.dual[:, None],
            intercept=np.array([mean]),
            scale=1.0,
            kernel=kernel_as_dict(kernel),
            learner=self.about.name,
            classes=[],
            params={"alpha": self.alpha},
        )
        return model, {"alpha": self.alpha}

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        from ikmap.learners.kernel.support_set import support_set_bytes

        return 8 * shape.n * shape.n + shape.rows_bytes + support_set_bytes(shape.n, shape.d, shape.nnz)
