"""How long a lifetime trees may have that fit into memory."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.methods import MAPS
from ikmap.partitioners.mondrian import fit_mondrian
from ikmap.partitioners.mondrian_size import HELD, longest_lifetime


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
    mondrian = MAPS["mondrian"]
    options = mondrian.Options(t=50)
    assert mondrian.too_large(options, 1.0, X, 0, 1e9) is None
    said = mondrian.too_large(options, 1e6, X, 0, 2e6)
    assert said is not None
    assert said.startswith("--lifetime 1e+06: 50 Mondrian trees on 500 rows would take more than the 2 MB")
    longest = said.partition("give --lifetime ")[2].partition(",")[0]
    assert mondrian.too_large(options, float(longest), X, 0, 2e6) is None
    assert float(longest) == pytest.approx(float(f"{float(longest):.2g}"))
    assert MAPS["anne"].too_large(None, 4, X, 0, 1.0) is None
