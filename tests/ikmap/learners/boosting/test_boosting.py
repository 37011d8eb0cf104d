"""Rounds of boosting against their definition, in one piece or many, held-out rows, shares of rows, and quantiles."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise
from operator import iadd
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap import _thread_team
from ikmap.divisions import Division
from ikmap.learners.boosting import _growth_loops, bins, growth, piece
from ikmap.learners.boosting.boosting import Boosted, Boosting, BoostingSettings, Problem, boost
from ikmap.learners.boosting.growth import Scales, TreeSettings
from ikmap.learners.boosting.losses import Logistic, Loss, Quantile, Squared
from ikmap.learners.boosting.piece import Check, Order, Piece
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.rows import Block, PieceRows
from tests.naive import boosting as naive

N = 180
SMALL = TreeSettings(max_leaves=7, min_leaf=5, l2=0.1)
LOSSES: dict[str, Loss] = {"squared": Squared(), "logistic": Logistic()}


def rows(n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 1] = rng.integers(0, 3, n)
    return X, X[:, 0] * (X[:, 1] > 0) + X[:, 2] ** 2 + rng.normal(size=n) / 2


def boosted_on(
    X: np.ndarray, y: np.ndarray, loss: Loss, settings: BoostingSettings, seed: int = 0, *, n_outputs: int = 1, **_: Any
) -> Boosted:
    return boost(X, y, Problem(settings, loss, seed, len(X), X.shape[1], n_outputs))


def margins(boosted: Boosted, X: np.ndarray) -> np.ndarray:
    """Return the decisions of the linear model on the cells."""
    linear = LinearModel(boosted.coef, boosted.intercept, 1.0, "boosting", [])
    return linear.decision_function(boosted.partitions.cells(X))


def same(one: Boosted, other: Boosted) -> bool:
    """Return whether two results have the same bits."""
    return (
        one.partitions.content_hash == other.partitions.content_hash
        and one.coef.tobytes() == other.coef.tobytes()
        and one.intercept.tobytes() == other.intercept.tobytes()
        and (one.losses, one.rounds_made) == (other.losses, other.rounds_made)
    )


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(
    "options",
    [
        {"rounds": 6, "shrinkage": 0.3, "held_out": 0.0},
        {"rounds": 40, "shrinkage": 0.9, "held_out": 0.3, "patience": 3},
        {"rounds": 5, "shrinkage": 0.5, "held_out": 0.2, "row_share": 0.6, "column_share": 0.5, "seed": 7},
        {"rounds": 6, "shrinkage": 0.5, "held_out": 0.0, "max_bins": 9},
        {"rounds": 2, "shrinkage": 0.5, "held_out": 0.2, "max_bins": 290, "n": 300},
        {"rounds": 7, "shrinkage": 0.5, "held_out": 0.0, "backfit": 2, "backfit_l2": 10.0},
        {"rounds": 9, "shrinkage": 0.9, "held_out": 0.3, "backfit": 3, "row_share": 0.6},
        {"rounds": 9, "shrinkage": 0.5, "held_out": 0.2, "word_bits": 24, "seed": 5},
    ],
    ids=["all rows", "held out", "shares", "few bins", "two bytes", "backfitted", "backfitted, held out", "few bits"],
)
def test_rounds_are_those_of_the_definition(
    kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "WORD_BITS", options.get("word_bits", growth.WORD_BITS))
    options = options.copy()
    X, y = rows(options.pop("n", N))
    if kind == "logistic":
        y = (y > 1).astype(float)
    settings = {name: value for name, value in options.items() if name not in ("seed", "word_bits")}
    boosted = boosted_on(X, y, LOSSES[kind], BoostingSettings(tree=SMALL, **settings), options.get("seed", 0))
    trees, margin, losses = naive.boost(X, y, kind, max_leaves=7, min_leaf=5, l2=0.1, **options)
    assert boosted.rounds_made == len(trees)
    assert boosted.losses == losses
    kept = trees[: int(np.argmin(losses))] if losses else trees
    nodes = [node for tree in kept for node in naive.preorder(tree)]
    assert boosted.partitions.feature.tolist() == [node.column if node.children else -1 for node in nodes]
    assert boosted.coef[:, 0].tolist() == [node.value for node in nodes if not node.children]
    if len(kept) == len(trees):
        np.testing.assert_allclose(margins(boosted, X)[:, 0], margin, rtol=1e-12, atol=1e-12)
    assert boosted.partitions.n_partitions == len(kept) > 1
    assert len(losses) == (len(trees) + 1 if options["held_out"] else 0)


@pytest.mark.parametrize("at_once", [1, None])
def test_trees_of_a_rare_class_are_those_of_the_definition(at_once: int | None) -> None:
    X, y = rows()
    y = (y > np.sort(y)[-12]).astype(float)
    settings: dict[str, Any] = {"rounds": 4, "shrinkage": 0.5, "held_out": 0.0}
    problem = Problem(BoostingSettings(tree=SMALL, **settings), Logistic(), 0, len(X), 4, 1, at_once)
    boosted = solved(Boosting(problem), Held(X, y, problem, [len(X)]))
    nodes = [
        node
        for tree in naive.boost(X, y, "logistic", max_leaves=7, min_leaf=5, l2=0.1, **settings)[0]
        for node in naive.preorder(tree)
    ]
    assert boosted.partitions.feature.tolist() == [node.column if node.children else -1 for node in nodes]
    assert boosted.coef[:, 0].tolist() == [node.value for node in nodes if not node.children]
    assert boosted.coef.max() == 0.5 * Logistic.largest_value  # Newton's step would have been longer


def test_a_very_rare_class_does_not_spoil_the_margins() -> None:
    """Without a bound, margins of a few rows are in the thousands, and no later tree can take that back."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 4))
    rare = (X[:, 0] > 2.9) ^ (rng.random(20_000) < 0.0005)
    boosted = boosted_on(X[::2], rare[::2].astype(float), Logistic(), BoostingSettings(rounds=100, held_out=0.0), 0)
    decided = margins(boosted, X[1::2])[:, 0]
    assert np.abs(decided).max() < 20
    losses = Logistic().each(decided, rare[1::2].astype(float))
    share = rare[1::2].mean()
    assert losses.mean() < -share * np.log(share) - (1 - share) * np.log(1 - share)


def sent(value: Any) -> Any:
    """Return a value as it comes from another process: its arrays cannot be written to."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(text, buffers=[bytes(buffer.raw()) for buffer in buffers])


class Held:
    """Rows in pieces that are worked on one after the other, by orders that were sent somewhere."""

    def __init__(
        self,
        X: Any,
        y: np.ndarray,
        problem: Problem,
        ends: list[int],
        weight: np.ndarray | None = None,
        places: np.ndarray | None = None,
        **options: Any,
    ) -> None:
        def make(begin: int, end: int) -> Piece:
            parts = [slice(i, min(i + 170, end)) for i in range(begin, end, 170)]
            blocks = [Block(X[part], y[part], None if weight is None else weight[part]) for part in parts]
            held = PieceRows(blocks, begin, end, False, **options)
            return Piece(held, problem.drawn, None if places is None else places[begin:end])

        self.make = [partial(make, *range_) for range_ in pairwise([0, *ends])]
        self.pieces = [make() for make in self.make]
        self.orders: list[Any] = []

    def lose(self, k: int) -> None:
        """Lose what was kept of a piece."""
        self.pieces[k] = self.make[k]()

    def sums(self, order: Any) -> Any:
        self.orders.append(order)
        return reduce(iadd, (sent(each.sums(sent(order))) for each in self.pieces))


def solved(state: Boosting, held: Held) -> Boosted:
    while state.order is not None:
        state.absorb(held.sums(state.order))
    return state.boosted()


MANY = 900
PROBLEMS: dict[str, tuple[Loss, dict[str, Any]]] = {
    "squared": (Squared(), {"held_out": 0.3, "patience": 4, "shrinkage": 0.5, "max_bins": 600}),
    "logistic": (Logistic(), {"row_share": 0.5, "column_share": 0.5}),
    "classes": (Logistic(), {"held_out": 0.2}),
}


def problem_of(name: str, at_once: int | None = None) -> tuple[np.ndarray, np.ndarray, Problem]:
    X, y = rows(MANY)
    loss, options = PROBLEMS[name]
    if name != "squared":
        y = np.digitize(y, [0.3, 1.5] if name == "classes" else [1.0]).astype(np.int32)
    settings = BoostingSettings(rounds=12, tree=SMALL, **options)
    return X, y, Problem(settings, loss, 3, MANY, X.shape[1], 3 if name == "classes" else 1, at_once)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("word_bits", [62, 28])
@pytest.mark.parametrize(
    ("ends", "at_once"),
    [([900], 2), ([900], None), ([400, 900], 2), ([100, 150, 600, 900], None), ([*range(100, 901, 100)], 2)],
    ids=lambda value: str(len(value) if isinstance(value, list) else value),
)
def test_pieces_change_no_bit(
    name: str, ends: list[int], at_once: int | None, word_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hessians have many bits, or so few that they are rounded by chance."""
    monkeypatch.setattr(piece, "SUM_ROWS", 50)
    monkeypatch.setattr(growth, "WORD_BITS", word_bits)
    X, y, problem = problem_of(name, at_once)
    assert same(solved(Boosting(problem), Held(X, y, problem, ends)), boost(X, y, problem))
    held = Held(sp.csr_array(X), y, problem, ends)
    assert same(solved(Boosting(problem), held), boost(sp.csr_array(X), y, problem))


@pytest.mark.parametrize(
    ("n", "d", "way"), [(30_000, 4, _growth_loops.BY_ROWS), (2000, 40, _growth_loops.BY_BYTES)], ids=["long", "wide"]
)
@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=["logistic", "squared"])
def test_threads_change_no_bit(n: int, d: int, way: int, loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are many, so that threads divide them, or columns are, so that each makes the histograms of some."""
    monkeypatch.setattr(_thread_team, "DISPATCH_COST", 1)
    random = np.random.default_rng(0)
    X, weight = random.normal(size=(n, d)), random.integers(0, 3, n).astype(np.float64)
    assert _growth_loops._way.py_func(n // 3, d, 256 * d, 3) == way
    y = (X[:, :3].sum(axis=1) + random.normal(size=n) > 0).astype(np.float64)
    problem = Problem(BoostingSettings(rounds=4, row_share=0.7, column_share=0.8), loss, 3, n, d, 1)
    one = boost(X, y, problem, 1, sample_weight=weight)
    assert same(one, boost(X, y, problem, 3, sample_weight=weight))
    monkeypatch.setattr(piece, "WHOLE_TREE_BYTES", 0)
    assert same(one, boost(X, y, problem, 3, sample_weight=weight))
    in_two = solved(
        Boosting(problem), Held(X, y, problem, [n // 8192 * 4096, n] if n > 8192 else [n], n_threads=2, weight=weight)
    )
    assert same(one, in_two)
    assert one.partitions.feature.size > 100


@pytest.mark.parametrize("max_leaves", [1, 2, 3, 40])
@pytest.mark.parametrize("min_leaf", [1, 7, 120, 600])
def test_trees_that_are_grown_at_once_are_those_grown_node_by_node(
    max_leaves: int, min_leaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of words share bytes here; more leaves are allowed than rows give, or fewer."""
    X, y = rows(MANY)
    codes = np.random.default_rng(1).integers(0, 12, MANY)
    X = np.hstack([X, codes[:, None] == np.arange(12)])
    settings = BoostingSettings(rounds=4, tree=TreeSettings(max_leaves, min_leaf), column_share=0.8)
    problem = Problem(settings, Squared(), 3, MANY, X.shape[1], 1)
    at_once = boost(X, y + codes % 3, problem)
    monkeypatch.setattr(piece, "WHOLE_TREE_BYTES", 0)
    node_by_node = solved(Boosting(problem), Held(X, y + codes % 3, problem, [MANY]))
    assert same(at_once, node_by_node)
    assert node_by_node.partitions.feature.max() >= (0 if max_leaves > 1 and min_leaf <= MANY // 2 else -1)


@pytest.mark.parametrize("name", PROBLEMS)
def test_lost_pieces_and_states_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each round, some piece is lost, or the state goes on from a checkpoint, with the pieces that there are."""
    monkeypatch.setattr(piece, "SUM_ROWS", 50)
    X, y, problem = problem_of(name)
    expected, rng = boost(X, y, problem), np.random.default_rng(0)
    held, state, lost, restored = Held(X, y, problem, [200, 450, 900]), Boosting(problem), 0, 0
    checkpoint: dict[str, np.ndarray] = {}
    while state.order is not None:
        what = rng.random()
        if what < 0.15:
            held.lose(int(rng.integers(len(held.pieces))))
            lost += 1
        elif what < 0.3:
            checkpoint = pickle.loads(pickle.dumps(state.checkpoint()))
        elif what < 0.36:  # some rounds, and perhaps trees, after the checkpoint
            state = Boosting.restore(problem, checkpoint)
            restored += 1
        elif what < 0.4:
            held = Held(X, y, problem, [50, 900])
        state.absorb(held.sums(state.order))
    assert same(state.boosted(), expected)
    assert lost > 5
    assert restored > 2


@pytest.mark.parametrize("name", PROBLEMS)
def test_pieces_that_come_back_to_a_worker_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers keep copies of the pieces, and miss what the other is ordered, now a little and now whole trees."""
    monkeypatch.setattr(piece, "SUM_ROWS", 50)
    X, y, problem = problem_of(name)
    workers, rng = [Held(X, y, problem, [200, 450, 900]) for _ in range(2)], np.random.default_rng(0)
    state, homes, moved = Boosting(problem), np.zeros(3, dtype=np.int64), 0
    while (order := state.order) is not None:
        moves = rng.random(3) < 0.2
        homes[moves] = 1 - homes[moves]
        moved += int(moves.sum())
        state.absorb(reduce(iadd, (sent(workers[home].pieces[k].sums(sent(order))) for k, home in enumerate(homes))))
    assert same(state.boosted(), boost(X, y, problem))
    assert moved > 20


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_values_that_are_estimated_anew_survive_lost_pieces_and_states(n_outputs: int) -> None:
    X, y = rows(MANY)
    loss: Loss = Squared()
    if n_outputs == 3:
        y, loss = np.digitize(y, [0.3, 1.5]).astype(np.int32), Logistic()
    settings = BoostingSettings(rounds=11, tree=SMALL, held_out=0.2, backfit=2, backfit_l2=5.0)
    problem = Problem(settings, loss, 3, MANY, X.shape[1], n_outputs, 1)
    expected, rng = boost(X, y, problem), np.random.default_rng(0)
    assert not same(expected, boost(X, y, replace(problem, settings=replace(settings, backfit=0))))
    held, state = Held(X, y, problem, [MANY]), Boosting(problem)
    lost = restored = 0
    checkpoint: dict[str, np.ndarray] = {}
    while state.order is not None:
        what = rng.random()
        if what < 0.15:
            held.lose(0)
            lost += 1
        elif what < 0.3 and state.rests:
            checkpoint = pickle.loads(pickle.dumps(state.checkpoint()))
        elif what < 0.36:
            state = Boosting.restore(problem, checkpoint)
            restored += 1
        state.absorb(held.sums(state.order))
    assert same(state.boosted(), expected)
    assert lost > 5
    assert restored > 2


def test_orders_have_the_last_tree_only_unless_a_piece_is_new() -> None:
    X, y, problem = problem_of("squared")
    held, state = Held(X, y, problem, [900]), Boosting(problem)
    while isinstance(state.order, Order) is False or state.order.tree < 8:  # type: ignore[union-attr]
        state.absorb(held.sums(state.order))
    orders = [order for order in held.orders if isinstance(order, Order)]
    assert [order.basis is not None for order in orders] == [True] + [False] * (len(orders) - 1)
    assert {len(order.trees) for order in orders} == {0, 1}
    assert max(len(pickle.dumps(order)) for order in orders[1:]) < 4000
    held.lose(0)
    state.absorb(held.sums(state.order))
    assert isinstance(state.order, Order)
    assert state.order.basis is not None
    assert len(state.order.trees) == 8


def test_columns_that_overlap_beyond_the_sample_get_bytes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.eye(6)[rng.integers(0, 6, 400)], rng.normal(size=400)])
    y = X[:, 0] - X[:, 3] + rng.normal(size=400) / 9
    problem = Problem(BoostingSettings(rounds=4, tree=SMALL, held_out=0.0), Squared(), 0, 400, 7, 1)
    monkeypatch.setattr(piece, "SUM_ROWS", 40)
    monkeypatch.setattr(bins, "EDGE_ROWS", 380)
    beyond = min(set(range(400)) - set(bins.edge_rows(400, 7, problem.seed).tolist()))
    X[beyond, :6] = 1.0
    held = Held(X, y, problem, [400])
    some = solved(Boosting(problem), held)
    assert any(isinstance(order, Check) for order in held.orders)
    with monkeypatch.context() as patch:
        patch.setattr(bins, "overlaps", lambda *_: True)  # each column has a byte of its own from the beginning
        assert same(some, boost(X, y, problem))
    assert same(some, solved(Boosting(problem), Held(X, y, problem, [120, 400])))


def test_rounds_end_when_held_out_rows_get_no_better() -> None:
    X, y = rows(600)
    settings = BoostingSettings(rounds=400, shrinkage=0.5, tree=TreeSettings(min_leaf=2), held_out=0.2, patience=7)
    boosted = boosted_on(X, y, Squared(), settings)
    best = int(np.argmin(boosted.losses))
    assert 0 < best < 100
    assert boosted.partitions.n_partitions == best
    assert boosted.rounds_made == best + 7 == len(boosted.losses) - 1
    # The loss is that of rows which no tree has seen: it is larger than that of the others.
    assert boosted.losses[best] > np.mean((margins(boosted, X)[:, 0] - y) ** 2) / 2


def test_noise_leaves_the_constant() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(160, 1)), np.where(np.arange(160) % 2, 1.0, -1.0)
    settings = BoostingSettings(shrinkage=1.0, tree=TreeSettings(min_leaf=1), held_out=0.5, patience=3)
    boosted = boosted_on(X, y, Squared(), settings, 5)
    assert np.argmin(boosted.losses) == 0
    assert boosted.rounds_made == 3
    np.testing.assert_array_equal(margins(boosted, X), np.broadcast_to(boosted.intercept, (160, 1)))


def test_rows_that_are_all_alike_have_one_leaf_and_end_the_rounds() -> None:
    X, y = np.ones((50, 2)), np.arange(50) % 2 * 1.0
    for held_out, losses in ((0.0, 0), (0.2, 2)):
        boosted = boosted_on(X, y, Logistic(), BoostingSettings(held_out=held_out))
        assert boosted.rounds_made == boosted.partitions.n_partitions == len(boosted.coef) == 1
        assert len(boosted.losses) == losses


def test_some_row_is_always_learned_from() -> None:
    X, y = np.ones((2, 1)), np.array([1.0, 3.0])
    starts = {float(boosted_on(X, y, Squared(), BoostingSettings(held_out=0.99), s).intercept[0]) for s in range(40)}
    assert starts <= {1.0, 2.0}
    assert 1.0 in starts


def test_shares_of_rows_and_columns_are_drawn_for_each_tree() -> None:
    X, y = rows()
    settings = BoostingSettings(rounds=12, tree=SMALL, column_share=0.25, held_out=0.0)
    partitions = boosted_on(X, y, Squared(), settings).partitions
    used = [set(partitions.feature[a:b]) - {-1} for a, b in zip(partitions.roots, partitions.roots[1:], strict=False)]
    assert max(map(len, used)) == 1
    assert len(set().union(*used)) == 4
    whole, half, again, other = (
        boosted_on(X, y, Squared(), BoostingSettings(3, tree=SMALL, row_share=share, held_out=0.0), seed)
        for share, seed in ((1.0, 0), (0.5, 0), (0.5, 0), (0.5, 1))
    )
    assert np.array_equal(half.coef, again.coef)
    assert not np.array_equal(half.coef, other.coef)
    assert not np.array_equal(half.coef, whole.coef)


def test_each_output_has_trees_of_its_own() -> None:
    X, y = rows()
    classes = np.digitize(y, [0.0, 1.0])
    settings = BoostingSettings(rounds=4, tree=SMALL, held_out=0.0)
    together = margins(boosted_on(X, classes, Logistic(), settings, n_outputs=3), X)
    for k in range(3):
        alone = boosted_on(X, (classes == k).astype(float), Logistic(), settings)
        np.testing.assert_allclose(together[:, k], margins(alone, X)[:, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_share_of_the_targets_is_below_a_quantile(level: float) -> None:
    X, y = rows(4000)
    X_test, y_test = rows(4000, seed=1)
    settings = BoostingSettings(rounds=200, tree=TreeSettings(min_leaf=100))
    boosted = boosted_on(X, y, Quantile(level), settings)
    predicted = margins(boosted, X_test)[:, 0]
    assert np.mean(y_test < predicted) == pytest.approx(level, abs=0.05)
    constant = Quantile(level).each(np.full(4000, np.quantile(y, level)), y_test).mean()
    assert Quantile(level).each(predicted, y_test).mean() < 0.8 * constant


def test_hessians_have_few_bits_in_histograms_of_very_many_rows_and_more_in_leaves() -> None:
    scales = Scales.of(1 << 26, 1.0, 0.25)
    assert scales.hessian == 2.0 ** (62 - 2 * 27 + 1)
    assert scales.leaf_hessian == 2.0 ** (62 - 27 + 1)
    assert scales.gradient == 2.0**29
    assert scales.by_chance
    assert not Scales.of(1 << 22, 1.0, 0.25).by_chance


def test_a_class_that_is_rare_among_very_many_rows_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hessians with few bits are less than half of a 1 in each row, and that of many 1s in the sum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 3))
    rare = ((X[:, 0] > 1.9) & (rng.random(40_000) < 0.2)).astype(float)
    settings = BoostingSettings(rounds=20, held_out=0.0)
    ample = margins(boosted_on(X, rare, Logistic(), settings), X)[:, 0]
    monkeypatch.setattr(growth, "WORD_BITS", 36)
    scales = Scales.of(len(X), 1.0, 0.25)
    assert rare.mean() * scales.hessian < 0.5
    few = margins(boosted_on(X, rare, Logistic(), settings), X)[:, 0]
    losses = {name: Logistic().each(own, rare).mean() for name, own in (("ample", ample), ("few", few))}
    constant = Logistic().each(np.full(len(X), np.log(rare.mean() / (1 - rare.mean()))), rare).mean()
    assert losses["ample"] < 0.7 * constant
    assert losses["few"] < 0.75 * constant


# Weights of rows, and rows that are held out by group or in time


WEIGHTS = np.random.default_rng(5).integers(1, 5, N) / 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("backfit", [0, 3])
def test_weighted_rounds_are_those_of_the_definition(kind: str, backfit: int) -> None:
    X, y = rows()
    if kind == "logistic":
        y = (y > 1).astype(float)
    options: dict[str, Any] = {"rounds": 12, "shrinkage": 0.9, "held_out": 0.3, "patience": 3}
    options |= {"backfit": backfit, "backfit_l2": 20.0}
    problem = Problem(BoostingSettings(tree=SMALL, **options), LOSSES[kind], 0, N, 4, 1)
    boosted = boost(X, y, problem, sample_weight=WEIGHTS)
    trees, _, losses = naive.boost(X, y, kind, max_leaves=7, min_leaf=5, l2=0.1, weight=WEIGHTS, **options)
    assert boosted.losses == pytest.approx(losses, rel=1e-12)
    nodes = [node for tree in trees[: int(np.argmin(losses))] for node in naive.preorder(tree)]
    assert boosted.partitions.feature.tolist() == [node.column if node.children else -1 for node in nodes]
    np.testing.assert_allclose(boosted.coef[:, 0], [node.value for node in nodes if not node.children], rtol=1e-9)
    assert not same(boosted, boost(X, y, problem))
    assert same(boosted, boost(X, y, replace(problem), sample_weight=WEIGHTS.copy()))


@pytest.mark.parametrize("name", ["squared", "classes"])
def test_whole_weights_are_repeated_rows_where_the_size_of_leaves_does_not_matter(name: str) -> None:
    """A leaf has so many rows, whatever they weigh; the bins are those of few values, and no row is drawn."""
    X, y, problem = problem_of(name)
    X, weight = np.round(X, 1), np.random.default_rng(1).integers(0, 4, MANY)
    settings = BoostingSettings(rounds=8, tree=TreeSettings(max_leaves=9, min_leaf=1), held_out=0.0)
    problem = replace(problem, settings=settings)
    repeated = np.repeat(np.arange(MANY), weight)
    expected = boost(X[repeated], y[repeated], replace(problem, n_rows=repeated.size))
    weighted = boost(X, y, problem, sample_weight=weight.astype(float))
    assert weighted.partitions.content_hash == expected.partitions.content_hash
    np.testing.assert_allclose(weighted.coef, expected.coef, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(weighted.intercept, expected.intercept, rtol=1e-12)


@pytest.mark.parametrize("name", ["squared", "classes"])
@pytest.mark.parametrize("backfit", [0, 2])
def test_rows_that_all_weigh_little_are_learned_as_rows_that_weigh_one(name: str, backfit: int) -> None:
    """Weights may be shares of a whole: neither the smallest sum of hessians nor l2 is held against their sum."""
    X, y, problem = problem_of(name)
    settings = replace(problem.settings, tree=TreeSettings(max_leaves=7, min_leaf=5), backfit=backfit)
    problem = replace(problem, settings=settings)
    assert same(boost(X, y, problem, sample_weight=np.full(MANY, 2.0**-20)), boost(X, y, problem))


def test_a_round_without_a_split_ends_nothing_where_the_next_one_draws_other_columns() -> None:
    """Each tree is grown on one of two columns, of which one says nothing."""
    X, y = rows()
    X = np.column_stack([np.zeros(N), X[:, 0]])
    drawn: dict[str, Any] = {"rounds": 40, "shrinkage": 0.5, "column_share": 0.5}
    trees, _, _ = naive.boost(X, y, "squared", max_leaves=7, min_leaf=5, l2=0.1, patience=30, **drawn)
    boosted = boosted_on(X, y, Squared(), BoostingSettings(tree=SMALL, held_out=0.0, patience=30, **drawn), 0)
    assert boosted.rounds_made == len(trees) == 40
    assert 5 < sum(bool(tree.children) for tree in trees) < 35
    nothing = boosted_on(np.zeros((N, 2)), y, Squared(), BoostingSettings(patience=3, held_out=0.0, **drawn), 0)
    assert nothing.rounds_made == 3


def test_a_quantile_of_trees_for_which_no_row_is_drawn() -> None:
    X, y = rows()
    settings = BoostingSettings(rounds=30, row_share=0.02, held_out=0.0, patience=30)
    boosted = boosted_on(X[:20], y[:20], Quantile(0.5), settings, 0)
    assert boosted.rounds_made == 30
    assert np.isfinite(boosted.coef).all()


def test_weights_of_zero_leave_no_row_to_learn_from() -> None:
    X, y, problem = problem_of("squared")
    with pytest.raises(ValueError, match="found no row to learn from whose weight is above 0"):
        boost(X, y, problem, sample_weight=np.zeros(MANY))
    times, late = np.arange(MANY) / 7, np.arange(MANY) >= MANY - 50
    problem = replace(problem, settings=replace(problem.settings, held_out=0.2))
    with pytest.raises(ValueError, match=r"as all such rows are held out; give a smaller --held-out \(validation_frac"):
        boost(X, y, problem, sample_weight=late.astype(float), division=Division(times, in_time=True))


@pytest.mark.parametrize("in_time", [False, True])
def test_rows_that_are_held_out_follow_the_division(in_time: bool) -> None:
    X, y = rows()
    keys = np.random.default_rng(2).integers(0, 25, N).astype(float)
    options: dict[str, Any] = {"rounds": 30, "shrinkage": 0.5, "held_out": 0.2, "patience": 4}
    problem = Problem(BoostingSettings(tree=SMALL, **options), Squared(), 0, N, 4, 1)
    division = Division(keys, in_time)
    places = problem.places(division)
    held = np.flatnonzero(places >= division.cut(places, 0.2))
    assert not set(keys[held]) & set(np.delete(keys, held))
    losses = naive.boost(X, y, "squared", max_leaves=7, min_leaf=5, l2=0.1, held=held.tolist(), **options)[2]
    assert boost(X, y, problem, division=division).losses == losses


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("ends", [[900], [100, 150, 600, 900]], ids=len)
def test_pieces_with_weights_and_groups_change_no_bit(
    name: str, ends: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piece, "SUM_ROWS", 50)
    X, y, problem = problem_of(name)
    problem = replace(problem, settings=replace(problem.settings, held_out=0.2))
    weight = np.random.default_rng(0).integers(0, 3, MANY) / 2
    division = Division(np.random.default_rng(1).integers(0, 40, MANY).astype(float), in_time=False)
    expected = boost(X, y, problem, sample_weight=weight, division=division)
    divided = problem.divided(division)
    held = Held(X, y, divided, ends, weight=weight, places=divided.places(division))
    state, rng = Boosting(divided), np.random.default_rng(0)
    while state.order is not None:
        if rng.random() < 0.1:
            held.lose(int(rng.integers(len(ends))))
        elif rng.random() < 0.05:
            state = Boosting.restore(problem if (arrays := state.checkpoint()) else divided, arrays)
        state.absorb(held.sums(state.order))
    assert same(state.boosted(), expected)


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_a_class_of_which_no_row_is_learned_from_is_not_ruled_out(target: float) -> None:
    """The constant margin is that of half a row of the class among so many."""
    boosted = boosted_on(np.arange(60.0)[:, None], np.full(60, target), Logistic(), BoostingSettings(held_out=0.0))
    margin = margins(boosted, np.array([[5.0]]))
    assert np.abs(margin) == pytest.approx(np.log(121), abs=0.5)
    assert (margin > 0) == (target > 0.5)
