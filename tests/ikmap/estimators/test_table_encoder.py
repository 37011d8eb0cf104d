"""The encoder of tables in Python: scikit-learn's checks, DataFrames of three packages, feature names."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from ikmap import CellOGDClassifier, CellOGDRegressor, IsolationKernelMap, TableEncoder
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

    def features(estimator: CellOGDClassifier | CellOGDRegressor) -> list[str]:
        return present(estimator.table_encoder_).get_feature_names_out().tolist()

    assert features(CellOGDClassifier().fit(X, ids)) == features(CellOGDClassifier().fit(X, ids.astype(str)))
    assert features(CellOGDRegressor().fit(X, ratings)) == ["x0 (target)", "x1"]


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
