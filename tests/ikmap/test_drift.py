"""Detectors of drift, against the definitions; they find a change and leave steady losses alone."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.drift import ADWIN, DETECTORS, PageHinkley
from tests.naive import drift as naive


def losses(*shares: float, n: int = 400, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([(rng.random(n) < share).astype(float) for share in shares])


@pytest.mark.parametrize("values", [losses(0.1, 0.5, 0.2, 0.6), np.random.default_rng(1).random(700) ** 3, losses(0.0)])
def test_adwin_is_the_definition(values: np.ndarray) -> None:
    detector = ADWIN(0.05)
    alarms = detector.update(values)
    expected, window = naive.adwin(values.tolist(), 0.05)
    assert alarms.tolist() == expected
    assert detector.width == len(window)
    n, total, spread, seen = detector.checkpoint()["numbers"]
    assert (n, seen) == (len(window), values.size)
    assert total == pytest.approx(sum(window))
    assert spread == pytest.approx(n * np.var(window), abs=1e-9)


@pytest.mark.slow
def test_page_hinkley_is_the_definition() -> None:
    values = losses(0.05, 0.9, 0.05, 0.95, n=150)
    alarms = PageHinkley().update(values)
    assert alarms.size
    assert alarms.tolist() == naive.page_hinkley(values.tolist(), 0.005)


@pytest.mark.parametrize("name", DETECTORS)
def test_in_any_pieces_from_a_checkpoint(name: str) -> None:
    values = losses(0.1, 0.8, 0.1, 0.7)
    whole, pieces = DETECTORS[name](), DETECTORS[name]()
    expected = whole.update(values).tolist()
    assert expected
    found: list[int] = []
    for start in range(0, values.size, 37):
        found += (start + pieces.update(values[start : start + 37])).tolist()
        kept, pieces = pieces.checkpoint(), DETECTORS[name]()
        pieces.restore(kept)
    assert found == expected
    assert all(np.array_equal(array, pieces.checkpoint()[key]) for key, array in whole.checkpoint().items())


def test_alarms_come_soon_after_a_rise_and_not_without_one() -> None:
    found = ADWIN().update(losses(0.1, 0.4, n=2000))
    assert 2000 <= found[0] < 2200
    assert not ADWIN().update(losses(0.4, 0.1, n=2000)).size  # a loss that falls is no reason for alarm
    false = sum(ADWIN().update(losses(0.3, n=5000, seed=seed)).size for seed in range(20))
    assert false <= 1
