"""A scikit-learn transformer to the leaves of trees that are grown by labels."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_y

from ikmap.arrays import Array, Floats
from ikmap.estimators.base import RandomState, Table, checked_numbers
from ikmap.estimators.cell_map import CellMap
from ikmap.estimators.parameters import checked, naming_parameters, subsample_size
from ikmap.estimators.table_encoder import plain_targets
from ikmap.methods import Sample
from ikmap.methods.forest import Forest
from ikmap.methods.kinds import Choice
from ikmap.rows import Rows, as_rows
from ikmap.tasks import CLASSIFICATION, REGRESSION, TaskKind

PARAMETERS = {"t": "n_estimators", "psi": "max_samples", "partitioner": "map"}
"""Names of parameters, and a word for the map, in messages that name options."""
AUTOMATIC = 4096
"""Number of rows of a tree for ``max_samples="auto"``, where there are twice as many rows."""


class ForestMap(CellMap):
    """Feature map to the leaves of trees, each grown by the targets of a subsample of the rows.

    Trees ask only in which order the values of a column are, so columns may have different units. A learner on the
    cells of the same rows sees leaves whose targets are more alike than those of new rows, so ``max_samples`` should be
    well below the number of rows, or ``min_leaf`` should be large.

    Parameters
    ----------
    n_estimators : int, default=300
        Number t of trees.
    max_samples : int or "auto", default="auto"
        Number of rows that a tree is grown on; "auto" takes 4096, but at most half of the rows.
    splits : {"random", "best"}, default="random"
        "random": the best of one random split of each column, as in extremely randomized trees; "best": the best of all
        splits, as in random forests.
    max_features : float, default=0.5
        Share of the columns, drawn anew for each split, whose splits are compared.
    max_depth : int or None, default=None
        Largest number of splits above a leaf; None: any number.
    min_leaf : int, default=5
        Smallest number of the rows of a tree in a leaf.
    criterion : {"gini", "entropy"}, default="gini"
        Impurity of classes that splits reduce. With numbers as targets they reduce the squared error.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether targets are classes or numbers; "auto": numbers that are not all whole are numbers, others classes.
    normalize : bool, default=True
        Entries of the transformed rows are 1/sqrt(t), so that inner products are kernel values; else 1.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None
        Seed. Results do not depend on the number of threads or on how rows are grouped in calls.

    Attributes
    ----------
    partitions_ : ForestPartitions
    max_samples_ : int
    n_features_in_ : int

    Notes
    -----
    Source: Geurts, Ernst and Wehenkel, Extremely randomized trees, 2006; Breiman, Random forests, 2001. Splits are
    between the bins of a histogram of at most 256 bins for each column.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from ikmap import CellLogisticRegression, ForestMap
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(ForestMap(50, random_state=0), CellLogisticRegression())
    >>> bool(model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    """

    methods = (Forest,)

    def __init__(
        self,
        n_estimators: int = 300,
        max_samples: int | str = "auto",
        *,
        splits: Literal["random", "best"] = "random",
        max_features: float = 0.5,
        max_depth: int | None = None,
        min_leaf: int = 5,
        criterion: Literal["gini", "entropy"] = "gini",
        task: Literal["auto", "classification", "regression"] = "auto",
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.splits = splits
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_leaf = min_leaf
        self.criterion = criterion
        self.task = task
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Table, y: ArrayLike | None = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like, shape (n,)
            Labels of classes, or numbers.

        Raises
        ------
        ValueError
            A parameter is out of range, an entry is not finite, or a target is missing.
        """
        self._grow(X, y)
        return self

    def fit_transform(self, X: Table, y: ArrayLike | None = None, **fit_params: object) -> sp.csr_array | Floats:  # noqa: ARG002
        """Fit, and transform the same rows.

        The words of a row are encoded by the targets of other rows, never by its own. The trees have seen the targets
        of the rows in their subsamples.
        """
        rows = self._grow(X, y)
        return self._one_hot(self.partitions_.cells(rows, self._n_threads))

    def _grow(self, X: Table, y: ArrayLike | None) -> Rows:
        """Grow the trees and return the rows."""
        if y is None:
            raise ValueError("ForestMap requires y to be passed, but the target y is None")
        task = checked("task", self.task, Choice(("auto", "classification", "regression")))
        targets: Array = _check_y(plain_targets(y), estimator=self)
        if task == "auto":
            task = "regression" if type_of_target(targets) == "continuous" else "classification"
        kind: TaskKind = REGRESSION if task == "regression" else CLASSIFICATION
        rows = as_rows(self._features(X, True, targets, kind))
        n, d = rows.shape
        check_consistent_length(np.empty(n), targets)
        if task == "classification":
            labels, targets = np.unique(targets, return_inverse=True)
            learned = CLASSIFICATION.of(labels.tolist())
        else:
            learned, targets = REGRESSION.of(), checked_numbers(targets, self)
        self.max_samples_ = subsample_size(self.max_samples, n, max(1, min(AUTOMATIC, n // 2)))
        forest = self._method(
            Forest, psi=self.max_samples_, max_depth="none" if self.max_depth is None else self.max_depth
        )
        sample = Sample(n, d, learned, rows.__getitem__, self._draw_seed(), targets=targets.__getitem__)
        with naming_parameters(PARAMETERS):
            self.partitions_ = forest.fit(sample, self._n_threads)
        return rows
