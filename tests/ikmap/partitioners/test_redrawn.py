"""Partitionings drawn anew: half of them, and what was learned is carried over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.methods import MAPS, Sample
from ikmap.methods.registry import known
from ikmap.partitioners.redrawn import carry_matrix, drawn_longest_ago, seed_of_redraw
from tests.naive import redrawn as naive

RNG = np.random.default_rng(4)
X = RNG.random((300, 3))


def sample(rows: np.ndarray, number: int) -> Sample:
    return Sample(rows.shape[0], rows.shape[1], None, rows.__getitem__, seed_of_redraw(7, number))


@pytest.mark.parametrize("name", [name for name, one in MAPS.items() if one.redraws(one.Options())] + ["anne,iforest"])
def test_one_half_and_then_the_other(name: str) -> None:
    of_map: Any = known(name)
    options = of_map.Options(t=5)
    value = {"binning": 3.0, "anne,iforest": (8, 8)}.get(name, 8)
    first = of_map.fit(options, value, sample(X[:100], 0))
    models, was = [first], np.zeros(5, dtype=int)
    for number in (1, 2, 3):
        recent = X[50 * number + 50 : 50 * number + 100]
        model, drawn = of_map.redrawn(options, value, models[-1], sample(recent, number), number, 2)
        again, _ = of_map.redrawn(options, value, models[-1], sample(recent, number), number, 1)
        assert model.content_hash == again.content_hash
        assert model.n_partitions == 5
        assert 2 <= drawn.sum() <= 3
        assert was[drawn].max() <= was[~drawn].min()  # those drawn longest ago
        was[drawn] = number
        before, after = models[-1].cells(X), model.cells(X)
        np.testing.assert_array_equal(after.codes[:, ~drawn], before.codes[:, ~drawn])
        np.testing.assert_array_equal(np.diff(after.offsets)[~drawn], np.diff(before.offsets)[~drawn])
        assert (after.codes[:, drawn] != before.codes[:, drawn]).any(axis=0).all()

        values = RNG.normal(size=(before.n_columns, 2))
        matrix = carry_matrix(models[-1].cells(recent), model.cells(recent), drawn)
        codes = models[-1].cells(recent).codes, model.cells(recent).codes
        slow = naive.carried(values, *codes, before.offsets, after.offsets, drawn)
        np.testing.assert_allclose(matrix @ values, slow, rtol=1e-12, atol=1e-14)
        models.append(model)
    assert len(models[-1].single) <= 4  # two halves of each map, however often


def test_sums_over_cells_keep_their_mean_over_the_rows() -> None:
    of_map = MAPS["iforest"]
    options, rows = of_map.Options(t=7), X[200:]
    first = of_map.fit(options, 16, sample(X[:100], 0))
    model, drawn = of_map.redrawn(options, 16, first, sample(rows, 1), 1)
    weights = RNG.normal(size=first.offsets[-1])
    carried = carry_matrix(first.cells(rows), model.cells(rows), drawn) @ weights
    before, after = (of[one.cells(rows).columns()].sum(axis=1) for one, of in ((first, weights), (model, carried)))
    assert before.mean() == pytest.approx(after.mean(), rel=1e-12)


def test_halves_take_turns() -> None:
    assert [drawn_longest_ago(4, number) for number in (1, 2, 3)] == [(0, 2), (2, 4), (0, 2)]
    assert [drawn_longest_ago(5, number) for number in (1, 2)] == [(0, 3), (3, 5)]
    assert [drawn_longest_ago(1, number) for number in (1, 2)] == [(0, 1), (0, 1)]


def test_numbers_are_drawn_apart() -> None:
    assert len({seed_of_redraw(seed, number) for seed in range(3) for number in range(1, 4)}) == 9
