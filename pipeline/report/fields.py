"""Reading a metrics dict of which any part may be missing, null or of another kind.

A report is also wanted for a run that stopped half-way, so nothing here raises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Metrics = Mapping[str, Any]


def number(value: Any) -> float | None:
    """``value`` as a finite float; None for anything else (text, booleans, NaN, infinity)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def get_number(record: Any, key: str) -> float | None:
    """``record[key]`` as a finite float, else None."""
    return number(record.get(key)) if isinstance(record, Mapping) else None


def get_mapping(record: Any, key: str) -> Mapping[str, Any]:
    """``record[key]`` if it is a mapping, else an empty one."""
    value = record.get(key) if isinstance(record, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def get_list(record: Any, key: str) -> list[Any]:
    """``record[key]`` as a list if it is a list or tuple, else an empty one."""
    value = record.get(key) if isinstance(record, Mapping) else None
    return list(value) if isinstance(value, list | tuple) else []


def get_text(record: Any, key: str, default: str = "") -> str:
    """``record[key]`` as text; ``default`` when missing, null or empty."""
    value = record.get(key) if isinstance(record, Mapping) else None
    return default if value is None or value == "" else str(value)


def get_points(record: Any, x_key: str, y_key: str) -> list[tuple[float, float]]:
    """Pairs of two parallel lists, in order of x, without those that are not finite numbers."""
    pairs = zip(get_list(record, x_key), get_list(record, y_key), strict=False)
    numbers = [(number(x), number(y)) for x, y in pairs]
    return sorted((x, y) for x, y in numbers if x is not None and y is not None)


def stages_of(metrics: Metrics) -> list[Mapping[str, Any]]:
    """The stage records, in order."""
    return [stage for stage in get_list(metrics, "stages") if isinstance(stage, Mapping)]


def learners_of(metrics: Metrics) -> dict[str, Mapping[str, Any]]:
    """The learner records by name, in order."""
    records = get_mapping(metrics, "learners")
    return {str(name): record for name, record in records.items() if isinstance(record, Mapping)}
