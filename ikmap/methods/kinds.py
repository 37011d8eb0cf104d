"""The kinds of values that options take: each parses a command-line word, checks a value and has a JSON Schema.

Only the standard library is imported here, so that ``--help`` and a mistyped option answer at once.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, ClassVar, NoReturn, TypeGuard

from ikmap.frozen import Frozen

LONGEST = 60
"""Characters of a list of choices that still stands beside its option."""


class Kind(Frozen):
    """The values that an option takes. :meth:`parse` and :meth:`check` raise ValueError("found ..., expected ...")."""

    @property
    def metavar(self) -> str | None:
        """Word that ``--help`` shows for the value; None if the option takes none."""
        raise NotImplementedError

    @property
    def expected(self) -> str:
        """Words for the values that are expected, for messages."""
        return str(self.metavar)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the values, as they stand in ``metrics.json`` and in the form of a deployment."""
        raise NotImplementedError

    def parse(self, text: str) -> Any:
        """Return the value that a command-line word stands for."""
        return self.check(text)

    def check(self, value: Any) -> Any:
        """Return the value itself, in its canonical type."""
        raise NotImplementedError

    def written(self, flag: str, value: Any) -> list[str]:
        """Return a value as the words of a command line."""
        text = ",".join(map(_quoted_in_list, value)) if isinstance(value, tuple) else str(value)
        return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def refuse(found: object, expected: str, instead: str = "") -> NoReturn:
    """Say what was found and what was expected, and what to type instead.

    Raises
    ------
    ValueError
    """
    raise ValueError(f"found {found!r}, expected {expected}{f'; {instead}' if instead else ''}")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that somebody may have meant, or None."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, n=1)), None)


class Number(Kind):
    """A number between two bounds, or one of the words (such as ``auto``).

    Attributes
    ----------
    low, high : number
    words : tuple of str
    instead : str
        What to give instead of a value that is refused.
    with_low, with_high : bool
        The bound itself may be given.
    """

    letter: ClassVar[str]
    noun: ClassVar[str]
    type: ClassVar[type[int] | type[float]]

    low: float
    high: float | None = None
    words: tuple[str, ...] = ()
    instead: str = field(default="", compare=False)
    with_low: bool = False
    with_high: bool = False

    @property
    def metavar(self) -> str:
        return "|".join((self.letter, *self.words))

    @property
    def expected(self) -> str:
        text = f"{self.noun} {'>=' if self.with_low else '>'} {self._shown(self.low)}"
        if _is_bound(self.high):
            text += f" and {'<=' if self.with_high else '<'} {self._shown(self.high)}"
        return " or ".join((text + "," * bool(self.words), *map(repr, self.words)))

    def _shown(self, bound: float) -> str:
        return str(bound) if isinstance(bound, int) else f"{bound:g}"

    @property
    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "integer" if self.type is int else "number"}
        if _is_bound(self.low):
            schema["minimum" if self.with_low else "exclusiveMinimum"] = self.low
        if _is_bound(self.high):
            schema["maximum" if self.with_high else "exclusiveMaximum"] = self.high
        return {"anyOf": [schema, {"enum": list(self.words)}]} if self.words else schema

    def parse(self, text: str) -> Any:
        try:
            value: object = self.type(text)
        except ValueError:
            value = text
        return self.check(value)

    def check(self, value: Any) -> Any:
        if isinstance(value, str) and value in self.words:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, self.type)):
            refuse(value, self.expected, self.instead)
        if self.type is float and not abs(value) <= sys.float_info.max:
            refuse(value, self.expected.replace(self.noun, "a finite number", 1), self.instead)
        high = math.inf if self.high is None else self.high
        above = value > self.low or (self.with_low and value == self.low)
        below = value < high or (self.with_high and value == high)
        if not above or not below:
            refuse(value, self.expected, self.instead)
        return self.type(value)


def _is_bound(number: float | None) -> TypeGuard[float]:
    return number is not None and math.isfinite(number)


class Integer(Number):
    """A whole number in [low, high], or one of the words."""

    letter: ClassVar[str] = "N"
    noun: ClassVar[str] = "an integer"
    type: ClassVar[type[int] | type[float]] = int
    low: int
    high: int | None = None
    with_low: bool = True
    with_high: bool = True


class Real(Number):
    """A finite number in the interval from low to high, or one of the words."""

    letter: ClassVar[str] = "X"
    noun: ClassVar[str] = "a number"
    type: ClassVar[type[int] | type[float]] = float
    high: float = math.inf


class UnknownWord(ValueError):
    """An error for a word that is none of those that are known."""


class Choice(Kind):
    """One of the names."""

    names: tuple[str, ...]

    @property
    def known(self) -> tuple[str, ...]:
        """The names that may be given now: subclasses may learn of names later."""
        return self.names

    @property
    def metavar(self) -> str:
        listed = "{" + ",".join(self.known) + "}"
        return listed if len(listed) < LONGEST else "NAME"

    @property
    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.known)}

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.known:
            near = nearest(str(value), self.known)
            hint = f" (did you mean {near!r}?)" if near else ""
            raise UnknownWord(f"found {value!r}, expected one of {', '.join(self.known)}{hint}")
        return value


class Names(Kind):
    """A comma list (in TOML also an array) of distinct words, in the order given.

    The list of names is a record of CSV: what stands in double quotes is a name as it is, with its commas and blanks,
    or the empty name. Other words, and those of a choice, lose the blanks around them.

    Attributes
    ----------
    choice : Choice or None
        What each of them must be.
    alone : tuple of str
        Words that stand for themselves only.
    """

    choice: Choice | None = None
    alone: tuple[str, ...] = ()

    @property
    def metavar(self) -> str:
        return "NAME,..."

    @property
    def expected(self) -> str:
        return f"a list of {', '.join(self.choice.known) if self.choice else 'names'}"

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "array",
            "items": {"type": "string", **(self.choice.schema if self.choice else {})},
            "minItems": 1,
        }

    def check(self, value: Any) -> Any:
        return tuple(dict.fromkeys(self._words(value)))

    def _words(self, value: Any) -> list[str]:
        words = value
        if isinstance(value, str):
            words = value.split(",") if self.choice else _listed(value)
        if not isinstance(words, list | tuple) or not words:
            refuse(value, self.expected)
        checked = [self._word(word) for word in words]
        for word in self.alone:
            if word in checked and len(set(checked)) > 1:
                raise ValueError(f"found {word!r} with others, expected it alone")
        return checked

    def _word(self, word: Any) -> str:
        if self.choice:
            return self.choice.check(word.strip() if isinstance(word, str) else word)
        if not isinstance(word, str):
            refuse(word, "a name")
        return word


_IN_QUOTES = r'"((?:[^"]|"")*)"'
_QUOTED = re.compile(_IN_QUOTES)
_WORD = re.compile(rf'\s*(?:{_IN_QUOTES}|([^\s",][^,]*)?)\s*,')
_EMPTY = "type '\"\"' for the empty name"


def _listed(text: str) -> list[str]:
    """Return the names of a comma list."""
    words: list[str] = []
    record, at = f"{text},", 0
    while at < len(record):
        match = _WORD.match(record, at)
        if match is None:
            refuse(text, 'names with commas between, of which one that has a comma is in double quotes, as in "a, b",c')
        exact, plain = match.groups()
        if exact is None and plain is None:
            refuse("", "a name", _EMPTY)
        words.append(plain.rstrip() if exact is None else _without_quotes(exact))
        at = match.end()
    return words


def _without_quotes(exact: str) -> str:
    return exact.replace('""', '"')


def unquoted(text: str) -> str:
    """Return the name that a text stands for: what is in double quotes, if it all is, else the text itself."""
    match = _QUOTED.fullmatch(text)
    return _without_quotes(match[1]) if match else text


def quoted(name: str) -> str:
    """Return a text that stands for a name: in double quotes, where the name alone could not be seen or typed."""
    return _in_quotes(name) if name != name.strip() or not name or name.startswith('"') else name


def _quoted_in_list(name: str) -> str:
    """Return a name as it stands in a comma list."""
    return _in_quotes(name) if "," in name or '"' in name else quoted(name)


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Text(Kind):
    """Any text but the empty one."""

    shown: str

    @property
    def metavar(self) -> str:
        return self.shown

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"\S"}

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            refuse(value, "a text that is not empty")
        return value


class Name(Text):
    """One name; what stands in double quotes on a command line is the name as it is, such as the empty one."""

    @property
    def schema(self) -> dict[str, object]:
        return {"type": "string"}

    def parse(self, text: str) -> str:
        if not text.strip():
            refuse(text, "a text that is not empty", _EMPTY)
        return unquoted(text)

    def check(self, value: object) -> str:
        if not isinstance(value, str):
            refuse(value, "a text")
        return value

    def written(self, flag: str, value: object) -> list[str]:
        return super().written(flag, quoted(str(value)))


class Flag(Kind):
    """True or false; on the command line ``--name`` and, against a TOML file, ``--no-name``."""

    metavar = None

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def parse(self, text: str) -> bool:
        return self.check({"true": True, "false": False}.get(text, text))

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            refuse(value, "true or false")
        return value

    def written(self, flag: str, value: Any) -> list[str]:
        return [flag] if value else [f"--no-{flag[2:]}"]


class AnyOf(Kind):
    """The kinds that methods (by their names) give one name: a value is taken that one of them can have."""

    kinds: Mapping[str, Kind]

    metavar = "VALUE"

    @property
    def expected(self) -> str:
        takers: dict[str, list[str]] = {}
        for name, kind in self.kinds.items():
            takers.setdefault(kind.expected, []).append(name)
        return "; ".join(f"for {', '.join(names)} {expected}" for expected, names in takers.items())

    @property
    def schema(self) -> dict[str, Any]:
        return {"anyOf": [kind.schema for kind in self.kinds.values()]}

    def parse(self, text: str) -> Any:
        return self._first(text, Kind.parse.__name__)

    def check(self, value: Any) -> Any:
        return self._first(value, Kind.check.__name__)

    def _first(self, value: Any, method: str) -> Any:
        # Whole numbers first: what takes fractions takes them too.
        for kind in sorted(self.kinds.values(), key=lambda kind: isinstance(kind, Real)):
            try:
                return getattr(kind, method)(value)
            except ValueError:
                continue
        refuse(value, self.expected)


def joined(kinds: Mapping[str, Kind]) -> Kind:
    """Return one kind for an option that several methods have.

    Numbers that differ only in the words that may stand for them take the words of all.
    """
    first, *others = kinds.values()
    if all(kind == first for kind in others):
        return first
    if isinstance(first, Number) and all(differ_in_words(first, kind) for kind in others):
        words = (word for kind in kinds.values() if isinstance(kind, Number) for word in kind.words)
        return replace(first, words=tuple(dict.fromkeys(words)))
    return AnyOf(kinds)


def differ_in_words(one: Kind, other: Kind) -> bool:
    """Return whether two kinds are numbers of the same range."""
    if not isinstance(one, Number) or not isinstance(other, Number):
        return False
    return replace(one, words=()) == replace(other, words=())
