"""The public API is the one that is written down in ``tests/support/public_api.txt``."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.public_api import description, difference


class Kept:
    """A class with a member of each kind."""

    size: int = 3
    name: str

    def grow(self, rows: Sequence[int], *, step: float = 0.5, empty: Sequence[int] = ()) -> None:
        """Do nothing."""

    @property
    def rows(self) -> int:
        """A number."""
        return self.size

    def _hidden(self) -> None: ...


def test_public_names_and_signatures_are_those_written_down() -> None:
    changed = difference()
    assert not changed, f"{changed}\nif this is meant: python -m tests.support.public_api --write"


def test_a_change_of_a_function_is_seen() -> None:
    def one(a: int, b: str = "x") -> None: ...
    def other(a: int, b: str = "y") -> None: ...

    assert description("f", one, []) == ["def f(a: 'int', b: 'str' = 'x') -> 'None'"]
    assert description("f", one, []) != description("f", other, [])


def test_members_of_a_class_are_described() -> None:
    Kept.__module__ = "ikmap.kept"
    assert description("Kept", Kept, []) == [
        "class Kept()",
        "grow(self, rows: 'Sequence[int]', *, step: 'float' = 0.5, empty: 'Sequence[int]' = ...) -> 'None'",
        "name: str",
        "rows: property",
        "size: int = ...",
    ]
