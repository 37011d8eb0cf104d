"""The kinds of values that only commands have: settings of clusters, and their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ikmap.methods.kinds import Choice, Kind, refuse


@dataclass(frozen=True)
class Pairs(Kind):
    """Words KEY=VALUE, one for each time that the option is given; in TOML also a table."""

    @property
    def metavar(self) -> str:
        return "KEY=VALUE"

    def check(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, Mapping):
            value = [f"{key}={item}" for key, items in value.items() for item in _listed(items)]
        if not isinstance(value, list | tuple):
            refuse(value, "words KEY=VALUE, or a table")
        for word in value:
            if not isinstance(word, str) or not all(part.strip() for part in word.partition("=")):
                refuse(word, "KEY=VALUE")
        return tuple(value)

    def written(self, flag: str, value: Any) -> list[str]:
        return [word for pair in value for word in (flag, pair)]


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


_RUNNING = ("tcp://HOST:PORT", "tls://HOST:PORT", "file:PATH")
"""How a scheduler that runs already is named."""


@dataclass(frozen=True)
class ClusterName(Kind):
    """A kind of cluster, or the address or the scheduler file of a running Dask scheduler."""

    choice: Choice

    @property
    def metavar(self) -> str:
        return "{" + ",".join((*self.choice.known, *_RUNNING)) + "}"

    def check(self, value: Any) -> str:
        if isinstance(value, str) and "://" in value:
            try:
                parts = urlsplit(value)
                valid = parts.scheme in ("tcp", "tls") and bool(parts.hostname) and bool(parts.port)
            except ValueError:
                valid = False
            if not valid:
                refuse(value, "an address such as tcp://host:8786")
            return value
        if isinstance(value, str) and value.startswith("file:"):
            if not value.removeprefix("file:").strip():
                refuse(value, "a scheduler file such as file:scheduler.json")
            return value
        try:
            return self.choice.check(value)
        except ValueError as error:
            raise ValueError(f"{error}; or {', '.join(_RUNNING)}") from None
