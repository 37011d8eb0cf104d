"""Tables with words, dates and missing cells go into every estimator, and give what the pipeline gives."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import ikmap
from flows.options.batch import BatchOptions
from ikmap import (
    CellBoostingClassifier,
    CellStackingClassifier,
    CellSVC,
    IDKDetector,
    IsolationKernelMap,
    TableEncoder,
)
from ikmap.arrays import Array, Floats
from ikmap.tables.frames import Frame
from tests.ikmap.estimators.test_estimators_scikit_learn import CHECKED
from tests.support.one_process import Command, one_process

N, TRAINED = 160, 120
EACH = list({type(estimator): estimator for estimator in CHECKED if not isinstance(estimator, TableEncoder)}.values())


def table(n: int = N) -> pa.Table:
    rng = np.random.default_rng(0)
    towns = ["Ulm", "Bonn", "Kiel", None]
    return pa.table({
        "size": [None if k % 7 == 3 else float(v) for k, v in enumerate(rng.random(n))],
        "town": [towns[k] for k in rng.integers(0, 4, n)],
        "when": [datetime.datetime(2001, 1 + k % 12, 1 + k % 28, k % 24) for k in range(n)],
    })  # fmt: skip


def labels() -> Array:
    columns = table().to_pydict()
    return np.array(["yes" if town == "Ulm" or (size or 0) > 0.7 else "no" for size, town in
                     zip(columns["size"], columns["town"], strict=True)])  # fmt: skip


def targets_for(estimator: BaseEstimator) -> Array:
    yes = labels() == "yes"
    return yes + np.linspace(0, 1, N) if is_regressor(estimator) else labels()


def result(estimator: BaseEstimator, X: Frame | Floats) -> Floats:
    for name in ("decision_function", "predict", "transform"):
        if hasattr(estimator, name):
            values = getattr(estimator, name)(X)
            return values.toarray() if hasattr(values, "toarray") else values
    raise AssertionError(name)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:(the best lifetime|.* rows are all zeros):UserWarning")
@pytest.mark.parametrize("estimator", EACH, ids=lambda one: type(one).__name__)
def test_every_estimator_takes_a_table(estimator: BaseEstimator) -> None:
    frame, y = table(), targets_for(estimator)
    encoder, fitted = TableEncoder(), clone(estimator).fit(frame, y)
    by_targets = None if isinstance(estimator, ikmap.CellNormaDetector | IDKDetector) else y
    features = encoder.fit_transform(frame, by_targets)
    by_hand = clone(estimator).fit(features, y)
    expected = result(by_hand, encoder.transform(frame))
    np.testing.assert_array_equal(result(fitted, frame), expected)
    np.testing.assert_array_equal(result(fitted, frame.select(["when", "size", "town"])), expected)
    np.testing.assert_array_equal(result(pickle.loads(pickle.dumps(fitted)), frame), expected)
    assert fitted.n_features_in_ == 3
    assert fitted.feature_names_in_.tolist() == frame.column_names
    with pytest.raises(ValueError, match=r"^X: found no column 'town', expected it as in the training data$"):
        result(fitted, frame.drop_columns(["town"]))
    # Fitted anew on numbers, it has forgotten the table.
    assert fitted.fit(features, y).n_features_in_ == features.shape[1]
    assert not hasattr(fitted, "feature_names_in_")
    np.testing.assert_array_equal(result(fitted, features), result(by_hand, features))


@pytest.mark.parametrize("package", ["pandas", "polars", "lists"])
def test_tables_of_any_package(package: str) -> None:
    columns = table().to_pydict()
    if package == "lists":
        rows: Frame = [list(row) for row in zip(*columns.values(), strict=True)]
    else:
        rows = pytest.importorskip(package).DataFrame(columns)
    model = make_pipeline(IsolationKernelMap("iforest", 9, 16, random_state=0), CellSVC())
    expected = model.fit(table(), labels()).decision_function(table())
    np.testing.assert_array_equal(model.fit(rows, labels()).decision_function(rows), expected)


def test_a_table_of_numbers_is_an_array_of_them() -> None:
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).random((N, 3))
    expected = CellSVC().fit(X, labels()).decision_function(X)
    for names in (["a", "b", "c"], [0, 1, 2]):
        frame = pandas.DataFrame(X, columns=names)
        np.testing.assert_array_equal(CellSVC().fit(frame, labels()).decision_function(frame), expected)
    named = CellSVC().fit(pandas.DataFrame(X, columns=["a", "b", "c"]), labels())
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*- z"):
        named.predict(pandas.DataFrame(X, columns=["a", "b", "z"]))
    with pytest.raises(ValueError, match=r"^column 'b': found words, dates or missing cells, expected numbers as in"):
        named.predict(pandas.DataFrame({"a": X[:, 0], "b": "red", "c": X[:, 2]}))


def test_an_encoder_in_front_fills_gaps_that_only_later_rows_have() -> None:
    X = np.random.default_rng(0).random((N, 3))
    gapped = X.copy()
    gapped[5, 1] = np.nan
    cells = IsolationKernelMap("anne", 5, 8, random_state=0)
    fitted = clone(cells).fit(X)
    with pytest.raises(ValueError, match=r"cells, fit make_pipeline\(TableEncoder\(\), IsolationKernelMap\(\)\)$"):
        fitted.transform(gapped)
    filled = np.where(np.isnan(gapped), np.sort(X[:, 1])[N // 2], gapped)
    model = make_pipeline(TableEncoder(numbers="none"), cells).fit(X)
    np.testing.assert_array_equal(model.transform(gapped).toarray(), fitted.transform(filled).toarray())
    search = GridSearchCV(make_pipeline(model, CellSVC()), {"cellsvc__C": [1.0, 9.0]}, cv=2, error_score="raise")
    assert np.isfinite(search.fit(gapped, labels()).cv_results_["mean_test_score"]).all()


def test_names_that_are_no_texts_are_found_by_their_texts() -> None:
    pytest.importorskip("pandas")
    frame = table().to_pandas().rename(columns={"size": 0})
    for model in (ikmap.CellOGDClassifier(), make_pipeline(TableEncoder(), ikmap.CellOGDClassifier())):
        expected = model.fit(frame, labels()).decision_function(frame)
        assert model.feature_names_in_.tolist() == ["0", "town", "when"]
        np.testing.assert_array_equal(model.decision_function(frame[["when", 0, "town"]]), expected)
        np.testing.assert_array_equal(model.decision_function(frame.rename(columns=str)), expected)
        with pytest.raises(ValueError, match=r"^X: found no column '0', expected it as in the training data$"):
            model.predict(frame[["town", "when"]])
        with pytest.raises(ValueError, match=r"^X: column name '0' appears twice \(columns 1 and 4\)"):
            model.fit(frame.assign(**{"0": 1.0}), labels())


def test_columns_of_one_name_are_refused_among_numbers_too() -> None:
    X = np.random.default_rng(0).random((N, 2))
    with pytest.raises(ValueError, match=r"^X: column name 'a' appears twice \(columns 1 and 2\)"):
        CellSVC().fit(pa.Table.from_arrays(list(map(pa.array, X.T)), ["a", "a"]), labels())


def test_more_rows_of_a_table_later() -> None:
    first, later = table().slice(0, 100), table().slice(100)
    y = targets_for(ikmap.CellOGDRegressor())
    model = ikmap.CellOGDRegressor().partial_fit(first, y[:100]).partial_fit(later, y[100:])
    encoder = TableEncoder()
    by_hand = ikmap.CellOGDRegressor().partial_fit(encoder.fit_transform(first, y[:100]), y[:100])
    by_hand.partial_fit(encoder.transform(later), y[100:])
    np.testing.assert_array_equal(model.predict(later), by_hand.predict(encoder.transform(later)))


def test_the_pipeline_gives_the_same_for_the_same_table(tmp_path: Path) -> None:
    whole = table().append_column("y", pa.array(labels()))
    for name, part in (("train", whole.slice(0, TRAINED)), ("test", whole.slice(TRAINED))):
        pq.write_table(part, tmp_path / f"{name}.parquet")
    words = "--label y --partitioner iforest --t 20 --psi 16 --learner svm --C 1 --seed 3"
    files = ["--input", f"{tmp_path}/train.parquet", "--test-input", f"{tmp_path}/test.parquet"]
    with one_process():
        Command(BatchOptions.parse([*files, *words.split()])).run(tmp_path / "run")
    train, test = table().slice(0, TRAINED), table().slice(TRAINED)
    model = make_pipeline(IsolationKernelMap("iforest", 20, 16, random_state=3), CellSVC(C=1.0, random_state=3))
    decisions = model.fit(train, labels()[:TRAINED]).decision_function(test)
    np.testing.assert_array_equal(decisions, ikmap.load(tmp_path / "run").decision_function(test))


@pytest.mark.parametrize("estimator", [CellBoostingClassifier(), CellStackingClassifier()])
def test_cells_are_those_of_what_was_fitted(estimator: CellBoostingClassifier | CellStackingClassifier) -> None:
    with pytest.raises(NotFittedError):
        estimator.cells(np.zeros((2, 2)))


def test_the_tags_are_true() -> None:
    for estimator in EACH:
        tags = estimator.__sklearn_tags__().input_tags
        assert (tags.allow_nan, tags.string, tags.categorical, tags.sparse) == (True, True, True, True)
