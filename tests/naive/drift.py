"""Drift detectors with all values of their windows in lists."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np


def adwin(
    values: Iterable[float], delta: float, clock: int = 32, most: int = 5, least: int = 5, grace: int = 10
) -> tuple[list[int], list[float]]:
    """Positions of alarms, and the window at the end: buckets hold their values."""
    buckets: list[list[float]] = []  # oldest first
    alarms: list[int] = []
    for at, value in enumerate(values):
        buckets.append([value])
        size = 1
        while sum(len(b) == size for b in buckets) > most:
            k = next(i for i, b in enumerate(buckets) if len(b) == size)
            buckets[k : k + 2] = [buckets[k] + buckets[k + 1]]
            size *= 2
        if (at + 1) % clock or sum(map(len, buckets)) <= grace:
            continue
        while (change := _cut(buckets, delta, least)) is not None:
            if change > 0 and (not alarms or alarms[-1] != at):
                alarms.append(at)
            buckets.pop(0)
            if sum(map(len, buckets)) <= grace:
                break
    return alarms, [value for bucket in buckets for value in bucket]


def _cut(buckets: list[list[float]], delta: float, least: int) -> float | None:
    """How much the mean of the newer part is larger, at the first place where the window is to be cut."""
    window = [value for bucket in buckets for value in bucket]
    within, variance = math.log(2 * math.log(len(window)) / delta), np.var(window)
    older = 0
    for bucket in buckets[:-1]:
        older += len(bucket)
        newer = len(window) - older
        if older < least or newer < least:
            continue
        change = np.mean(window[older:]) - np.mean(window[:older])
        inverse = 1 / (older - least + 1) + 1 / (newer - least + 1)
        if abs(change) > math.sqrt(2 * inverse * variance * within) + 2 / 3 * within * inverse:
            return change
    return None


def page_hinkley(values: Iterable[float], delta: float, threshold: float = 50.0, least: int = 30) -> list[int]:
    """Positions of alarms."""
    alarms, since = [], []
    for at, value in enumerate(values):
        since.append(value)
        sums = np.cumsum([x - np.mean(since[: i + 1]) - delta for i, x in enumerate(since)])
        if len(since) >= least and sums[-1] - min(0.0, sums.min()) > threshold:
            alarms.append(at)
            since = []
    return alarms
