"""Online quantile regression, against the rule written out; coverage of what is predicted before it is learned."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.online.quantile_ogd import QuantileOGDState
from tests.naive.quantiles import quantile_steps
from tests.support.streams import equal_checkpoints

LEVELS = (0.1, 0.4, 0.9)


def rows_of(n: int = 60, t: int = 7, width: int = 4, gaps: bool = True) -> tuple[Cells, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(width, size=(n, t)).astype(np.int32)
    if gaps:
        codes[rng.random(codes.shape) < 0.1] = -1
    y = 100 + codes.sum(axis=1) * rng.random(n)
    return Cells(codes, np.arange(t + 1, dtype=np.int64) * width), y


@pytest.mark.parametrize("gaps", [True, False])
def test_the_rule(gaps: bool) -> None:
    cells, y = rows_of(gaps=gaps)
    state = QuantileOGDState.start(cells.offsets, LEVELS, 0.3)
    predicted = state.partial_fit(cells.packed(), y).predicted
    expected, predict = quantile_steps(cells.codes, 4, y, LEVELS, 0.3)
    assert np.allclose(predicted, np.sort(expected, axis=1)[:, 1], rtol=1e-12)
    decision = state.decision_function(cells)
    assert np.allclose(decision, [predict(row) for row in cells.codes.tolist()], rtol=1e-12)
    assert np.array_equal(state.model([]).decision_function(cells), decision)
    assert state.n_seen == 60


def test_in_any_pieces_and_from_a_checkpoint_with_more_cells() -> None:
    cells, y = rows_of()
    whole, pieces = (QuantileOGDState.start(cells.offsets, LEVELS) for _ in range(2))
    whole.partial_fit(cells.packed(), y)
    for start in range(0, 60, 13):
        pieces.partial_fit(cells[start : start + 13].packed(), y[start : start + 13])
        pieces = QuantileOGDState.restore(pieces.checkpoint())
    assert equal_checkpoints(whole, pieces)
    wider = np.arange(8, dtype=np.int64) * 6
    whole.grow(cells.offsets, wider)
    again = Cells(cells.codes, wider).packed()
    assert np.array_equal(whole.decision_function(again), pieces.decision_function(cells.packed()))


def test_a_stream_is_covered_as_it_should_be() -> None:
    """Steps of the intercept add up, so that the share below a quantile cannot stay away from its level."""
    rng = np.random.default_rng(5)
    n, t = 20_000, 20
    codes = rng.integers(8, size=(n, t)).astype(np.int32)
    y = codes[:, 0] + codes[:, 1] * rng.standard_exponential(n)
    cells = Cells(codes, np.arange(t + 1, dtype=np.int64) * 8)
    for level in (0.05, 0.5, 0.95):
        state = QuantileOGDState.start(cells.offsets, [level])
        predicted = state.partial_fit(cells.packed(), y).predicted
        assert abs((y[2000:] <= predicted[2000:]).mean() - level) < 0.01


def test_what_is_refused() -> None:
    cells, _ = rows_of()
    for levels in ([0.5, 0.5], [0.9, 0.1], [0.0, 0.5], [0.5, 1.0], []):
        with pytest.raises(ValueError, match="quantiles: found"):
            QuantileOGDState.start(cells.offsets, levels)
    state = QuantileOGDState.start(cells.offsets, [0.5])
    with pytest.raises(ValueError, match="expected 60 targets that are finite numbers"):
        state.partial_fit(cells, np.full(60, np.nan))
    assert state.n_seen == 0
