"""Kernel SVM on matrices of ours: properties SV3 and SV5 of algorithms.md 8.6 and the model's contract.

SV1, SV2 and SV4 are about linear SVMs (test_linear_svm), SV6 about the chi-square map (test_dense_maps).
"""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
import pytest
from sklearn.svm import SVC

from ikmap.json_values import Label
from ikmap.kernels import AdditiveChi2Kernel, GaussianKernel, IsolationKernel, LaplacianKernel, LinearKernel
from ikmap.kernels.base import AnyKernel
from ikmap.kernels.intersection import IntersectionKernel
from ikmap.kernels.points import PointKernel
from ikmap.learners.kernel.kernel_svm import KernelSVMParams, fit_kernel_svm, kernel_svm_bytes
from tests.naive import kernels as naive_kernels
from tests.support.narrow import number, read_back
from tests.support.streams import LAYOUTS, cell_stream, peak_bytes, signs, stream

TIGHT = KernelSVMParams(tol=1e-9)
KERNELS = [LaplacianKernel(0.7), GaussianKernel(1.3), AdditiveChi2Kernel()]
NAMES = [kernel.name for kernel in KERNELS]


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_sv3_kkt_conditions_hold(kernel: PointKernel, C: float) -> None:
    X, y = stream("any", 200)
    model = fit_kernel_svm(X, y, 2, kernel, KernelSVMParams(C, 1e-9))
    assert isinstance(model.points, np.ndarray)
    K = naive_kernels.kernel(X, model.points, kernel.name, getattr(kernel, "gamma", None))
    close = 1e-5 * max(1.0, C)  # LIBSVM keeps kernel values in float32.
    margin = signs(y) * (K @ model.coef[:, 0] + model.intercept[0])
    alpha = np.zeros(200)
    place = {row.tobytes(): i for i, row in enumerate(X)}
    numbers = [place[row.tobytes()] for row in model.points]
    alpha[numbers] = signs(y)[numbers] * model.coef[:, 0]
    assert alpha.min() >= 0
    assert alpha.max() <= C * (1 + 1e-12)
    assert abs(alpha @ signs(y)) < 1e-9 * C
    inside = (alpha > 0) & (alpha < C)
    assert margin[alpha == 0].min() >= 1 - close
    assert margin[alpha == C].max(initial=0) <= 1 + close
    np.testing.assert_allclose(margin[inside], 1, atol=close)
    primal = 0.5 * model.coef[:, 0] @ (K[numbers] @ model.coef[:, 0]) + C * np.maximum(0, 1 - margin).sum()
    dual = alpha.sum() - 0.5 * model.coef[:, 0] @ (K[numbers] @ model.coef[:, 0])
    assert primal - dual < close * primal


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_sv5_a_matrix_of_ours_gives_the_model_of_libsvms_own_kernel(
    n_classes: int, class_weight: Literal["balanced"] | None
) -> None:
    X, y = stream("any", 300, n_classes=n_classes)
    y[:40] = 0  # Classes of different size.
    theirs = SVC(C=3.0, kernel="rbf", gamma=1.3, tol=1e-9, class_weight=class_weight, decision_function_shape="ovo")
    theirs.fit(X, y)
    ours = fit_kernel_svm(X, y, n_classes, GaussianKernel(1.3), KernelSVMParams(3.0, 1e-9, class_weight))
    queries, _ = stream("any", 200, seed=5)
    np.testing.assert_array_equal(ours.points, X[theirs.support_])
    np.testing.assert_allclose(ours.intercept, theirs.intercept_, atol=1e-6)
    expected = theirs.decision_function(queries)
    assert isinstance(ours.points, np.ndarray)
    K = naive_kernels.kernel(queries, ours.points, "gaussian", 1.3)
    pairs = K @ ours.coef + ours.intercept
    np.testing.assert_allclose(pairs if n_classes > 2 else pairs[:, 0], expected, atol=1e-6)
    clear = np.abs(expected.reshape(200, -1)).min(axis=1) > 1e-5
    voted = _first_of_most_votes(expected) if n_classes > 2 else expected >= 0
    np.testing.assert_array_equal(ours.predict_index(queries)[clear], voted[clear])
    assert (ours.predict(queries) == y.max()).any()
    if n_classes == 2:
        np.testing.assert_allclose(ours.decision_function(queries)[:, 0], expected, atol=1e-6)
    else:
        assert ours.decision_function(queries).sum() == 200 * n_classes * (n_classes - 1) / 2


def _first_of_most_votes(decisions: np.ndarray) -> np.ndarray:
    """LIBSVM's rule for pairs of classes, one row at a time."""
    n_classes = round((1 + np.sqrt(1 + 8 * decisions.shape[1])) / 2)
    found = []
    for row in decisions:
        votes, values = [0] * n_classes, iter(row)
        for a in range(n_classes):
            for b in range(a + 1, n_classes):
                votes[a if next(values) > 0 else b] += 1
        found.append(votes.index(max(votes)))
    return np.array(found)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_layouts_agree_on_bits(kernel: PointKernel) -> None:
    X, y = stream("bits", 300, 30)
    dense = fit_kernel_svm(X, y, 2, kernel, TIGHT)
    csr = fit_kernel_svm(LAYOUTS["csr"](X), y, 2, kernel, TIGHT)
    np.testing.assert_array_equal(dense.decision_function(X), csr.decision_function(LAYOUTS["csr"](X)))
    np.testing.assert_array_equal(dense.decision_function(X), dense.decision_function(LAYOUTS["csr"](X)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_and_blocks_change_nothing(layout: str, n_classes: int) -> None:
    X, y = stream("gaps", 900, n_classes=n_classes)
    rows = LAYOUTS[layout](X)
    models = [fit_kernel_svm(rows, y, n_classes, KERNELS[0], KernelSVMParams(), n_threads=k) for k in (1, 2, 3)]
    assert len({model.content_hash for model in models}) == 1
    assert models[0].coef.shape[0] > 256
    decisions = models[0].decision_function(rows)
    for n_threads in (1, 2, 4):
        np.testing.assert_array_equal(models[0].decision_function(rows, n_threads), decisions)
    for i, j in ((0, 1), (3, 300), (255, 258), (899, 900), (5, 5)):
        np.testing.assert_array_equal(models[0].decision_function(rows[i:j]), decisions[i:j])


@pytest.mark.parametrize("rows", ["dense", "csr", "cells"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_model_round_trip(rows: str, n_classes: int) -> None:
    X: Any
    kernel: AnyKernel
    if rows == "cells":
        X, y = cell_stream(200, n_classes=n_classes)
        kernel = IsolationKernel(13)
    else:
        X, y = stream("gaps", 200, n_classes=n_classes)
        X, kernel = LAYOUTS[rows](X), KERNELS[0]
    labels: list[Label] = [*"abcd"[:n_classes]]
    model = fit_kernel_svm(X, y, n_classes, kernel, KernelSVMParams(), labels)
    again = read_back(model)
    assert again.content_hash == model.content_hash
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert (again.predict(X) == np.array(labels)[y]).mean() > 0.6
    assert again.learner == "kernel_svm"
    assert again.params["C"] == 1.0
    assert number(again.params["steps"]) > 0


def test_the_isolation_kernel_is_its_matrix() -> None:
    cells, y = cell_stream(150)
    model = fit_kernel_svm(cells, y, 2, IsolationKernel(13), TIGHT)
    K = (cells.codes[:, None] == cells.codes[None]).mean(axis=2)
    theirs = SVC(kernel="precomputed", tol=1e-9).fit(K, y)
    np.testing.assert_allclose(model.decision_function(cells)[:, 0], theirs.decision_function(K), atol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "size"), [(LinearKernel(), 1e-7), (IntersectionKernel(), 1e-12), (AdditiveChi2Kernel(), 1e-12)]
)
def test_rows_of_tiny_values_are_told_apart(kernel: AnyKernel, size: float) -> None:
    """Each coefficient is C or 0, whole numbers; kernel values are far smaller than a step of 2^-32."""
    X, y = stream("any", 300)
    X *= size
    model = fit_kernel_svm(X, y, 2, kernel, KernelSVMParams())
    assert set(np.abs(model.coef).ravel().tolist()) == {1.0}
    assert isinstance(model.points, np.ndarray)
    expected = kernel.matrix(X, model.points) @ model.coef + model.intercept
    np.testing.assert_allclose(model.decision_function(X) - model.intercept, expected - model.intercept, rtol=1e-6)
    assert np.unique(model.decision_function(X)).size > 250


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bad_input_is_named(layout: str) -> None:
    X, y = stream("any", 400)
    nan, negative = X.copy(), X.copy()
    nan[300, 2], negative[301, 1] = np.nan, -1
    for rows, labels, message in (
        (nan, y, "row 300, column 2: value is not finite"),
        (negative, y, "row 301, column 1: found -1.0, expected a value >= 0: chi-square is not defined for negative"),
        (X, np.where(np.arange(400) == 304, 2, y), "row 304: class 2 is outside 0..1"),
        (X, np.zeros(400, dtype=int), "rows of 2 classes are needed, found 1"),
        (X[:0], y[:0], "rows of 2 classes are needed, found 0"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            fit_kernel_svm(LAYOUTS[layout](rows), labels, 2, AdditiveChi2Kernel(), TIGHT)
    for C, tol in ((0.0, 1e-3), (np.inf, 1e-3), (1.0, 0.0)):
        with pytest.raises(ValueError, match="C and tol must be positive numbers"):
            KernelSVMParams(C=C, tol=tol)
    model = fit_kernel_svm(X, y, 2, KERNELS[0], KernelSVMParams())
    with pytest.raises(ValueError, match=r"^rows have 4 feature columns, expected 6$"):
        model.decision_function(LAYOUTS[layout](X[:, :4]))


@pytest.mark.parametrize(("layout", "n", "d"), [("dense", 1500, 10), ("dense", 200, 3000), ("csr", 600, 4000)])
def test_memory_is_foreseen(layout: str, n: int, d: int) -> None:
    """NumPy's part of it; LIBSVM's cache is its own."""
    rng = np.random.default_rng(0)
    X = rng.random((n, d)) * (rng.random((n, d)) < (0.05 if layout == "csr" else 1))
    rows, y = LAYOUTS[layout](X), rng.integers(0, 2, n)
    fit_kernel_svm(rows[:50], y[:50], 2, KERNELS[0], KernelSVMParams())
    used = peak_bytes(lambda: fit_kernel_svm(rows, y, 2, KERNELS[0], KernelSVMParams()))
    foreseen = kernel_svm_bytes(n, d, rows.nnz if layout == "csr" else None)
    assert 0.3 * foreseen < used < foreseen
