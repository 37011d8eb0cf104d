"""scikit-learn estimators of gradient boosting, whose models are weights of cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.estimators.base import Classifier, RandomState, Regressor, Table
from ikmap.estimators.kernels import RowsEstimator
from ikmap.estimators.probabilities import probabilities
from ikmap.learners.cells_model import CellsModel
from ikmap.methods.boosting import Boosting

PARAMETERS = {
    "rounds": "n_estimators",
    "shrinkage": "learning_rate",
    "max_leaves": "max_leaf_nodes",
    "min_leaf": "min_samples_leaf",
    "l2": "l2_regularization",
    "row_share": "subsample",
    "column_share": "max_features",
    "held_out": "validation_fraction",
    "patience": "n_iter_no_change",
}
"""Names of scikit-learn for the fields of the learner."""


class BoostingEstimator(RowsEstimator):
    """Base of estimators of gradient boosting.

    Attributes
    ----------
    model_ : CellsModel
    """

    methods = (Boosting,)
    renamed: ClassVar[Mapping[str, str]] = PARAMETERS

    model_: CellsModel

    def cells(self, X: Table) -> Cells:
        """Return the leaf of each row in each tree, as cells of the weights ``model_.linear.coef``."""
        check_is_fitted(self)
        return self.model_.partitions.cells(self._rows(X, reset=False), self._n_threads)

    @property
    def n_iter_(self) -> int:
        """Number of rounds whose trees are kept."""
        return self.model_.partitions.n_partitions // self.model_.linear.coef.shape[1]


class CellBoostingClassifier(Classifier, BoostingEstimator):
    """Gradient boosting of classes by the logistic loss; more than two by one model of each class against the others.

    A fitted model is trees whose leaves are cells, and a weight of each cell.

    Parameters
    ----------
    learning_rate : float, default=0.1
        Share of its best value that a leaf is given.
    n_estimators : int, default=1000
        Largest number of rounds; each grows a tree, with more than two classes one for each.
    max_leaf_nodes : int, default=31
        Largest number of leaves of a tree.
    min_samples_leaf : int, default=20
        Smallest number of rows in a leaf.
    l2_regularization : float, default=1.0
        Weight of the squared values of leaves.
    subsample, max_features : float, default=1.0
        Share of the rows, and of the columns, that each tree is grown on.
    validation_fraction : float, default=0.1
        Share of the rows that is held out to end the rounds early; 0: all rounds are made.
    n_iter_no_change : int, default=50
        Number of rounds without improvement on held-out rows after which the rounds end.
    max_bins : int, default=256
        Largest number of bins of a column, between which trees split. More than 256 take longer, and twice the memory.
    backfit : int, default=0
        Number of rounds after which the values of the leaves of all trees are estimated anew, one tree after the other
        (backfitting); 0: never. It pays for many sets of numbers, and for hardly any of classes.
    backfit_l2 : float, default=300.0
        Weight of the squared values of leaves there.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None
        Seed. Results do not depend on the number of threads.

    Attributes
    ----------
    model_ : CellsModel
    classes_ : ndarray
    n_iter_ : int
    n_features_in_ : int

    Notes
    -----
    Source: Friedman, Greedy function approximation: a gradient boosting machine, 2001. Trees grow leaf by leaf on
    histograms of at most `max_bins` bins, as in LightGBM (Ke et al., 2017).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from ikmap import CellBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CellBoostingClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    def __init__(
        self,
        learning_rate: float = 0.1,
        n_estimators: int = 1000,
        *,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int = 20,
        l2_regularization: float = 1.0,
        subsample: float = 1.0,
        max_features: float = 1.0,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 50,
        max_bins: int = 256,
        backfit: int = 0,
        backfit_l2: float = 300.0,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.n_estimators = n_estimators
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.subsample = subsample
        self.max_features = max_features
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_bins = max_bins
        self.backfit = backfit
        self.backfit_l2 = backfit_l2
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of labels, shape (n,)
        sample_weight : array-like, shape (n,), optional
            Weights >= 0. A row counts once among ``min_samples_leaf`` whatever it weighs, unless it weighs 0.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, labels or weights are not valid.
        """
        rows, labels, weight = self._training(X, y, sample_weight)
        self._set_classes(labels)
        self._learn(rows, self._encode(labels), weight, self.classes_)
        return self

    def predict_proba(self, X: Table) -> Floats:
        """Return the probability of each class, shape (n, n_classes)."""
        return probabilities(self.decision_function(X))


class CellBoostingRegressor(Regressor, BoostingEstimator):
    """Gradient boosting of numbers by squared error, or of a quantile by the pinball loss.

    A fitted model is trees whose leaves are cells, and a weight of each cell.

    Parameters
    ----------
    learning_rate : float, default=0.1
        Share of its best value that a leaf is given.
    n_estimators : int, default=1000
        Largest number of rounds; each grows a tree.
    quantile : float or None, default=None
        Quantile to predict; None: the mean.
    max_leaf_nodes : int, default=31
        Largest number of leaves of a tree.
    min_samples_leaf : int, default=20
        Smallest number of rows in a leaf.
    l2_regularization : float, default=1.0
        Weight of the squared values of leaves.
    subsample, max_features : float, default=1.0
        Share of the rows, and of the columns, that each tree is grown on.
    validation_fraction : float, default=0.1
        Share of the rows that is held out to end the rounds early; 0: all rounds are made.
    n_iter_no_change : int, default=50
        Number of rounds without improvement on held-out rows after which the rounds end.
    max_bins : int, default=256
        Largest number of bins of a column, between which trees split. More than 256 take longer, and twice the memory.
    backfit : int, default=0
        Number of rounds after which the values of the leaves of all trees are estimated anew, one tree after the other
        (backfitting); 0: never. It pays for many sets of numbers, and for hardly any of classes.
    backfit_l2 : float, default=300.0
        Weight of the squared values of leaves there.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None
        Seed. Results do not depend on the number of threads.

    Attributes
    ----------
    model_ : CellsModel
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ikmap import CellBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = CellBoostingRegressor(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.3)
    True
    """

    renamed: ClassVar[Mapping[str, str]] = PARAMETERS | {"quantile_level": "quantile"}

    def __init__(
        self,
        learning_rate: float = 0.1,
        n_estimators: int = 1000,
        *,
        quantile: float | None = None,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int = 20,
        l2_regularization: float = 1.0,
        subsample: float = 1.0,
        max_features: float = 1.0,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 50,
        max_bins: int = 256,
        backfit: int = 0,
        backfit_l2: float = 300.0,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.n_estimators = n_estimators
        self.quantile = quantile
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.subsample = subsample
        self.max_features = max_features
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_bins = max_bins
        self.backfit = backfit
        self.backfit_l2 = backfit_l2
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of finite numbers, shape (n,)
        sample_weight : array-like, shape (n,), optional
            Weights >= 0, not for a quantile. A row counts once among ``min_samples_leaf`` whatever it weighs, unless it
            weighs 0.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, targets or weights are not valid.
        """
        rows, targets, weight = self._training(X, y, sample_weight)
        self._learn(rows, targets, weight)
        return self
