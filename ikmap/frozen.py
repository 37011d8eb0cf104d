"""Frozen dataclasses that are made in no time: their methods stand in one base class.

``dataclasses.dataclass`` compiles six functions for each class. With a hundred classes that is half the time of
``--help``, and commands wait until all of them are made.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Frozen:
    """Base of frozen dataclasses: each subclass becomes one, with ``kw_only=True`` one without positional values.

    :func:`dataclasses.replace` gives the same object with other values.
    """

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[object]]]

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        super().__init_subclass__()
        dataclass(init=False, repr=False, eq=False, match_args=False, kw_only=kw_only)(cls)

    def __init__(self, *values: object, **named: object) -> None:
        fields = dataclasses.fields(self)
        positional = [field.name for field in fields if not field.kw_only]
        if len(values) > len(positional):
            raise TypeError(f"{type(self).__name__}: found {len(values)} positional values, expected {len(positional)}")
        for name, value in zip(positional, values, strict=False):
            if name in named:
                raise TypeError(f"{type(self).__name__}: found {name!r} twice, expected one value")
            named[name] = value
        for field in fields:
            if field.name in named:
                value = named.pop(field.name)
            elif field.default is not MISSING:
                value = field.default
            elif field.default_factory is not MISSING:
                value = field.default_factory()
            else:
                raise TypeError(f"{type(self).__name__}: found no value of {field.name!r}, which has no default")
            object.__setattr__(self, field.name, value)
        if named:
            names = ", ".join(field.name for field in fields)
            raise TypeError(f"{type(self).__name__}: found {min(named)!r}, expected some of {names}")
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the values, in classes that have something to check."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}; replace() gives other values")

    def __delattr__(self, name: str) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash((type(self), self._compared()))

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self))
        return f"{type(self).__qualname__}({values})"

    def _compared(self) -> tuple[object, ...]:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.compare)


dataclass(init=False, repr=False, eq=False, match_args=False)(Frozen)
