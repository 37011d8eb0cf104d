"""Learners of numbers that solve ridge regression in one piece, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.cells import Cells
from ikmap.learners.rows import Block
from ikmap.maps.fourier import FourierMap
from ikmap.methods import FieldError, Sample, Training
from ikmap.methods.fourier import FourierLinear, OnFourier
from ikmap.methods.fourier_ridge import FourierRidge
from ikmap.methods.gaussian import Gaussian
from ikmap.methods.gmm import EGMM
from ikmap.methods.intersection import Intersection
from ikmap.methods.kernel_ridge import KernelRidge
from ikmap.methods.laplacian import Laplacian
from ikmap.methods.mondrian import Mondrian
from ikmap.methods.mondrian_forest import MondrianForest
from tests.naive import kernels as naive
from tests.support.narrow import read_back

ROWS, NEW = 60, 17


def problem(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((ROWS + NEW, 4)) * (rng.random((ROWS + NEW, 4)) < 0.8)
    y = 20.0 + np.cos(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=len(X))
    return X[:ROWS], y[:ROWS], X[ROWS:]


def trained(X: Any, y: np.ndarray, weight: np.ndarray | None = None) -> Training:
    return Training(Block(X, y, weight), [], 3)


@pytest.mark.parametrize(
    ("kernel", "naively"),
    [
        (Gaussian(gamma=0.7), lambda X, Y: naive.kernel(X, Y, "gaussian", 0.7)),
        (Laplacian(gamma=0.4), lambda X, Y: naive.kernel(X, Y, "laplacian", 0.4)),
        (Intersection(), lambda X, Y: naive.kernel(X, Y, "intersection")),
    ],
    ids=["gaussian", "laplacian", "intersection"],
)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_kernel_ridge_solves_the_equations(
    kernel: Gaussian | Intersection | Laplacian,
    naively: Callable[[np.ndarray, np.ndarray], np.ndarray],
    layout: Callable[[np.ndarray], Any],
) -> None:
    X, y, new = problem()
    model, summary = KernelRidge(kernel=kernel, C=2.5).fit(trained(layout(X), y))
    dual = np.linalg.solve(naively(X, X) + 0.2 * np.eye(ROWS), y - y.mean())
    expected = naively(new, X) @ dual + y.mean()
    found = model.decision_function(layout(new))
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-10)
    assert summary == {"alpha": 0.2}
    stored = read_back(model)
    np.testing.assert_array_equal(stored.decision_function(layout(new)), found)


def test_whole_weights_of_kernel_ridge_are_rows_that_stand_there_as_often() -> None:
    X, y, new = problem()
    weight = np.random.default_rng(4).integers(0, 4, ROWS)
    learner = KernelRidge(kernel=Gaussian(gamma=1.5), C=3.0)
    assert learner.takes_weights("regression")
    weighed, _ = learner.fit(trained(X, y, weight.astype(float)))
    repeated, _ = learner.fit(trained(np.repeat(X, weight, axis=0), np.repeat(y, weight)))
    np.testing.assert_allclose(weighed.decision_function(new), repeated.decision_function(new), rtol=1e-9)


def test_kernel_ridge_shares_what_values_of_a_kernel_have_in_common() -> None:
    X, y, new = problem()
    learner = KernelRidge(kernel=EGMM(le=3.0))
    assert learner.sharing() == ()
    sharing, learned, tested = learner.shared(X, new)
    model, _ = sharing.fit(trained(learned, y))
    alone, _ = learner.fit(trained(X, y))
    np.testing.assert_array_equal(model.decision_function(tested), alone.decision_function(new))
    assert replace(learner, C=1.0) != learner
    with pytest.raises(FieldError, match=r"^C: found 0"):
        KernelRidge(C=0.0)


def naive_forest(codes: np.ndarray, y: np.ndarray, new: np.ndarray, gamma2: float) -> np.ndarray:
    """Tree by tree and row by row."""
    mean, out = sum(y) / len(y), []
    for row in new.tolist():
        trees = []
        for m, cell in enumerate(row):
            inside = [target - mean for target, known in zip(y, codes[:, m], strict=True) if known == cell != -1]
            trees.append(mean + (sum(inside) / (len(inside) + gamma2) if inside else 0.0))
        out.append(sum(trees) / len(trees))
    return np.array(out)


def cells_of_trees() -> tuple[Cells, np.ndarray, Cells]:
    X, y, new = problem()
    model = Mondrian(t=7, lifetime=1.5).fit(Sample(ROWS, 4, None, X.__getitem__, 2))
    return model.cells(X), y, model.cells(np.concatenate([new, 3.0 * new]))  # some beyond all that the trees know


def test_a_mondrian_forest_is_the_mean_of_its_trees() -> None:
    cells, y, new = cells_of_trees()
    assert (new.codes < 0).any()
    model: Any
    model, summary = MondrianForest(C=0.8).fit(trained(cells, y))
    expected = naive_forest(cells.codes, y, new.codes, 0.625)
    np.testing.assert_allclose(model.decision_function(new)[:, 0], expected, rtol=1e-12)
    assert summary == {"alpha": 0.625}


def test_whole_weights_of_a_mondrian_forest_are_rows_that_stand_there_as_often() -> None:
    cells, y, new = cells_of_trees()
    weight = np.random.default_rng(4).integers(0, 4, ROWS)
    learner = MondrianForest()
    assert learner.takes_weights("regression")
    weighed: Any
    repeated: Any
    weighed, _ = learner.fit(trained(cells, y, weight.astype(float)))
    repeated, _ = learner.fit(trained(cells[np.repeat(np.arange(ROWS), weight)], np.repeat(y, weight)))
    np.testing.assert_allclose(weighed.decision_function(new), repeated.decision_function(new), rtol=1e-12)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("orthogonal", [False, True])
def test_fourier_ridge_solves_the_equations_of_its_features(
    layout: Callable[[np.ndarray], Any], weighted: bool, orthogonal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ikmap.methods.fourier_ridge.BLOCK_BYTES", 5000)  # several blocks
    X, y, new = problem()
    weight = np.random.default_rng(5).random(ROWS) if weighted else np.ones(ROWS)
    learner = FourierRidge(kernel=Gaussian(gamma=0.7), features=9, C=2.5, orthogonal=orthogonal)
    assert learner.takes_weights("regression")
    model: Any
    model, summary = learner.fit(trained(layout(X), y, weight if weighted else None))
    frequencies = FourierMap.gaussian(9, 4, 0.7, 3, orthogonal=orthogonal).frequencies
    Z, mean = naive.fourier_features(X, frequencies), np.average(y, weights=weight)
    w = np.linalg.solve(Z.T @ (weight[:, None] * Z) + 0.2 * np.eye(18), Z.T @ (weight * (y - mean)))
    expected = naive.fourier_features(new, frequencies) @ w + mean
    np.testing.assert_allclose(model.decision_function(layout(new))[:, 0], expected, rtol=1e-9)
    assert summary == {"alpha": 0.2}


@pytest.mark.parametrize("learner", [FourierLinear, FourierRidge])
def test_orthogonal_frequencies_are_at_right_angles(learner: type[OnFourier]) -> None:
    features = learner(kernel=Gaussian(gamma=0.5), features=10, orthogonal=True).fourier_map(4, 0).frequencies
    for start in (0, 4, 8):
        block = features[start : start + 4]
        products = block @ block.T
        np.testing.assert_allclose(products, np.diag(np.diagonal(products)), atol=1e-12)
    with pytest.raises(FieldError, match=r"^orthogonal: found kernel laplacian, and no .*, expected kernel gaussian$"):
        learner(kernel=Laplacian(), orthogonal=True)
    with pytest.raises(FieldError, match=r"^kernel intersection: found learner fourier-\w+, and no random"):
        learner(kernel=Intersection())


@pytest.mark.slow
def test_many_features_of_fourier_ridge_predict_as_the_exact_kernel() -> None:
    X, y, new = problem()
    exact = KernelRidge(kernel=Laplacian(gamma=0.4)).fit(trained(X, y))[0].decision_function(new)
    sizes, off = (100, 300, 900), []
    for features in sizes:
        learner = FourierRidge(kernel=Laplacian(gamma=0.4), features=features)
        models: list[Any] = [learner.fit(replace(trained(X, y), seed=seed))[0] for seed in range(5)]
        off.append(np.sqrt(np.mean([(model.decision_function(new) - exact) ** 2 for model in models])))
    assert np.polyfit(np.log(sizes), np.log(off), 1)[0] == pytest.approx(-0.5, abs=0.2)  # as products do (RF1)


def test_a_record_with_a_kernel_is_checked_with_that_kernel() -> None:
    learner, _ = FourierRidge.of_record({"kernel": "gaussian", "orthogonal": True})
    assert learner.orthogonal
    assert isinstance(learner.kernel, Gaussian)
    with pytest.raises(FieldError, match=r"^orthogonal: found kernel laplacian"):
        FourierRidge.of_record({"kernel": "laplacian", "orthogonal": True})
