"""Objects that are configured by their fields: one annotated field declares everything about one option.

A method is a subclass of :class:`Configured`, which makes a frozen dataclass of it::

    class Anne(PsiMap):
        psi: Annotated[int, Ge(1), Doc("cells per partitioning"), Searched(by_default=True)] = 256

From the annotations follow the command line, TOML files, JSON Schema, the options page, the constraints of the
estimators and the record of a run. Only the standard library and ``annotated_types`` are imported here, so that
``--help`` answers at once.

Texts may name other options: ``{horizon}`` in a :class:`Doc`, an :class:`Advice` or an error stands for the option
of that name, which a command line writes ``--horizon`` and an estimator ``horizon``.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import MISSING
from functools import cache, cached_property, partial
from types import SimpleNamespace, UnionType
from typing import (
    Annotated,
    Literal,
    Self,
    TypeAliasType,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, Gt, Interval, Le, Lt

from ikmap.frozen import Frozen
from ikmap.methods.kinds import Choice, Flag, Integer, Kind, Names, Number, Real, Text

type Plain = bool | int | float | str | None
"""A value of a field, as it stands in a record."""
type Record = Mapping[str, Plain]
"""Values of the fields of an object, by name. A field that is searched has the value :data:`AUTO`."""

AUTO = "auto"
"""The word that has a field chosen by cross-validation."""


class Doc(Frozen):
    """Help text of a field."""

    text: str


class Advice(Frozen):
    """Advice to somebody who gave a value that the field cannot have: what to give instead."""

    text: str


class Symbol(Frozen):
    """Sign and words of a field that a result depends on, for papers and reports.

    Attributes
    ----------
    sign : str
        As papers write it.
    words : str
        What it is, in a few words.
    meaning : str
        What it does, for somebody who may have to choose it.
    parameter : str
        Its name in the papers, where that differs from the name of the field.
    """

    sign: str
    words: str
    meaning: str = ""
    parameter: str = ""


class Searched(Frozen):
    """Marks a field that cross-validation can choose: it takes the word :data:`AUTO`, too.

    Attributes
    ----------
    by_default : bool
        It is chosen where nothing is said.
    with_map : bool
        Where nothing is said, it is chosen if the map of the learner is, and else has its default.
    """

    by_default: bool = False
    with_map: bool = False


class Before(Frozen):
    """Value of runs that were begun before there was the field, where that differs from the default."""

    value: Plain


class FieldError(ValueError):
    """A value that a field cannot have. Each surface words it: ``--psi``, ``max_samples=``.

    Parameters
    ----------
    field : str
        Name of the field.
    found, expected : str
        What was found and what was expected. Both may name other options as ``{name}``.
    value : optional
        Value of the field, where `found` is something else, such as the value of another field.
    instead : str
        What to give instead.
    """

    def __init__(self, field: str, found: str, expected: str, *, value: Plain = None, instead: str = "") -> None:
        super().__init__(field, found, expected)
        self.field, self.found, self.expected, self.value, self.instead = field, found, expected, value, instead

    def worded(self, option: Callable[[str], str] = str) -> str:
        """Return the error as one line.

        Parameters
        ----------
        option : callable
            Returns how the surface writes the name of an option.
        """
        value = "" if self.value is None else f" {self.value:g}" if isinstance(self.value, float) else f" {self.value}"
        what = f"{option(self.field)}{value}: found {self.found}, expected {self.expected}"
        return with_options(f"{what}; {self.instead}" if self.instead else what, option)

    def __str__(self) -> str:
        return self.worded()


def with_options(text: str, option: Callable[[str], str] = str) -> str:
    """Return a text in which ``{name}`` is written the way that `option` writes the option of that name."""
    return re.sub(r"\{(\w+(?:\.\w+)?)\}", lambda match: option(match[1]), text)


class Field:
    """One field of a configured class. Its annotation is read when something of it is asked for: most never are.

    Parameters
    ----------
    name : str
    default : value, or MISSING
    annotation : callable
        Returns the annotation.
    marks : tuple
        Marks that stand for those of the same class in the annotation.

    Attributes
    ----------
    name : str
    default : value, or MISSING
    """

    def __init__(
        self, name: str, default: object, annotation: Callable[[], object], marks: tuple[object, ...] = ()
    ) -> None:
        self.name, self.default, self._annotation, self._marks = name, default, annotation, marks

    def under(self, name: str, *marks: object) -> Field:
        """Return the field under another name, with marks that stand for its own ones of the same class."""
        return Field(name, self.default, self._annotation, (*marks, *self._marks))

    @cached_property
    def _parts(self) -> tuple[list[object], list[object]]:
        """Types that the annotation allows, and its marks: the outermost first."""
        hint, marks = self._annotation(), list(self._marks)
        while get_origin(hint) is Annotated or isinstance(hint, TypeAliasType):
            if isinstance(hint, TypeAliasType):
                hint = hint.__value__
                continue
            hint, *more = get_args(hint)
            marks += reversed(more)
        return list(_arms(hint)), marks

    def marked[T](self, kind: type[T]) -> T | None:
        """Return its mark of a class, or None."""
        return next((mark for mark in self._parts[1] if isinstance(mark, kind)), None)

    @cached_property
    def kind(self) -> Kind:
        """Kind of the values that the field takes, without :data:`AUTO`."""
        arms, marks = self._parts
        if kind := self.marked(Kind):
            return kind
        advice = self.marked(Advice)
        return Text("NAME") if self.nested else _kind(self.name, arms, marks, advice.text if advice else "")

    @property
    def doc(self) -> str:
        """Help text."""
        doc = self.marked(Doc)
        return doc.text if doc else ""

    @property
    def symbol(self) -> Symbol | None:
        """Sign and words, of a field that a result depends on."""
        return self.marked(Symbol)

    @property
    def searched(self) -> Searched | None:
        """Mark of a field that cross-validation can choose."""
        return self.marked(Searched)

    @property
    def before(self) -> Before | None:
        """Value of runs that were begun before there was the field, where that differs from the default."""
        return self.marked(Before)

    @cached_property
    def nested(self) -> type | None:
        """The class that its value must be an object of, for a field that holds a configured object."""
        return next((arm for arm in self._parts[0] if isinstance(arm, type) and issubclass(arm, Configured)), None)

    @property
    def required(self) -> bool:
        """True if it has no default."""
        return self.default is MISSING

    @property
    def parameter(self) -> str:
        """Name of the parameter in papers and results."""
        return self.symbol.parameter if self.symbol is not None and self.symbol.parameter else self.name

    @property
    def follows_map(self) -> bool:
        """True if it is searched when its map is and no value is given; its record is None until then."""
        return self.searched is not None and self.searched.with_map and not self.searched.by_default

    @property
    def recorded_default(self) -> object:
        """Value in the record of a run where nothing is said: AUTO if it is searched by default.

        None stands for a field that is searched if the map is.
        """
        if self.searched is None or not (self.searched.by_default or self.searched.with_map):
            return self.default
        return AUTO if self.searched.by_default else None

    @cached_property
    def given_kind(self) -> Kind:
        """Kind of the values that may be given: those of `kind`, and AUTO if the field can be searched."""
        kind = self.kind
        if self.searched is None or not isinstance(kind, Number) or AUTO in kind.words:
            return kind
        words = (AUTO, *kind.words) if self.searched.by_default else (*kind.words, AUTO)
        return dataclasses.replace(kind, words=words)

    def check(self, value: object) -> object:
        """Return a value in its own type.

        Raises
        ------
        FieldError
            The field cannot have it.
        """
        if self.nested is not None:
            if not isinstance(value, self.nested):
                raise FieldError(self.name, repr(value), f"a {self.nested.__name__}")
            return value
        return None if value is None and self.default is None else self._checked(self.kind, value)

    def check_given(self, value: object) -> object:
        """Return a value as it stands in a record, AUTO included.

        Raises
        ------
        FieldError
            The field cannot have it.
        """
        if value is None and self.recorded_default is None:
            return None
        return self._checked(self.given_kind, value)

    def _checked(self, kind: Kind, value: object) -> object:
        try:
            return kind.check(value)
        except ValueError as error:
            raise KindError(self.name, str(error)) from None


class KindError(FieldError):
    """A value that the kind of a field refuses, in the words of :mod:`ikmap.methods.kinds`."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(field, text, "")
        self.text = text
        self.args = (field, text)  # by which it is made anew where it has come from another process

    def worded(self, option: Callable[[str], str] = str) -> str:
        return with_options(f"{option(self.field)}: {self.text}", option)


def fields_of(cls: type[Frozen]) -> Mapping[str, Field]:
    """Return the fields of a configured class by name, in the order of their declaration."""
    if cls not in _FIELDS:
        _FIELDS[cls] = {
            field.name: Field(
                field.name,
                field.default if field.default_factory is MISSING else field.default_factory(),
                partial(_annotation, cls, field.name),
            )
            for field in dataclasses.fields(cls)
            if field.init
        }
    return _FIELDS[cls]


_FIELDS: dict[type, Mapping[str, Field]] = {}
"""Fields by class, kept because reading annotations takes long."""


def _annotation(cls: type, name: str) -> object:
    """Return the annotation of a field, by the first class that has one."""
    return _own_annotation(next(base for base in cls.__mro__ if name in vars(base).get("__annotations__", {})), name)


@cache
def _own_annotation(cls: Hashable, name: str) -> object:
    """Return the annotation of a field that a class declares itself, read with the names of the module of the class."""
    assert isinstance(cls, type)
    module = sys.modules.get(cls.__module__)
    hints = get_type_hints(
        SimpleNamespace(__annotations__={name: vars(cls)["__annotations__"][name]}),
        globalns={} if module is None else vars(module),
        include_extras=True,
    )
    return hints[name]


def _kind(name: str, arms: list[object], marks: list[object], instead: str) -> Kind:
    """Return what values a field takes, by its type and bounds."""
    words = tuple(str(word) for arm in arms if get_origin(arm) is Literal for word in get_args(arm))
    low, high, with_low, with_high = _bounds(marks)
    if bool in arms:
        return Flag()
    if float in arms:
        return Real(low, high, words=words, instead=instead, with_low=with_low, with_high=with_high)
    if int in arms:
        least = 0 if low == -math.inf else int(low) if with_low else int(low) + 1
        most = None if high == math.inf else int(high) if with_high else int(high) - 1
        return Integer(least, most, words=words, instead=instead)
    if words:
        return Choice(words)
    if any(get_origin(arm) is tuple for arm in arms):
        return Names()
    if str in arms:
        return Text("TEXT")
    raise TypeError(
        f"field {name!r}: found {arms}, expected bool, int, float, str, tuple[str, ...], Literal words or a method"
    )


def _bounds(marks: list[object]) -> tuple[float, float, bool, bool]:
    low, high, with_low, with_high = -math.inf, math.inf, False, False
    for mark in reversed(marks):
        for bound in mark if isinstance(mark, Interval) else (mark,):
            if isinstance(bound, Gt | Ge):
                with_low = isinstance(bound, Ge)
                low = _number(bound.ge if isinstance(bound, Ge) else bound.gt)
            elif isinstance(bound, Lt | Le):
                with_high = isinstance(bound, Le)
                high = _number(bound.le if isinstance(bound, Le) else bound.lt)
    return low, high, with_low, with_high


def _number(bound: object) -> float:
    """Return a bound as a number: a whole one stays an int, which schemas are written with."""
    assert isinstance(bound, int | float), bound
    return bound


def _arms(hint: object) -> Iterator[object]:
    if get_origin(hint) in (Union, UnionType):
        for arm in get_args(hint):
            yield from _arms(arm)
    elif isinstance(hint, TypeAliasType):
        yield from _arms(hint.__value__)
    elif get_origin(hint) is Annotated:
        yield from _arms(get_args(hint)[0])
    else:
        yield hint


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Configured(Frozen, kw_only=True):
    """Base of objects that are configured by their fields: each subclass is made a frozen dataclass.

    Values are checked as an object is made.

    Raises
    ------
    FieldError
        A field cannot have its value, or values contradict each other.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__(kw_only=True)

    def __post_init__(self) -> None:
        for name, field in fields_of(type(self)).items():
            object.__setattr__(self, name, field.check(getattr(self, name)))
        self.check(frozenset())

    def check(self, searched: frozenset[str]) -> None:
        """Refuse values that contradict each other, by a :class:`FieldError`.

        Parameters
        ----------
        searched : frozenset of str
            Names of fields that cross-validation is to choose: their values mean nothing.
        """

    def ignored(self, searched: frozenset[str]) -> frozenset[str]:
        """Return names of fields that change nothing, with the others as they are."""
        return frozenset()

    def tunable(self, searched: frozenset[str]) -> tuple[str, ...]:
        """Return the names of fields whose values stand beside a result, whether they were chosen or given.

        Those that cross-validation is to choose are among them. Their order is that of the record. By default, all
        fields that are marked with :class:`Searched`, but those that are searched with the map: results have these
        under a key of their own.
        """
        return tuple(
            name for name, field in fields_of(type(self)).items() if field.searched and not field.searched.with_map
        )

    @classmethod
    def of_record(cls, record: Mapping[str, object]) -> tuple[Self, frozenset[str]]:
        """Return the object that a record describes, and the names of the fields that are searched.

        A field that the record lacks has the value of runs that were begun before there was the field, or its
        default. Names that are no fields are left out: a record may be of a later version.

        Raises
        ------
        FieldError
            A field cannot have its value, or values contradict each other.
        """
        values = cls._held_in_record(record)
        searched: set[str] = set()
        for name, field in fields_of(cls).items():
            if field.nested is not None:
                continue
            missing = field.recorded_default if field.before is None else field.before.value
            value = record.get(name, missing)
            if value is MISSING:
                raise FieldError(name, "nothing", "a value")
            value = field.check_given(value)
            if value == AUTO and field.searched is not None:
                searched.add(name)
            elif value is not None or field.default is None:
                values[name] = value
        configured = cls(**values)
        configured.check(frozenset(searched))
        return configured, frozenset(searched)

    @classmethod
    def _held_in_record(cls, record: Mapping[str, object]) -> dict[str, object]:  # noqa: ARG003
        """Return, by field, the configured objects that a record names, each with its defaults."""
        return {}

    def record(self, searched: frozenset[str] = frozenset()) -> dict[str, object]:
        """Return every field as a plain JSON type; AUTO for those that are searched.

        A field that holds a configured object has the name of that one.
        """
        found: dict[str, object] = {}
        for name, field in fields_of(type(self)).items():
            value = getattr(self, name)
            found[name] = AUTO if name in searched else value.about.name if field.nested else value
        return found

    def at(self, values: Mapping[str, object]) -> Self:
        """Return the same object with other values of its fields.

        Parameters
        ----------
        values : mapping of str to value
            By path: "psi"; "kernel.gamma" is the field gamma of the object that the field kernel holds.
        """
        own: dict[str, object] = {}
        nested: dict[str, dict[str, object]] = {}
        for path, value in values.items():
            head, dot, rest = path.partition(".")
            if dot:
                nested.setdefault(head, {})[rest] = value
            else:
                own[head] = value
        own |= {name: getattr(self, name).at(inner) for name, inner in nested.items()}
        return dataclasses.replace(self, **own)

    def field_at(self, path: str) -> Field:
        """Return the field at a path, under the name that its option has."""
        head, _, rest = path.partition(".")
        if rest:
            configured: Configured = getattr(self, head)
            return configured.field_at(rest)
        return fields_of(type(self))[head]

    def value_at(self, path: str) -> object:
        """Return the value at a path."""
        head, _, rest = path.partition(".")
        value: object = getattr(self, head)
        return value.value_at(rest) if rest and isinstance(value, Configured) else value


def within(searched: frozenset[str], name: str) -> frozenset[str]:
    """Return the paths that begin with a name, without it."""
    return frozenset(path.removeprefix(f"{name}.") for path in searched if path.startswith(f"{name}."))
