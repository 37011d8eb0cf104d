"""Types of data that is written as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

type Json = Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None
