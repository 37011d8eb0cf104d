"""Frozen dataclasses whose methods stand in their base."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import field, replace

import pytest

from ikmap.frozen import Frozen


class Pair(Frozen):
    left: int
    right: tuple[int, ...] = ()
    note: str = field(default="", compare=False)
    table: dict[str, int] = field(default_factory=dict, compare=False)


class Named(Frozen, kw_only=True):
    first: int = 1
    second: int


@dataclasses.dataclass(frozen=True)
class Standard:
    left: int
    right: tuple[int, ...] = ()
    note: str = field(default="", compare=False)
    table: dict[str, int] = field(default_factory=dict, compare=False)


@pytest.mark.parametrize("values", [(1,), (1, (2,)), (1, (2,), "x")])
def test_it_is_what_the_standard_library_makes(values: tuple[object, ...]) -> None:
    one, other = Pair(*values), Standard(*values)  # type: ignore[arg-type]
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert repr(one) == repr(other).replace("Standard", "Pair")
    assert one == Pair(*values) == pickle.loads(pickle.dumps(one))  # type: ignore[arg-type]
    assert hash(one) == hash(Pair(*values))  # type: ignore[arg-type]
    assert one != other


def test_what_is_not_compared_makes_no_difference() -> None:
    assert Pair(1, note="a") == Pair(1, note="b")
    assert hash(Pair(1, note="a")) == hash(Pair(1, note="b"))
    assert Pair(1) != Pair(2)
    assert replace(Pair(1, note="a"), left=2) == Pair(2)
    assert Pair(1).table is not Pair(1).table


def test_it_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'left'"):
        Pair(1).left = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'left'"):
        del Pair(1).left


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pair(), "Pair: found no value of 'left', which has no default"),  # type: ignore[call-arg]
        (lambda: Pair(1, left=2), "Pair: found 'left' twice, expected one value"),  # type: ignore[misc]
        (lambda: Pair(1, (), "", {}, 5), "Pair: found 5 positional values, expected 4"),  # type: ignore[call-arg]
        (
            lambda: Pair(1, middle=2),  # type: ignore[call-arg]
            "Pair: found 'middle', expected some of left, right, note, table",
        ),
        (lambda: Named(1, 2), "Named: found 2 positional values, expected 0"),  # type: ignore[call-arg]
        (
            lambda: Named(first=1),  # type: ignore[call-arg]
            "Named: found no value of 'second', which has no default",
        ),
    ],
)
def test_wrong_values_are_named(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(TypeError) as refused:
        make()
    assert str(refused.value) == message
