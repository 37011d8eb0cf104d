"""Linear SVMs on dense features of a map that needs no training."""

from __future__ import annotations

from typing import Any, ClassVar

from ikmap.methods.learners import WholeLearner
from ikmap.methods.sample import Training


class LinearOnMap(WholeLearner):
    """Base: all but the map."""

    takes_weights: ClassVar[bool] = True

    def map(self, options: Any, training: Training) -> Any:
        """The map, for rows like these."""
        raise NotImplementedError

    def fit(self, options: Any, training: Training) -> tuple[Any, dict[str, Any]]:
        import warnings

        from ikmap.learners.dual.certificate import certificate, sum_up
        from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
        from ikmap.learners.mapped_model import MappedModel

        features = self.map(options, training)
        linear = SVMParams(
            loss=options.loss,
            C=options.C,
            tol=options.tol,
            class_weight=options.class_weights,
            fit_intercept=False,
            seed=training.seed,
        )
        block = training.block._replace(rows=features.transform(training.rows, training.n_threads))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="duality gap")  # ConvergenceWarning: slow to import
            fit = fit_linear_svm([block], len(training.classes), linear)
        return MappedModel(features, svm_model(fit, training.classes, linear, divisor=1.0)), sum_up([certificate(fit)])
