"""Online gradient descent on squared errors, against the rule written out."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.online.squared_ogd import SquaredOGDState


def rows_of(n: int = 60, t: int = 7, width: int = 4) -> tuple[Cells, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(width, size=(n, t)).astype(np.int32)
    codes[rng.random(codes.shape) < 0.1] = -1
    return Cells(codes, np.arange(t + 1, dtype=np.int64) * width), 100 + codes.sum(axis=1) + rng.normal(size=n)


@pytest.mark.parametrize("divisor", [7.0, 70.0])
def test_the_rule(divisor: float) -> None:
    cells, y = rows_of()
    X = cells.to_csr(normalize=False).toarray()
    state = SquaredOGDState.start(cells.offsets, 0.6, divisor)
    predicted = state.partial_fit(cells.packed(), y).predicted
    w = np.zeros(X.shape[1])
    seen: list[float] = []
    for x, target, expected in zip(X, y, predicted, strict=True):
        before = np.mean(seen) if seen else 0.0
        found = x @ w / divisor
        assert found + before == pytest.approx(expected, rel=1e-9)
        seen.append(target)
        w += 0.6 * (target - np.mean(seen) - found) * x
    assert np.allclose(state.weights, w)
    assert np.allclose(state.decision_function(cells)[:, 0], X @ w / divisor + y.mean())
    assert np.array_equal(state.model([]).decision_function(cells), state.decision_function(cells))
    assert (state.n_seen, state.n_support) == (60, 60)


def test_steps_that_would_make_errors_larger() -> None:
    cells, _ = rows_of()
    with pytest.raises(ValueError, match=r"^eta: found 0, expected a number between 0 and 2; larger steps on squared"):
        SquaredOGDState.start(np.arange(5), 0.0, 4.0)
    with pytest.raises(ValueError, match=r"^eta: found 2, expected a number between 0 and 2; larger steps on squared"):
        SquaredOGDState.start(cells.offsets, 2.0, 7.0)
    with pytest.raises(ValueError, match=r"^eta: found 0.5, expected a number between 0 and 0.285714"):
        SquaredOGDState.start(cells.offsets, 0.5, 1.0)
    for eta in (0.0, -0.5, 2.0):
        with pytest.raises(ValueError, match=rf"^eta: found {eta:g}, expected a number between 0 and 2$"):
            SquaredOGDState.start_on_rows(4, eta)
    for eta in (1e-9, 1.0, 1.999):
        assert SquaredOGDState.start_on_rows(4, eta).eta == eta
    state = SquaredOGDState.start(cells.offsets, 0.1)
    with pytest.raises(ValueError, match=r"^expected 60 targets that are finite numbers$"):
        state.partial_fit(cells, np.full(60, np.nan))
    assert state.n_seen == 0
