"""Problems for tests of the linear machines, and blocks that remember who asked for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.dual import _linear_svm_loops as loops
from ikmap.learners.dual.linear_svm import SVMFit
from ikmap.learners.rows import Block

T, PSI = 11, 7
OFFSETS = np.arange(T + 1) * PSI
VALUE = 1 / np.sqrt(T)
type Loss = Literal["squared_hinge", "hinge", "logistic"]
LOSSES = cast(tuple[Loss, ...], tuple(sorted(loops.LOSSES)))
EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)


def problem(n: int = 200, n_classes: int = 2, seed: int = 0) -> tuple[Cells, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, PSI, (n, T)).astype(np.int32)
    score = codes[:, :4].sum(axis=1) + rng.integers(0, PSI, n)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score).astype(np.int32)
    return Cells(codes, OFFSETS), y


def signs(y: np.ndarray, positive: int = 1) -> np.ndarray:
    return np.where(y == positive, 1.0, -1.0)


class Reread(Sequence[Block]):
    """Blocks made anew at each access, as when read from disk, with a record of what was asked for."""

    def __init__(self, cells: Cells, y: np.ndarray, bounds: Iterable[int], weight: np.ndarray | None = None) -> None:
        self.cells, self.y, self.weight = cells, y, weight
        self.bounds = [0, *bounds, len(y)]
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, k: Any) -> Any:
        self.asked.append(k)
        part = slice(self.bounds[k], self.bounds[k + 1])
        return Block(self.cells[part], self.y[part].copy(), None if self.weight is None else self.weight[part])


def same(a: SVMFit, b: SVMFit) -> None:
    for name in ("coef", "intercept", "alphas", "primal", "dual", "gap", "n_iter"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
