"""scikit-learn estimators of stacking, whose models are weights of cells of all parts of a sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ikmap.arrays import Array, Floats
from ikmap.cells import Cells
from ikmap.estimators.base import Classifier, RandomState, Regressor, Table
from ikmap.estimators.boosting import PARAMETERS
from ikmap.estimators.kernels import RowsEstimator
from ikmap.estimators.parameters import naming_parameters
from ikmap.estimators.probabilities import probabilities
from ikmap.learners.cells_model import CellsModel
from ikmap.learners.rows import Block, Rows
from ikmap.methods import Training
from ikmap.methods.stacking import Stacking


class StackingEstimator(RowsEstimator):
    """Base of estimators of stacking.

    Attributes
    ----------
    model_ : CellsModel
    weights_ : dict of str to float
        Weight of each part of the sum by its name; 0 for a part that was left out.
    out_of_fold_ : ndarray of float64, shape (n, K)
        Decisions on the rows of ``fit``, by models that have not learned from them. Not there if weights are given.
    """

    methods = (Stacking,)
    renamed: ClassVar[Mapping[str, str]] = PARAMETERS | {
        "t": "n_partitions",
        "psi": "max_samples",
        "n_folds": "cv",
        "refits": "n_refits",
    }

    model_: CellsModel
    weights_: dict[str, float]
    out_of_fold_: Floats

    def __init__(
        self,
        learning_rate: float = 0.1,
        n_estimators: int = 1000,
        *,
        base_models: str = "boosting,iforest",
        cv: int = 5,
        n_refits: int = 0,
        n_partitions: int = 300,
        max_samples: int | Literal["auto"] = "auto",
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
        self.base_models = base_models
        self.cv = cv
        self.n_refits = n_refits
        self.n_partitions = n_partitions
        self.max_samples = max_samples
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

    def cells(self, X: Table) -> Cells:
        """Return the cells of each row, of all parts of the sum: those of the weights ``model_.linear.coef``."""
        check_is_fitted(self)
        return self.model_.partitions.cells(self._rows(X, reset=False), self._n_threads)

    def _stack(self, rows: Rows, y: Array, sample_weight: Floats | None, labels: Array | None = None) -> None:
        stacking = self._method(Stacking)
        classes = [] if labels is None else labels.tolist()
        training = Training(Block(rows, y, sample_weight), classes, self._draw_seed(), self._n_threads)
        self.__dict__.pop("out_of_fold_", None)
        names = {**self.renamed, "partitioner": "base_models"}
        if stacking.is_weighed:
            with naming_parameters(names):
                self.model_, _ = stacking.fit(training)
            self.weights_ = {name: part.weight for name, part in stacking.parts.items() if part.weight is not None}
            return
        with naming_parameters(names):
            self.model_, _, stacked = stacking.fit_out_of_fold(training)
        self.out_of_fold_ = stacked.decisions
        self.weights_ = dict(zip(stacking.parts, stacked.weights.tolist(), strict=True))


class CellStackingClassifier(Classifier, StackingEstimator):
    """A sum of boosting and of logistic regression on cells, with weights >= 0 by rows that neither learned from.

    Parameters
    ----------
    learning_rate : float, default=0.1
        Share of its best value that a leaf of boosting is given.
    n_estimators : int, default=1000
        Largest number of rounds of boosting.
    base_models : str, default="boosting,iforest"
        Parts of the sum: "boosting", and maps ("iforest", "anne", "inne") with a linear model on their cells, whose
        psi and C are chosen unless they are given, as in "iforest:256:8". Boosting may be there several times, with
        options by the names of the command line, as in "boosting,boosting:shrinkage=0.05:max_leaves=12". If all parts
        have weights, as in "boosting@0.4,iforest@0.6", no weights are found by folds.
    cv : int, default=5
        Number of folds, each held out once from the learning of the parts.
    n_refits : int, default=0
        Number of models of all rows that each part is the mean of, with a seed of their own each; 0: those of the
        folds, or one model of all rows if weights are given.
    n_partitions : int, default=300
        Number t of partitionings of a map.
    max_samples : int or "auto", default="auto"
        Number psi of rows that a partitioning draws; "auto" chooses among several by rows that are held out.
    max_leaf_nodes : int, default=31
        Largest number of leaves of a tree of boosting.
    min_samples_leaf : int, default=20
        Smallest number of rows in a leaf.
    l2_regularization : float, default=1.0
        Weight of the squared values of leaves.
    subsample, max_features : float, default=1.0
        Share of the rows, and of the columns, that each tree of boosting is grown on.
    validation_fraction : float, default=0.1
        Share of the rows that boosting holds out to end its rounds early; 0: all rounds are made.
    n_iter_no_change : int, default=50
        Number of rounds without improvement on held-out rows after which boosting ends.
    max_bins : int, default=256
        Largest number of bins of a column, between which trees of boosting split. More than 256 take longer, and twice
        the memory.
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
    weights_ : dict of str to float
        Weight of each part of the sum by its name; 0 for a part that was left out.
    out_of_fold_ : ndarray of float64, shape (n, K)
        Decisions on the rows of ``fit``, by models that have not learned from them. Not there if weights are given.
    classes_ : ndarray
    n_features_in_ : int

    Notes
    -----
    Source: Wolpert, Stacked generalization, 1992; Breiman, Stacked regressions, 1996, for weights >= 0. The decisions
    are log odds.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from ikmap import CellStackingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CellStackingClassifier(n_partitions=30, max_samples=64, random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    >>> sorted(model.weights_)
    ['boosting', 'iforest']
    """

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the parts, fold by fold, and weigh them.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of labels, shape (n,)
        sample_weight : array-like, shape (n,), optional
            Weights >= 0 of the rows in the losses of the parts and of their sum.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, labels or weights are not valid.
        """
        rows, labels, weight = self._training(X, y, sample_weight)
        self._set_classes(labels)
        self._stack(rows, self._encode(labels), weight, self.classes_)
        return self

    def predict_proba(self, X: Table) -> Floats:
        """Return the probability of each class, shape (n, n_classes)."""
        return probabilities(self.decision_function(X))


class CellStackingRegressor(Regressor, StackingEstimator):
    """A sum of boosting and of ridge regression on cells, with weights >= 0 by rows that neither learned from.

    Parameters
    ----------
    learning_rate : float, default=0.1
        Share of its best value that a leaf of boosting is given.
    n_estimators : int, default=1000
        Largest number of rounds of boosting.
    base_models : str, default="boosting,iforest"
        Parts of the sum: "boosting", and maps ("iforest", "anne", "inne") with a linear model on their cells, whose
        psi and C are chosen unless they are given, as in "iforest:256:8". Boosting may be there several times, with
        options by the names of the command line, as in "boosting,boosting:shrinkage=0.05:max_leaves=12". If all parts
        have weights, as in "boosting@0.4,iforest@0.6", no weights are found by folds.
    cv : int, default=5
        Number of folds, each held out once from the learning of the parts.
    n_refits : int, default=0
        Number of models of all rows that each part is the mean of, with a seed of their own each; 0: those of the
        folds, or one model of all rows if weights are given.
    n_partitions : int, default=300
        Number t of partitionings of a map.
    max_samples : int or "auto", default="auto"
        Number psi of rows that a partitioning draws; "auto" chooses among several by rows that are held out.
    max_leaf_nodes : int, default=31
        Largest number of leaves of a tree of boosting.
    min_samples_leaf : int, default=20
        Smallest number of rows in a leaf.
    l2_regularization : float, default=1.0
        Weight of the squared values of leaves.
    subsample, max_features : float, default=1.0
        Share of the rows, and of the columns, that each tree of boosting is grown on.
    validation_fraction : float, default=0.1
        Share of the rows that boosting holds out to end its rounds early; 0: all rounds are made.
    n_iter_no_change : int, default=50
        Number of rounds without improvement on held-out rows after which boosting ends.
    max_bins : int, default=256
        Largest number of bins of a column, between which trees of boosting split. More than 256 take longer, and twice
        the memory.
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
    weights_ : dict of str to float
        Weight of each part of the sum by its name; 0 for a part that was left out.
    out_of_fold_ : ndarray of float64, shape (n, 1)
        Predictions of the rows of ``fit``, by models that have not learned from them. Not there if weights are given.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ikmap import CellStackingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = CellStackingRegressor(n_partitions=30, max_samples=64, random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.3)
    True
    """

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the parts, fold by fold, and weigh them.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of finite numbers, shape (n,)
        sample_weight : array-like, shape (n,), optional
            Weights >= 0 of the rows in the losses of the parts and of their sum.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, targets or weights are not valid.
        """
        rows, targets, weight = self._training(X, y, sample_weight)
        self._stack(rows, targets, weight)
        return self
