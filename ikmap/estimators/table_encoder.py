"""Encode the columns of a DataFrame, with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_n_features, check_is_fitted, validate_data

from ikmap.arrays import Array, Int64s, Matrix, Objects
from ikmap.rows import Rows
from ikmap.tables import ColumnPlan, EncodingRequest, RawTable, Statistics, choose, fit
from ikmap.tables.column_plan import BY_KIND, DROP
from ikmap.tables.frames import Frame, columns_of, is_absent, is_frame, names_of, table_by_name, table_of_columns
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
        "drop" leaves a column out, whatever its cells are.
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
        Where the table has names; names that are no texts, as those of ``pd.DataFrame(array)``, as texts.

    Notes
    -----
    Takes DataFrames of pandas and polars, tables of Arrow and arrays; columns are found by name, in any order, and
    those that are left out may be lacking.
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

        Raises
        ------
        ValueError
            A parameter asks for what there is not, a cell cannot be encoded, or a target is missing.
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
        own = _requested(self.columns or {})
        checked, names = self._checked(X, reset=True)
        for name in own:
            if name not in names:
                raise ValueError(f"columns: found no column {name!r}, expected one of {', '.join(names)}")
        given = [own.get(name, {}) for name in names]
        encodings = [about.get("encoding", "auto") for about in given]
        wanted = [
            DROP if encoding == DROP else about.get("kind") for about, encoding in zip(given, encodings, strict=True)
        ]
        table, kinds = _table_of(checked, names, wanted)
        plan = [
            ColumnPlan(name, about.get("kind", kind), encoding)
            for name, about, kind, encoding in zip(names, given, kinds, encodings, strict=True)
        ]
        targets, outputs, unit = _targets(y, table.rows, task)
        drawn = np.zeros(table.rows, dtype=np.bool_)
        drawn[drawn_rows(table.rows, self._seed)] = True
        statistics = Statistics.of(table, kinds, self._folds(table.rows), targets, drawn)
        self.encoder_ = fit(choose(plan, statistics, request), statistics, unit=unit, outputs=outputs)
        self.plan_ = self.encoder_.lines(len(plan))
        return table

    def _folds(self, n: int) -> Int64s:
        return fold_of(np.arange(n), self._seed)

    def _checked(self, X: Matrix | Frame, reset: bool) -> tuple[Array | Frame, list[str]]:
        """Return a table that has been checked as scikit-learn does, and the names of its columns."""
        if sp.issparse(X):
            raise TypeError("sparse data was passed, but dense data is required: a table has cells of any kind")
        if is_frame(X):
            frame: Frame = X
            names = names_of(frame)
            _check_n_features(self, frame, reset=reset)
            if reset:
                self.feature_names_in_ = np.array(names, dtype=object)
            if not names or not len(frame):
                raise ValueError(f"Found array with 0 sample(s) or feature(s) (shape={getattr(X, 'shape', None)})")
            return frame, names
        checked = validate_data(self, _without_lists(X), dtype=None, ensure_all_finite=False, reset=reset)
        if checked.dtype.kind == "c":
            raise ValueError("Complex data not supported")
        return checked, [f"x{j}" for j in range(checked.shape[1])]

    def _table(self, X: Matrix | Frame) -> RawTable:
        plan = self.encoder_.columns
        kinds = [DROP if column.encoding == DROP else column.kind for column in plan]
        if is_frame(X) and hasattr(self, "feature_names_in_"):
            return table_by_name(X, [column.name for column in plan], kinds)
        checked, names = self._checked(X, reset=False)
        return _table_of(checked, names, kinds)[0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _requested(columns: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """Return the requests for single columns, by the texts of their names.

    Raises
    ------
    ValueError
        A request has a key, a kind or an encoding that there is not.
    """
    requests = {str(name): about for name, about in columns.items()}
    for name, about in requests.items():
        if not isinstance(about, Mapping) or not about.keys() <= {"kind", "encoding"}:
            raise ValueError(
                f"columns: column {name!r}: found {about!r}, expected kind, encoding or both, such as "
                "{'kind': 'category', 'encoding': 'onehot'}"
            )
        encoding = about.get("encoding", "auto")
        if "kind" in about:
            ColumnPlan(name, about["kind"], encoding)  # refuses what is unknown
        elif encoding not in (known := ("auto", *(word for words in BY_KIND.values() for word in words), DROP)):
            raise ValueError(f"column {name!r}: encoding = {encoding!r}, expected one of {', '.join(known)}")
    return requests


def _table_of(X: Array | Frame, names: Sequence[str], kinds: Sequence[str | None]) -> tuple[RawTable, list[str]]:
    """Return the cells of a table that has been checked, and the kinds of its columns."""
    columns = list(columns_of(X, names, kinds)) if is_frame(X) else list(np.asarray(X).T)
    return table_of_columns(columns, names, kinds)


def _without_lists(X: Matrix | Frame) -> Matrix | Frame:
    """Return a list of rows as an array of objects, and anything else as it is."""
    return np.array(X, dtype=object) if isinstance(X, list | tuple) else X


def not_numbers(X: Matrix | Frame) -> str | None:
    """Return the name of the first column with words, dates or missing cells; None if there are numbers only."""
    if sp.issparse(X):
        return None
    if is_frame(X):
        names = names_of(X)
        columns = zip(names, columns_of(X, names), strict=True)
        return next((name for name, column in columns if not _are_numbers(column)), None)
    try:
        array = np.asarray(_without_lists(X))
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


def check_targets_are_there(y: ArrayLike) -> None:
    """Refuse targets of which one is missing.

    Raises
    ------
    ValueError
        A target is None or NaN; the message has its row.
    """
    targets = np.asarray(y).ravel()
    if targets.dtype.kind == "O":
        absent = [row for row, value in enumerate(targets.tolist()) if is_absent(value)]
    else:
        absent = np.flatnonzero(np.isnan(targets)).tolist() if targets.dtype.kind == "f" else []
    if absent:
        raise ValueError(
            f"row {absent[0]}: found None or NaN in y, expected a label or a number in every row; to leave out rows "
            "without one, take X[there] and y[there] with there = pandas.notna(y)"
        )


def plain_targets(y: ArrayLike) -> Array:
    """Return targets as an array; numbers that are Python objects, as in ``DataFrame.values``, become float64.

    Raises
    ------
    ValueError
        A target is missing.
    """
    check_targets_are_there(y)
    targets = np.asarray(y)
    return targets.astype(np.float64) if targets.dtype.kind == "O" and _are_numbers(targets) else targets


def _targets(y: ArrayLike | None, n: int, task: TaskKind | None) -> tuple[Array, list[str], float]:
    """Whole numbers by which words are encoded, what tells them apart, and their unit.

    Without a kind of task whole numbers are classes, unless they are too many for each to be one of these.
    """
    if y is None:
        return np.zeros((n, 0), dtype=np.int64), [""], 1.0
    y = plain_targets(y)
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
