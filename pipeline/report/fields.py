"""Read a metrics dict of which every part may be missing, null or of another kind.

A report is also wanted for a run that stopped half-way, so nothing here raises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ikmap.json_values import Json

type Metrics = Mapping[str, Json]


def number(value: object) -> float | None:
    """Return ``value`` as a finite float; None for anything else (text, booleans, NaN, infinity)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def get_number(record: object, key: str) -> float | None:
    """Return ``record[key]`` as a finite float, else None."""
    return number(record.get(key)) if isinstance(record, Mapping) else None


def get_mapping(record: object, key: str) -> Metrics:
    """Return ``record[key]`` if it is a mapping, else an empty one."""
    value = record.get(key) if isinstance(record, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def get_list(record: object, key: str) -> list[object]:
    """Return ``record[key]`` as a list if it is a list or tuple, else an empty one."""
    value = record.get(key) if isinstance(record, Mapping) else None
    return list(value) if isinstance(value, list | tuple) else []


def get_text(record: object, key: str, default: str = "") -> str:
    """Return ``record[key]`` as text; ``default`` when missing, null or empty."""
    value = record.get(key) if isinstance(record, Mapping) else None
    return default if value is None or value == "" else str(value)


def get_points(record: object, x_key: str, y_key: str) -> list[tuple[float, float]]:
    """Return pairs of two parallel lists, in order of x, without those that are not finite numbers."""
    pairs = zip(get_list(record, x_key), get_list(record, y_key), strict=False)
    numbers = [(number(x), number(y)) for x, y in pairs]
    return sorted((x, y) for x, y in numbers if x is not None and y is not None)


def stages_of(metrics: Metrics) -> list[Metrics]:
    """Return the stage records, in order."""
    return [stage for stage in get_list(metrics, "stages") if isinstance(stage, Mapping)]


def learners_of(metrics: Metrics) -> dict[str, Metrics]:
    """Return the learner records by name, in order."""
    records = get_mapping(metrics, "learners")
    return {str(name): record for name, record in records.items() if isinstance(record, Mapping)}
