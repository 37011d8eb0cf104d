"""Dates and times as seconds, from words and Python objects, always by the clock time that they show; and as words."""

from __future__ import annotations

import datetime
import re

EPOCH = datetime.datetime(1970, 1, 1)
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?", re.ASCII)


def seconds_in(word: str) -> float | None:
    """Return the seconds since 1970 of an ISO date and time without its zone, or since midnight for a time alone."""
    if clock := _CLOCK.fullmatch(word):
        hour, minute, second = clock.groups()
        return 3600.0 * int(hour) + 60.0 * int(minute) + float(second or 0)
    if len(word) < len("2001-1-1") or word.isdigit():
        return None
    try:
        time = datetime.datetime.fromisoformat(word)
    except ValueError:
        return None
    return seconds_of(time)


def seconds_of(value: datetime.date | datetime.time) -> float:
    """Return the seconds since 1970 of a date or date and time without its zone, or since midnight for a time alone."""
    if isinstance(value, datetime.time):
        return 3600.0 * value.hour + 60.0 * value.minute + value.second + value.microsecond / 1e6
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    return (value.replace(tzinfo=None) - EPOCH).total_seconds()


def word_of(value: datetime.date | datetime.time) -> str:
    """Return a time as Arrow writes it: ``2001-05-31``, ``23:59:00.000000``, or both with a blank between.

    The zone of a date and time follows as ``+0200``, and as ``Z`` for UTC.
    """
    if isinstance(value, datetime.time):
        return value.replace(tzinfo=None).isoformat("microseconds")
    if not isinstance(value, datetime.datetime):
        return value.isoformat()
    zone = "Z" if str(value.tzinfo) == "UTC" else value.strftime("%z")
    return value.replace(tzinfo=None).isoformat(" ", "microseconds") + zone
