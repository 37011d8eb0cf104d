"""The encoder of tables in Python: scikit-learn's checks, DataFrames of three packages, feature names."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from ikmap import CellOGDClassifier, CellOGDRegressor, ForestMap, IsolationKernelMap, TableEncoder
from tests.support.narrow import csr, present


def columns(n: int = 60) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    words = ["red", "green", "blue", None]
    return {
        "size": [None if k % 7 == 0 else float(k) for k in range(n)],
        "colour": [words[k] for k in rng.integers(0, 4, n)],
        "when": [datetime.datetime(2001, 1 + k % 12, 1 + k % 28, k % 24) for k in range(n)],
        "same": [1] * n,
    }


def test_arrow_tables_by_name_in_any_order() -> None:
    table = pa.table(columns())
    encoder = TableEncoder(numbers="none", categories="onehot").fit(table)
    names = encoder.get_feature_names_out().tolist()
    assert names == [
        "size", "size is missing", "colour is missing", "colour=blue", "colour=green", "colour=red", "when.month",
        "when.day", "when.weekday", "when.minute",
    ]  # fmt: skip
    assert "same" not in " ".join(names)
    more = table.append_column("other", pa.array(["x"] * table.num_rows)).select(["other", *table.column_names[::-1]])
    np.testing.assert_array_equal(encoder.transform(more), encoder.transform(table))
    less = table.drop_columns(["same"])  # which was left out
    np.testing.assert_array_equal(encoder.transform(less), encoder.transform(table))
    with pytest.raises(ValueError, match=r"^X: found no column 'colour', expected it as in the training data$"):
        encoder.transform(table.drop_columns(["colour"]))
    with pytest.raises(ValueError, match=r"^column 'size': found words, expected numbers as in the rows it was fitted"):
        encoder.transform(table.set_column(0, "size", pa.array(["x"] * table.num_rows)))


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_of_other_packages_give_the_same(package: str) -> None:
    frames = pytest.importorskip(package)
    table = pa.table(columns())
    encoder = TableEncoder().fit(table)
    frame = frames.DataFrame(columns())
    np.testing.assert_array_equal(TableEncoder().fit(frame).transform(frame), encoder.transform(table))
    np.testing.assert_array_equal(encoder.transform(frame), encoder.transform(table))
    less = frames.DataFrame({name: cells for name, cells in columns().items() if name != "same"})
    np.testing.assert_array_equal(encoder.transform(less), encoder.transform(table))
    if package == "pandas":
        found = TableEncoder().set_output(transform="pandas").fit_transform(frame)
        assert list(found.columns) == encoder.get_feature_names_out().tolist()


def test_targets_of_other_folds_encode_the_training_rows() -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(0, 100, 4000).astype(str).astype(object)[:, None]
    y = rng.integers(0, 2, 4000)  # nothing can be learned
    encoder = TableEncoder(categories="target")
    within = encoder.fit_transform(X, y)[:, 0]
    after = encoder.transform(X)[:, 0]
    correlation = [abs(np.corrcoef(found, y)[0, 1]) for found in (within, after)]
    assert correlation[0] < 0.06 < correlation[1]


def test_many_whole_numbers_are_numbers_by_which_words_are_encoded() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 5, 400)
    X, y = np.array([f"w{k}" for k in codes], dtype=object)[:, None], 40 * codes + rng.integers(0, 40, 400)
    encoder = TableEncoder().fit(X, y)
    assert encoder.get_feature_names_out().tolist() == ["x0 (target)"]
    assert np.corrcoef(encoder.transform(X)[:, 0], y)[0, 1] > 0.9


def test_an_estimator_knows_whether_whole_numbers_are_classes() -> None:
    rng = np.random.default_rng(1)
    words = rng.integers(0, 20, 600)
    X = np.array([[f"w{k}", x] for k, x in zip(words, rng.random(600), strict=True)], dtype=object)
    ids, ratings = 40 - 2 * words + rng.integers(0, 2, 600), rng.integers(1, 6, 600)

    def features(estimator: CellOGDClassifier | CellOGDRegressor | ForestMap) -> list[str]:
        return present(estimator.table_encoder_).get_feature_names_out().tolist()

    by_words = features(CellOGDClassifier().fit(X, ids.astype(str)))
    assert features(CellOGDClassifier().fit(X, ids)) == by_words
    assert features(CellOGDRegressor().fit(X, ratings)) == ["x0 (target)", "x1"]
    assert features(ForestMap(2).fit(X, ids)) == features(ForestMap(2, task="classification").fit(X, ids)) == by_words
    assert features(ForestMap(2, task="regression").fit(X, ratings)) == ["x0 (target)", "x1"]


def test_numbers_among_objects_are_targets_as_other_numbers_are() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 5, 200)
    X, y = np.array([f"w{k}" for k in codes], dtype=object)[:, None], codes + np.round(rng.random(200), 2)
    forest = ForestMap(3, random_state=0)
    by_floats = TableEncoder().fit_transform(X, y), CellOGDRegressor().fit(X, y).predict(X), forest.fit(X, y).cells(X)
    assert by_floats[0].shape == (200, 1)
    for objects in (y.tolist(), list(map(Decimal, map(str, y)))):
        targets = np.array(objects, dtype=object)
        np.testing.assert_array_equal(TableEncoder().fit_transform(X, targets), by_floats[0])
        np.testing.assert_array_equal(CellOGDRegressor().fit(X, targets).predict(X), by_floats[1])
        np.testing.assert_array_equal(forest.fit(X, targets).cells(X), by_floats[2])


@pytest.mark.parametrize("y", [["yes", None, "no"], [1.5, np.nan, 2.5]])
@pytest.mark.parametrize("estimator", [TableEncoder(), IsolationKernelMap(), ForestMap(), CellOGDClassifier()])
def test_a_missing_target_is_named(estimator: Any, y: list[Any]) -> None:
    X = np.array([["a"], ["b"], ["a"]], dtype=object)
    for targets in (y, np.array(y, dtype=object)[:, None]):
        with pytest.raises(ValueError, match=r"^row 1: found None or NaN in y, expected a label or a number in every"):
            estimator.fit(X, targets)


def test_targets_may_be_a_column() -> None:
    X = np.array([["a"], ["b"], ["a"], ["b"]], dtype=object)
    y = np.array([0, 1, 0, 1])
    encoder = TableEncoder(categories="target").fit(X, y[:, None])
    assert encoder.transform(X).tolist() == TableEncoder(categories="target").fit(X, y).transform(X).tolist()


def test_a_column_that_was_left_out_may_hold_anything() -> None:
    train = pa.table({"town": ["a", "b", "a", "b"], "note": pa.array([None] * 4, pa.string()), "one": [1.0] * 4})
    encoder = TableEncoder().fit(train)
    for note, one in ((["late", None], [np.inf, 2.0]), ([1.0, None], ["x", "y"])):
        assert encoder.transform(pa.table({"one": one, "note": note, "town": ["b", "a"]})).shape[0] == 2


def test_cells_that_are_arrays_are_refused_or_left_out() -> None:
    X = np.array([["a", None], ["b", None], ["a", None]], dtype=object)
    for k in range(3):
        X[k, 1] = np.arange(2.0)
    frame = pa.table({"x0": ["a", "b", "a"], "x1": pa.array([[0.0, 1.0]] * 3)})
    for table in (X, frame):
        with pytest.raises(
            ValueError,
            match=r"^row 0, column 'x1': found an array, expected a number, a word or a time; .* put "
            r"TableEncoder\(columns=\{'x1': \{'encoding': 'drop'\}\}\) in front$",
        ):
            IsolationKernelMap().fit(table)
        encoder = TableEncoder(categories="onehot", columns={"x1": {"encoding": "drop"}}).fit(table)
        assert encoder.get_feature_names_out().tolist() == ["x0=a", "x0=b"]
        assert encoder.transform(table).tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]


def test_a_column_that_is_to_be_left_out_may_hold_infinity() -> None:
    table = pa.table({"amount": [np.inf, 1.0, 2.0], "size": [1.0, 2.0, 3.0]})
    encoder = TableEncoder(columns={"amount": {"kind": "number", "encoding": "drop"}}).fit(table)
    assert encoder.plan_ == ["column amount: number, drop", "column size: number, minmax"]
    assert encoder.transform(table).tolist() == [[0.0], [0.5], [1.0]]


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"kind": "categorical"}, r"^column 'zip': kind = 'categorical', expected one of number, category, time$"),
        (
            {"type": "category"},
            r"^columns: column 'zip': found \{'type': 'category'\}, expected kind, encoding or both",
        ),
        ("category", r"^columns: column 'zip': found 'category', expected kind, encoding or both, such as"),
        (
            {"encoding": "ordinal"},
            r"^column 'zip': encoding = 'ordinal', expected one of auto, none, .*, hash, .*, drop$",
        ),
        (
            {"kind": "category", "encoding": "minmax"},
            r"^column 'zip': encoding = 'minmax', expected for a category one",
        ),
        ({"kind": "category"}, r"^columns: found no column 'zip', expected one of x0$"),
    ],
)
def test_what_is_asked_of_single_columns_has_to_be_known(about: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TableEncoder(columns={"zip": about}).fit([["a"], ["b"]])


def test_the_seed_is_a_whole_number() -> None:
    X = np.array([["a"], ["b"], ["a"], ["b"]], dtype=object)
    seeds: list[Any] = [7, np.int64(7)]
    found = [TableEncoder(random_state=seed).fit_transform(X, [0, 1, 0, 1]).tolist() for seed in seeds]
    assert found[0] == found[1]
    seed: Any = None
    with pytest.raises(ValueError, match="random_state: found None, expected a whole number"):
        TableEncoder(random_state=seed).fit(X)


def test_a_word_that_is_new_gets_the_mean_or_nothing() -> None:
    X = np.array([["a"], ["b"], ["a"], ["b"]], dtype=object)
    y = np.array([0, 1, 0, 1])
    new = np.array([["z"]], dtype=object)
    assert TableEncoder(categories="target").fit(X, y).transform(new).tolist() == [[0.5]]
    assert TableEncoder(categories="onehot").fit(X).transform(new).sum() in (0.0, 1.0)
    assert TableEncoder(categories="count").fit(X).transform(new).tolist() == [[0.0]]


@pytest.mark.slow
def test_in_a_pipeline_with_a_search() -> None:
    table = pa.table(columns(120))
    X = np.array(list(zip(*table.to_pydict().values(), strict=True)), dtype=object)
    y = np.array([row[1] == "red" for row in X]).astype(int)
    search = GridSearchCV(
        make_pipeline(TableEncoder(), LogisticRegression(max_iter=1000)),
        {"tableencoder__categories": ["onehot", "target"]}, cv=3,
    ).fit(X, y)  # fmt: skip
    assert search.score(X, y) > 0.95


def test_sparse_output_is_the_same() -> None:
    table, y = pa.table(columns()), np.arange(60) % 2
    for categories in ("onehot", "auto"):
        dense = TableEncoder(categories=categories)
        sparse = TableEncoder(categories=categories, sparse_output=True)
        np.testing.assert_array_equal(csr(sparse.fit_transform(table, y)).toarray(), dense.fit_transform(table, y))
        found = sparse.transform(table)
        np.testing.assert_array_equal(csr(found).toarray(), dense.transform(table))
    forest = IsolationKernelMap("iforest", 5, 4, random_state=0)
    maps = [
        make_pipeline(TableEncoder(sparse_output=sparse), forest).fit_transform(table, y) for sparse in (False, True)
    ]
    assert (maps[0] != maps[1]).nnz == 0
