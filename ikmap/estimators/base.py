"""Bases of the estimators: parameters that are fields of methods, tables that become rows, targets, seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.utils import Tags, check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted, validate_data

from ikmap._threads import usable_cores
from ikmap.arrays import Array, Floats, Int32s, Matrix
from ikmap.cells import Cells
from ikmap.estimators.parameters import NOT_NEGATIVE, checked, configured, plain
from ikmap.estimators.table_encoder import TableEncoder, check_targets_are_there, not_numbers
from ikmap.json_values import Label
from ikmap.learners.linear_model import decision_to_index
from ikmap.learners.rows import Rows, check_rows, n_rows
from ikmap.methods import Configured
from ikmap.methods.method import Method
from ikmap.rows import Rows as FeatureRows
from ikmap.rows import check_finite
from ikmap.tables.frames import Frame
from ikmap.tasks import CLASSIFICATION, REGRESSION, BadLabel, TaskKind
from ikmap.tasks.regression.codec import finite_numbers

type Table = Matrix | Frame | Cells
"""Rows that estimators take: an array, a sparse matrix, a DataFrame, an Arrow table, or cells."""
type ClassWeight = Mapping[Label, float] | Literal["balanced"] | None
type NumberedClassWeight = dict[int, float] | Literal["balanced"] | None
type RandomState = int | np.random.RandomState | None


class Estimator(BaseEstimator):
    """Base of all estimators but the encoder of tables.

    Attributes
    ----------
    methods : tuple of type
        Classes of the methods that the parameters configure: a parameter has the name of the field that it sets.
    renamed : mapping of str to str
        By name of a field, the name of its parameter where scikit-learn has another: ``{"t": "n_estimators"}``.
    table_encoder_ : TableEncoder or None
        Encoder of the table that the estimator was fitted on; None where that had finite numbers only.
    """

    methods: ClassVar[tuple[type[Method], ...]] = ()
    renamed: ClassVar[Mapping[str, str]] = {}
    _task: ClassVar[TaskKind | None] = None

    n_features_in_: int
    table_encoder_: TableEncoder | None
    random_state: RandomState = 0
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.sparse = inputs.allow_nan = inputs.string = inputs.categorical = True
        return tags

    def _method[M: Configured](self, kind: type[M], **values: object) -> M:
        """Return the method that the parameters configure; `values` are of fields that no parameter sets as it is.

        Raises
        ------
        ValueError
            A parameter is out of range: the message has its name and its value.
        """
        return configured(kind, self.get_params(deep=False), self.renamed, values)

    @property
    def _n_threads(self) -> int:
        return self.n_jobs if self.n_jobs is not None and self.n_jobs > 0 else usable_cores()

    def _draw_seed(self) -> int:
        """Return the seed; each call draws another one from a generator."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _features(self, X: Table, reset: bool, y: ArrayLike | None = None, task: TaskKind | None = None) -> FeatureRows:
        """Return the rows as float64 features, dense or CSR.

        Finite numbers are taken as they are. A table with words, dates or missing cells is encoded; the words of the
        rows that are learned from (`reset`) by the targets of other rows, as :meth:`TableEncoder.fit_transform` does.

        Parameters
        ----------
        task : TaskKind, optional
            Kind of task of the targets, where the class has none of its own.

        Raises
        ------
        ValueError
            Columns are not those of the fitted rows; the message names them.
        """
        if not reset and self.table_encoder_ is not None:
            return self.table_encoder_.transform(X)
        column = not_numbers(X)
        if column is not None and not reset:
            raise ValueError(
                f"column {column!r}: found words, dates or missing cells, expected numbers as in the rows that "
                f"{type(self).__name__} was fitted on; to have medians in place of missing cells, fit "
                f"make_pipeline(TableEncoder(), {type(self).__name__}())"
            )
        if column is None:
            features: FeatureRows = validate_data(
                self, X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False, reset=reset
            )
            check_finite(features)
            if reset:
                self.table_encoder_ = None
            return features
        seed = self.random_state
        encoder = TableEncoder(random_state=int(seed) if isinstance(seed, int | np.integer) else 0)
        encoded: Floats = encoder._fit_transform(X, y, self._task if task is None else task)
        if encoded.shape[1] == 0:
            raise ValueError(f"found no column that tells rows apart: {'; '.join(encoder.plan_)}")
        self.table_encoder_, self.n_features_in_ = encoder, encoder.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = encoder.feature_names_in_
        return encoded

    def _rows(self, X: Table, reset: bool, y: ArrayLike | None = None) -> Rows:
        """Return the rows as the learner takes them."""
        return self._features(X, reset, y)


class Supervised(Estimator):
    """Base of estimators that learn from targets."""

    def _checked_targets(self, y: ArrayLike) -> Array:
        """Return the targets as an array; each kind of estimator refuses what it cannot learn."""
        raise NotImplementedError

    def _training(
        self, X: Table, y: ArrayLike | None, sample_weight: ArrayLike | None = None, reset: bool = True
    ) -> tuple[Rows, Array, Floats | None]:
        """Return rows, targets and weights that have been checked; weights of None are all ones."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        check_targets_are_there(y)
        targets = self._checked_targets(y)
        rows = self._rows(X, reset, targets)
        n = n_rows(rows)
        check_consistent_length(np.empty(n), targets)
        if sample_weight is None:
            return rows, targets, None
        weight: Floats = _check_sample_weight(
            sample_weight, np.empty((n, 1)), dtype=np.float64, ensure_non_negative=True
        )
        return rows, targets, weight

    def _decisions(self, rows: Rows) -> Floats:
        """Return the decisions of the model, shape (n, outputs)."""
        decisions: Floats = self.model_.decision_function(rows)
        return decisions


class Classifier(ClassifierMixin, Supervised):
    """Base of classifiers."""

    _task = CLASSIFICATION
    classes_: Array

    def _checked_targets(self, y: ArrayLike) -> Array:
        labels: Array = _check_y(y, estimator=self)
        check_classification_targets(labels)
        return labels

    def _set_classes(self, labels: ArrayLike) -> None:
        self.classes_ = np.unique(labels)
        if self.classes_.size < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least 2 classes; the data contains only one class: "
                f"{self.classes_[0]!r}"
            )

    def _encode(self, y: Array) -> Int32s:
        """Return the class number of every label; refuse labels that are not in ``classes_``."""
        index = np.minimum(np.searchsorted(self.classes_, y), self.classes_.size - 1)
        unknown = np.flatnonzero(self.classes_[index] != y)
        if unknown.size:
            raise ValueError(f"row {unknown[0]}: label {y[unknown[0]]} is not one of the classes")
        return index.astype(np.int32)

    def decision_function(self, X: Table) -> Floats:
        """Return the decision values.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame or Cells, n rows

        Returns
        -------
        ndarray of float64, shape (n,) for two classes, else (n, n_classes)
        """
        check_is_fitted(self)
        decisions = self._decisions(self._rows(X, reset=False))
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def predict(self, X: Table) -> Array:
        """Return the class label of every row: a decision of 0 counts as positive, ties go to the first class."""
        decisions = self.decision_function(X)
        return self.classes_[decision_to_index(decisions)]


class Regressor(RegressorMixin, Supervised):
    """Base of regressors."""

    _task = REGRESSION

    def _checked_targets(self, y: ArrayLike) -> Floats:
        return checked_numbers(y, self)

    def predict(self, X: Table) -> Floats:
        """Return the predictions, shape (n,).

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame or Cells, n rows
        """
        check_is_fitted(self)
        return self._decisions(self._rows(X, reset=False))[:, 0]


class Detector(OutlierMixin, Estimator):
    """Base of detectors of novel rows, which score below ``offset_``."""

    def score_samples(self, X: Table) -> Floats:
        """Return how usual each row is, shape (n,): smaller is more novel."""
        raise NotImplementedError

    def decision_function(self, X: Table) -> Floats:
        """Return the scores less :attr:`offset_`: below 0 for novel rows."""
        check_is_fitted(self)
        decisions: Floats = self.score_samples(X) - self.offset_
        return decisions

    def predict(self, X: Table) -> Array:
        """Return -1 for novel rows and 1 for others, shape (n,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)


class CellEstimator(Estimator):
    """Base of learners that take :class:`~ikmap.cells.Cells`, one-hot CSR, and any other dense or CSR rows."""

    cell_value_: float
    on_cells_: bool
    normalize: bool = True
    _n_cells: int = 0

    def _value_of(self, cells: Cells) -> float:
        """Return the feature value that this estimator gives to the entries of ``Cells``."""
        return float(1.0 / np.sqrt(cells.n_partitions)) if self.normalize else 1.0

    @property
    def _divisor(self) -> float:
        """One over the square of the cells' value: t itself, where that is 1/sqrt(t)."""
        divisor = 1.0 / self.cell_value_**2
        return float(round(divisor)) if math.isclose(divisor, round(divisor), rel_tol=1e-12) else divisor

    def _rows(self, X: Table, reset: bool, y: ArrayLike | None = None) -> Rows:
        """Return the rows; one-hot CSR becomes cells with entries ``cell_value_``.

        CSR whose entries differ from the ``cell_value_`` seen first stays CSR. Later rows may lack cells.
        """
        if isinstance(X, Cells):
            check_rows(X, None if reset else self.n_features_in_)
            value = self._value_of(X)
            if len(X) == 0:
                raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
            if reset:
                self.table_encoder_ = None
                self.__dict__.pop("feature_names_in_", None)
                self.n_features_in_, self.cell_value_, self.on_cells_ = X.n_columns, value, True
                self._n_cells = X.n_partitions
            elif not self.on_cells_ or value != self.cell_value_:
                raise ValueError("cells cannot follow rows of another kind: give the kind of the first call")
            return X.packed()
        features = self._features(X, reset, y)
        matrix: sp.csr_array | None = None
        if sp.issparse(features):
            given: sp.csr_array = features
            if not given.has_canonical_format:
                given = given.copy()
                given.sum_duplicates()
            features, matrix = given, given if given.shape[1] <= np.iinfo(np.int32).max else None
        if reset:
            one_hot = None if matrix is None else Cells.from_csr(matrix)
            cells, self.cell_value_ = (None, 1.0) if one_hot is None else one_hot
            self.on_cells_, self._n_cells = cells is not None, 0 if cells is None else cells.n_partitions
        elif matrix is not None and self.on_cells_:
            cells = Cells.from_csr_like(matrix, self._n_cells, self.cell_value_)
        else:
            cells = None
        return features if cells is None else cells.packed()

    def _same_kind(self, rows: Rows) -> Rows:
        """Return the rows, or refuse those that are cells where the first were not, or the other way round."""
        if isinstance(rows, Cells) != self.on_cells_:
            raise ValueError("dense rows cannot follow one-hot rows: give CSR, or the kind of the first call")
        return rows


def checked_numbers(y: ArrayLike, estimator: Estimator) -> Floats:
    """Return targets that are numbers, float64 of shape (n,).

    Raises
    ------
    ValueError
        A target is not a finite number, or is so large that its square leaves the range of float64.
    """
    numbers = _check_y(y, y_numeric=True, estimator=estimator).astype(np.float64)
    try:
        return finite_numbers(numbers)
    except BadLabel as error:
        raise ValueError(f"row {error.row}: {error}") from None


def numbered_class_weight(given: ClassWeight, classes: Array) -> NumberedClassWeight:
    """Return the weights of classes by their numbers; classes that are not named have weight 1.

    Names of further classes are taken only if all classes are named, as where a fold lacks one.

    Raises
    ------
    ValueError
        They are no weights of these classes.
    """
    if given is None or (isinstance(given, str) and given == "balanced"):
        return given
    if not isinstance(given, Mapping):
        raise ValueError(f"class_weight: found {given!r}, expected a dict, 'balanced' or None")
    labels = classes.tolist()
    known = set(labels)
    unknown = [plain(key) for key in given if key not in known]
    without = [label for label in labels if label not in given]
    if unknown and without:
        raise ValueError(
            f"class_weight: found a weight of {unknown[0]!r}, which is no class, and none of class {without[0]!r}; "
            "expected labels as they are in y"
        )
    return {
        k: checked(f"class_weight of {label!r}", given.get(label, 1.0), NOT_NEGATIVE) for k, label in enumerate(labels)
    }
