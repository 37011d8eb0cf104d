"""IsolationKernelMap as a scikit-learn transformer."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from ikmap import IsolationKernelMap
from ikmap._threads import for_each_block, usable_cores
from ikmap.partitioners import METHODS, VoronoiPartitions, draw_subsamples, fit_partitions
from tests.support.calls import counted
from tests.support.point_sets import DATA

SMALL: dict[str, Any] = {"n_estimators": 5, "max_samples": "auto", "random_state": 0, "n_jobs": 1}


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_matrix])
@pytest.mark.parametrize("method", METHODS)
def test_transform_cells_and_kernel(method: str, form: Any) -> None:
    X = form(DATA["sparse"])
    isolation = IsolationKernelMap(method, 30, 16, random_state=4).fit(X)
    draws = draw_subsamples(60, 30, 16, 4)
    expected = fit_partitions(DATA["sparse"], draws, method=method, seed=4).cells(DATA["sparse"]).codes
    codes = isolation.cells(X)
    assert codes.dtype == np.int32
    np.testing.assert_array_equal(codes, expected)
    Phi = isolation.transform(X)
    assert isinstance(Phi, sp.csr_array)
    assert Phi.shape == (60, 30 * 16)
    K = isolation.kernel(X)
    np.testing.assert_allclose((Phi @ Phi.T).toarray(), K, rtol=1e-12)
    np.testing.assert_array_equal(isolation.kernel(DATA["sparse"][:7], X), K[:7])
    raw = clone(isolation).set_params(normalize=False).fit_transform(X)
    assert (raw.data == 1).all()
    np.testing.assert_array_equal(raw.indices, Phi.indices)


def test_more_jobs_same_cells() -> None:
    X = DATA["continuous"]
    for method in METHODS:
        one, *others = (
            IsolationKernelMap(method, 9, 8, n_jobs=n, random_state=0).fit(X).cells(X) for n in (1, 2, -1, None)
        )
        for other in others:
            np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("n_jobs", [None, -1])
def test_all_cores_by_default(n_jobs: int | None) -> None:
    X = DATA["continuous"]
    model = IsolationKernelMap(n_jobs=n_jobs, random_state=0).fit(X)
    with counted(for_each_block, note=lambda of: of["n_threads"]) as blocks:
        model.cells(X)
    assert blocks.notes == [usable_cores()]


def test_random_state() -> None:
    X = DATA["continuous"]
    seeds: dict[str, Any] = {
        "int": 1,
        "numpy int": np.int64(1),
        "other": 2,
        "state": np.random.RandomState(1),
        "same state": np.random.RandomState(1),
    }
    cells = {name: IsolationKernelMap(max_samples=8, random_state=seed).fit(X).cells(X) for name, seed in seeds.items()}
    np.testing.assert_array_equal(cells["int"], cells["numpy int"])
    np.testing.assert_array_equal(cells["state"], cells["same state"])
    assert (cells["int"] != cells["other"]).any()
    a, b = (IsolationKernelMap(max_samples=8).fit(X).cells(X) for _ in range(2))
    assert (a != b).any()


def test_size_of_a_subsample() -> None:
    rng = np.random.default_rng(0)
    assert IsolationKernelMap(n_estimators=2).fit(rng.random((300, 2))).max_samples_ == 256
    assert IsolationKernelMap(n_estimators=2).fit(rng.random((30, 2))).max_samples_ == 30
    assert IsolationKernelMap(n_estimators=2, max_samples=7).fit(rng.random((30, 2))).max_samples_ == 7


def test_disjoint_subsamples() -> None:
    X = np.arange(40.0)[:, None]
    fitted = IsolationKernelMap(n_estimators=4, max_samples=10, disjoint=True, random_state=0).fit(X)
    assert isinstance(fitted.partitions_, VoronoiPartitions)
    assert fitted.partitions_.centers.shape == (40, 1)
    np.testing.assert_array_equal(np.sort(fitted.partitions_.members.ravel()), np.arange(40))


@pytest.mark.parametrize("method", METHODS)
def test_fitted_map_survives_pickling(method: str) -> None:
    X = DATA["continuous"]
    fitted = IsolationKernelMap(method, random_state=0).fit(X)
    expected = fitted.cells(X)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.cells(X), expected)
    with pytest.raises(NotFittedError):
        clone(fitted).cells(X)


def test_names_of_the_features() -> None:
    fitted = IsolationKernelMap(n_estimators=3, max_samples=4, random_state=0).fit(DATA["continuous"])
    names = fitted.get_feature_names_out()
    assert names.size == 12
    assert [names[0], names[-1]] == ["anne0_0", "anne2_3"]
    both = IsolationKernelMap("iforest,anne", 3, (4, 2), random_state=0).fit(DATA["continuous"])
    names = both.get_feature_names_out()
    assert [names[0], names[4], names[-1]] == ["iforest0_0", "iforest1_0", "anne2_1"]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_data_frames_come_out_where_they_are_asked_for(package: str) -> None:
    pytest.importorskip(package)
    X = DATA["continuous"]
    isolation = IsolationKernelMap("iforest", 3, 4, random_state=0).set_output(transform=package)
    frame = isolation.fit_transform(X)
    assert list(frame.columns) == isolation.get_feature_names_out().tolist()
    expected = isolation.set_output(transform="default").transform(X)
    np.testing.assert_array_equal(frame.to_numpy(), expected.toarray())


@pytest.mark.parametrize("method", METHODS)
def test_in_a_pipeline(method: str) -> None:
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(
        StandardScaler(), IsolationKernelMap(method, 100, random_state=0), LinearSVC(random_state=0)
    )
    grid = {"isolationkernelmap__max_samples": [2, 16, 64]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.cv_results_["mean_test_score"][1] > 0.9
    np.testing.assert_array_equal(pipeline[:-1].fit(X).get_feature_names_out().size, 100 * 150)


AN_INTEGER = "expected an integer >= 1, or 'auto'"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "voronoi"}, "method: found 'voronoi', expected one of anne, iforest"),
        ({"max_samples": 61}, "max_samples: found 61, expected at most 60, the number of rows"),
        ({"max_samples": 0}, f"max_samples: found 0, {AN_INTEGER}"),
        ({"n_estimators": 0}, "n_estimators: found 0, expected an integer >= 1"),
        ({"max_depth": "log2"}, "max_depth: found 'log2' with method anne, whose cells have no depth"),
        (
            {"max_depth": "deep", "method": "iforest"},
            "max_depth: found 'deep', expected an integer >= 1, or 'none' or 'log2'",
        ),
        ({"random_state": -1}, "non-negative"),
        (
            {"max_samples": "all"},
            f"max_samples: found 'all', {AN_INTEGER}",
        ),
        (
            {"max_samples": 0.5},
            f"max_samples: found 0.5, {AN_INTEGER}",
        ),
        ({"n_estimators": 2.5}, "n_estimators: found 2.5, expected an integer >= 1"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IsolationKernelMap(**({"random_state": 0} | parameters)).fit(DATA["continuous"])


def test_bad_rows() -> None:
    X = DATA["continuous"]
    fitted = IsolationKernelMap(random_state=0).fit(X)
    with pytest.raises(ValueError, match="X has 3 features, but IsolationKernelMap is expecting 4"):
        fitted.cells(X[:, :3])
    broken = X.copy()
    broken[5, 2] = np.nan
    with pytest.raises(ValueError, match=r"^column 'x2': found words, dates or missing cells, expected numbers"):
        fitted.transform(broken)
    message = "row 5, column 2: found {}, expected a finite number"
    for form, value in ((sp.csr_array, np.nan), (np.asarray, np.inf)):
        broken[5, 2] = value
        with pytest.raises(ValueError, match=message.format(value)):
            fitted.transform(form(broken))
        with pytest.raises(ValueError, match=message.format(value)):
            IsolationKernelMap().fit(form(broken))


def test_names_are_those_of_the_maps_that_were_fitted() -> None:
    X = np.arange(20.0).reshape(10, 2)
    both = IsolationKernelMap("iforest,anne", n_estimators=4, max_samples=2, random_state=0).fit(X)
    names = both.get_feature_names_out().tolist()
    assert names[0].startswith("iforest0_")
    both.set_params(method="anne")
    assert both.get_feature_names_out().tolist() == names
