"""Online gradient descent in the dual: properties OG1-OG5 of algorithms.md 5.5 for any kernel, and its contract."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.json_values import Label
from ikmap.kernels import AdditiveChi2Kernel, GaussianKernel, IsolationKernel, LaplacianKernel, LinearKernel
from ikmap.kernels.base import AnyKernel
from ikmap.kernels.intersection import IntersectionKernel
from ikmap.kernels.points import PointKernel
from ikmap.learners.kernel.support_set import support_set_bytes
from ikmap.learners.online.kernel_ogd import KernelOGDState
from ikmap.learners.online.ogd import OGDState
from tests.naive import kernels as naive_kernels
from tests.naive import learners as naive
from tests.support.narrow import present, read_back
from tests.support.streams import LAYOUTS, cell_stream, equal_checkpoints, peak_bytes, signs, stream

pytestmark = pytest.mark.slow

T, PSI = 13, 6
KERNELS = [LaplacianKernel(0.7), GaussianKernel(1.3), AdditiveChi2Kernel()]
NAMES = [kernel.name for kernel in KERNELS]


def row_by_row(state: Any, rows: Any, y: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Decision before each row, support set."""
    decisions, support = [], []
    for i in range(y.size):
        decisions.append(state.decision_function(rows[i : i + 1])[0].squeeze())
        if state.partial_fit(rows[i : i + 1], y[i : i + 1]).n_support:
            support.append(i)
    return np.array(decisions), support


@pytest.mark.parametrize(("seed", "eta"), [(0, 0.5), (1, 0.5), (2, 0.3)])
def test_og1_primal_and_dual_agree_bitwise(seed: int, eta: float) -> None:
    cells, y = cell_stream(300, T, PSI, seed=seed)
    expected = naive.ogd_primal(cells.codes, cells.offsets, signs(y), eta, T)
    states = (
        KernelOGDState(IsolationKernel(T), 2, eta),
        OGDState.start(cells.n_columns, 2, eta, T),
    )
    for state in states:
        decisions, support = row_by_row(state, cells, y)
        np.testing.assert_array_equal(decisions, expected[0])
        assert support == expected[1]
        assert state.n_support == len(support)
        np.testing.assert_array_equal(state.decision_function(cells), states[0].decision_function(cells))
    assert 0 < len(support) < len(cells)
    if eta == 0.5:
        assert support == naive.ogd_dual(cells.codes, signs(y), eta)[1]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_og1_in_blocks_and_with_many_classes(n_classes: int) -> None:
    cells, y = cell_stream(700, T, PSI, n_classes)
    dual, primal = KernelOGDState(IsolationKernel(T), n_classes), OGDState.start(cells.n_columns, n_classes, 0.5, T)
    a, b = dual.partial_fit(cells, y), primal.partial_fit(cells, y)
    np.testing.assert_array_equal(a.predicted, b.predicted)
    assert a.n_support == b.n_support == dual.n_support
    np.testing.assert_array_equal(dual.n_updates, primal.n_updates)
    np.testing.assert_array_equal(dual.decision_function(cells), primal.decision_function(cells))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_og2_weights_are_the_sum_over_the_support_set(n_classes: int) -> None:
    cells, y = cell_stream(600, T, PSI, n_classes)
    dual, primal = KernelOGDState(IsolationKernel(T), n_classes), OGDState.start(cells.n_columns, n_classes, 0.5, T)
    dual.partial_fit(cells, y)
    primal.partial_fit(cells, y)
    support, coef = present(dual.support.arrays())
    assert isinstance(support, Cells)
    X = naive.one_hot(support.codes, support.offsets)
    np.testing.assert_array_equal(primal.weights, X.T @ (0.5 * coef))


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
@pytest.mark.parametrize("label", [0, 1])
def test_og3_first_row_is_predicted_positive_and_always_an_update(kernel: PointKernel, label: int) -> None:
    X, _ = stream("any", 1)
    progress = KernelOGDState(kernel, 2).partial_fit(X, np.array([label]))
    assert progress.predicted.tolist() == [1]
    assert progress.n_support == 1


def test_og4_renaming_cells_changes_nothing() -> None:
    cells, y = cell_stream(300, T, PSI, 3)
    names = np.array([np.random.default_rng(1).permutation(PSI) for _ in range(T)])
    renamed = Cells(names[np.arange(T), cells.codes].astype(np.int32), cells.offsets)
    a, b = (KernelOGDState(IsolationKernel(T), 3) for _ in range(2))
    np.testing.assert_array_equal(a.partial_fit(cells, y).predicted, b.partial_fit(renamed, y).predicted)
    np.testing.assert_array_equal(a.decision_function(cells), b.decision_function(renamed))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["gaps", "bits"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_og5_blocks_threads_and_checkpoints_change_nothing(
    kernel: PointKernel, n_classes: int, kind: str, layout: str
) -> None:
    X, y = stream(kind, 1000, n_classes=n_classes)
    if kind == "bits":
        X[400:420] *= 0.5  # Not all tiles are of bits.
    rows = LAYOUTS[layout](X)
    whole = KernelOGDState(kernel, n_classes, 0.3, n_threads=1)
    predicted = whole.partial_fit(rows, y).predicted
    state, parts = KernelOGDState(kernel, n_classes, 0.3, n_threads=3), []
    for start, stop in ((0, 1), (1, 1), (1, 270), (270, 271), (271, 1000)):
        parts.append(state.partial_fit(rows[start:stop], y[start:stop]).predicted)
        saved = state.checkpoint()
        state.partial_fit(rows[:50], 1 - y[:50] % 2)  # What goes on after the checkpoint must not reach into it.
        state = KernelOGDState(kernel, n_classes, 0.3, n_threads=2).restore(saved)
    np.testing.assert_array_equal(np.concatenate(parts), predicted)
    assert equal_checkpoints(state, whole)
    assert whole.n_seen == 1000
    assert 256 < whole.n_support < 1000
    decisions = whole.decision_function(rows)
    np.testing.assert_array_equal(state.decision_function(rows), decisions)
    for i, j in ((0, 3), (250, 260), (999, 1000), (5, 5)):
        np.testing.assert_array_equal(whole.decision_function(rows[i:j]), decisions[i:j])


@pytest.mark.parametrize("eta", [0.5, 0.3])
@pytest.mark.parametrize("kind", ["any", "bits"])
@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_decisions_are_those_of_the_definition(kernel: PointKernel, kind: str, eta: float) -> None:
    X, y = stream(kind, 120)
    K = naive_kernels.kernel(X, X, kernel.name, getattr(kernel, "gamma", None))
    expected = naive.ogd_kernel(K, signs(y), eta, 2**32 if kernel.normalized else None)
    state = KernelOGDState(kernel, 2, eta)
    decisions, support = row_by_row(state, X, y)
    np.testing.assert_array_equal(decisions, expected[0])
    assert support == expected[1]
    np.testing.assert_array_equal(present(state.support.arrays())[1][:, 0], expected[2])
    whole = KernelOGDState(kernel, 2, eta)
    np.testing.assert_array_equal(whole.partial_fit(X, y).predicted, expected[0] >= 0)
    assert equal_checkpoints(whole, state)
    exact = naive.ogd_dense(np.linalg.cholesky(K + 1e-12 * np.eye(120)), signs(y), eta)[0] if kind == "any" else None
    if exact is not None:  # The kernel itself, without rounding to steps.
        np.testing.assert_allclose(decisions, exact, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_one_against_the_rest_is_one_run_per_class(
    kernel: PointKernel,
) -> None:
    X, y = stream("any", 200, n_classes=4)
    state, rows = KernelOGDState(kernel, 4), set()
    predicted = state.partial_fit(X, y).predicted
    decisions = []
    for k in range(4):
        one = KernelOGDState(kernel, 2)
        f, support = row_by_row(one, X, (y == k).astype(int))
        decisions.append(f)
        rows |= set(support)
        assert state.n_updates[k] == len(support)
        np.testing.assert_array_equal(state.decision_function(X)[:, [k]], one.decision_function(X))
    np.testing.assert_array_equal(predicted, np.argmax(decisions, axis=0))
    assert state.n_support == len(rows)


def test_dense_and_csr_agree_on_bits() -> None:
    X, y = stream("bits", 500, 70, 3)
    for kernel in KERNELS:
        dense, csr = (KernelOGDState(kernel, 3) for _ in range(2))
        np.testing.assert_array_equal(
            dense.partial_fit(X, y).predicted, csr.partial_fit(LAYOUTS["csr"](X), y).predicted
        )
        np.testing.assert_array_equal(dense.decision_function(X), csr.decision_function(LAYOUTS["csr"](X)))
        np.testing.assert_array_equal(dense.decision_function(X), dense.decision_function(LAYOUTS["csr"](X)))


def test_layouts_may_change_on_the_way() -> None:
    X, y = stream("bits", 600)
    expected, mixed = (KernelOGDState(LaplacianKernel(0.7), 2) for _ in range(2))
    expected.partial_fit(X, y)
    for k, start in enumerate(range(0, 600, 100)):
        rows = LAYOUTS["csr" if k % 2 else "dense"](X[start : start + 100])
        mixed.partial_fit(rows, y[start : start + 100])
    np.testing.assert_array_equal(mixed.decision_function(X), expected.decision_function(X))
    model = mixed.model([0, 1])
    np.testing.assert_array_equal(model.decision_function(X), expected.decision_function(X))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", [LinearKernel(), IntersectionKernel(), AdditiveChi2Kernel()], ids=lambda of: of.name)
@pytest.mark.parametrize("size", [2.0**-40, 2.0**40])
def test_values_of_any_size_are_added_up(size: float, kernel: AnyKernel, layout: str) -> None:
    """Columns of millionths or of billions: all kernel values are smaller than a step, or sums of steps are rounded."""
    X, y = stream("gaps", 600, n_classes=3)
    rows = LAYOUTS[layout](X * size)
    parts, state = KernelOGDState(kernel, 3), KernelOGDState(kernel, 3)
    predicted = state.partial_fit(rows, y).predicted
    for start in range(0, 600, 70):
        parts.partial_fit(rows[start : start + 70], y[start : start + 70])
    np.testing.assert_array_equal(state.decision_function(rows), parts.decision_function(rows))
    np.testing.assert_array_equal(state.model([0, 1, 2]).decision_function(rows), parts.decision_function(rows))
    assert np.unique(predicted[300:]).size > 1
    points, coef = present(state.support.arrays())
    expected = 0.5 * kernel.matrix(rows, points) @ coef
    np.testing.assert_allclose(state.decision_function(rows), expected, atol=1e-12 * np.abs(expected).max())


def test_margin_of_exactly_one_is_no_update() -> None:
    X = np.ones((3, 2))
    state = KernelOGDState(LaplacianKernel(1.0), 2, eta=1.0)
    assert state.partial_fit(X, np.array([1, 1, 1])).n_support == 1
    assert state.decision_function(X).tolist() == [[1.0], [1.0], [1.0]]


@pytest.mark.parametrize("rows", ["dense", "csr", "cells"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_model_round_trip(rows: str, n_classes: int) -> None:
    X: Any
    kernel: AnyKernel
    if rows == "cells":
        X, y = cell_stream(400, T, PSI, n_classes)
        kernel = IsolationKernel(T)
    else:
        X, y = stream("gaps", 400, n_classes=n_classes)
        X, kernel = LAYOUTS[rows](X), LaplacianKernel(0.7)
    state = KernelOGDState(kernel, n_classes)
    for part in (slice(0, 0), slice(0, 400)):  # Also before there is any support point.
        state.partial_fit(X[part], y[part])
        labels: list[Label] = [*"abc"[:n_classes]]
        model = state.model(labels, {"psi": 4})
        again = read_back(model)
        assert again.content_hash == model.content_hash
        for m in (model, again):
            np.testing.assert_array_equal(m.decision_function(X), state.decision_function(X))
            np.testing.assert_array_equal(m.decision_function(X[:7], 1), state.decision_function(X)[:7])
        assert set(again.predict(X)) <= set(labels)
        assert again.params == {"eta": 0.5, "psi": 4}
        assert again.decision_function(X[:0]).shape == (0, 1 if n_classes == 2 else 3)
    with pytest.raises(ValueError, match="feature columns, expected"):
        again.decision_function(np.ones((2, 5)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bad_input_is_named_and_nothing_is_learned(layout: str) -> None:
    X, y = stream("any", 600)
    state = KernelOGDState(AdditiveChi2Kernel(), 2)
    state.partial_fit(LAYOUTS[layout](X[:5]), y[:5])
    before = state.checkpoint()
    nan, negative = X.copy(), X.copy()
    nan[300, 2], negative[301, 1] = np.inf, -1
    for rows, labels, message in (
        (nan, y, "row 300, column 2: value is not finite"),
        (negative, y, "row 301, column 1: found -1.0, expected a value >= 0: chi-square is not defined for negative"),
        (X[:, :4], y, "rows have 4 feature columns, expected 6"),
        (X, np.where(np.arange(600) == 404, 2, y), "row 404: class 2 is outside 0..1"),
        (X, y[:-1], "class numbers must be 600 integers, got int32 (599,)"),
        (X, y.astype(float), "class numbers must be 600 integers, got float64 (600,)"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            state.partial_fit(LAYOUTS[layout](rows), labels)
    assert all(np.array_equal(before[name], array) for name, array in state.checkpoint().items())
    with pytest.raises(ValueError, match="got cells"):
        KernelOGDState(LaplacianKernel(1.0), 2).partial_fit(*cell_stream(4))
    with pytest.raises(ValueError, match="takes cells, got ndarray"):
        KernelOGDState(IsolationKernel(6), 2).partial_fit(X, y)
    with pytest.raises(ValueError, match="cells of 13 partitionings, expected 6"):
        KernelOGDState(IsolationKernel(6), 2).partial_fit(*cell_stream(4))
    for eta in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match="eta must be a positive number"):
            KernelOGDState(LaplacianKernel(1.0), 2, eta)
    with pytest.raises(ValueError, match="at least 2 classes are needed, got 1"):
        KernelOGDState(LaplacianKernel(1.0), 1)


@pytest.mark.parametrize(("layout", "d", "n_classes"), [("dense", 400, 2), ("dense", 20, 30), ("csr", 5000, 2)])
def test_memory_is_foreseen(layout: str, d: int, n_classes: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((3000, d)) * (rng.random((3000, d)) < (0.05 if layout == "csr" else 1))
    rows, y = LAYOUTS[layout](X), rng.integers(0, n_classes, 3000)
    state = KernelOGDState(LaplacianKernel(50.0), n_classes, n_threads=2)
    state.partial_fit(rows[:300], y[:300])
    state = KernelOGDState(LaplacianKernel(50.0), n_classes, n_threads=2)
    used = peak_bytes(lambda: state.partial_fit(rows, y))
    assert state.n_support == 3000
    foreseen = support_set_bytes(3000, d, rows.nnz if layout == "csr" else None, n_classes)
    assert 0.4 * foreseen < used < foreseen


def test_memory_of_coefficients() -> None:
    """One of eight bytes for each row, with more than two classes for each row and class."""
    of = [support_set_bytes(1000, 20, n_classes=n_classes) for n_classes in (2, 3, 4)]
    assert [more - of[0] for more in of[1:]] == [16_000, 24_000]


def test_memory_of_sparse_rows() -> None:
    """Entries and what finds the rows: both are there twice."""
    of = [support_set_bytes(n, 20, nnz) for n, nnz in ((1000, 0), (3000, 0), (3000, 7))]
    assert of[1] - of[0] == 2000 * (2 * 24 + 8)
    assert of[2] - of[1] == 2 * 7 * 20
