"""What cross-validation is to choose for a method, and the names of what it has chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

type Ends = tuple[float | None, float | None]
"""Smallest and largest number that means anything; None: there is no end."""


@dataclass(frozen=True)
class Search:
    """What cross-validation is to choose for a method.

    Attributes
    ----------
    option : str
        Its name.
    parameter : str
        The same in the papers.
    values : tuple of numbers
        What to try, ascending.
    ends : mapping of str to pair
        By name of an option: the ends beyond which there is nothing to try, such as the number of rows.
    """

    option: str
    parameter: str
    values: tuple[Any, ...]
    ends: Mapping[str, Ends] = field(default_factory=dict)


def combined(searches: Sequence[Search], given: Mapping[str, float]) -> Search:
    """Every combination of the values of several searches, and of numbers that are given: one search.

    Its values are tuples, its parameter the names of their numbers, see :func:`numbers_of`.
    """
    fixed = [Search(name, name, (value,)) for name, value in given.items()]
    of = [*searches, *fixed]
    return Search(
        JOINED.join(search.option for search in of),
        JOINED.join(search.parameter for search in of),
        tuple(product(*(search.values for search in of))),
        {name: ends for search in of for name, ends in search.ends.items()},
    )


@dataclass(frozen=True)
class Edge:
    """A number that was chosen at the edge of what was tried, though more could be tried beyond.

    Attributes
    ----------
    option : str
        Its name.
    value : int or float
    largest : bool
        Whether it is the largest number that was tried; else the smallest.
    beyond : int or float
        What to try next.
    """

    option: str
    value: float
    largest: bool
    beyond: float


def edges_of(search: Search, tried: Sequence[Any], chosen: Any) -> list[Edge]:
    """Return the numbers of a choice that lie at the edge of what was tried.

    Parameters
    ----------
    tried : sequence
        Values that were tried, of those of the search or beyond them.
    chosen : number or tuple of numbers
    """
    found = []
    for i, (option, value) in enumerate(numbers_of(search.option, chosen).items()):
        numbers = sorted({of[i] if isinstance(of, tuple | list) else of for of in tried})
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
            found.append(Edge(option, value, largest, beyond))
    return found


def _beyond(end: float, before: float) -> float:
    """Return the number that follows an end as the end follows the one before: whole if both are."""
    if before <= 0 or end <= 0:
        return end  # nothing that a ratio reaches
    beyond = end * (end / before)
    if isinstance(end, int) and isinstance(before, int):
        return math.ceil(beyond) if end > before else max(1, math.floor(beyond))
    return beyond


JOINED = ", "
"""Between the names of parameters that are chosen together."""


def numbers_of(parameter: str, value: Any) -> dict[str, float]:
    """What was chosen, by name: a number of one parameter, or several of "p, gamma"."""
    return dict(zip(parameter.split(JOINED), value if isinstance(value, tuple | list) else (value,), strict=True))


def size_of(value: Any) -> float:
    """A number that tells larger values from smaller ones: the largest, of several that are chosen together."""
    return float(max(value)) if isinstance(value, tuple) else float(value)


def shown(value: Any) -> str:
    """A value, for people: "64"; of several that are chosen together "(64, 256)"."""
    return f"({', '.join(f'{number:g}' for number in value)})" if isinstance(value, tuple | list) else f"{value:g}"


def named(parameter: str, value: Any) -> str:
    """What was chosen, for the names of files and tasks: "psi-64"; of several "anne.psi-64-iforest.psi-256"."""
    return "-".join(f"{name}-{number}" for name, number in numbers_of(parameter, value).items())
