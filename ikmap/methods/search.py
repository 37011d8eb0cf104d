"""What cross-validation tries of a method, in which order, and the names of what it has chosen.

A method says which values of its fields make sense (:meth:`~ikmap.methods.method.Method.search_space`). The functions
here say which to try: of one method, all combinations; of a map that is put together from several, first all of them at
once, from the smallest values to the largest, then one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from ikmap.capability import capability
from ikmap.methods.capabilities import Path, Sweepable
from ikmap.methods.composed import Composed
from ikmap.methods.method import Candidates, Method, Number

if TYPE_CHECKING:
    from ikmap.cells import Cells
    from ikmap.methods.map import Map
    from ikmap.methods.sample import Sample
    from ikmap.rows import Rows

type Value = Number | tuple[Number, ...]
"""What is chosen or given for a method: a number, or one for each of several fields."""
type Ends = tuple[float | None, float | None]
"""Smallest and largest number that means anything; None: there is no end."""


@dataclass(frozen=True)
class Search:
    """What cross-validation is to choose for a method.

    Attributes
    ----------
    option : str
        Names of the options, with :data:`JOINED` between.
    parameter : str
        The same in the papers.
    values : tuple of numbers, or of tuples
        What to try, ascending.
    ends : mapping of str to pair
        By name of an option: the ends beyond which there is nothing to try, such as the number of rows.
    """

    option: str
    parameter: str
    values: tuple[Value, ...]
    ends: Mapping[str, Ends] = field(default_factory=dict)


def parameter_of(method: Method, searched: frozenset[str]) -> str:
    """Return the names, in papers and results, of what is chosen or given for a method; empty if there is nothing."""
    return JOINED.join(method.field_at(path).parameter for path in method.tunable(searched))


def value_of(method: Method, searched: frozenset[str]) -> Value:
    """Return what is chosen or given for a method: the numbers that :func:`parameter_of` names."""
    return packed([_number(method.value_at(path)) for path in method.tunable(searched)])


def at_value[M: Method](method: M, searched: frozenset[str], value: Value | Sequence[Number] | None) -> M:
    """Return the method with the numbers that :func:`parameter_of` names; as it is where there is None."""
    if value is None:
        return method
    numbers = tuple(value) if isinstance(value, Sequence) else (value,)
    return method.at(dict(zip(method.tunable(searched), numbers, strict=True)))


def packed(numbers: Sequence[Number]) -> Value:
    """Return one number as it is, and several as a tuple."""
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def _number(value: object) -> Number:
    assert isinstance(value, int | float), value
    return value


def search_of(method: Method, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> Search | None:
    """Return what cross-validation tries first on so many rows; None: there is nothing to choose.

    Parameters
    ----------
    searched : frozenset of str
        Paths of the fields that are to be chosen.
    sample : Sample, optional
        The rows; without it, values whose unit only rows tell are multiples of it.
    """
    if isinstance(method, Composed):
        return _search_of_parts(method, searched, n_rows, sample)
    space = method.search_space(searched, n_rows, sample)
    if not space:
        return None
    paths = method.tunable(searched)
    tried = [space[path].values if path in space else (_number(method.value_at(path)),) for path in paths]
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
    option = JOINED.join(one.name for one in fields.values())
    return Search(option, parameter_of(method, searched), tuple(values), ends)


def _tried_of_parts(
    composed: Composed, searched: frozenset[str], n_rows: int, sample: Sample | None
) -> list[tuple[tuple[tuple[Number, ...], ...], bool]]:
    """For each map, what is tried of its numbers, and whether there is anything to choose."""
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
    """All maps at once: the smallest value of each, and so on, to the largest of each."""
    parts = _tried_of_parts(composed, searched, n_rows, sample)
    if not any(chosen for _, chosen in parts):
        return None
    tried = [values for values, _ in parts]
    last = max(map(len, tried)) - 1
    values = [
        tuple(number for of in tried for number in of[round(k * (len(of) - 1) / max(1, last))]) for k in range(last + 1)
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
    """Return what is to be tried after :func:`search_of`, and again after that; None: nothing more.

    Of a map that is put together from several, one after the other: the values of one, with those of the others as they
    were chosen last.

    Parameters
    ----------
    chosen : sequence
        Values that were the best so far, each for some learner: they are among those to try.
    number : int
        How often this was asked before.
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
    """Return what cross-validation on so many rows has in place of given numbers, which may be too much for a fold."""
    return value_of(method.within(smallest_fold(n_rows)), searched)


def smallest_fold(n_rows: int) -> int:
    """Return how many of so many rows the smallest fold leaves to learn from."""
    from ikmap.model_selection import FOLDS

    return max(1, n_rows - -(-n_rows // FOLDS))


def grouped(method: Map, searched: frozenset[str], values: Sequence[Value]) -> list[list[Value]]:
    """Return values in groups: the cells of those of a group are found in one pass, in one task."""
    path, names = capability(method, Path), method.tunable(searched)
    if path is None:
        return [[value] for value in values]
    groups: dict[tuple[Number, ...], list[Value]] = {}
    for value in values:
        numbers = value if isinstance(value, tuple) else (value,)
        key = tuple(number for name, number in zip(names, numbers, strict=True) if name not in path.along)
        groups.setdefault(key, []).append(value)
    return list(groups.values())


def cells_of_values(
    method: Map,
    searched: frozenset[str],
    values: Sequence[Value],
    sample: Sample,
    map_rows: Sequence[Rows],
    n_threads: int = 1,
) -> Iterator[tuple[Value, list[Cells]]]:
    """Yield the cells of several sets of rows for every value, ascending, all partitionings drawn from the sample."""
    ascending = sorted(values)
    names = method.tunable(searched)
    path = capability(method, Path)
    if path is None or not path.along.intersection(names):
        for value in ascending:
            fitted = at_value(method, searched, value).fit(sample, n_threads)
            yield value, [fitted.cells(rows, n_threads) for rows in map_rows]
        return
    choices = [dict(zip(names, value if isinstance(value, tuple) else (value,), strict=True)) for value in ascending]
    yield from zip(ascending, path.path(choices, sample, map_rows, n_threads), strict=True)


def sweepable(method: Map, searched: frozenset[str]) -> Sweepable | None:
    """Return the map as one whose cells split as its field grows, if exactly that field is searched."""
    found = capability(method, Sweepable)
    return found if found is not None and searched == {found.swept} else None


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


def edges_of(search: Search, tried: Sequence[Value], chosen: Value | Sequence[Number]) -> list[Edge]:
    """Return the numbers of a choice that lie at the edge of what was tried.

    Parameters
    ----------
    tried : sequence
        Values that were tried, of those of the search or beyond them.
    chosen : number or tuple of numbers
    """
    found = []
    for i, (option, value) in enumerate(numbers_of(search.option, chosen).items()):
        numbers = sorted({one[i] if isinstance(one, Sequence) else one for one in tried})
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


def numbers_of(parameter: str, value: Value | Sequence[Number]) -> dict[str, Number]:
    """Return what was chosen, by name: a number of one parameter, or several of "p, gamma"."""
    numbers = tuple(value) if isinstance(value, Sequence) else (value,)
    return dict(zip(parameter.split(JOINED), numbers, strict=True))


def size_of(value: Value) -> float:
    """Return a number that tells larger values from smaller ones: the largest, of several chosen together."""
    return float(max(value)) if isinstance(value, tuple) else float(value)


def shown(value: Value | Sequence[Number]) -> str:
    """Return a value for people: "64"; of several that are chosen together "(64, 256)"."""
    return f"({', '.join(f'{number:g}' for number in value)})" if isinstance(value, Sequence) else f"{value:g}"


def named(parameter: str, value: Value | Sequence[Number]) -> str:
    """Return what was chosen for names of files and tasks: "psi-64"; of several "anne.psi-64-iforest.psi-256"."""
    return "-".join(f"{name}-{number}" for name, number in numbers_of(parameter, value).items())
