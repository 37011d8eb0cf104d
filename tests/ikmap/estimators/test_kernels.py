"""Estimators with a kernel on the rows, exact or by random features, beside scikit-learn's and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

from ikmap import FourierRidge, FourierSVC, KernelRidgeRegressor, KernelSVC, TwoStageGMMClassifier
from ikmap.arrays import Floats
from ikmap.learners.rows import Block
from ikmap.methods import Training
from ikmap.methods.two_stage_gmm import TwoStageGMM

TIGHT: dict[str, Any] = {"tol": 1e-8}


def rows(n: int = 150) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    X = rng.random((n, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2]


def test_kernel_ridge_is_that_of_scikit_learn_on_targets_less_their_mean() -> None:
    X, y = rows()
    weight = np.random.default_rng(1).random(len(y))
    for name, own in (("laplacian", "laplacian"), ("rbf", "gaussian")):
        mean = np.average(y, weights=weight)
        expected = KernelRidge(alpha=0.1, kernel=name, gamma=2.0).fit(X, y - mean, weight).predict(X) + mean
        model = KernelRidgeRegressor(own, 2.0, alpha=0.1).fit(X, y, weight)
        np.testing.assert_allclose(model.predict(X), expected, atol=1e-9)


def test_the_intersection_kernel_in_an_svm() -> None:
    X, y = rows()
    labels = np.where(y > 0.6, "high", "low")
    expected = SVC(C=2.0, kernel=lambda a, b: np.minimum(a[:, None], b[None]).sum(axis=2), **TIGHT).fit(X, labels)
    model = KernelSVC("intersection", C=2.0, **TIGHT).fit(X, labels)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-4)
    with pytest.raises(ValueError, match=r"^Negative values in data passed to KernelSVC: row 0, column 0: found -"):
        KernelSVC("intersection").fit(-X - 1e-3, labels)
    assert KernelSVC("intersection").__sklearn_tags__().input_tags.positive_only
    assert not KernelSVC("gaussian").__sklearn_tags__().input_tags.positive_only


@pytest.mark.slow
@pytest.mark.parametrize("orthogonal", [False, True])
def test_many_random_features_are_about_the_kernel(orthogonal: bool) -> None:
    X, y = rows()
    exact = KernelRidgeRegressor("gaussian", 2.0, alpha=0.1).fit(X, y).predict(X)
    features = FourierRidge("gaussian", 2.0, 1000, orthogonal=orthogonal, alpha=0.1).fit(X, y)
    assert np.abs(features.predict(X) - exact).max() < 0.06
    labels = np.digitize(y, [0.3, 0.9])
    classifier = FourierSVC("gaussian", 2.0, 300, orthogonal=orthogonal, C=10.0).fit(X, labels)
    assert classifier.decision_function(X).shape == (150, 3)
    assert classifier.score(X, labels) > 0.95


def test_two_stages_are_the_learner_of_the_pipeline() -> None:
    X, y = rows()
    labels = (y > 0.6).astype(np.int32)
    model = TwoStageGMMClassifier(30, 5.0, codes=16, code_bits=4, C=2.0, random_state=7).fit(X, labels)
    learner = TwoStageGMM(features=30, le=5.0, codes=16, code_bits=4, C=2.0)
    expected, _ = learner.fit(Training(Block(X, labels), [0, 1], 7))
    np.testing.assert_array_equal(model.decision_function(X), expected.decision_function(X)[:, 0])
    weighed = clone(model).fit(X, labels, np.where(labels == 1, 50.0, 1.0))
    assert (weighed.predict(X) == 1).sum() > (model.predict(X) == 1).sum()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KernelSVC("laplace"), r"^kernel: found 'laplace', expected one of .*did you mean 'laplacian'"),
        (KernelSVC("intersection", 0.5), r"^gamma: found it with kernel 'intersection', whose parameters are: none$"),
        (
            KernelSVC(kernel_params={"le": 1.0}),
            r"^le: found it with kernel 'laplacian', whose parameters are: psi, gamma$",
        ),
        (KernelSVC(gamma=-1.0), r"^gamma: found -1.0, expected a number > 0"),
        (KernelSVC("egmm", kernel_params={"le": -1.0}), r"^le: found -1.0, expected"),
        (KernelSVC(class_weight="even"), r"^class_weight: found 'even', expected one of"),  # type: ignore[arg-type]
        (KernelRidgeRegressor(alpha=0.0), r"^alpha: found 0.0, expected a number > 0$"),
        (FourierRidge(n_frequencies=0), r"^n_frequencies: found 0, expected an integer >= 1$"),
        (FourierSVC(orthogonal=True), r"^orthogonal: found kernel laplacian, and no orthogonal features"),
        (FourierSVC("linear"), r"^kernel linear: found .*expected one of"),
    ],
)
def test_parameters_out_of_range(model: KernelSVC, message: str) -> None:
    X, y = rows(20)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y > 0.6)


def test_kernel_values_beside_which_alpha_is_nothing_are_told() -> None:
    X = np.random.default_rng(0).integers(1_700_000_000, 1_800_000_000, size=(40, 1)).astype(float)
    said = r"alpha 1 is lost in the rounding of kernel values up to 3\.\d+e\+18: bring .* MinMaxScaler in Python"
    with pytest.raises(ValueError, match=said):
        KernelRidgeRegressor("linear", n_jobs=1).fit(X, X[:, 0])
