"""How long a lifetime trees may have that fit into memory."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.methods import DoesNotFit, FitsByPartitioning, capability
from ikmap.methods.anne import Anne
from ikmap.methods.fields import with_options
from ikmap.methods.mondrian import Mondrian
from ikmap.partitioners.mondrian import fit_mondrian
from ikmap.partitioners.mondrian_size import HELD, longest_lifetime
from pipeline.resolve import flag


def test_the_longest_lifetime_is_the_longest_whose_trees_fit() -> None:
    X = np.random.default_rng(0).random((2000, 3))
    of_node = 16 * 3 + 40
    for nodes in (1, 7, 300, 1500):
        room = HELD * 10 * of_node * (nodes + 0.5)
        found = longest_lifetime(X, 10, 1e4, 5, room)
        assert found is not None
        assert fit_mondrian(X, 1, found, 5).times.size <= nodes
        assert fit_mondrian(X, 1, found * 1.02 + 1e-9, 5).times.size >= nodes - 1
        assert longest_lifetime(X, 10, found, 5, room) is None
    assert longest_lifetime(X, 10, 1e4, 5, HELD * 10 * of_node * 4000) is None  # all rows by themselves
    assert longest_lifetime(X, 10, 1e4, 5, 100.0) == 0.0


def test_what_is_kept_of_each_cell_counts_too() -> None:
    X = np.random.default_rng(0).random((2000, 3))
    of_node, of_cell = 16 * 3 + 40, 2000.0
    for nodes in (7, 300):
        room = 10 * (of_node + of_cell / 2) * (nodes + 0.5)
        found = longest_lifetime(X, 10, 1e4, 5, room, of_cell)
        assert found is not None
        assert fit_mondrian(X, 1, found, 5).times.size <= nodes
        assert fit_mondrian(X, 1, found * 1.02 + 1e-9, 5).times.size >= nodes - 1
    room = HELD * 10 * of_node * 300.5  # of little, that trees are put together takes more
    assert longest_lifetime(X, 10, 1e4, 5, room, 1.0) == longest_lifetime(X, 10, 1e4, 5, room)


def test_what_does_not_fit_is_refused_in_a_line_with_what_does() -> None:
    X = np.random.default_rng(0).random((500, 2))
    mondrian = Mondrian(t=50, lifetime=1e6)
    mondrian.at({"lifetime": 1.0}).check_size(X, 0, 1e9)
    with pytest.raises(DoesNotFit) as caught:
        mondrian.check_size(X, 0, 2e6)
    line = with_options(str(caught.value), flag)
    assert line.startswith("--lifetime 1e+06: 50 Mondrian trees on 500 rows would take more than the 2 MB")
    assert line.endswith(", fewer --t, or a larger --memory-limit")
    longest = line.partition("give --lifetime ")[2].partition(",")[0]
    mondrian.at({"lifetime": float(longest)}).check_size(X, 0, 2e6)
    assert float(longest) == pytest.approx(float(f"{float(longest):.2g}"))
    with pytest.raises(DoesNotFit, match=r"^{lifetime} auto: a sweep over 50 Mondrian trees on 500 rows to 1e\+06"):
        mondrian.check_size(X, 0, 2e6, cell_bytes=8.0)
    assert capability(Anne(), FitsByPartitioning) is None
