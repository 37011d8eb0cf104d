"""Values that were chosen at the edge of what was tried, and what to try beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from ikmap.methods.anne import Anne
from ikmap.methods.gcws import GCWS
from ikmap.methods.iforest import IForest
from ikmap.methods.search import Search, edges_of, search_of


def beyond(search: Search, tried: list[Any], chosen: Any) -> dict[str, float]:
    return {edge.option: edge.beyond for edge in edges_of(search, tried, chosen)}


@pytest.mark.parametrize(
    ("rows", "tried", "chosen", "expected"),
    [
        (100_000, [4, 8, 16], 16, {"psi": 32}),
        (100_000, [4, 8, 16], 8, {}),
        (100_000, [4, 8, 16], 4, {"psi": 2}),
        (1437, [256, 512, 1024], 1024, {"psi": 1437}),  # a cell for each row is the end
        (1024, [256, 512, 1024], 1024, {}),
        (1437, [2, 4, 8], 2, {}),
        (1437, [8], 8, {}),  # nothing was searched
    ],
)
def test_edges_of_psi(rows: int, tried: list[int], chosen: int, expected: dict[str, int]) -> None:
    search = search_of(Anne(), frozenset({"psi"}), rows)
    assert search is not None
    assert beyond(search, tried, chosen) == expected


def test_edges_without_an_end() -> None:
    Cs = [2.0**k for k in (-5, -3, -1, 1)]
    assert beyond(Search("C", "C", tuple(Cs)), Cs, 2.0**-5) == {"C": 2.0**-7}
    assert beyond(Search("C", "C", tuple(Cs)), Cs, 2.0) == {"C": 8.0}
    edge = edges_of(Search("C", "C", tuple(Cs)), Cs, 2.0)[0]
    assert (edge.value, edge.largest) == (2.0, True)


def test_numbers_that_are_chosen_together_have_edges_of_their_own() -> None:
    search = search_of(GCWS(), frozenset({"p", "b"}), 1000)
    assert search is not None
    assert beyond(search, list(search.values), (80.0, 8)) == {"p": 160.0}
    assert beyond(search, list(search.values), (1.0, 12)) == {"b": 16}  # not 18
    given = search_of(GCWS(b=8), frozenset({"p"}), 1000)
    assert given is not None
    assert beyond(given, list(given.values), (1.0, 8)) == {}
    both = search_of(IForest(psi=64), frozenset({"max_depth"}), 1000)
    assert both is not None
    assert beyond(both, list(both.values), both.values[-1]) == {}  # deeper trees are the same
