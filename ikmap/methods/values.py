"""Values of the searched fields of a method: their names, the method with them, and the cells of a map at each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ikmap.capability import capability
from ikmap.methods.capabilities import Path, Sweepable
from ikmap.methods.method import Method, Number

if TYPE_CHECKING:
    from ikmap.cells import Cells
    from ikmap.methods.map import Map
    from ikmap.methods.sample import Sample
    from ikmap.rows import Rows

JOINED = ", "
"""Text between the names of several values that are chosen together."""
type Value = Number | tuple[Number, ...]
"""A choice for a method: a number, or a tuple with a number for each of several fields."""


def parameter_of(method: Method, searched: frozenset[str]) -> str:
    """Return the names in papers and results of the numbers that are chosen or given for a method, or ""."""
    return JOINED.join(method.field_at(path).parameter for path in method.tunable(searched))


def value_of(method: Method, searched: frozenset[str]) -> Value:
    """Return the numbers that are chosen or given for a method, which :func:`parameter_of` names."""
    return packed([number_at(method, path) for path in method.tunable(searched)])


def at_value[M: Method](method: M, searched: frozenset[str], value: Value | Sequence[Number] | None) -> M:
    """Return the method with the numbers that :func:`parameter_of` names; None leaves it unchanged."""
    if value is None:
        return method
    numbers = tuple(value) if isinstance(value, Sequence) else (value,)
    return method.at(dict(zip(method.tunable(searched), numbers, strict=True)))


def packed(numbers: Sequence[Number]) -> Value:
    """Return a single number as it is, and several numbers as a tuple."""
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def number_at(method: Method, path: str) -> Number:
    """Return the value of a field, which must be a number."""
    value = method.value_at(path)
    assert isinstance(value, int | float), value
    return value


def grouped(method: Map, searched: frozenset[str], values: Sequence[Value]) -> list[list[Value]]:
    """Return values in groups, each of which one task maps to cells in one pass."""
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
    """Yield the cells of several sets of rows for every value in ascending order, with maps fitted on the sample."""
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
    """Return the map as :class:`Sweepable` if exactly the swept field is searched, else None."""
    sweep = capability(method, Sweepable)
    return sweep if sweep is not None and searched == {sweep.swept} else None


def numbers_of(parameter: str, value: Value | Sequence[Number]) -> dict[str, Number]:
    """Return the chosen numbers by the names of their parameters, such as those of "p, gamma"."""
    numbers = tuple(value) if isinstance(value, Sequence) else (value,)
    return dict(zip(parameter.split(JOINED), numbers, strict=True))


def size_of(value: Value) -> float:
    """Return the size of a value, the largest of several numbers that are chosen together."""
    return float(max(value)) if isinstance(value, tuple) else float(value)


def shown(value: Value | Sequence[Number]) -> str:
    """Return a value as text: "64", or "(64, 256)" for several numbers that are chosen together."""
    return f"({', '.join(f'{number:g}' for number in value)})" if isinstance(value, Sequence) else f"{value:g}"


def named(parameter: str, value: Value | Sequence[Number]) -> str:
    """Return a choice for names of files and tasks: "psi-64" or "anne.psi-64-iforest.psi-256"."""
    return "-".join(f"{name}-{number}" for name, number in numbers_of(parameter, value).items())
