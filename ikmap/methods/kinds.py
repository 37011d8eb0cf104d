"""The kinds of values that options take: each parses a command-line word and checks a value.

Only the standard library is imported here, so that ``--help`` and a mistyped option answer at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, ClassVar, NoReturn

LONGEST = 60
"""Characters of a list of choices that still stands beside its option."""


class Kind:
    """What values an option takes. :meth:`parse` and :meth:`check` raise ValueError("found ..., expected ...")."""

    @property
    def metavar(self) -> str | None:
        """What ``--help`` shows for the value; None when the option takes none."""
        raise NotImplementedError

    def parse(self, text: str) -> Any:
        """The value that a command-line word stands for."""
        return self.check(text)

    def check(self, value: Any) -> Any:
        """The value itself, in its canonical type."""
        raise NotImplementedError

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the values, as they stand in ``metrics.json``."""
        raise NotImplementedError

    def written(self, flag: str, value: Any) -> list[str]:
        """`value` as the words of a command line."""
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def refuse(found: object, expected: str, instead: str = "") -> NoReturn:
    """Say what was found and what was expected, and what to type instead.

    Raises
    ------
    ValueError
    """
    raise ValueError(f"found {found!r}, expected {expected}{f'; {instead}' if instead else ''}")


def or_words(schema: dict[str, Any], words: tuple[str, ...]) -> dict[str, Any]:
    """JSON Schema of what another one takes, or one of the words."""
    return {"anyOf": [schema, {"enum": list(words)}]} if words else schema


@dataclass(frozen=True)
class Integer(Kind):
    """A whole number in [low, high], or one of the words (such as ``auto``); ``instead``: what to type else."""

    low: int
    high: int | None = None
    words: tuple[str, ...] = ()
    instead: str = field(default="", compare=False)

    @property
    def metavar(self) -> str:
        return "|".join(("N", *self.words))

    @property
    def expected(self) -> str:
        limits = f"an integer >= {self.low}" + (f" and <= {self.high}" if self.high is not None else "")
        return " or ".join((limits + "," * bool(self.words), *map(repr, self.words)))

    @property
    def schema(self) -> dict[str, Any]:
        limits = {"minimum": self.low} | ({} if self.high is None else {"maximum": self.high})
        return or_words({"type": "integer", **limits}, self.words)

    def parse(self, text: str) -> int | str:
        try:
            value: int | str = int(text)
        except ValueError:
            value = text
        return self.check(value)

    def check(self, value: Any) -> int | str:
        if isinstance(value, str) and value in self.words:
            return value
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value < self.low or (self.high is not None and value > self.high):
            refuse(value, self.expected, self.instead)
        return int(value)


@dataclass(frozen=True)
class Real(Kind):
    """A finite number in the open interval (low, high), or one of the words; ``instead``: what to type else."""

    low: float
    high: float = math.inf
    words: tuple[str, ...] = ()
    endless: str = ""
    """What to do instead, told to those who give infinity."""
    instead: str = field(default="", compare=False)
    with_low: bool = False
    with_high: bool = False
    """Whether the ends of the interval are in it."""

    @property
    def metavar(self) -> str:
        return "|".join(("X", *self.words))

    @property
    def expected(self) -> str:
        limits = f"a number {'>=' if self.with_low else '>'} {self.low:g}"
        limits += f" and {'<=' if self.with_high else '<'} {self.high:g}" if math.isfinite(self.high) else ""
        return " or ".join((limits + "," * bool(self.words), *map(repr, self.words)))

    @property
    def schema(self) -> dict[str, Any]:
        low = "minimum" if self.with_low else "exclusiveMinimum"
        high = "maximum" if self.with_high else "exclusiveMaximum"
        limits = {low: self.low} if math.isfinite(self.low) else {}
        limits |= {high: self.high} if math.isfinite(self.high) else {}
        return or_words({"type": "number", **limits}, self.words)

    def parse(self, text: str) -> float | str:
        try:
            value: float | str = float(text)
        except ValueError:
            value = text
        return self.check(value)

    def check(self, value: Any) -> float | str:
        if isinstance(value, str) and value in self.words:
            return value
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and not math.isfinite(value):
            instead = self.endless if self.endless and value == math.inf else self.instead
            refuse(value, self.expected.replace("a number", "a finite number", 1), instead)
        inside = number and self.low < value < self.high
        at_an_end = number and ((self.with_low and value == self.low) or (self.with_high and value == self.high))
        if not inside and not at_an_end:
            refuse(value, self.expected, self.instead)
        return float(value)


@dataclass(frozen=True)
class Choice(Kind):
    """One of ``names``; those in ``later`` are planned and answer that they are not available yet."""

    names: tuple[str, ...]
    later: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        """What may be given now: subclasses may learn of names later."""
        return self.names

    @property
    def metavar(self) -> str:
        listed = "{" + ",".join(self.known) + "}"
        return listed if len(listed) < LONGEST else "NAME"

    @property
    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.known)}

    def check(self, value: Any) -> str:
        if value in self.later:
            raise ValueError(f"{value!r} is not available yet; available: {', '.join(self.known)}")
        if not isinstance(value, str) or value not in self.known:
            near = get_close_matches(str(value), (*self.known, *self.later), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            refuse(value, f"one of {', '.join(self.known)}{hint}")
        return value


@dataclass(frozen=True)
class OneOrMore(Choice):
    """One of ``names``, or several of them, none twice, with commas between (in TOML also an array).

    Those in ``alone`` stand for themselves only.
    """

    alone: tuple[str, ...] = ()

    @property
    def metavar(self) -> str:
        return f"{super().metavar}[,...]"

    @property
    def pattern(self) -> str:
        """Regular expression of what may be given."""
        alone, several = "|".join(self.alone), "|".join(name for name in self.known if name not in self.alone)
        return rf"^({alone}|({several})(\s*,\s*({several}))*)$"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": self.pattern}

    def check(self, value: Any) -> str:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not words:
            refuse(value, f"one of {', '.join(self.known)}, or several with commas between")
        found = [super(OneOrMore, self).check(word.strip() if isinstance(word, str) else word) for word in words]
        for name in found:
            if found.count(name) > 1:
                raise ValueError(f"found {name!r} twice, expected different names")
            if name in self.alone and len(found) > 1:
                raise ValueError(f"found {name!r} with others, expected it alone")
        return ",".join(found)


@dataclass(frozen=True)
class Levels(Kind):
    """Ascending numbers in (0, 1) with commas between (in TOML also an array), as a text: "0.05,0.5,0.95"."""

    PATTERN: ClassVar[str] = r"^\s*0?\.\d+\s*(,\s*0?\.\d+\s*)*$"

    @property
    def metavar(self) -> str:
        return "Q,..."

    @property
    def expected(self) -> str:
        return "ascending numbers > 0 and < 1 with commas between, such as 0.05,0.5,0.95"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": self.PATTERN}

    def check(self, value: Any) -> str:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not words:
            refuse(value, self.expected)
        try:
            numbers = [float(word) for word in words]
        except (TypeError, ValueError):
            refuse(value, self.expected)
        ascending = all(low < high for low, high in pairwise(numbers))
        if not ascending or not all(0.0 < number < 1.0 for number in numbers):
            refuse(value, self.expected)
        return ",".join(format(Decimal(repr(number)), "f") for number in numbers)


@dataclass(frozen=True)
class Names(Kind):
    """A comma list (in TOML also an array) of distinct words, in the order given."""

    @property
    def metavar(self) -> str:
        return "NAME,..."

    @property
    def expected(self) -> str:
        return "a list of names"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string"}, "minItems": 1}

    def check(self, value: Any) -> tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not words:
            refuse(value, self.expected)
        return tuple(dict.fromkeys(self.word(word) for word in words))

    def word(self, word: Any) -> str:
        """One of them, checked."""
        if not isinstance(word, str) or not word.strip():
            refuse(word, "a name")
        return word.strip()


@dataclass(frozen=True)
class Several(Names):
    """The same of given names; those in ``alone`` stand for themselves only."""

    choice: Choice
    alone: tuple[str, ...] = ()

    def check(self, value: Any) -> tuple[str, ...]:
        found = super().check(value)
        for name in self.alone:
            if name in found and len(found) > 1:
                raise ValueError(f"found {name!r} with others, expected it alone")
        return found

    @property
    def expected(self) -> str:
        return f"a list of {', '.join(self.choice.known)}"

    def word(self, word: Any) -> str:
        return self.choice.check(word.strip() if isinstance(word, str) else word)


@dataclass(frozen=True)
class Text(Kind):
    """Any text but the empty one."""

    shown: str

    @property
    def metavar(self) -> str:
        return self.shown

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            refuse(value, "a text that is not empty")
        return value


@dataclass(frozen=True)
class Flag(Kind):
    """True or false; on the command line ``--name`` and, against a TOML file, ``--no-name``."""

    @property
    def metavar(self) -> None:
        return None

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            refuse(value, "true or false")
        return value

    def written(self, flag: str, value: Any) -> list[str]:
        return [flag] if value else [f"--no-{flag[2:]}"]


@dataclass(frozen=True)
class AnyOf(Kind):
    """What methods (by their names) read differently under one name: a value is taken that one of them can have."""

    kinds: Mapping[str, Kind]

    @property
    def metavar(self) -> str:
        return "VALUE"

    @property
    def expected(self) -> str:
        """What each of them takes."""
        takers: dict[str, list[str]] = {}
        for name, kind in self.kinds.items():
            takers.setdefault(str(getattr(kind, "expected", kind.metavar)), []).append(name)
        return "; ".join(f"for {', '.join(names)} {expected}" for expected, names in takers.items())

    @property
    def schema(self) -> dict[str, Any]:
        return {"anyOf": [kind.schema for kind in self.kinds.values()]}

    def parse(self, text: str) -> Any:
        return self._first(text, parsing=True)

    def check(self, value: Any) -> Any:
        return self._first(value, parsing=False)

    def _first(self, value: Any, *, parsing: bool) -> Any:
        # Whole numbers first: what takes fractions takes them too.
        for kind in sorted(self.kinds.values(), key=lambda kind: isinstance(kind, Real)):
            try:
                return kind.parse(value) if parsing else kind.check(value)
            except ValueError:
                continue
        refuse(value, self.expected)


def joined(kinds: Mapping[str, Kind]) -> Kind:
    """One kind for an option that several methods have.

    Numbers that differ only in the words that may stand for them take the words of all.
    """
    first, *others = kinds.values()
    if all(kind == first for kind in others):
        return first
    if isinstance(first, Integer | Real) and all(differ_in_words(first, kind) for kind in others):
        words = (word for kind in kinds.values() for word in kind.words)  # type: ignore[attr-defined]
        return replace(first, words=tuple(dict.fromkeys(words)))
    return AnyOf(kinds)


def differ_in_words(one: Kind, other: Kind) -> bool:
    """Whether two kinds are numbers of the same range."""
    if not isinstance(one, Integer | Real) or type(one) is not type(other):
        return False
    return replace(one, words=()) == replace(other, words=())
