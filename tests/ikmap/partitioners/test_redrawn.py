"""Partitionings drawn anew: half of them, and what was learned is carried over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.methods import MAPS, Redrawable, Sample, capability, configured
from ikmap.methods.iforest import IForest
from ikmap.partitioners.redrawn import carry_matrix, drawn_longest_ago, replaced, seed_of_redraw
from tests.naive import redrawn as naive

RNG = np.random.default_rng(4)
X = RNG.random((300, 3))


REDRAWABLE = [name for name, kind in MAPS.items() if capability(kind.of_record({})[0], Redrawable)]


def test_maps_that_draw_from_rows_can_be_drawn_anew() -> None:
    assert REDRAWABLE == ["anne", "iforest", "inne", "binning"]


def sample(rows: np.ndarray, number: int) -> Sample:
    return Sample(rows.shape[0], rows.shape[1], None, rows.__getitem__, seed_of_redraw(7, number))


@pytest.mark.parametrize("name", [*REDRAWABLE, "anne,iforest"])
def test_one_half_and_then_the_other(name: str) -> None:
    values_of: dict[str, dict[str, object]] = {
        "binning": {"lifetime": 3.0},
        "anne,iforest": {"anne.psi": 8, "iforest.psi": 8},
    }
    of_map: Any = configured(name, {"t": 5, **values_of.get(name, {"psi": 8})})[0]
    first = of_map.fit(sample(X[:100], 0))
    models, was = [first], np.zeros(5, dtype=int)
    for number in (1, 2, 3):
        recent = X[50 * number + 50 : 50 * number + 100]
        model, drawn = of_map.redrawn(models[-1], sample(recent, number), number, 2)
        again, _ = of_map.redrawn(models[-1], sample(recent, number), number, 1)
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
    of_map, rows = IForest(t=7, psi=16), X[200:]
    first = of_map.fit(sample(X[:100], 0))
    model, drawn = of_map.redrawn(first, sample(rows, 1), 1)
    weights = RNG.normal(size=first.offsets[-1])
    carried = carry_matrix(first.cells(rows), model.cells(rows), drawn) @ weights
    before, after = (of[one.cells(rows).columns()].sum(axis=1) for one, of in ((first, weights), (model, carried)))
    assert before.mean() == pytest.approx(after.mean(), rel=1e-12)


def test_halves_take_turns() -> None:
    assert [drawn_longest_ago(4, number) for number in (1, 2, 3)] == [(0, 2), (2, 4), (0, 2)]
    assert [drawn_longest_ago(5, number) for number in (1, 2)] == [(0, 3), (3, 5)]
    assert [drawn_longest_ago(1, number) for number in (1, 2)] == [(0, 1), (0, 1)]


def test_a_map_that_is_drawn_anew_as_a_whole() -> None:
    """With one partitioning there are no halves: the new one takes its place, as a model of the same kind."""
    of_map = IForest(t=1, psi=16)
    first, model = of_map.fit(sample(X[:100], 0)), of_map.fit(sample(X[100:200], 1))
    for of_parts in (replaced(first, 0, model), of_map.redrawn(first, sample(X[100:200], 1), 1)[0]):
        assert type(of_parts) is type(first)
        assert of_parts.content_hash == model.content_hash


def test_numbers_are_drawn_apart() -> None:
    assert len({seed_of_redraw(seed, number) for seed in range(3) for number in range(1, 4)}) == 9
