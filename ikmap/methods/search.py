"""What cross-validation is to choose for a method, and the names of what it has chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


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
    """

    option: str
    parameter: str
    values: tuple[Any, ...]


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
    )


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
