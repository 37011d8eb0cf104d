"""The kinds of values that only commands have: places of files, maps side by side, and clusters with their settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ikmap.methods.kinds import Choice, Kind, Names, Text, refuse
from pipeline.urls import Location, apart, without_secrets

NO_SECRETS = (
    r"^(?:[^:]*[^:\s][^:]*|(?:[^?#@]|[?#]\.\.\.)*[^?#@\s](?:[^?#@]|[?#]\.\.\.)*"
    r"|[\w+.-]+://[^/:?#@]+@[^:?#@]+|s3a?://[^/:?#@]+/[^?#]+)$"
)
"""A place without a password or a query, which Prefect would store: checked before a run of a deployment is."""
NO_URL = r"^[^:]*[^:\s][^:]*(?::/?(?:[^:/][^:]*)?)*$"
"""A place that is no URL."""


class Place(Text):
    """A path or, unless `here`, a URL: a `Location`, so that its query is never written."""

    here: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": NO_URL if self.here else NO_SECRETS}

    def check(self, value: Any) -> Location:
        place = Location(super().check(value))
        if self.here and "://" in place:
            refuse(str(place), "a path of this machine")
        return place


class OneOrMore(Names):
    """One of the names of a choice, or several of them, none twice, with commas between: a text."""

    @property
    def known(self) -> tuple[str, ...]:
        """The names that may be given now."""
        return self.choice.known if self.choice else ()

    @property
    def metavar(self) -> str:
        return f"{self.choice.metavar if self.choice else 'NAME'}[,...]"

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.known)}, or several with commas between"

    @property
    def schema(self) -> dict[str, Any]:
        alone, several = "|".join(self.alone), "|".join(name for name in self.known if name not in self.alone)
        return {"type": "string", "pattern": rf"^({alone}|({several})(\s*,\s*({several}))*)$"}

    def check(self, value: Any) -> str:
        words = self._words(value)
        for word in words:
            if words.count(word) > 1:
                raise ValueError(f"found {word!r} twice, expected different names")
        return ",".join(words)


class Duration(Kind):
    """Seconds, as a number or as a text with a unit: ``90``, ``"90s"``, ``"1.5m"`` or ``"1h"``."""

    metavar = "TIME"
    expected = "a time above 0, such as 90, 90s, 10m or 1h"

    @property
    def schema(self) -> dict[str, Any]:
        number = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": _MOST_SECONDS}
        return {"anyOf": [number, {"type": "string", "pattern": _DURATION.pattern}]}

    def check(self, value: Any) -> float:
        seconds = value
        if isinstance(value, str) and (match := _DURATION.match(value)):
            seconds = float(match[1]) * _UNIT_SECONDS[match[2] or "s"]
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < _MOST_SECONDS:
            refuse(value, self.expected)
        return float(seconds)


_DURATION = re.compile(r"^\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([smh]?)\s*$")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}
_MOST_SECONDS = 1e9
"""About thirty years: what is more was not meant."""


class Pairs(Kind):
    """Words KEY=VALUE, one for each time that the option is given; in TOML also a table."""

    metavar = "KEY=VALUE"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string", "pattern": r"^\s*[^=\s].*=.*\S"}}

    def check(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, Mapping):
            tables = {key: items if isinstance(items, list | tuple) else [items] for key, items in value.items()}
            value = [f"{key}={item}" for key, items in tables.items() for item in items]
        if not isinstance(value, list | tuple):
            refuse(value, "words KEY=VALUE, or a table")
        for word in value:
            if not isinstance(word, str) or not all(part.strip() for part in word.partition("=")):
                refuse(word, "KEY=VALUE")
            if without_secrets(word) != word:
                refuse(without_secrets(word), "no address with a query")
        return tuple(value)

    def written(self, flag: str, value: Any) -> list[str]:
        return [word for pair in value for word in (flag, pair)]


_RUNNING = ("tcp://HOST:PORT", "tls://HOST:PORT", "file:PATH")
"""Forms of the name of a scheduler that runs already."""


class ClusterName(Kind):
    """A kind of cluster, or the address or the scheduler file of a running Dask scheduler."""

    choice: Choice

    @property
    def metavar(self) -> str:
        return "{" + ",".join((*self.choice.known, *_RUNNING)) + "}"

    @property
    def schema(self) -> dict[str, Any]:
        names = "|".join(self.choice.known)
        return {"type": "string", "pattern": rf"^({names}|(tcp|tls)://[^@/?#]+:\d+|file:.*\S.*)$"}

    def check(self, value: Any) -> str:
        if isinstance(value, str) and "://" in value:
            parts = apart(value)
            if parts.scheme not in ("tcp", "tls") or not parts.host or not parts.port or str(parts) != parts.server:
                refuse(without_secrets(value), "an address such as tcp://host:8786")
            return value
        if isinstance(value, str) and value.startswith("file:"):
            if not value.removeprefix("file:").strip():
                refuse(value, "a scheduler file such as file:scheduler.json")
            return value
        try:
            return self.choice.check(value)
        except ValueError as error:
            raise ValueError(f"{error}; or {', '.join(_RUNNING)}") from None
