"""The kinds of values that options take: each parses a command-line word and checks a value."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn, Protocol
from urllib.parse import urlsplit


class Kind(Protocol):
    """What values an option takes. Both methods raise ValueError("found ..., expected ...")."""

    @property
    def metavar(self) -> str | None:
        """What ``--help`` shows for the value; None when the option takes none."""

    def parse(self, text: str) -> Any:
        """The value a command-line word stands for."""

    def check(self, value: Any) -> Any:
        """The value itself, in its canonical type."""


def _refuse(found: object, expected: str) -> NoReturn:
    raise ValueError(f"found {found!r}, expected {expected}")


_PASSWORD = re.compile(r"^[A-Za-z][\w+.-]*://[^/?#]*:[^/?#]*@")
LONGEST = 60
"""Characters of a list of choices that still stands beside its option."""


@dataclass(frozen=True)
class Integer:
    """A whole number in [low, high], or one given word (such as ``auto``)."""

    low: int
    high: int | None = None
    word: str | None = None

    @property
    def metavar(self) -> str:
        return f"N|{self.word}" if self.word else "N"

    @property
    def expected(self) -> str:
        limits = f"an integer >= {self.low}" + (f" and <= {self.high}" if self.high is not None else "")
        return f"{limits}, or {self.word!r}" if self.word else limits

    def parse(self, text: str) -> int | str:
        try:
            value: int | str = int(text)
        except ValueError:
            value = text
        return self.check(value)

    def check(self, value: Any) -> int | str:
        if isinstance(value, str) and value == self.word:
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            _refuse(value, self.expected)
        if value < self.low or (self.high is not None and value > self.high):
            _refuse(value, self.expected)
        return value


@dataclass(frozen=True)
class Real:
    """A finite number in the open interval (low, high), or one of the words."""

    low: float
    high: float = math.inf
    words: tuple[str, ...] = ()

    @property
    def metavar(self) -> str:
        return "|".join(("X", *self.words))

    @property
    def expected(self) -> str:
        limits = f"a number > {self.low:g}" + (f" and < {self.high:g}" if math.isfinite(self.high) else "")
        return " or ".join((limits + "," * bool(self.words), *map(repr, self.words)))

    def parse(self, text: str) -> float | str:
        try:
            value: float | str = float(text)
        except ValueError:
            value = text
        return self.check(value)

    def check(self, value: Any) -> float | str:
        if isinstance(value, str) and value in self.words:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            _refuse(value, self.expected)
        if not (math.isfinite(value) and self.low < value < self.high):
            _refuse(value, self.expected)
        return float(value)


@dataclass(frozen=True)
class Choice:
    """One of ``names``; those in ``later`` are planned and answer that they are not available yet."""

    names: tuple[str, ...]
    later: tuple[str, ...] = ()

    @property
    def metavar(self) -> str:
        listed = "{" + ",".join(self.names) + "}"
        return listed if len(listed) < LONGEST else "NAME"

    def parse(self, text: str) -> str:
        return self.check(text)

    def check(self, value: Any) -> str:
        if value in self.later:
            raise ValueError(f"{value!r} is not available yet; available: {', '.join(self.names)}")
        if not isinstance(value, str) or value not in self.names:
            near = get_close_matches(str(value), (*self.names, *self.later), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            _refuse(value, f"one of {', '.join(self.names)}{hint}")
        return value


@dataclass(frozen=True)
class Names:
    """A comma list (in TOML also an array) of distinct words, in the order given."""

    @property
    def metavar(self) -> str:
        return "NAME,..."

    @property
    def expected(self) -> str:
        return "a list of names"

    def parse(self, text: str) -> tuple[str, ...]:
        return self.check(text)

    def check(self, value: Any) -> tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not words:
            _refuse(value, self.expected)
        return tuple(dict.fromkeys(self.word(word) for word in words))

    def word(self, word: Any) -> str:
        """One of them, checked."""
        if not isinstance(word, str) or not word.strip():
            _refuse(word, "a name")
        return word.strip()


@dataclass(frozen=True)
class Several(Names):
    """The same of given names."""

    choice: Choice

    @property
    def expected(self) -> str:
        return f"a list of {', '.join(self.choice.names)}"

    def word(self, word: Any) -> str:
        return self.choice.check(word.strip() if isinstance(word, str) else word)


@dataclass(frozen=True)
class Pairs:
    """Words KEY=VALUE, one for each time that the option is given; in TOML also a table."""

    metavar: str = "KEY=VALUE"

    def parse(self, text: Any) -> tuple[str, ...]:
        return self.check(text)

    def check(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, Mapping):
            value = [f"{key}={item}" for key, items in value.items() for item in _listed(items)]
        if not isinstance(value, list | tuple):
            _refuse(value, "words KEY=VALUE, or a table")
        for word in value:
            if not isinstance(word, str) or not all(part.strip() for part in word.partition("=")):
                _refuse(word, "KEY=VALUE")
        return tuple(value)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


@dataclass(frozen=True)
class ClusterName:
    """A kind of cluster, or the address or the scheduler file of a running Dask scheduler."""

    choice: Choice

    @property
    def metavar(self) -> str:
        return "{" + ",".join((*self.choice.names, "tcp://HOST:PORT", "tls://HOST:PORT", "file:PATH")) + "}"

    def parse(self, text: str) -> str:
        return self.check(text)

    def check(self, value: Any) -> str:
        if isinstance(value, str) and "://" in value:
            try:
                parts = urlsplit(value)
                valid = parts.scheme in ("tcp", "tls") and bool(parts.hostname) and bool(parts.port)
            except ValueError:
                valid = False
            if not valid:
                _refuse(value, "an address such as tcp://host:8786")
            return value
        if isinstance(value, str) and value.startswith("file:"):
            if not value.removeprefix("file:").strip():
                _refuse(value, "a scheduler file such as file:scheduler.json")
            return value
        return self.choice.check(value)


@dataclass(frozen=True)
class Text:
    """Any text but the empty one, and no address with a password in it: options are written down."""

    metavar: str

    def parse(self, text: str) -> str:
        return self.check(text)

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            _refuse(value, "a text that is not empty")
        if _PASSWORD.match(value):
            raise ValueError(
                "found a password in an address, expected it in the environment (AWS_SECRET_ACCESS_KEY, or "
                "FSSPEC_SFTP_PASSWORD and the like): options are written into run.toml, reports and logs"
            )
        return value


@dataclass(frozen=True)
class Flag:
    """True or false; on the command line ``--name`` and, against a TOML file, ``--no-name``."""

    metavar: None = None

    def parse(self, text: str) -> bool:
        return self.check(text)

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            _refuse(value, "true or false")
        return value
