"""Problems for tests of the linear machines, and blocks that remember who asked for them."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import LOSSES
from ikmap.learners.rows import Block

T, PSI = 11, 7
OFFSETS = np.arange(T + 1) * PSI
VALUE = 1 / np.sqrt(T)
EVERY_LOSS = pytest.mark.parametrize("loss", sorted(LOSSES))


def problem(n=200, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, PSI, (n, T)).astype(np.int32)
    score = codes[:, :4].sum(axis=1) + rng.integers(0, PSI, n)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score).astype(np.int32)
    return Cells(codes, OFFSETS), y


def signs(y, positive=1):
    return np.where(y == positive, 1.0, -1.0)


class Reread:
    """Blocks made anew at each access, as when read from disk, with a record of what was asked for."""

    def __init__(self, cells, y, bounds, weight=None):
        self.cells, self.y, self.weight = cells, y, weight
        self.bounds = [0, *bounds, len(y)]
        self.asked = []

    def __len__(self):
        return len(self.bounds) - 1

    def __getitem__(self, k):
        self.asked.append(k)
        part = slice(self.bounds[k], self.bounds[k + 1])
        return Block(self.cells[part], self.y[part].copy(), None if self.weight is None else self.weight[part])


def same(a, b):
    for name in ("coef", "intercept", "alphas", "primal", "dual", "gap", "n_iter"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
