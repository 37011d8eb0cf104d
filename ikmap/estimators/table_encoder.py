"""Encode the columns of a DataFrame, with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted, validate_data

from ikmap.arrays import Array, Int64s, Matrix, Objects
from ikmap.rows import Rows
from ikmap.tables import CATEGORY, ColumnPlan, EncodingRequest, RawTable, Statistics, choose, fit
from ikmap.tables.column_plan import DROP
from ikmap.tables.frames import Frame, column_of, is_frame, names_of, table_by_name, table_of_columns
from ikmap.tables.statistics import drawn_rows, fold_of
from ikmap.tasks import CLASSIFICATION, REGRESSION, TaskKind
from ikmap.tasks.capabilities import EncodesWords, capability
from ikmap.tasks.classification.codec import MOST_ENCODED


class TableEncoder(TransformerMixin, BaseEstimator):
    """An encoder that makes features of the numbers, words, dates and missing cells of a table.

    It encodes as ``python -m flows.batch`` does: how it treats each column follows from the column's values, and
    :attr:`plan_` says it. Every other estimator of this package encodes a table that has words, dates or missing cells
    with such an encoder of its own; use this class to choose how columns are encoded.

    Parameters
    ----------
    numbers : {"auto", "none", "minmax", "standard", "quantile"}, default="auto"
        How numbers become features; "auto" is "minmax".
    categories : {"auto", "onehot", "target", "count", "hash"}, default="auto"
        How words become features; "auto" is "target" where ``y`` is given, else "onehot" up to 32 different words and
        "count" beyond; for more than two classes it is "onehot" up to 32 words.
    times : {"auto", "parts", "cycles", "both"}, default="auto"
        How dates and times become features; "auto" is "parts".
    columns : mapping of str to mapping, optional
        Of single columns, by name: ``{"zip": {"kind": "category"}, "age": {"kind": "number", "encoding": "drop"}}``;
        "drop" leaves a column out.
    sparse_output : bool, default=False
        Whether features are a ``scipy.sparse.csr_array``, which is smaller where words have many features.
    random_state : int, default=0
        Seed of the folds of target encoding, and of the rows that quantiles are found from.

    Attributes
    ----------
    encoder_ : ikmap.tables.Encoder
    plan_ : list of str
        What became of each column, and why; a line each.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the table has names.

    Notes
    -----
    Takes DataFrames of pandas and polars, tables of Arrow and arrays; columns are found by name, in any order.
    ``fit_transform(X, y)`` encodes the words of a row by the targets of the other folds only, so that it differs from
    ``fit(X, y).transform(X)``, which is for rows that were not learned from; pipelines call the former.

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import TableEncoder
    >>> X = np.array([["red", 1.5], ["blue", None], ["red", 0.5]], dtype=object)
    >>> encoder = TableEncoder(numbers="none", categories="onehot").fit(X)
    >>> encoder.get_feature_names_out().tolist()
    ['x0=blue', 'x0=red', 'x1', 'x1 is missing']
    >>> encoder.transform(X).tolist()
    [[0.0, 1.0, 1.5, 0.0], [1.0, 0.0, 1.5, 1.0], [0.0, 1.0, 0.5, 0.0]]
    """

    n_features_in_: int

    def __init__(
        self,
        numbers: str = "auto",
        categories: str = "auto",
        times: str = "auto",
        *,
        columns: Mapping[str, Mapping[str, str]] | None = None,
        sparse_output: bool = False,
        random_state: int = 0,
    ) -> None:
        self.numbers = numbers
        self.categories = categories
        self.times = times
        self.columns = columns
        self.sparse_output = sparse_output
        self.random_state = random_state

    def fit(self, X: Matrix | Frame, y: ArrayLike | None = None) -> Self:
        """Find how each column is encoded.

        Parameters
        ----------
        X : DataFrame, Arrow table or array, shape (n, columns)
        y : array-like, shape (n,), optional
            Classes or numbers; needed to encode words by targets.
        """
        self._fit(X, y)
        return self

    def fit_transform(self, X: Matrix | Frame, y: ArrayLike | None = None, **fit_params: object) -> Rows:  # noqa: ARG002
        """Fit, and encode the same rows: their words by the targets of other rows."""
        return self._fit_transform(X, y)

    def transform(self, X: Matrix | Frame) -> Rows:
        """Features, float64 (n, features), of rows that were not learned from."""
        check_is_fitted(self)
        return self._features(self._table(X))

    def _fit_transform(self, X: Matrix | Frame, y: ArrayLike | None, task: TaskKind | None = None) -> Rows:
        """Fit, and encode the same rows; an estimator knows for which kind of task."""
        table = self._fit(X, y, task)
        return self._features(table, self._folds(table.rows))

    def _features(self, table: RawTable, folds: Int64s | None = None) -> Rows:
        encode = self.encoder_.encode_sparse if self.sparse_output else self.encoder_.encode
        return encode(table, folds)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Objects:  # noqa: ARG002
        """Names of the features: that of the column, and what tells several of it apart."""
        check_is_fitted(self)
        return np.array(self.encoder_.names, dtype=object)

    @property
    def _seed(self) -> int:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            raise ValueError(f"random_state: found {seed!r}, expected a whole number")
        return int(seed)

    def _fit(self, X: Matrix | Frame, y: ArrayLike | None, task: TaskKind | None = None) -> RawTable:
        request = EncodingRequest(self.numbers, self.categories, self.times)
        own = {name: dict(about) for name, about in (self.columns or {}).items()}
        names, columns = self._columns(X, reset=True)
        kinds = [own.get(name, {}).get("kind") for name in names]
        for name in own:
            if name not in names:
                raise ValueError(f"columns: found no column {name!r}, expected one of {', '.join(names)}")
        table, all_kinds = table_of_columns(columns, names, kinds)
        plan = [
            ColumnPlan(name, kind, own.get(name, {}).get("encoding", "auto"))
            for name, kind in zip(names, all_kinds, strict=True)
        ]
        targets, outputs, unit = _targets(y, table.rows, task)
        drawn = np.zeros(table.rows, dtype=np.bool_)
        drawn[drawn_rows(table.rows, self._seed)] = True
        statistics = Statistics.of(table, all_kinds, self._folds(table.rows), targets, drawn)
        self.encoder_ = fit(choose(plan, statistics, request), statistics, unit=unit, outputs=outputs)
        self.plan_ = self.encoder_.lines(len(plan))
        return table

    def _folds(self, n: int) -> Int64s:
        return fold_of(np.arange(n), self._seed)

    def _columns(self, X: Matrix | Frame, reset: bool) -> tuple[list[str], list[Array]]:
        """Names and columns of a table, checked as scikit-learn does."""
        if sp.issparse(X):
            raise TypeError("sparse data was passed, but dense data is required: a table has cells of any kind")
        X = with_texts_as_names(X)
        if is_frame(X):
            names = names_of(X)
            if reset:
                _check_feature_names(self, X, reset=True)
                self.feature_names_in_ = np.array(names, dtype=object)
                _check_n_features(self, X, reset=True)
            columns = [column_of(X, name) for name in names]
            if not columns or not len(columns[0]):
                raise ValueError(f"Found array with 0 sample(s) or feature(s) (shape={getattr(X, 'shape', None)})")
            return names, columns
        checked = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=reset)
        if checked.dtype.kind == "c":
            raise ValueError("Complex data not supported")
        return [f"x{j}" for j in range(checked.shape[1])], [checked[:, j] for j in range(checked.shape[1])]

    def _table(self, X: Matrix | Frame) -> RawTable:
        plan = self.encoder_.columns
        # Those that were left out may hold anything now, which a word is of any type.
        kinds = [CATEGORY if column.encoding == DROP else column.kind for column in plan]
        X = with_texts_as_names(X)
        if is_frame(X) and hasattr(self, "feature_names_in_"):
            return table_by_name(X, [column.name for column in plan], kinds)
        names, columns = self._columns(X, reset=False)
        return table_of_columns(columns, names, kinds)[0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def with_texts_as_names(X: Matrix | Frame) -> Matrix | Frame:
    """Return a frame with other names than texts, or a list, as an array, and anything else as it is."""
    if isinstance(X, list | tuple):
        return np.array(X, dtype=object)
    if is_frame(X) and not hasattr(X, "column_names"):
        frame: Frame = X
        if not all(isinstance(name, str) for name in frame.columns):
            return np.asarray(frame.to_numpy())
    return X


def not_numbers(X: Matrix | Frame) -> str | None:
    """Return the name of the first column with words, dates or missing cells; None if there are numbers only."""
    if sp.issparse(X):
        return None
    X = with_texts_as_names(X)
    if is_frame(X):
        return next((name for name in names_of(X) if not _are_numbers(column_of(X, name))), None)
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths, which are refused later
        return None
    if array.ndim != 2 or array.dtype.kind in "iubc" or _are_numbers(array):
        return None
    return next((f"x{j}" for j in range(array.shape[1]) if not _are_numbers(array[:, j])), None)


def _are_numbers(values: Array) -> bool:
    """Return whether all values are numbers, of which none is missing."""
    if values.dtype.kind in "iub":
        return True
    if values.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return not np.isnan(values.sum()) or not np.isnan(values).any()
    if values.dtype.kind != "O":
        return False
    return all(isinstance(value, Real | Decimal | np.bool_) and value == value for value in values.ravel().tolist())


def _targets(y: ArrayLike | None, n: int, task: TaskKind | None) -> tuple[Array, list[str], float]:
    """Whole numbers by which words are encoded, what tells them apart, and their unit.

    Without a kind of task whole numbers are classes, unless they are too many for each to be one of these.
    """
    if y is None:
        return np.zeros((n, 0), dtype=np.int64), [""], 1.0
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    check_consistent_length(np.empty(n), y)
    kind = type_of_target(y)
    if kind in ("binary", "multiclass") and y.dtype.kind in "iuf":
        many = kind == "multiclass" and np.unique(y).size > MOST_ENCODED
        if task is REGRESSION or (task is None and many):
            kind = "continuous"
    if kind in ("binary", "multiclass"):
        labels, codes = np.unique(y, return_inverse=True)
        known = CLASSIFICATION.of([str(label) for label in labels])
        targets = codes
    elif kind == "continuous":
        targets = y.astype(np.float64)
        known = REGRESSION.of(float(targets.mean()), float(targets.std()) or 1.0)
    else:
        return np.zeros((n, 0), dtype=np.int64), [""], 1.0
    encodes = capability(known, EncodesWords)
    assert encodes is not None
    outputs, unit = encodes.encoding_outputs()
    if not outputs or (kind != "continuous" and len(labels) < 2):
        return np.zeros((n, 0), dtype=np.int64), [""], 1.0
    return encodes.encoding_targets(targets), list(outputs), unit
