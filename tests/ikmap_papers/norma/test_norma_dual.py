"""NORMA with a kernel against the rule written out, and what dropping old rows costs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.compiled import needed, parsed
from ikmap.kernels import GaussianKernel, IsolationKernel, LaplacianKernel, MinMaxKernel
from ikmap.kernels.base import TILE
from ikmap.learners.online.norma import NormaState
from ikmap.learners.online.norma_rule import NormaRule, usual_rule
from ikmap_papers.norma import norma_dual_state
from ikmap_papers.norma._norma_dual_loops import norma_dual_pass
from ikmap_papers.norma.norma_dual_state import NormaDualState
from ikmap_papers.norma.truncation import derivative_bound, rounds_kept
from tests.ikmap.learners.online.test_norma import RULES, a_stream, naive_target, targets
from tests.naive.norma import NaiveNorma


def some_rows(n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((n, 3)).round(2)
    X[rng.random(X.shape) < 0.2] = 0.0
    return X, np.sin(5 * X[:, 0]) + rng.normal(scale=0.2, size=n)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("tau", [None, 25])
def test_it_is_the_sum_written_out(name: str, tau: int | None) -> None:
    rule, (X, numbers) = RULES[name], some_rows()
    y, kernel = targets(rule, numbers), GaussianKernel(2.0)
    K = kernel.matrix(X)
    naive = NaiveNorma(lambda i, j: float(K[i, j]), rule.loss, rule.nu, rule.eta, rule.decreasing, rule.regularization,
                       rule.offset, rule.threshold, rule.clip_rho, tau)  # fmt: skip
    rounds = [naive.learn(i, naive_target(rule, y[i])) for i in range(len(X))]
    state = NormaDualState(rule, kernel, tau=tau)
    said = state.partial_fit(X, y)
    assert np.array_equal(said.beyond, [beyond for _, beyond in rounds])
    if rule.of_numbers:
        assert said.predicted == pytest.approx([g for g, _ in rounds], rel=1e-12, abs=1e-13)
    assert state.numbers.moving[:2, 0] == pytest.approx([naive.threshold, naive.offset], rel=1e-12, abs=1e-13)
    _, coefficients = state.expansion()
    assert coefficients[:, 0] == pytest.approx([alpha for _, alpha, _ in naive.terms], rel=1e-12, abs=1e-14)
    state_mean = NormaDualState(replace(rule, average=True), kernel)
    state_mean.partial_fit(X, y)
    naive = replace(naive, tau=None, terms=[], offset=0.0, rounds=0, threshold=rule.threshold, keep=True, history=[])
    for i in range(len(X)):
        naive.learn(i, naive_target(rule, y[i]))
    rows, mean = state_mean.expansion(average=True)
    found = (kernel.matrix(X[:5], rows) @ mean)[:, 0]
    assert found == pytest.approx([naive.mean(i)[0] for i in range(5)], rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("average", [False, True, "late"])
@pytest.mark.parametrize("loss", ["hinge", "nu", "novelty", "huber"])
def test_with_the_isolation_kernel_it_is_the_primal_form(loss: str, average: bool | str) -> None:
    cells, numbers = a_stream(absent=0.0, seed=3)
    rule = usual_rule(loss, average=average, nu=0.2)
    y, t = targets(rule, numbers), cells.n_partitions
    primal = NormaState.start(rule, cells.n_columns, float(t))
    dual = NormaDualState(rule, IsolationKernel(t))
    one, other = primal.partial_fit(cells.packed(), y), dual.partial_fit(cells.packed(), y)
    assert np.array_equal(one.beyond, other.beyond)
    assert (primal.threshold is None) == (dual.threshold is None) == (loss != "novelty")
    if primal.threshold is not None:
        assert dual.threshold == pytest.approx(primal.threshold, rel=1e-9)
    assert dual.decision_function(cells.packed()) == pytest.approx(primal.decision_function(cells), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kernel", [GaussianKernel(1.0), LaplacianKernel(1.0), MinMaxKernel()])
@pytest.mark.parametrize("tau", [None, 30])
def test_blocks_threads_layouts_and_checkpoints_change_no_bit(
    kernel: Any, tau: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, numbers = some_rows(400)
    rule, y = RULES["hinge"], np.digitize(numbers, [0.0, 0.6]).astype(np.int32)
    whole = NormaDualState(rule, kernel, 3, tau, n_threads=1)
    predicted = whole.partial_fit(X, y).predicted
    monkeypatch.setattr(norma_dual_state, "MOST_VALUES", 5000)
    parts, found = NormaDualState(rule, kernel, 3, tau, n_threads=2), []
    for start, stop in pairwise([0, 1, 50, 300, 400]):
        found.append(parts.partial_fit(X[start:stop], y[start:stop]).predicted)
        parts = NormaDualState(rule, kernel, 3, tau, n_threads=2).restore(parts.checkpoint())
    assert np.array_equal(np.concatenate(found), predicted)
    assert np.array_equal(parts.decision_function(X), whole.decision_function(X))
    assert np.array_equal(parts.numbers.moving, whole.numbers.moving)
    sparse = NormaDualState(rule, kernel, 3, tau)
    assert np.array_equal(sparse.partial_fit(sp.csr_array(X), y).predicted, predicted)
    if tau is not None:
        assert parts.n_support < 2 * TILE + tau


def truncation_bounds(rule: NormaRule, tau: int, largest: float = 1.0) -> tuple[float, float]:
    """Return the most that dropping costs in norm: one term that is tau rounds old, and all terms from that age on."""
    kept = (1.0 - rule.eta * rule.regularization) ** tau * derivative_bound(rule) * math.sqrt(largest)
    return rule.eta * kept, kept / rule.regularization


def test_dropping_old_rows_costs_no_more_than_the_bounds() -> None:
    """NM3: in exact norm, over tau that fall apart exponentially."""
    X, numbers = some_rows(300)
    kernel, K, y = GaussianKernel(2.0), GaussianKernel(2.0).matrix(X), (numbers > 0.3).astype(np.int32)
    rule = NormaRule(loss="hinge", threshold=1.0, eta=0.3, decreasing=False, regularization=0.2)
    whole = NormaDualState(rule, kernel)
    whole.partial_fit(X, y)
    rows, alpha = whole.expansion()
    at = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in np.asarray(rows)]
    reached: list[bool] = []
    for tau in range(1, 100, 11):
        single, total = truncation_bounds(rule, tau)
        age = 300 - whole.terms.rounds
        old = age >= tau
        dropped = np.where(old, alpha[:, 0], 0.0)
        squared = float(dropped @ K[np.ix_(at, at)] @ dropped)
        norm = float(np.sqrt(max(0.0, squared)))
        assert norm <= total
        assert np.abs(alpha[old, 0]).max(initial=0.0) <= single * (1 + 1e-9)
        reached += [pytest.approx(single, rel=1e-9) == abs(value) for value in alpha[age == tau, 0]]
    assert len(reached) > 1  # steps of the hinge loss are all as long as they can be
    assert all(reached)
    for error in (0.5, 1e-2, 1e-4):
        tau = rounds_kept(rule, error)
        assert truncation_bounds(rule, tau)[1] <= error < truncation_bounds(rule, tau - 1)[1]
        tau = rounds_kept(rule, error, largest=9.0)
        assert truncation_bounds(rule, tau, 9.0)[1] <= error < truncation_bounds(rule, tau - 1, 9.0)[1]
    assert rounds_kept(usual_rule("hinge", eta=1.0, regularization=1.0), 0.1) == 1


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (usual_rule("hinge", regularization=0.0), 0.1, "truncation: found regularization 0, by which nothing shrinks"),
        (usual_rule("novelty", average=False), 0.1, "truncation: found steps that decrease"),
        (usual_rule("novelty", decreasing=False), 0.1, "truncation: found the mean of all functions, which keeps all"),
        (usual_rule("squared"), 0.1, "truncation: found the squared loss, whose steps have no bound"),
        (usual_rule("hinge"), 0.0, "truncation: found 0, expected a number > 0"),
    ],
)
def test_rows_that_cannot_be_dropped(rule: NormaRule, error: float, message: str) -> None:
    with pytest.raises(ValueError, match="truncation: found") as refused:
        rounds_kept(rule, error)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("tau", [1, 5])
def test_old_terms_are_forgotten_by_the_tile(tau: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a tile of them stays in memory beside the last `tau`."""
    monkeypatch.setattr(norma_dual_state, "TILE", 8)
    X, numbers = some_rows(60)
    state = NormaDualState(usual_rule("epsilon", nu=1.0), GaussianKernel(1.0), tau=tau)
    kept = []
    for i in range(60):
        state.partial_fit(X[i : i + 1], numbers[i : i + 1])
        kept.append(state.n_support)
    assert kept[: 8 + tau] == [*range(1, 9 + tau)]  # every row adds a term
    assert max(kept) == 8 + tau


def test_a_tau_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="tau: found 0"):
        NormaDualState(usual_rule("hinge"), GaussianKernel(1.0), tau=0)
    with pytest.raises(ValueError, match="tau: found the mean"):
        NormaDualState(usual_rule("novelty"), GaussianKernel(1.0), tau=9)


def test_before_the_first_row() -> None:
    state = NormaDualState(usual_rule("huber"), GaussianKernel(1.0), center=3.0)
    assert state.decision_function(np.zeros((2, 3))).tolist() == [[3.0], [3.0]]


def test_the_loop_is_compiled_ahead_for_what_it_is_called_with(monkeypatch: pytest.MonkeyPatch) -> None:
    X, numbers = some_rows(60)
    called: list[Any] = []

    def recorded(*args: Any) -> Any:
        called.append(tuple(numba.typeof(arg) for arg in args))
        return norma_dual_pass(*args)

    monkeypatch.setattr(norma_dual_state, "norma_dual_pass", recorded)
    for rule, tau, y in ((RULES["hinge"], 20, (numbers > 0).astype(np.int32)), (usual_rule("novelty"), None, None)):
        state = NormaDualState(rule, GaussianKernel(1.0), tau=tau)
        state.partial_fit(X[:40], None if y is None else y[:40])
        state.partial_fit(X[40:], None if y is None else y[40:])
    [ahead] = [parsed(signature) for loop, signature in needed({"norma-dual"}) if loop.name.endswith("norma_dual_pass")]
    assert set(called) == {ahead}
