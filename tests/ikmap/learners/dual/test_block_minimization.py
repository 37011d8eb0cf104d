"""Dual coordinate descent on several classes, several blocks, with weights and from a warm start."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ikmap.cells import Cells
from ikmap.learners.dual import _linear_svm_loops as loops
from ikmap.learners.dual import block_minimization
from ikmap.learners.dual.block_reader import BlockReader
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.dual.linear_svm_path import fit_linear_svm_path
from ikmap.learners.rows import Block, row_arrays, squared_norms
from ikmap.model import from_parts
from ikmap.seeds import generator
from tests.naive import learners as naive
from tests.support.machine import cores
from tests.support.sizes import SmallSizes
from tests.support.svm_problems import EVERY_LOSS, LOSSES, OFFSETS, PSI, VALUE, Loss, Reread, T, problem, same, signs


@pytest.mark.parametrize("bounds", [[], [70, 140]])
def test_problems_solved_apart_are_the_same_bits(bounds: list[int]) -> None:
    cells, y = problem(n_classes=4)
    params = SVMParams(tol=1e-6, fit_intercept=True)
    whole = fit_linear_svm(Reread(cells, y, bounds), 4, params)
    parts = [fit_linear_svm(Reread(cells, y, bounds), 4, params, classes_subset=subset) for subset in ([3, 1], [0, 2])]
    assert parts[0].problems.tolist() == [1, 3]
    models = [svm_model(f, list("abcd"), params, divisor=np.sqrt(T)) for f in (whole, parts)]
    assert models[0].content_hash == models[1].content_hash
    assert from_parts(json.loads(json.dumps(models[0].metadata())), models[0].arrays()).content_hash == (
        models[0].content_hash
    )
    np.testing.assert_array_equal(whole.alphas[[1, 3]], parts[0].alphas)
    for k in range(4):
        alone = fit_linear_svm([Block(cells, (y == k).astype(np.int32))], 2, SVMParams(tol=1e-6, fit_intercept=True))
        assert alone.primal[0] == pytest.approx(whole.primal[k], rel=2e-6)
    with pytest.raises(ValueError, match="solved are"):
        svm_model(parts[0], list("abcd"), params, divisor=1.0)


@pytest.mark.slow
@EVERY_LOSS
@pytest.mark.parametrize("inner_sweeps", [1, 4])
@pytest.mark.parametrize("together", [1, 2, 4])
def test_blocks_reach_the_objective_of_one_block(
    loss: Loss, inner_sweeps: int, together: int, small_sizes: SmallSizes
) -> None:
    small_sizes.blocks_together(together * 4100)  # the largest block has 4004
    cells, y = problem(n_classes=3)
    rng = np.random.default_rng(0)
    weight = rng.uniform(0, 2, 200)
    params = SVMParams(loss=loss, tol=1e-7, max_iter=5000, inner_sweeps=inner_sweeps)
    one = fit_linear_svm([Block(cells, y, weight)], 3, params)
    several = Reread(cells, y, [1, 90, 150], weight)
    fit = fit_linear_svm(several, 3, params)
    assert fit.converged.all()
    np.testing.assert_allclose(fit.primal, one.primal, rtol=2e-7)
    X = cells.to_csr().toarray()
    for k in range(3):
        np.testing.assert_allclose(fit.coef[:, k], X.T @ (fit.alphas[k] * signs(y, k)), atol=1e-10)
        assert fit.primal[k] == pytest.approx(naive.svm_primal(X, signs(y, k), weight, loss, fit.coef[:, k]), rel=1e-10)
    same(fit, fit_linear_svm(Reread(cells, y, [1, 90, 150], weight), 3, params))
    # A look at every block, then each once in every pass, or once for all where they stay in memory together.
    passes = [several.asked[k : k + 4] for k in range(0, len(several.asked), 4)]
    assert passes[0] == [0, 1, 2, 3]
    assert all(sorted(each) == [0, 1, 2, 3] for each in passes)
    if together == 4:
        assert len(passes) == 2
    else:
        assert len({tuple(each) for each in passes}) > 2
        visits = [n_iter + len(history) for n_iter, history in zip(fit.n_iter, fit.history, strict=True)]
        assert len(passes) == 1 + max(visits)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("shrinking", [True, False])
@pytest.mark.parametrize("n_passes", [1, 30])
def test_passes_over_groups_follow_the_listing(
    loss: Loss, shrinking: bool, n_passes: int, small_sizes: SmallSizes
) -> None:
    small_sizes.blocks_together(2000)  # two blocks of 20 rows, 968 each
    cells, y = problem(130)
    bounds = list(range(20, 130, 20))
    weight = np.random.default_rng(1).integers(0, 3, 130).astype(float)
    params = SVMParams(loss=loss, C=20.0, tol=1e-15, max_iter=n_passes, shrinking=shrinking, seed=3)
    passes = []
    reader = BlockReader(Reread(cells, y, bounds, weight), 2, None, True)
    reader.survey()
    for cycle in range(n_passes):
        groups = block_minimization.draw_groups(reader, params.seed, cycle)
        assert sorted(b for group in groups for b in group) == list(range(7))
        assert max(len(group) for group in groups) == 2
        rows = [[i for b in group for i in range(20 * b, min(20 * b + 20, 130))] for group in groups]
        seeds = [int(generator(params.seed, 0, cycle, k).integers(2**63)) for k in range(len(groups))]
        passes.append(list(zip(rows, seeds, strict=True)))
    X, c = cells.to_csr().toarray(), signs(y)
    alpha, w, left_out, betas = naive.svm_blocks(X, c, 20.0 * weight, loss, passes, shrinking)
    assert (len(set(betas)) > 1) == (n_passes > 1)
    with pytest.warns(ConvergenceWarning):
        fit = fit_linear_svm(Reread(cells, y, bounds, weight), 2, params)
    np.testing.assert_allclose(fit.alphas[0], alpha, rtol=0, atol=1e-11)
    np.testing.assert_allclose(fit.coef[:, 0], w, rtol=0, atol=1e-11)
    assert bool(left_out) == (shrinking and n_passes > 1)
    assert not np.signbit(fit.alphas).any()
    assert fit.n_support.tolist() == [np.count_nonzero(alpha)]
    assert fit.primal[0] == pytest.approx(naive.svm_primal(X, c, 20.0 * weight, loss, w), rel=1e-10)


def test_one_block_is_read_once() -> None:
    cells, y = problem()
    blocks = Reread(cells, y, [])
    fit = fit_linear_svm(blocks, 2, SVMParams(loss="hinge", C=20.0, tol=1e-9, class_weight="balanced"))
    assert len(fit.history[0]) > 1
    assert blocks.asked == [0]


def test_blocks_that_run_out_of_passes_say_so() -> None:
    cells, y = problem()
    with pytest.warns(ConvergenceWarning, match="after 3 sweeps"):
        fit = fit_linear_svm(Reread(cells, y, [50, 100]), 2, SVMParams(tol=1e-12, max_iter=3))
    X = cells.to_csr().toarray()
    exact = naive.svm_primal(X, signs(y), np.ones(200), "squared_hinge", fit.coef[:, 0])
    assert fit.primal[0] == pytest.approx(exact, rel=1e-12)
    assert fit.n_iter.tolist() == [3]


@EVERY_LOSS
@pytest.mark.parametrize("bounds", [[], [60, 130]])
def test_warm_start_begins_where_it_ended(loss: Loss, bounds: list[int]) -> None:
    cells, y = problem(n_classes=3)
    params = SVMParams(loss=loss, tol=1e-6, max_iter=10_000)
    cold = fit_linear_svm(Reread(cells, y, bounds), 3, params)
    warm = fit_linear_svm(Reread(cells, y, bounds), 3, params, alpha0=cold.alphas)
    assert (warm.n_iter < cold.n_iter).all()
    np.testing.assert_allclose(warm.primal, cold.primal, rtol=2e-6)
    # Variables outside the bounds of another C are clipped.
    other = fit_linear_svm(
        Reread(cells, y, bounds),
        3,
        SVMParams(loss=loss, C=0.1, tol=1e-6, max_iter=10_000),
        alpha0=cold.alphas,
    )
    fresh = fit_linear_svm(Reread(cells, y, bounds), 3, SVMParams(loss=loss, C=0.1, tol=1e-6, max_iter=10_000))
    np.testing.assert_allclose(other.primal, fresh.primal, rtol=2e-6)


@EVERY_LOSS
@pytest.mark.parametrize("n_classes", [2, 3])
def test_path_solves_every_C_from_the_one_before(loss: Loss, n_classes: int) -> None:
    cells, y = problem(n_classes=n_classes)
    weight = np.random.default_rng(0).uniform(0.5, 2, 200)
    params, Cs = SVMParams(loss=loss, tol=1e-5, max_iter=10_000), (0.1, 0.2, 0.4, 0.8)
    asked = Reread(cells, y, [], weight)
    path = list(fit_linear_svm_path(asked, n_classes, params, Cs[::-1]))
    alone = [
        fit_linear_svm([Block(cells, y, weight)], n_classes, SVMParams(loss=loss, C=C, tol=1e-5, max_iter=10_000))
        for C in Cs
    ]
    for fit, other in zip(path, alone, strict=True):
        assert fit.converged.all()
        np.testing.assert_allclose(fit.primal, other.primal, rtol=2e-5)
    assert sum(fit.n_iter.sum() for fit in path) < sum(fit.n_iter.sum() for fit in alone)
    # The next C is solved only when somebody asks for it.
    asked = Reread(cells, y, [])
    lazy = fit_linear_svm_path(asked, n_classes, params, Cs)
    next(lazy)
    assert len(asked.asked) == 1


@EVERY_LOSS
@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_do_not_change_a_bit(loss: Loss, n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ikmap.learners.dual.descent.CHUNK", 64)
    cells, y = problem(n_classes=n_classes)
    with cores(3):
        fits = [fit_linear_svm([Block(cells, y)], n_classes, SVMParams(loss=loss), n_threads=k) for k in (1, 3, None)]
    same(fits[0], fits[1])
    same(fits[0], fits[2])


@EVERY_LOSS
def test_more_weights_than_the_cache_holds_make_no_difference(loss: Loss) -> None:
    cells, y = problem()
    # Blocks of partitionings further apart: the same problem with many columns that never occur.
    wide = Cells(cells.codes, np.arange(T + 1) * (loops.FAR // T + PSI))
    near, far = (
        fit_linear_svm([Block(c, y)], 2, SVMParams(loss=loss, tol=1e-9, max_iter=10_000)) for c in (cells, wide)
    )
    np.testing.assert_array_equal(near.alphas, far.alphas)
    np.testing.assert_array_equal(near.coef[cells.columns()], far.coef[wide.columns()])


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("whole", [False, True])
def test_one_sweep_is_a_sweep_of_the_listing(loss: Loss, whole: bool) -> None:
    cells, y = problem(60)
    rows, X, c = row_arrays(cells, VALUE), cells.to_csr().toarray(), signs(y)
    norms = squared_norms(rows)
    alpha, w = np.zeros(60), np.zeros(X.shape[1] + 1)
    if whole:  # weights in whole numbers
        rows, w = (*rows[:2], VALUE**2 / 2.0**50, 2.0**50), w.astype(np.int64)
    objective = loops.Objective(y, 1, np.ones(2), np.empty(0), 0.0, loops.LOSSES[loss])
    order, threshold, size, state = np.arange(60, dtype=np.int32), np.inf, 60, np.uint64(99)
    expected, v, left = np.zeros(60), np.zeros(X.shape[1]), list(range(60))
    their_state = 99
    for _ in range(12):
        state = np.uint64(loops.shuffle(order, size, np.uint64(state)))
        size, losses, gap, most, rms, growth = loops.one_pass(
            rows, norms, objective, w, alpha, order, size, threshold, loops.AT_FIRST
        )
        left, their_state = naive.shuffled(left, their_state)
        length = v @ v
        left, *seen, steps = naive.svm_pass(X, c, np.ones(60), loss, expected, v, left, threshold)
        assert growth == pytest.approx(v @ v - length, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(alpha, expected, rtol=0, atol=1e-12)
        assert order[:size].tolist() == left
        assert [losses, gap, most] == pytest.approx(seen, rel=1e-9)
        assert rms == pytest.approx(np.sqrt(np.mean(np.square(steps))), rel=1e-9)
        threshold = rms
    assert size < 60


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_certificates_are_few(loss: Loss, C: float) -> None:
    cells, y = problem(1500)
    fit = fit_linear_svm([Block(cells, y)], 2, SVMParams(loss=loss, C=C, max_iter=10_000))
    assert fit.n_iter[0] >= 3
    assert len(fit.history[0]) <= 3
    assert (fit.history[0][:-1, 3] > 1e-3).all()


@EVERY_LOSS
def test_weights_of_samples_and_classes_are_repetitions(loss: Loss) -> None:
    cells, y = problem(120, n_classes=3)
    count = np.array([2, 1, 0, 3])[np.arange(120) % 4] * np.where(y == 1, 2, 1)
    # The hinge loss stops near a gap of 1e-12, where projected gradients below 1e-12 count as zero (8.2).
    params: dict[str, Any] = {"loss": loss, "tol": 1e-11, "max_iter": 100_000}
    repeated = np.repeat(np.arange(120), count)
    expected = fit_linear_svm([Block(cells[repeated], y[repeated])], 3, SVMParams(**params))
    by_sample = fit_linear_svm([Block(cells, y, count.astype(float))], 3, SVMParams(**params))
    rest = count / np.where(y == 1, 2, 1)
    by_class = fit_linear_svm([Block(cells, y, rest)], 3, SVMParams(class_weight={1: 2.0}, **params))
    for fit in (by_sample, by_class):
        np.testing.assert_allclose(fit.primal, expected.primal, rtol=1e-10)
        np.testing.assert_allclose(fit.coef, expected.coef, atol=3e-5)


@pytest.mark.parametrize("bounds", [[], [50]])
def test_balanced_weights(bounds: list[int]) -> None:
    cells, y = problem(150, n_classes=3)
    y[: len(y) // 2] = 0
    counts = np.bincount(y)
    expected = {k: 150 / (3 * counts[k]) for k in range(3)}
    balanced = fit_linear_svm(Reread(cells, y, bounds), 3, SVMParams(class_weight="balanced"))
    by_class = fit_linear_svm(Reread(cells, y, bounds), 3, SVMParams(class_weight=expected))
    same(balanced, by_class)


def test_dense_and_csr_rows_solve_the_same_problem() -> None:
    rng = np.random.default_rng(0)
    X = sp.random_array((150, 20), density=0.3, rng=rng, format="csr")
    y = (np.asarray(X.sum(axis=1)).ravel() + rng.normal(size=150) > 3).astype(np.int32)
    for loss in LOSSES:
        params = SVMParams(loss=loss, tol=1e-12, max_iter=100_000)
        fits = [fit_linear_svm([Block(rows, y)], 2, params) for rows in (X, X.toarray())]
        np.testing.assert_allclose(fits[0].coef, fits[1].coef, atol=1e-5)
        assert fits[0].primal[0] == pytest.approx(
            naive.svm_primal(X.toarray(), signs(y), np.ones(150), loss, fits[0].coef[:, 0]), rel=1e-12
        )


def test_rows_of_zeros() -> None:
    X = np.zeros((6, 2))
    X[:3, 0] = 1
    y = np.array([1, 1, 0, 1, 0, 0], dtype=np.int32)
    for loss in LOSSES:
        fit = fit_linear_svm([Block(X, y)], 2, SVMParams(loss=loss, tol=1e-9))
        # All-zero rows have margin 0: their dual variable is that of the loss's slope there.
        slope = {"hinge": 1.0, "squared_hinge": 2.0, "logistic": 0.5}[loss]
        np.testing.assert_allclose(fit.alphas[0, 3:], slope, atol=1e-6)
        assert fit.coef[1, 0] == 0


def test_a_class_without_rows_is_always_rejected() -> None:
    cells, y = problem(n_classes=3)
    y[y == 2] = 0
    params = SVMParams()
    model = svm_model(fit_linear_svm([Block(cells, y)], 3, params), [0, 1, 2], params, divisor=np.sqrt(T))
    assert set(model.predict(cells)) == {0, 1}


def test_missing_cells_are_zero_features() -> None:
    cells, y = problem()
    codes = cells.codes.copy()
    codes[np.random.default_rng(0).random(codes.shape) < 0.2] = -1
    params = SVMParams(tol=1e-12, max_iter=100_000)
    fit = fit_linear_svm([Block(Cells(codes, OFFSETS), y)], 2, params)
    dense = fit_linear_svm([Block(naive.one_hot(codes, OFFSETS, VALUE), y)], 2, params)
    np.testing.assert_allclose(fit.coef, dense.coef, atol=1e-5)


def test_bad_blocks_are_refused() -> None:
    cells, y = problem()
    wild = cells.codes.copy()
    wild[9, 2] = PSI
    good = Block(cells, y)
    for blocks, message in (
        ([], "no blocks"),
        ([Block(Cells(wild, OFFSETS), y)], "^row 9, column 2"),
        ([good, Block(Cells(wild, OFFSETS), y)], "^block 1: row 9, column 2"),
        ([good, Block(np.ones((2, 3)), y[:2])], "block 1: rows have 3 feature columns, expected 77"),
        ([Block(cells, y + 1)], "class 2 is outside 0..1"),
        ([Block(cells, y[1:])], "200 integers"),
        ([Block(cells, y, -np.ones(200))], "row 0: sample weight -1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            fit_linear_svm(blocks, 2)
    for options, message in (
        ({"classes_subset": [1]}, "classes_subset"),
        ({"alpha0": np.zeros((2, 200))}, "alpha0 must be"),
        ({"alpha0": np.zeros((1, 199))}, "alpha0 has 199 rows"),
        ({"alpha0": np.zeros((1, 201))}, "alpha0 has 201 rows"),
        ({"params": SVMParams(class_weight={5: 1.0})}, "names class 5"),
    ):
        with pytest.raises(ValueError, match=message):
            fit_linear_svm([good], 2, **options)
    with pytest.raises(ValueError, match="at least 2 classes"):
        fit_linear_svm([good], 1)


def test_blocks_that_change_are_noticed() -> None:
    cells, y = problem()

    class Shrinking(Reread):
        def __getitem__(self, k: Any) -> Any:
            block = super().__getitem__(k)
            return Block(block.rows[1:], block.y[1:]) if len(self.asked) > 5 else block

    with pytest.raises(ValueError, match=r"rows, had .* when read before"):
        fit_linear_svm(Shrinking(cells, y, [50, 100]), 2, SVMParams(tol=1e-9))


@pytest.mark.parametrize("bounds", [[], [70, 140]])
def test_a_survey_finds_the_heaviest_row(bounds: list[int]) -> None:
    """Dual variables grow with it, so that what is reserved for them does too."""
    cells, y = problem()
    for weight, expected in ((None, 1.0), (np.linspace(0.1, 0.3, 200), 0.3), (np.linspace(7.0, 0.0, 200), 7.0)):
        reader = BlockReader(Reread(cells, y, bounds, weight), 2, None, True)
        of_classes = np.ones(200) if weight is None else weight
        np.testing.assert_allclose(reader.survey(), [of_classes[y == k].sum() for k in (0, 1)])
        assert reader.heaviest == expected
