"""Rounds of boosting against their definition, held-out rows, shares of rows and columns, and quantiles."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.learners.boosting import boosting, growth
from ikmap.learners.boosting.boosting import Boosted, BoostingSettings, boost
from ikmap.learners.boosting.growth import TreeSettings
from ikmap.learners.boosting.losses import Logistic, Loss, Quantile, Squared
from ikmap.learners.linear_model import LinearModel
from tests.naive import boosting as naive

N = 300
SMALL = TreeSettings(max_leaves=7, min_leaf=5, l2=0.1)


def rows(n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 1] = rng.integers(0, 3, n)
    return X, X[:, 0] * (X[:, 1] > 0) + X[:, 2] ** 2 + rng.normal(size=n) / 2


def margins(boosted: Boosted, X: np.ndarray) -> np.ndarray:
    """Return the decisions of the linear model on the cells."""
    linear = LinearModel(boosted.coef, boosted.intercept, 1.0, "boosting", [])
    return linear.decision_function(boosted.partitions.cells(X))


@pytest.mark.parametrize(
    ("loss", "derivatives"), [(Squared(), naive.squared), (Logistic(), naive.logistic)], ids=["squared", "logistic"]
)
def test_rounds_are_those_of_the_definition(loss: Loss, derivatives: naive.Derivatives) -> None:
    X, y = rows()
    if isinstance(loss, Logistic):
        y = (y > 1).astype(float)
    settings = BoostingSettings(rounds=6, shrinkage=0.3, tree=SMALL, held_out=0.0)
    boosted = boost(X, y[:, None], loss, settings, 0)
    trees, margin = naive.boost(
        X, y, derivatives, loss.start(y), rounds=6, shrinkage=0.3, max_leaves=7, min_leaf=5, l2=0.1
    )
    nodes = [node for tree in trees for node in naive.preorder(tree)]
    assert boosted.partitions.feature.tolist() == [node.column if node.children else -1 for node in nodes]
    values = [node.value for node in nodes if not node.children]
    np.testing.assert_allclose(boosted.coef[:, 0], values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(margins(boosted, X)[:, 0], margin, rtol=1e-9, atol=1e-12)
    assert boosted.rounds_made == boosted.partitions.n_partitions == 6


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(4000)
    monkeypatch.setattr(growth, "PARALLEL_WORK", 1)
    monkeypatch.setattr(boosting, "MANY_ROWS", 1)
    settings = BoostingSettings(rounds=5, row_share=0.7)
    one, many = (boost(X, y[:, None], Squared(), settings, 3, threads) for threads in (1, 3))
    assert one.partitions.content_hash == many.partitions.content_hash
    assert np.array_equal(one.coef, many.coef)
    assert one.losses == many.losses


def test_rounds_end_when_held_out_rows_get_no_better() -> None:
    X, y = rows(600)
    settings = BoostingSettings(rounds=400, shrinkage=0.5, tree=TreeSettings(min_leaf=2), held_out=0.2, patience=7)
    boosted = boost(X, y[:, None], Squared(), settings, 0)
    best = int(np.argmin(boosted.losses))
    assert 0 < best < 100
    assert boosted.partitions.n_partitions == best
    assert boosted.rounds_made == best + 7 == len(boosted.losses) - 1
    # The loss is that of rows which no tree has seen: it is larger than that of the others.
    assert boosted.losses[best] > np.mean((margins(boosted, X)[:, 0] - y) ** 2) / 2


def test_noise_leaves_the_constant() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 1)), np.where(np.arange(80) % 2, 1.0, -1.0)
    settings = BoostingSettings(shrinkage=1.0, tree=TreeSettings(min_leaf=1), held_out=0.5, patience=3)
    boosted = boost(X, y[:, None], Squared(), settings, 5)
    assert np.argmin(boosted.losses) == 0
    assert boosted.rounds_made == 3
    np.testing.assert_array_equal(margins(boosted, X), np.broadcast_to(boosted.intercept, (80, 1)))


def test_shares_of_rows_and_columns_are_drawn_for_each_tree() -> None:
    X, y = rows()
    settings = BoostingSettings(rounds=12, tree=SMALL, column_share=0.25, held_out=0.0)
    partitions = boost(X, y[:, None], Squared(), settings, 0).partitions
    used = [set(partitions.feature[a:b]) - {-1} for a, b in zip(partitions.roots, partitions.roots[1:], strict=False)]
    assert max(map(len, used)) == 1
    assert len(set().union(*used)) == 4
    whole, half, again, other = (
        boost(X, y[:, None], Squared(), BoostingSettings(3, tree=SMALL, row_share=share, held_out=0.0), seed)
        for share, seed in ((1.0, 0), (0.5, 0), (0.5, 0), (0.5, 1))
    )
    assert np.array_equal(half.coef, again.coef)
    assert not np.array_equal(half.coef, other.coef)
    assert not np.array_equal(half.coef, whole.coef)


def test_each_output_has_trees_of_its_own() -> None:
    X, y = rows()
    targets = np.column_stack([y > 1, y < 0, X[:, 1] == 2]).astype(float)
    settings = BoostingSettings(rounds=4, tree=SMALL, held_out=0.0)
    together = margins(boost(X, targets, Logistic(), settings, 0), X)
    for k in range(3):
        alone = boost(X, targets[:, [k]], Logistic(), settings, 0)
        np.testing.assert_allclose(together[:, k], margins(alone, X)[:, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_share_of_the_targets_is_below_a_quantile(level: float) -> None:
    X, y = rows(4000)
    X_test, y_test = rows(4000, seed=1)
    settings = BoostingSettings(rounds=200, tree=TreeSettings(min_leaf=100))
    boosted = boost(X, y[:, None], Quantile(level), settings, 0)
    predicted = margins(boosted, X_test)[:, 0]
    assert np.mean(y_test < predicted) == pytest.approx(level, abs=0.05)
    constant = Quantile(level).mean(np.full(4000, np.quantile(y, level)), y_test)
    assert Quantile(level).mean(predicted, y_test) < 0.8 * constant
