"""CoCoA+: rounds as in the listing, the objective of the in-memory solver, whatever the parts; state comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from benchmarks.cocoa import fit_cocoa
from ikmap import seed_paths
from ikmap.cells import Cells
from ikmap.learners.dual import cocoa
from ikmap.learners.dual._linear_svm_loops import LOSSES
from ikmap.learners.dual.block_reader import BlockReader
from ikmap.learners.dual.cocoa import Coordinator, Report, improve, survey
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm
from ikmap.learners.rows import Block
from ikmap.seeds import generator
from tests.naive import learners as naive

T, PSI = 11, 7
OFFSETS = np.arange(T + 1) * PSI
EVERY_LOSS = pytest.mark.parametrize("loss", sorted(LOSSES))


def problem(n: int = 200, n_classes: int = 2, seed: int = 0) -> tuple[Cells, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, PSI, (n, T)).astype(np.int32)
    score = codes[:, :4].sum(axis=1) + rng.integers(0, PSI, n)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score).astype(np.int32)
    return Cells(codes, OFFSETS), y


def divided(
    cells: Cells, y: np.ndarray, k: int, blocks: int = 1, weight: np.ndarray | None = None
) -> list[list[Block]]:
    """Rows in k parts of so many blocks each, in their order."""
    return [
        [
            Block(cells[rows], y[rows], None if weight is None else weight[rows])
            for rows in np.array_split(part, blocks)
            if rows.size
        ]
        for part in np.array_split(np.arange(y.size), k)
    ]


@EVERY_LOSS
def test_rounds_follow_the_listing(loss: str) -> None:
    cells, y = problem(90)
    weight = np.random.default_rng(1).integers(0, 3, 90).astype(float)
    params = SVMParams(loss=loss, C=3.0, class_weight={1: 0.5}, tol=1e-15, max_iter=25, seed=4)  # type: ignore[arg-type]
    with pytest.warns(ConvergenceWarning):
        found = fit_cocoa(divided(cells, y, 3, weight=weight), 2, params)
    X, sign = cells.to_csr().toarray(), np.where(y == 1, 1.0, -1.0)
    cost = 3.0 * np.where(y == 1, 0.5, 1.0) * weight
    parts = np.array_split(np.arange(90), 3)

    def random(part: int, number: int) -> int:
        return int(generator(4, seed_paths.COCOA, part, number, 0, 0).integers(2**63))

    X_parts, signs, costs = ([values[rows] for rows in parts] for values in (X, sign, cost))
    expected = np.concatenate(naive.cocoa(X_parts, signs, costs, loss, 25, random))
    np.testing.assert_allclose(found.alphas[0], expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.coef[:, 0], X.T @ (sign * expected), rtol=0, atol=1e-9)
    assert found.n_iter[0] == 25
    assert found.primal[0] == pytest.approx(naive.svm_primal(X, sign, cost, loss, found.coef[:, 0]), rel=1e-9)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    n=st.integers(8, 150),
    k=st.integers(1, 8),
    blocks=st.integers(1, 3),
    n_classes=st.integers(2, 4),
    loss=st.sampled_from(sorted(LOSSES)),
    C=st.sampled_from([0.01, 0.1, 1.0, 5.0]),
    bias=st.booleans(),
    balanced=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_objective_is_that_of_the_solver_in_memory(
    n: int, k: int, blocks: int, n_classes: int, loss: Any, C: float, bias: bool, balanced: bool, seed: int
) -> None:
    cells, y = problem(n, n_classes, seed)
    params = SVMParams(
        loss=loss, C=C, tol=1e-4, fit_intercept=bias, class_weight="balanced" if balanced else None, seed=seed
    )
    found = fit_cocoa(divided(cells, y, k, blocks), n_classes, params)
    expected = fit_linear_svm([Block(cells, y)], n_classes, params)
    assert found.converged.all()
    assert (found.gap <= 1e-4).all()
    # Both bracket the optimum: dual <= optimum <= primal.
    assert (found.dual <= expected.primal * (1 + 1e-12)).all()
    assert (expected.dual <= found.primal * (1 + 1e-12)).all()
    np.testing.assert_allclose(found.primal, expected.primal, rtol=1.01e-4)
    for p, number in enumerate(found.problems):
        sign = np.where(y == (1 if n_classes == 2 else number), 1.0, -1.0)
        weights = np.bincount(y, minlength=n_classes)
        cost = C * (n / (n_classes * np.maximum(weights, 1)))[y] if balanced else np.full(n, C)
        X = cells.to_csr().toarray()
        if bias:
            X = np.column_stack([X, np.ones(n)])
        w = np.append(found.coef[:, p], found.intercept[p])[: X.shape[1]]
        alpha = found.alphas[p]
        assert (alpha >= 0).all()
        assert found.n_support[p] == np.count_nonzero(alpha > 0)
        np.testing.assert_allclose(X.T @ (sign * alpha), w, rtol=0, atol=1e-8 * C * n)
        assert found.dual[p] == pytest.approx(naive.svm_dual(X, sign, cost, loss, alpha), rel=1e-6)
        assert found.primal[p] == pytest.approx(naive.svm_primal(X, sign, cost, loss, w), rel=1e-9)


def test_a_part_is_read_once_in_a_round() -> None:
    cells, y = problem(120)
    asked: list[int] = []

    class Counted(list[Block]):
        def __getitem__(self, k: Any) -> Any:
            asked.append(k)
            return super().__getitem__(k)

    parts = [Counted(part) for part in divided(cells, y, 2, blocks=3)]
    found = fit_cocoa(parts, 2, SVMParams(tol=1e-3))
    rounds = found.n_iter[0] + 1  # the last one finds that all is solved
    # A block that was the last of one pass and is the first of the next is still in memory.
    assert 2 * 2 * rounds < len(asked) <= 2 * 3 * (rounds + 1)


def test_the_state_comes_back_to_the_same_bits() -> None:
    cells, y = problem(150, 3)
    params = SVMParams(C=2.0, tol=1e-6)
    readers = [BlockReader(part, 3, None, True) for part in divided(cells, y, 4)]
    rounds = cocoa.RoundConstants.of(params, 3, (0, 1, 2), [survey(reader, 3) for reader in readers])

    def solve(interrupted: bool) -> Coordinator:
        coordinator = Coordinator(rounds, cells.n_columns)
        alphas = before = [np.zeros((3, sum(reader.sizes.values()))) for reader in readers]
        while (order := coordinator.order) is not None:
            done = [
                improve(rounds, k, reader, order, alphas[k], before[k], coordinator.w, coordinator.w_before)
                for k, reader in enumerate(readers)
            ]
            coordinator.absorb(order, (report for _, report in done))
            before, alphas = alphas, [new for new, _ in done]
            if interrupted:
                arrays = {name: array.copy() for name, array in coordinator.checkpoint().items()}
                coordinator = Coordinator.restore(params, 3, arrays)
        return coordinator

    whole, resumed = solve(False), solve(True)
    assert whole.round > 5
    assert whole.rounds == resumed.rounds
    arrays, others = whole.checkpoint(), resumed.checkpoint()
    assert arrays.keys() == others.keys()
    assert all(arrays[name].tobytes() == others[name].tobytes() for name in arrays)
    assert np.array_equal(whole.w[:, :-1].T, fit_cocoa(divided(cells, y, 4), 3, params).coef)


def certificates(gap_at: Callable[[int], float], tol: float, max_iter: int = 100) -> list[int]:
    """Rounds at which there is a certificate, of a problem whose gap after so many rounds is this."""
    rounds = cocoa.RoundConstants(SVMParams(tol=tol, max_iter=max_iter), 2, (0,), 1, (1.0, 1.0))
    coordinator = Coordinator(rounds, 3)
    while (order := coordinator.order) is not None:
        gap = np.array([gap_at(coordinator.round)])
        report = Report(np.zeros((1, 4)), np.zeros(1), np.ones(1), gap, np.zeros(1, dtype=np.int64))
        coordinator.absorb(order, [report])
    return [number for number, *_ in coordinator.history[0]]


def test_a_certificate_is_made_when_the_gap_is_about_to_be_small_enough() -> None:
    """After four fifths of the rounds that it takes as fast as it fell; never more than eight rounds apart."""
    assert certificates(lambda number: 0.3**number, 1e-6) == [3, 6, 11, 12]
    assert certificates(lambda number: 0.9**number, 0.9**30.5) == [3, 6, 14, 22, 29, 31]
    assert certificates(lambda number: 1.0 if number < 8 else 0.0, 1e-3) == [3, 6, 9]
    assert certificates(lambda number: 0.5 + number, 1e-3, max_iter=13) == [3, 6, 9, 12, 13]
    assert certificates(lambda _: 0.5, 1e-3, max_iter=2) == [2]


def test_some_of_the_problems() -> None:
    cells, y = problem(150, 4)
    parts = divided(cells, y, 3)
    every = fit_cocoa(parts, 4, SVMParams(tol=1e-5))
    some = fit_cocoa(parts, 4, SVMParams(tol=1e-5), classes_subset=[3, 1])
    assert some.problems.tolist() == [1, 3]
    np.testing.assert_allclose(some.primal, every.primal[[1, 3]], rtol=1e-5)


def test_parts_with_one_class_each() -> None:
    cells, y = problem(200)
    order = np.argsort(y, kind="stable")
    found = fit_cocoa(divided(cells[order], y[order], 2), 2, SVMParams(tol=1e-4))
    expected = fit_linear_svm([Block(cells, y)], 2, SVMParams(tol=1e-4))
    assert found.primal[0] == pytest.approx(expected.primal[0], rel=1.01e-4)


def test_what_does_not_converge_says_so() -> None:
    cells, y = problem(100)
    with pytest.warns(ConvergenceWarning, match=r"after 3 rounds, wanted 1e-12"):
        found = fit_cocoa(divided(cells, y, 2), 2, SVMParams(tol=1e-12, max_iter=3))
    assert not found.converged.any()
    assert found.n_iter.tolist() == [3]


def test_wrong_arguments() -> None:
    cells, y = problem(20)
    parts = divided(cells, y, 2)
    with pytest.raises(ValueError, match="2 classes"):
        fit_cocoa(parts, 1)
    with pytest.raises(ValueError, match="no parts"):
        fit_cocoa([], 2)
    with pytest.raises(ValueError, match=r"among 0\.\.2"):
        fit_cocoa(parts, 3, classes_subset=[3])
    with pytest.raises(ValueError, match="class_weight names class 5"):
        fit_cocoa(parts, 2, SVMParams(class_weight={5: 1.0}))
    narrow = Cells(cells.codes[:, :3], OFFSETS[:4])
    with pytest.raises(ValueError, match="different numbers of feature columns"):
        fit_cocoa([parts[0], [Block(narrow, y)]], 2)
