"""Numbers for people."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from pipeline.report.fields import number

MISSING = "–"


def count(value: float | None) -> str:
    """Return a whole number with thousands separated: 12,345."""
    return MISSING if value is None else f"{round(value):,}"


def plural(value: float | None, noun: str, nouns: str = "") -> str:
    """Return a count with its noun: ``1 row``, ``2 rows``; ``nouns`` is an irregular plural."""
    is_one = value is not None and round(value) == 1
    return f"{count(value)} {noun if is_one else nouns or noun + 's'}"


def duration(seconds: float | None) -> str:
    """Return a duration as text: 12 ms, 3.4 s, 2 min 05 s, 1 h 12 min."""
    if seconds is None or seconds < 0:
        return MISSING
    if seconds == 0:
        return "0 s"
    if seconds < 0.001:
        return "< 1 ms"
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 0.9995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def nbytes(value: float | None) -> str:
    """Return a size in decimal units: 812 B, 1.2 GB, 420 MB."""
    if value is None or value < 0:
        return MISSING
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{value:.1f} {unit}" if value < 9.95 and unit != "B" else f"{value:,.0f} {unit}"


def rate(value: float | None, unit: str = "rows/s") -> str:
    """Return a rate as text: 3.2 rows/s, 12,345 rows/s, 1.2 million rows/s."""
    if value is None or value < 0:
        return MISSING
    if value >= 999_999.5:
        return f"{value / 1e6:,.1f} million {unit}"
    return f"{value:.1f} {unit}" if 0 < value < 9.95 else f"{value:,.0f} {unit}"


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as a percentage; only 1 and 0 become 100% and 0%."""
    if share is None:
        return MISSING
    if share in (0, 1):
        return f"{share:.0%}"
    while digits < 6 and float(f"{share * 100:.{digits}f}") in (0.0, 100.0):
        digits += 1
    return f"{share * 100:.{digits}f}%"


def label(value: object) -> str:
    """Return a class label as text: 1.0 becomes 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def figure(value: object) -> str:
    """Return a measured scalar of unknown meaning as text: 12,345, 1.2e-07, yes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    plain = number(value)
    if plain is None:
        return MISSING if value is None else str(value)
    whole = abs(plain) < 1e15 if plain.is_integer() else 1e4 <= abs(plain) < 1e9
    return count(plain) if whole else f"{plain:.4g}"


def brief(value: float) -> str:
    """Return a chosen number as text: 4096, 0.0009766."""
    return f"{value:.4g}" if abs(value) < 1 else f"{value:.12g}"


def setting(value: object) -> str:
    """Return a parameter as text: no thousands separators; lists with commas; by name, "svm: 8, ogd: 64"."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(setting(item) for item in value)
    if isinstance(value, dict):
        nested = any(isinstance(item, dict | list | tuple) for item in value.values())
        named = ", ".join(f"{key}: {setting(item)}" for key, item in value.items())
        return json.dumps(value, default=str) if nested else named
    return str(value)


def moment(value: str) -> str:
    """Return an ISO 8601 time as 2026-08-01 10:15:02 UTC; other text as it is."""
    try:
        time = datetime.fromisoformat(value)
        return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if time.tzinfo else f"{time:%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return value


def shorten(value: str, length: int) -> str:
    """Return at most ``length`` characters of a text, with an ellipsis if it was cut."""
    return value if len(value) <= length else value[: length - 1] + "…"
