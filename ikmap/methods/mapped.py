"""Linear SVMs on dense features of a map that needs no training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ikmap.methods.learner import WholeLearner

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, kw_only=True)
class LinearOnMap(WholeLearner):
    """Base: all but the map."""

    def map(self, options: Any, value: float | None, n_columns: int) -> Any:
        """The map, for rows of so many columns."""
        raise NotImplementedError

    def fit(
        self,
        options: Any,
        value: float | None,
        rows: Any,
        y: np.ndarray,
        classes: list[Any],
        n_threads: int = 1,
        max_working_set: int | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        import warnings

        from ikmap.learners.certificate import certificate, sum_up
        from ikmap.learners.linear_svm import SVMParams, fit_linear_svm, svm_model
        from ikmap.learners.mapped_model import MappedModel
        from ikmap.learners.rows import Block

        features = self.map(options, value, rows.shape[1])
        linear = SVMParams(
            loss=options.loss,
            C=options.kernel_C,
            tol=options.tol,
            class_weight="balanced" if options.class_weight == "balanced" else None,
            fit_intercept=False,
            seed=options.seed,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="duality gap")  # ConvergenceWarning: slow to import
            fit = fit_linear_svm([Block(features.transform(rows, n_threads), y)], len(classes), linear)
        return MappedModel(features, svm_model(fit, classes, linear, divisor=1.0)), sum_up([certificate(fit)])
