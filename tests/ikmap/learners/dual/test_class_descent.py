"""One-vs-rest problems that share their passes over the rows: the same bits as each one alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.dual import _class_sweep_loops as class_sweeps
from ikmap.learners.dual import _linear_svm_loops as loops
from ikmap.learners.dual import class_descent
from ikmap.learners.dual._lanes_loops import LANES
from ikmap.learners.dual._linear_svm_loops import LOSSES
from ikmap.learners.dual.linear_svm import SVMFit, SVMParams, fit_linear_svm
from ikmap.learners.rows import Block, row_arrays, squared_norms
from tests.support.calls import counted
from tests.support.machine import cores
from tests.support.svm_problems import Loss

T, PSI, CLASSES = 11, 7, 19
EVERY_LOSS = pytest.mark.parametrize("loss", sorted(LOSSES))
EVERY_LAYOUT = pytest.mark.parametrize("layout", ["cells", "dense", "csr"])


def problem(n: int, n_classes: int = CLASSES, seed: int = 0) -> tuple[Cells, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, PSI, (n, T)).astype(np.int32)
    score = codes[:, :4].sum(axis=1) + rng.integers(0, PSI, n)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score).astype(np.int32)
    return Cells(codes, np.arange(T + 1) * PSI), y


def in_layout(cells: Cells, layout: str) -> Any:
    X = cells.to_csr()
    return {"cells": cells, "csr": X, "dense": X.toarray()}[layout]


def same(a: SVMFit, b: SVMFit) -> None:
    for name in ("coef", "intercept", "alphas", "primal", "dual", "gap", "n_iter"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@EVERY_LOSS
@EVERY_LAYOUT
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_eight_problems_side_by_side_are_eight_alone(loss: Loss, layout: str, bias: float) -> None:
    cells, y = problem(150)
    rows, rng = row_arrays(in_layout(cells, layout), 0.3), np.random.default_rng(1)
    norms, weight, class_cost = squared_norms(rows), rng.uniform(0.5, 2, 150), rng.uniform(0.5, 2, CLASSES)
    positive = np.array([3, 0, 18, 5, 7, 11, -1, 2])  # no row has class -1: a lane without a problem
    signs = np.where(np.arange(CLASSES)[:, None] == positive, 1.0, -1.0)
    common = (class_cost, weight, bias, LOSSES[loss])
    together = class_sweeps.Objectives(y, signs, *common)
    alone = [loops.Objective(y, int(positive[k]), *common) for k in range(LANES)]
    columns = cells.n_columns + 1
    W, alpha = class_descent._aligned_zeros(columns, LANES), class_descent._aligned_zeros(150, LANES)
    alpha[:] = rng.uniform(-0.5, 0.5, alpha.shape)
    w, a = np.zeros((LANES, columns)), np.ascontiguousarray(alpha.T)
    class_sweeps.accumulate_lanes(rows, together, W, alpha)
    lengths = np.empty(LANES)
    class_sweeps.squared_lengths(W, lengths)
    for k in range(LANES):
        loops.accumulate(rows, alone[k], w[k], a[k])
        assert lengths[k] == loops.squared_length(w[k])
    active, threshold = np.full(150, 2**LANES - 1, np.uint8), np.full(LANES, np.inf)
    left: list[np.ndarray] = [np.arange(150) for _ in range(LANES)]
    order, state = np.arange(150, dtype=np.int32), np.uint64(5)
    seen, sums = np.empty((7, LANES)), np.empty((3, LANES))
    for _ in range(8):
        state = np.uint64(loops.shuffle(order, 150, state))
        class_sweeps.sweep_lanes(rows, norms, together, W, alpha, order, active, threshold, seen)
        class_sweeps.certify_lanes(rows, together, W, alpha, sums)
        for k in range(LANES):
            mine = order[np.isin(order, left[k])]
            size, losses, gap, most, rms, growth = loops.one_pass(
                rows, norms, alone[k], w[k], a[k], mine, mine.size, threshold[k], loops.AT_FIRST
            )
            left[k] = mine[:size]
            told = [seen[row, k] for row in (*class_sweeps.TOLD, class_sweeps.RMS, class_sweeps.KEPT)]
            assert told == [losses, gap, most, growth, rms, size]
            assert sums[:, k].tolist() == list(loops.certificate(rows, alone[k], w[k], a[k], 0, -1))
            np.testing.assert_array_equal(np.flatnonzero(active & (1 << k)), np.sort(left[k]))
        threshold = seen[class_sweeps.RMS].copy()
        np.testing.assert_array_equal(W, w.T)
        np.testing.assert_array_equal(alpha, a.T)
    assert (loss == "logistic") == all(rows_left.size == 150 for rows_left in left)


@pytest.mark.slow
@EVERY_LOSS
@EVERY_LAYOUT
def test_groups_do_not_change_a_bit(loss: Loss, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = (loss == "hinge") == (layout == "cells")  # with every loss and every layout once at least
    cells, y = problem(300)
    rng = np.random.default_rng(0)
    block = Block(in_layout(cells, layout), y, rng.integers(0, 3, 300).astype(float))
    params = SVMParams(loss=loss, C=3.0, tol=1e-6, fit_intercept=True, class_weight="balanced", max_iter=5000)
    alpha0 = rng.uniform(-1, 2, (CLASSES, 300)) if warm else None
    whole = fit_linear_svm([block], CLASSES, params, alpha0=alpha0)
    assert whole.converged.all()
    for move in (0.0, np.inf):  # apart as soon as that would pay, and never
        monkeypatch.setattr(class_descent, "MOVE", move)
        same(fit_linear_svm([block], CLASSES, params, alpha0=alpha0), whole)
    with cores(3):
        same(fit_linear_svm([block], CLASSES, params, alpha0=alpha0, n_threads=3), whole)
    for classes in ([4], [0, 18], [1, 2, 3, 5, 8, 13]):
        part = fit_linear_svm(
            [block], CLASSES, params, alpha0=None if alpha0 is None else alpha0[classes], classes_subset=classes
        )
        np.testing.assert_array_equal(part.coef, whole.coef[:, classes])
        np.testing.assert_array_equal(part.alphas, whole.alphas[classes])
        np.testing.assert_array_equal(part.gap, whole.gap[classes])


@pytest.mark.slow
@EVERY_LOSS
def test_each_class_reaches_the_optimum_of_its_problem_of_two_classes(loss: Loss) -> None:
    cells, y = problem(300)
    params = SVMParams(loss=loss, tol=1e-6, max_iter=10_000)
    fit = fit_linear_svm([Block(cells, y)], CLASSES, params)
    for k in range(CLASSES):
        alone = fit_linear_svm([Block(cells, (y == k).astype(np.int32))], 2, params)
        assert fit.gap[k] <= 1e-6
        assert fit.primal[k] == pytest.approx(alone.primal[0], rel=2e-6)


def test_problems_go_apart_where_few_of_them_need_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_descent, "MOVE", 0.0)
    cells, y = problem(2000, 8)
    with counted(class_descent._Group._sweep, note=lambda of: of["self"].apart) as sweeps:
        fit_linear_svm([Block(cells, y)], 8, SVMParams(loss="hinge", C=0.1, tol=1e-7, max_iter=2000))
    assert sweeps.notes[0] is False
    assert sweeps.notes[-1] is True


def test_a_class_without_rows_and_rows_without_weight_are_solved() -> None:
    cells, y = problem(60, 4)
    fit = fit_linear_svm([Block(cells, y)], 6, SVMParams(tol=1e-8, max_iter=10_000))
    assert fit.converged.all()
    assert (fit.alphas[4:] > 0).any(axis=1).all()  # all rows are negative there
    nothing = fit_linear_svm([Block(cells, y, np.zeros(60))], 4)
    assert nothing.converged.all()
    assert not nothing.coef.any()
