"""``python -m tests.soaks.thread_teams --seconds 60``: boosting on random problems, on one thread and on several.

Rows, columns, losses, weights, shares, settings of trees and the number of threads are drawn. Both models must have the
same bits. Run several of these at once, on more threads than there are processors, so that threads stop anywhere.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any
from unittest import mock

import numpy as np

from ikmap import _thread_team
from ikmap.learners.boosting import piece
from ikmap.learners.boosting.boosting import Boosted, BoostingSettings, Problem, boost
from ikmap.learners.boosting.growth import TreeSettings
from ikmap.learners.boosting.losses import Logistic, Loss, Quantile, Squared


def main() -> int:
    """Print every problem whose models differ, and how many problems there were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random, ends = np.random.default_rng(options.seed), time.monotonic() + options.seconds
    n_problems = n_different = 0
    with mock.patch.object(_thread_team, "DISPATCH_COST", 1):  # all threads are taken for all that is shared out
        while time.monotonic() < ends:
            X, y, weight, problem = drawn(random)
            n_threads = int(random.integers(2, 9))
            one = boost(X, y, problem, 1, sample_weight=weight)
            # Whole trees at once, or node by node.
            with mock.patch.object(piece, "WHOLE_TREE_BYTES", int(random.choice([0, piece.WHOLE_TREE_BYTES]))):
                several = boost(X, y, problem, n_threads, sample_weight=weight)
            n_problems += 1
            if bits(one) != bits(several):
                n_different += 1
                print(f"different: {X.shape}, {n_threads} threads, {problem}", flush=True)
    print(f"{n_problems} problems, {n_different} of them with different models")
    return 1 if n_different else 0


def drawn(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, Problem]:
    """Return rows, targets, weights and the problem."""
    n = int(random.choice([30, 300, 3000, 9000, 20_000, 60_000]))
    d = int(random.choice([1, 2, 5, 30, 100] if n < 20_000 else [1, 4, 9]))
    X = random.normal(size=(n, d))
    if random.random() < 0.5:  # ties
        X = np.round(X, int(random.integers(0, 2)))
    if random.random() < 0.3:  # columns that share a byte
        X = np.hstack([X, random.integers(0, 6, n)[:, None] == np.arange(6)])
    losses: list[Loss] = [Logistic(), Squared(), Quantile(0.3)]
    loss, n_outputs, y = losses[random.integers(3)], 1, random.normal(size=n) + X[:, 0]
    if isinstance(loss, Logistic):
        n_outputs = int(random.choice([1, 3]))
        y = random.integers(0, 3, n).astype(np.float64) if n_outputs == 3 else (y > 0).astype(np.float64)
    weight = None
    if not isinstance(loss, Quantile) and random.random() < 0.4:
        weight = random.integers(0, 3, n).astype(np.float64)
        weight[0] = 1.0
    shares: dict[str, Any] = {name: float(random.choice([1.0, 0.6])) for name in ("row_share", "column_share")}
    settings = BoostingSettings(
        rounds=int(random.integers(1, 6)),
        tree=TreeSettings(int(random.choice([2, 3, 8, 31, 64])), int(random.choice([1, 5, 20]))),
        held_out=float(random.choice([0.0, 0.2])),
        max_bins=int(random.choice([10, 256, 400])),
        **shares,
    )
    return X, y, weight, Problem(settings, loss, int(random.integers(100)), n, X.shape[1], n_outputs)


def bits(boosted: Boosted) -> tuple[object, ...]:
    """Return what two models of the same bits have in common."""
    return boosted.partitions.content_hash, boosted.coef.tobytes(), boosted.intercept.tobytes(), tuple(boosted.losses)


if __name__ == "__main__":
    sys.exit(main())
