"""The order in which cross-validation tries the candidates of a method, and the names of its choices.

A method gives the candidates of its fields (:meth:`~ikmap.methods.method.Method.search_space`). The functions here
combine them: for one method, all combinations are tried; for a composed map, first all parts at once, from the smallest
values to the largest, then one part after the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from ikmap.methods.composed import Composed
from ikmap.methods.method import Candidates, Method, Number
from ikmap.methods.values import (
    JOINED,
    Value,
    number_at,
    numbers_of,
    packed,
    parameter_of,
    value_of,
)

if TYPE_CHECKING:
    from ikmap.methods.map import Map
    from ikmap.methods.sample import Sample

type Ends = tuple[float | None, float | None]
"""Smallest and largest possible number; None: there is no limit."""


@dataclass(frozen=True)
class Search:
    """A search of cross-validation for the numbers of a method.

    Attributes
    ----------
    option : str
        Names of the options, joined by :data:`JOINED`.
    parameter : str
        Names of the parameters in papers and results, joined likewise.
    values : tuple of numbers, or of tuples
        Values to try, in ascending order.
    ends : mapping of str to pair
        Smallest and largest possible number by name of an option, such as the number of rows.
    """

    option: str
    parameter: str
    values: tuple[Value, ...]
    ends: Mapping[str, Ends] = field(default_factory=dict)


def search_of(method: Method, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> Search | None:
    """Return the first search of cross-validation on so many rows, or None if there is nothing to choose.

    Parameters
    ----------
    searched : frozenset of str
        Paths of the fields to choose.
    sample : Sample, optional
        The rows. Without them, values whose unit follows from the rows are multiples of it.
    """
    if isinstance(method, Composed):
        return _search_of_parts(method, searched, n_rows, sample)
    space = method.search_space(searched, n_rows, sample)
    if not space:
        return None
    paths = method.tunable(searched)
    tried = [space[path].values if path in space else (number_at(method, path),) for path in paths]
    return _search(method, searched, space, [packed(numbers) for numbers in product(*tried)])


def _search(
    method: Method, searched: frozenset[str], space: Mapping[str, Candidates], values: Sequence[Value]
) -> Search:
    fields = {path: method.field_at(path) for path in method.tunable(searched)}
    ends = {
        fields[path].name: (candidates.least, candidates.most)
        for path, candidates in space.items()
        if (candidates.least, candidates.most) != (None, None)
    }
    option = JOINED.join(field.name for field in fields.values())
    return Search(option, parameter_of(method, searched), tuple(values), ends)


def _tried_of_parts(
    composed: Composed, searched: frozenset[str], n_rows: int, sample: Sample | None
) -> list[tuple[tuple[tuple[Number, ...], ...], bool]]:
    """Return the values to try for each part, and whether there is anything to choose for it."""
    tried: list[tuple[tuple[tuple[Number, ...], ...], bool]] = []
    for part, own in zip(composed.parts, composed.searched_of_parts(searched), strict=True):
        search = search_of(part, own, n_rows, sample)
        if search is None:
            fitting = part.within(smallest_fold(n_rows))
            values: tuple[Value, ...] = (value_of(fitting, own),)
        else:
            values = search.values
        tried.append((tuple(value if isinstance(value, tuple) else (value,) for value in values), search is not None))
    return tried


def _search_of_parts(composed: Composed, searched: frozenset[str], n_rows: int, sample: Sample | None) -> Search | None:
    """Return a search for all parts at once, from the smallest value of each part to the largest."""
    parts = _tried_of_parts(composed, searched, n_rows, sample)
    if not any(chosen for _, chosen in parts):
        return None
    tried = [values for values, _ in parts]
    last = max(map(len, tried)) - 1
    values = [
        tuple(number for own in tried for number in own[round(k * (len(own) - 1) / max(1, last))])
        for k in range(last + 1)
    ]
    return _search(composed, searched, composed.search_space(searched, n_rows, sample), values)


def refined(
    method: Method,
    searched: frozenset[str],
    chosen: Sequence[Value],
    n_rows: int,
    number: int,
    sample: Sample | None = None,
) -> Search | None:
    """Return the next search after :func:`search_of` and previous calls, or None if there is nothing more to try.

    For a composed map, it tries the values of one part after the other, with the last choice for the other parts.

    Parameters
    ----------
    chosen : sequence
        Best values so far, each for some learner, which are tried again.
    number : int
        Number of previous calls.
    """
    if not isinstance(method, Composed):
        return None
    parts = _tried_of_parts(method, searched, n_rows, sample)
    places = [i for i, (_, searched_here) in enumerate(parts) if searched_here]
    if len(places) < 2 or number >= len(places):
        return None
    i, widths = places[number], [len(values[0]) for values, _ in parts]
    start = sum(widths[:i])
    stop = start + widths[i]
    values: set[tuple[Number, ...]] = set()
    for best in chosen:
        assert isinstance(best, tuple)
        values |= {best[:start] + own + best[stop:] for own in (*parts[i][0], best[start:stop])}
    return _search(method, searched, method.search_space(searched, n_rows, sample), sorted(values))


def fitting(method: Map, searched: frozenset[str], n_rows: int) -> Value:
    """Return the given numbers, reduced as far as the smallest fold of so many rows requires."""
    return value_of(method.within(smallest_fold(n_rows)), searched)


def smallest_fold(n_rows: int) -> int:
    """Return the least number of training rows of a fold of cross-validation on so many rows."""
    from ikmap.model_selection import FOLDS

    return max(1, n_rows - -(-n_rows // FOLDS))


@dataclass(frozen=True)
class Edge:
    """A number that was chosen at the edge of the tried values, though there are possible values beyond.

    Attributes
    ----------
    option : str
        Name of the option.
    value : int or float
        The chosen number.
    largest : bool
        True if it is the largest tried number, False if it is the smallest.
    beyond : int or float
        Number to try next.
    """

    option: str
    value: float
    largest: bool
    beyond: float


def edges_of(search: Search, tried: Sequence[Value], chosen: Value | Sequence[Number]) -> list[Edge]:
    """Return the numbers of a choice that lie at the edge of the tried values.

    Parameters
    ----------
    tried : sequence
        Tried values, of the search or beyond it.
    chosen : number or tuple of numbers
    """
    edges = []
    for i, (option, value) in enumerate(numbers_of(search.option, chosen).items()):
        numbers = sorted({trial[i] if isinstance(trial, Sequence) else trial for trial in tried})
        low, high = search.ends.get(option, (None, None))
        if len(numbers) < 2 or value not in (numbers[0], numbers[-1]):
            continue
        largest = value == numbers[-1]
        beyond = _beyond(*(numbers[-1:-3:-1] if largest else numbers[:2]))
        if largest and high is not None:
            beyond = min(beyond, high)
        if not largest and low is not None:
            beyond = max(beyond, low)
        if beyond != value:
            edges.append(Edge(option, value, largest, beyond))
    return edges


def _beyond(end: float, before: float) -> float:
    """Return the next number of a geometric sequence, a whole number if both given ones are."""
    if before <= 0 or end <= 0:
        return end  # a ratio leads nowhere
    beyond = end * (end / before)
    if isinstance(end, int) and isinstance(before, int):
        return math.ceil(beyond) if end > before else max(1, math.floor(beyond))
    return beyond
