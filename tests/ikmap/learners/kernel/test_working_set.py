"""Kernel SVMs on a working set of rows: the solution is that of LIBSVM on the matrix of all rows."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from sklearn.svm import SVC

from ikmap.kernels import AdditiveChi2Kernel, GaussianKernel, IsolationKernel, LaplacianKernel
from ikmap.kernels.base import AnyKernel
from ikmap.kernels.points import PointKernel
from ikmap.learners.kernel import working_set
from ikmap.learners.kernel.kernel_svm import KernelSVMParams, fit_kernel_svm, kernel_svm_bytes
from ikmap.learners.kernel.working_set import WorkingSetTooLarge, levels, solve_two_classes
from tests.naive import kernels as naive_kernels
from tests.support.narrow import number
from tests.support.sizes import SmallSizes
from tests.support.streams import LAYOUTS, cell_stream, peak_bytes, signs, stream

pytestmark = pytest.mark.slow

TIGHT = KernelSVMParams(tol=1e-7)
KERNELS = [LaplacianKernel(0.7), GaussianKernel(1.3), AdditiveChi2Kernel()]
NAMES = [kernel.name for kernel in KERNELS]


@pytest.fixture(autouse=True)
def few_rows_at_first(small_sizes: SmallSizes) -> None:
    small_sizes.working_set(40)


def matrix_of(kernel: PointKernel, X: np.ndarray) -> np.ndarray:
    return naive_kernels.kernel(X, X, kernel.name, getattr(kernel, "gamma", None))


def dual(K: np.ndarray, coef: np.ndarray) -> float:
    return np.abs(coef).sum() - 0.5 * coef @ K @ coef


def overlapping(n: int, share: float = 0.2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes, some of which have the label of the other."""
    X, y = stream("any", n, seed=seed)
    flipped = np.random.default_rng(seed + 1).random(n) < share
    return X, np.where(flipped, 1 - y, y)


@pytest.mark.parametrize(
    ("kernel", "C", "share"),
    [*((kernel, 1.0, 0.0) for kernel in KERNELS), (KERNELS[0], 0.1, 0.3), (KERNELS[1], 30.0, 0.3)],
)
def test_the_solution_is_that_of_all_rows(kernel: PointKernel, C: float, share: float) -> None:
    """Few and many support vectors; objective, and optimality conditions of every row (SV3)."""
    X, y = overlapping(500, share)
    params = KernelSVMParams(C, 1e-7)
    found = solve_two_classes(kernel.checked(X), y == 1, kernel, params)
    K = matrix_of(kernel, X)
    whole = SVC(C=C, kernel="precomputed", tol=1e-7).fit(K, y)
    theirs = np.zeros(500)
    theirs[whole.support_] = whole.dual_coef_[0]
    assert found.rounds > 2
    assert dual(K, found.coef) == pytest.approx(dual(K, theirs), rel=1e-6)
    alpha, margin = signs(y) * found.coef, signs(y) * (K @ found.coef + found.intercept)
    close = 1e-5 * max(1.0, C)
    assert alpha.min() >= 0
    assert alpha.max() <= C * (1 + 1e-12)
    assert abs(found.coef.sum()) < 1e-9 * C * 500
    assert margin[alpha == 0].min() >= 1 - close
    assert margin[alpha == C].max(initial=0) <= 1 + close
    np.testing.assert_allclose(margin[(alpha > 0) & (alpha < C)], 1, atol=close)
    np.testing.assert_allclose(K @ found.coef + found.intercept, whole.decision_function(K), atol=10 * close)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("layout", [*LAYOUTS, "cells"])
def test_decisions_are_those_of_all_rows(
    n_classes: int, class_weight: Literal["balanced"] | None, layout: str, small_sizes: SmallSizes
) -> None:
    X: Any
    kernel: AnyKernel
    if layout == "cells":
        X, y = cell_stream(400, n_classes=n_classes)
        kernel = IsolationKernel(13)
    else:
        X, y = stream("gaps", 400, n_classes=n_classes)
        X, kernel = LAYOUTS[layout](X), KERNELS[0]
    y[:60] = 0  # Classes of different size, and noise.
    params = KernelSVMParams(2.0, 1e-7, class_weight)
    ours = fit_kernel_svm(X, y, n_classes, kernel, params)
    small_sizes.working_set(400)
    direct = fit_kernel_svm(X, y, n_classes, kernel, params)
    assert number(ours.params["working_set"]) < number(direct.params["working_set"])
    sums = [model._support.sums(X) + model.intercept for model in (ours, direct)]
    np.testing.assert_allclose(sums[0], sums[1], atol=1e-5)
    clear = np.abs(sums[1]).min(axis=1) > 1e-4
    np.testing.assert_array_equal(ours.predict_index(X)[clear], direct.predict_index(X)[clear])


def test_rows_outside_violate_by_no_more_than_the_tolerance() -> None:
    """With a coarse tolerance too; and only support vectors, rows near the margin and the first sample are held."""
    X, y = overlapping(1500, 0.02)
    K = KERNELS[1].matrix(X)
    for tol in (1e-1, 1e-3):
        found = solve_two_classes(X, y == 1, KERNELS[1], KernelSVMParams(tol=tol))
        margin = signs(y) * (K @ found.coef + found.intercept)
        assert margin[found.coef == 0].min() >= 1 - 1.01 * tol
        assert found.working_set < 1000


def test_threads_change_nothing(small_sizes: SmallSizes) -> None:
    small_sizes.working_set(300)
    X, y = overlapping(1500)
    found = [solve_two_classes(X, y == 1, KERNELS[0], KernelSVMParams(), n_threads=k) for k in (1, 2, 3)]
    for other in found[1:]:
        np.testing.assert_array_equal(other.coef, found[0].coef)
        assert (other.intercept, other.rounds, other.steps) == (
            found[0].intercept, found[0].rounds, found[0].steps
        )  # fmt: skip


def test_the_matrix_of_the_working_set_is_that_of_its_rows() -> None:
    """Through rows that leave and join, in blocks that are not whole tiles."""
    X, _ = stream("any", 900)
    K, random = KERNELS[0].matrix(X), np.random.default_rng(0)
    working, there = working_set._Working(X, KERNELS[0], 2), np.zeros(900, dtype=bool)
    for count in (300, 270, 0, 5, 1):
        size = working.numbers.size
        leaving = np.sort(random.choice(size, size // 3, replace=False))
        stay = np.delete(working.numbers, leaving)
        joining = random.choice(np.flatnonzero(~there), count, replace=False)
        working.change(leaving, joining)
        there[:] = False
        there[working.numbers] = True
        np.testing.assert_array_equal(working.numbers, np.concatenate([stay, joining]))
        np.testing.assert_array_equal(working.matrix, K[np.ix_(working.numbers, working.numbers)])
        coef = random.normal(size=working.numbers.size)
        np.testing.assert_allclose(working.sums(coef), working.matrix @ coef, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", ["twice", "both classes", "one row", "sorted", "noise"])
def test_awkward_rows(case: str) -> None:
    X, y = overlapping(300, 0.1)
    if case == "twice":
        X, y = np.repeat(X[:150], 2, axis=0), np.repeat(y[:150], 2)
    elif case == "both classes":  # The same rows with either label.
        X, y = np.repeat(X[:150], 2, axis=0), np.tile([0, 1], 150)
    elif case == "one row":
        y = (np.arange(300) == 177).astype(int)
    elif case == "sorted":
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    else:
        y = np.random.default_rng(3).integers(0, 2, 300)
    found = solve_two_classes(X, y == 1, KERNELS[0], TIGHT)
    K = matrix_of(KERNELS[0], X)
    whole = SVC(kernel="precomputed", tol=1e-7).fit(K, y)
    expected = whole.decision_function(K)
    np.testing.assert_allclose(K @ found.coef + found.intercept, expected, atol=1e-4)
    if case in ("both classes", "noise"):
        assert found.working_set > 250  # It grows to nearly all rows if it must.


def test_no_more_rows_than_allowed() -> None:
    X, y = overlapping(600, 0.3)
    free = fit_kernel_svm(X, y, 2, KERNELS[0], KernelSVMParams())
    assert 300 < number(free.params["working_set"]) < 600
    bounded = fit_kernel_svm(X, y, 2, KERNELS[0], KernelSVMParams(), max_working_set=600)
    assert bounded.content_hash == free.content_hash
    with pytest.raises(WorkingSetTooLarge, match=r"^the working set would need about \d{3} of 600 rows$") as error:
        fit_kernel_svm(X, y, 2, KERNELS[0], KernelSVMParams(), max_working_set=200)
    assert 0.8 * number(free.params["working_set"]) < error.value.needed <= 600
    with pytest.raises(WorkingSetTooLarge, match="would need about 39 of 600 rows"):
        fit_kernel_svm(X, y, 2, KERNELS[0], KernelSVMParams(), max_working_set=10)


@pytest.mark.parametrize("n", [2, 39, 40, 41, 81, 1000])
def test_levels_are_evenly_spaced_samples_of_both_classes(n: int) -> None:
    second = np.random.default_rng(n).random(n) < 0.3
    second[:2] = False, True
    level = levels(second)
    for least in range(level.max() + 1):
        for of in (second, ~second):
            share = (level[of] >= least).sum() / of.sum()
            assert (level[of] >= least).any()
            assert abs(share - 0.5**least) <= 2 / of.sum()
    assert (level == level.max()).sum() <= 41
    assert (level.max() == 0) == (n <= 40)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_is_foreseen(layout: str, small_sizes: SmallSizes) -> None:
    small_sizes.working_set(400)
    X, y = overlapping(3000, 0.02)
    rows = LAYOUTS[layout](X)
    nnz = rows.nnz if layout == "csr" else None
    models = []
    used = peak_bytes(lambda: models.append(fit_kernel_svm(rows, y, 2, KERNELS[1], KernelSVMParams())))
    size = int(number(models[0].params["working_set"]))
    assert 400 < size < 2000
    assert 8 * size**2 < used < kernel_svm_bytes(3000, 6, nnz, size)
