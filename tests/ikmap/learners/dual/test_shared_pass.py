"""Sweeps that two threads make together: the same bits as one thread's, wherever they stop."""

from __future__ import annotations

import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError
from sklearn.exceptions import ConvergenceWarning

from ikmap.cells import Cells
from ikmap.learners.dual import _linear_svm_loops as loops
from ikmap.learners.dual import _shared_pass_loops as shared_loops
from ikmap.learners.dual import shared_pass
from ikmap.learners.dual._linear_svm_loops import LOSSES
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm
from ikmap.learners.dual.shared_pass import Pace, SharedPass
from ikmap.learners.rows import Block, row_arrays, squared_norms
from tests.naive import learners as naive
from tests.support import calls
from tests.support.machine import cores
from tests.support.narrow import present
from tests.support.sizes import SmallSizes
from tests.support.svm_problems import Loss, Reread

UNIT = 2.0**45


def problem(n: int, widths: np.ndarray, dtype: type[np.integer] = np.int32, seed: int = 0) -> tuple[Cells, np.ndarray]:
    """Cells that agree about classes here and there, so that dual variables of all kinds occur."""
    rng = np.random.default_rng(seed)
    codes = (rng.random((n, len(widths))) ** 2 * widths).astype(dtype)
    y = (codes[:, :7].sum(axis=1) + rng.integers(0, 5, n) > np.sum(widths[:7]) / 3).astype(np.int32)
    return Cells(codes, np.concatenate([[0], np.cumsum(widths)])), y


def counted(cells: Cells, value: float) -> tuple[Any, ...]:
    arrays: Any = row_arrays(cells, value)
    codes, base, _ = arrays
    return codes, base, value * value / UNIT, UNIT


def begin(cells: Cells, bias: float, loss: Loss, seed: int) -> list[Any]:
    """The arguments of a sweep but for rows and norms, the arrays that it changes made anew."""
    rng = np.random.default_rng(seed)
    n = cells.n_rows
    y = rng.integers(0, 2, n).astype(np.int32)
    weight = rng.uniform(0.1, 3, n) if seed % 2 else np.empty(0)
    w, alpha = np.zeros(cells.n_columns + 1, np.int64), np.zeros(n)
    objective = loops.Objective(y, 1, np.array([0.4, 0.7]), weight, bias, LOSSES[loss])
    return [objective, w, alpha, rng.permutation(n).astype(np.int32)]


class Breaking(ThreadPoolExecutor):
    """The thread of a sweep that is broken off after some meetings, as when a thread is not let run.

    Parameters
    ----------
    shared : SharedPass
    stop : int
        Number of meetings.
    """

    def __init__(self, shared: SharedPass, stop: int) -> None:
        super().__init__(1)
        self._flags, self._stop = shared.exchange.flags, stop

    def submit(self, *call: Any, **options: Any) -> Future[Any]:
        """Set the end of the sweep before its second thread starts."""
        self._flags[shared_loops.STOP] = self._stop
        return super().submit(*call, **options)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    n=st.integers(1, 90),
    t=st.sampled_from([1, 2, 7, 8, 33, 64, 100, 129, 130, 600]),
    dtype=st.sampled_from([np.uint8, np.uint16]),
    loss=st.sampled_from(sorted(LOSSES)),
    bias=st.sampled_from([0.0, 1.0, 0.3]),
    stop=st.one_of(st.none(), st.integers(1, 14)),
    seed=st.integers(0, 1000),
)
def test_two_threads_make_the_sweep_of_one(
    n: int, t: int, dtype: type[np.integer], loss: Loss, bias: float, stop: int | None, seed: int
) -> None:
    cells, _ = problem(n, np.arange(t) % 9 + 1, dtype, seed)
    rows, norms = counted(cells, 1 / np.sqrt(t)), squared_norms(row_arrays(cells, 1 / np.sqrt(t)))
    alone, together = begin(cells, bias, loss, seed), begin(cells, bias, loss, seed)
    shared: Any = SharedPass(*cells.codes.shape)
    if stop is not None:
        shared.pool = Breaking(shared, stop)
    size, threshold = n, np.inf
    for _ in range(4):
        expected = loops.one_pass(rows, norms, *alone, size, threshold, loops.AT_FIRST)
        assert shared(rows, norms, *together, size, threshold) == expected
        for mine, theirs in zip(together[1:], alone[1:], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        size, threshold = expected[0], 0.5 * expected[4]


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_whole_weights_are_sums_of_rounded_dual_variables(loss: Loss) -> None:
    cells, y = problem(150, np.full(12, 6))
    rows, norms = counted(cells, 0.3), squared_norms(row_arrays(cells, 0.3))
    arguments = begin(cells, 1.0, loss, 1)
    arguments[0] = arguments[0]._replace(y=y)
    w, alpha, order = arguments[1:]
    for sweep in range(5):
        loops.shuffle(order, 150, np.uint64(sweep))
        loops.one_pass(rows, norms, *arguments, 150, np.inf, loops.AT_FIRST)
        expected = naive.whole_weights(cells.columns(), cells.n_columns, np.where(y == 1, 1, -1), alpha, UNIT)
        assert w.tolist() == expected
    assert np.unique(alpha).size > 20


@pytest.mark.parametrize(
    ("loss", "warm", "bounds"),
    [
        *[("hinge", False, []), ("squared_hinge", True, []), ("logistic", False, [])],
        *[(loss, loss != "squared_hinge", [100, 240, 420]) for loss in sorted(LOSSES)],
    ],
)  # every two of them together
@pytest.mark.slow
def test_a_fit_on_two_threads_is_that_on_one(
    loss: Loss, warm: bool, bounds: list[int], small_sizes: SmallSizes
) -> None:
    small_sizes.shared_sweeps(rows=20)
    cells, y = problem(500, np.full(40, 9))
    alpha0 = np.random.default_rng(1).uniform(-1, 3, (1, 500)) if warm else None
    params = SVMParams(loss=loss, C=2.0, tol=1e-2 if bounds else 1e-6, max_iter=5000, fit_intercept=True)
    small_sizes.blocks_together(250 * 40)  # two blocks or three
    blocks = Reread(cells, y, bounds)
    with cores(2), calls.counted(SharedPass.__call__) as sweeps:
        one, two = (fit_linear_svm(blocks, 2, params, alpha0=alpha0, n_threads=k) for k in (1, 2))
    assert sweeps.number > 2
    for name in ("coef", "intercept", "alphas", "primal", "dual", "gap", "n_iter"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)


def test_cells_that_can_be_shared_out() -> None:
    """Of 32 partitionings or more, of which each has columns of its own."""
    assert SharedPass.suits(3 * np.arange(32), 96)
    assert not SharedPass.suits(3 * np.arange(31), 93)
    assert not SharedPass.suits(3 * np.arange(32), 93)
    assert not SharedPass.suits(np.append(3 * np.arange(32), 93), 93)
    assert not SharedPass.suits(np.append(93, 3 * np.arange(40)), 200)


def test_patience_comes_back_with_sweeps_that_are_not_broken_off() -> None:
    """As one of eight rows never is: it has no second meeting."""
    for n, stop in ((8, shared_loops.NEVER), (64, 1)):
        cells, _ = problem(n, np.full(33, 5))
        rows, norms = counted(cells, 0.1), squared_norms(row_arrays(cells, 0.1))
        shared = SharedPass(*cells.codes.shape)
        shared.pool = Breaking(shared, stop)
        for patience in (0.5, 2.0, shared_pass.PATIENCE):
            shared.patience = patience
            objective, w, alpha, order = begin(cells, 0.0, "hinge", 0)
            shared(rows, norms, objective, w, alpha, order, n, np.inf)
            more = min(patience + shared_pass.REGAINED, shared_pass.PATIENCE)
            assert shared.patience == (more if n == 8 else patience - 1.0)


class OfSixtyFourRows(ThreadPoolExecutor):
    """A thread that is told of 64 rows, whatever it is to be told."""

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Any:
        told = *arguments[:-2], 64, arguments[-1]
        return super().submit(work, *told, **named)


def test_a_helper_is_not_left_waiting() -> None:
    cells, _ = problem(64, np.full(33, 5))
    rows = counted(cells, 1.0)
    shared: Any = SharedPass(*cells.codes.shape)
    shared.pool = OfSixtyFourRows(1)
    with pytest.raises(TypingError):  # here, while the other thread waits for this one
        shared(rows, np.array([33.0]), *begin(cells, 0.0, "hinge", 0), "not a number of rows", np.inf)


class Always(Pace):
    """A pace at which two threads are always faster."""

    def shares(self) -> bool:
        return True


def test_sweeps_that_are_broken_off_are_given_up() -> None:
    cells, _ = problem(64, np.full(33, 5))
    rows = counted(cells, 1.0)
    shared: Any = SharedPass(*cells.codes.shape)
    shared.pool, shared.pace = Breaking(shared, 2), Always()
    for _ in range(int(shared_pass.PATIENCE)):
        assert shared.pays(10**6)
        shared(rows, np.array([33.0]), *begin(cells, 0.0, "hinge", 0), 64, np.inf)
    assert not shared.pays(10**6)


@pytest.mark.parametrize("slower", [True, False])
def test_most_sweeps_are_made_in_the_way_that_was_faster(slower: bool) -> None:
    pace, made = Pace(), []
    for _ in range(200):
        made.append(pace.shares())
        pace.took(made[-1], 2.0 if made[-1] == slower else 1.0, 1)
    assert made[: shared_pass.FIRST_TRIED] == [False] * shared_pass.FIRST_TRIED
    assert made[shared_pass.FIRST_TRIED]
    assert made.count(slower) <= shared_pass.FIRST_TRIED + 1 + 200 // shared_pass.TRIED_AGAIN
    assert made[20:].count(slower) >= 180 // shared_pass.TRIED_AGAIN - 1


def test_what_is_faster_may_change() -> None:
    pace = Pace()
    made = []
    for k in range(100):
        made.append(pace.shares())
        pace.took(made[-1], (1.0 if made[-1] else 2.0) if k < 50 else (3.0 if made[-1] else 2.0), 10)
    assert sum(made[10:50]) > 30
    assert sum(made[70:]) < 10


def test_only_partitionings_with_weights_of_their_own_are_shared_out() -> None:
    cells, _ = problem(20, np.full(40, 5))
    arrays: Any = row_arrays(cells)
    assert SharedPass.suits(arrays[1], cells.n_columns)
    read_back, value = present(Cells.from_csr(cells.to_csr()))
    arrays = row_arrays(read_back, value)
    assert not SharedPass.suits(arrays[1], read_back.n_columns)
    arrays = row_arrays(Cells(cells.codes[:, :9], cells.offsets[:10]))
    assert not SharedPass.suits(arrays[1], 45)


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize(
    ("C", "value", "spread"), [(1e-9, None, 0), (1e9, None, 0), (1.0, 1e-4, 0), (1.0, 1e3, 0), (1.0, None, 6)]
)
def test_whole_weights_have_the_range_that_a_problem_needs(
    loss: Loss, C: float, value: float | None, spread: int
) -> None:
    cells, y = problem(60, np.full(10, 4))
    value_ = value or 1 / np.sqrt(10)
    weight = 10.0 ** np.random.default_rng(0).uniform(-spread, spread, 60)
    params = SVMParams(loss=loss, C=C, tol=1e-15, max_iter=40, fit_intercept=True)
    X = cells.to_csr(normalize=False).toarray() * value_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = fit_linear_svm([Block(cells, y, weight)], 2, params, cell_value=value)
        wide = fit_linear_svm([Block(X, y, weight)], 2, params)
    signs = np.where(y == 1, 1.0, -1.0)
    w = X.T @ (fit.alphas[0] * signs)
    # Sums of dual variables far larger than the sum lose digits in any arithmetic.
    np.testing.assert_allclose(
        fit.coef[:, 0], w, rtol=1e-9, atol=1e-12 * fit.alphas.max() * value_ + 1e-9 * abs(w).max()
    )
    assert fit.primal[0] == pytest.approx(wide.primal[0], rel=1e-3)
