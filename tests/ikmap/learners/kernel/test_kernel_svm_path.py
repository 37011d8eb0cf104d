"""SVMs for growing C on one matrix: those of LIBSVM, whatever C came before."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

import ikmap.learners.kernel.kernel_svm_path as path_module
from ikmap.kernels import CosineRBFKernel, MinMaxKernel
from ikmap.learners.kernel.kernel_svm_path import fit_kernel_svm_path

CS = tuple(2.0**m for m in range(-6, 11, 2))


def problem(n: int = 150, n_classes: int = 2, seed: int = 0, noise: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.random((n, 6)) + 0.6 * np.eye(max(6, n_classes))[y, :6]
    return X, np.where(rng.random(n) < noise, rng.integers(0, n_classes, n), y)


def objective(K: np.ndarray, coef: np.ndarray, sign: np.ndarray) -> float:
    return 0.5 * coef @ K @ coef - coef @ sign


@pytest.mark.parametrize("kernel", [MinMaxKernel(), CosineRBFKernel(3.0)], ids=["gmm", "rbf"])
@pytest.mark.parametrize("small", [5, 1000])
def test_two_classes_are_solved_as_by_libsvm(
    kernel: CosineRBFKernel | MinMaxKernel, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few steps on all rows, most are made on those near the margin."""
    monkeypatch.setattr(path_module, "SMALL", small)
    X, y = problem()
    K = kernel.matrix(X)
    found = fit_kernel_svm_path(K, y, 2, CS)
    assert found.converged.all()
    sign = np.where(y == 1, 1.0, -1.0)
    for c, C in enumerate(CS):
        svc = SVC(C=C, kernel="precomputed", tol=1e-6).fit(K, y)
        expected = np.zeros(y.size)
        expected[svc.support_] = svc.dual_coef_[0]
        coef = found.coef[:, c, 0]
        assert np.abs(coef.sum()) < 1e-9 * C * y.size
        assert (coef * sign).min() >= 0
        assert np.abs(coef).max() <= C
        assert objective(K, coef, sign) == pytest.approx(objective(K, expected, sign), rel=1e-4)
        ours = K @ coef + found.intercept[c, 0]
        np.testing.assert_allclose(ours, svc.decision_function(K), atol=5e-3)
        np.testing.assert_array_equal(found.predict(K)[c], (ours >= 0).astype(int))


def test_more_classes_vote_one_against_one() -> None:
    X, y = problem(160, 4)
    K = MinMaxKernel(0.5).matrix(X)
    found = fit_kernel_svm_path(K, y, 4, CS)
    assert found.coef.shape == (160, len(CS), 6)
    for c, C in enumerate(CS):
        svc = SVC(C=C, kernel="precomputed", tol=1e-6, decision_function_shape="ovo").fit(K, y)
        ours = K @ found.coef[:, c] + found.intercept[c]
        np.testing.assert_allclose(ours, svc.decision_function(K), atol=5e-3)
        assert (found.predict(K)[c] == svc.predict(K)).mean() > 0.99


def test_a_solution_does_not_depend_on_smaller_C() -> None:
    X, y = problem(120)
    K = MinMaxKernel().matrix(X)
    along, alone = fit_kernel_svm_path(K, y, 2, CS), fit_kernel_svm_path(K, y, 2, CS[-1:])
    ours, other = (K @ path.coef[:, -1, 0] + path.intercept[-1, 0] for path in (along, alone))
    np.testing.assert_allclose(ours, other, atol=5e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_path_goes_on_from_the_end_of_another(n_classes: int) -> None:
    X, y = problem(120, n_classes)
    K = MinMaxKernel().matrix(X)
    whole = fit_kernel_svm_path(K, y, n_classes, CS)
    first = fit_kernel_svm_path(K, y, n_classes, CS[:-2])
    rest = fit_kernel_svm_path(K, y, n_classes, CS[-2:], start=first.end())
    assert rest.converged.all()
    for c in (0, 1):
        ours, other = (K @ path.coef[:, c - 2] + path.intercept[c - 2] for path in (rest, whole))
        np.testing.assert_allclose(ours, other, atol=5e-3)
    again = fit_kernel_svm_path(K, y, n_classes, CS[-1:], start=whole.end())
    alone = fit_kernel_svm_path(K, y, n_classes, CS[-1:])
    assert again.steps.sum() < alone.steps.sum() / 50  # it begins where the other ended


def test_where_no_bound_holds_C_does_not_matter_any_more() -> None:
    X, y = problem(60, noise=0.0)
    found = fit_kernel_svm_path(MinMaxKernel().matrix(X), y, 2, CS)
    assert found.steps[-1] == 0
    np.testing.assert_array_equal(found.coef[:, -1], found.coef[:, -2])


def test_a_kernel_that_is_not_semidefinite_ends() -> None:
    """Section 8.3: a curvature that is not positive."""
    X, y = problem(80)
    X = (X > 0.7).astype(float)
    K = MinMaxKernel(1.0, 0.05).matrix(X)
    assert np.linalg.eigvalsh(K)[0] < -0.1
    found = fit_kernel_svm_path(K, y, 2, CS)
    assert np.isfinite(found.coef).all()
    assert (np.abs(found.coef).max(axis=(0, 2)) <= np.array(CS) + 1e-12).all()


def test_steps_are_limited_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_module, "MAX_STEPS", 0)
    X, y = problem(60)
    found = fit_kernel_svm_path(MinMaxKernel().matrix(X), y, 2, CS)
    assert not found.converged.any()
    assert found.steps.sum() == 0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_without_rows_is_voted_for_by_nobody(n_classes: int) -> None:
    X, _ = problem(30)
    y = np.zeros(30, dtype=int) if n_classes == 2 else np.arange(30) % 2
    K = MinMaxKernel().matrix(X)
    found = fit_kernel_svm_path(K, y, n_classes, CS)
    assert set(np.unique(found.predict(K))) <= set(np.unique(y))
