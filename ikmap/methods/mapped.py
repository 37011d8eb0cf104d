"""Linear SVMs on dense features of a map that needs no training."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol

from ikmap.methods.learner import BatchClassifier, WholeLearner
from ikmap.methods.linear_on_cells import LinearLoss
from ikmap.methods.sample import Training

if TYPE_CHECKING:
    from ikmap.learners.mapped_model import MappedModel
    from ikmap.methods.learner import Summary
    from ikmap.rows import Rows


class FeatureMap(Protocol):
    """A map of rows to dense features, which can be stored as a model."""

    def transform(self, X: Rows, n_threads: int | None = None) -> Rows:
        """Return the features of the rows."""


class LinearOnMap(WholeLearner, BatchClassifier):
    """Base of linear SVMs on dense features.

    Attributes
    ----------
    loss : {"squared_hinge", "hinge"}
    """

    loss: LinearLoss = "squared_hinge"

    @abstractmethod
    def feature_map(self, training: Training) -> FeatureMap:
        """Return the map to features for these rows."""

    def takes_weights(self, task: str) -> bool:
        return True

    def fit(self, training: Training) -> tuple[MappedModel, Summary]:
        import warnings

        from ikmap.learners.dual.certificate import certificate, sum_up
        from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
        from ikmap.learners.mapped_model import MappedModel

        features = self.feature_map(training)
        linear = SVMParams(
            loss=self.loss,
            C=self.C,
            tol=self.tol,
            class_weight=self.weight_of_classes,
            fit_intercept=False,
            seed=training.seed,
        )
        block = training.block._replace(rows=features.transform(training.rows, training.n_threads))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="duality gap")  # ConvergenceWarning: slow to import
            fit = fit_linear_svm([block], len(training.classes), linear)
        return MappedModel(features, svm_model(fit, training.classes, linear, divisor=1.0)), sum_up([certificate(fit)])
