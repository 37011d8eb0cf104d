"""JSON values: their type, and functions that read one of which any part may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

type Json = Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None
type JsonObject = Mapping[str, Json]
type Label = str | int | float
"""A label as a JSON value."""


def plain_label(value: str | float) -> Label:
    """Return a label as a JSON value: 3.0 is 3."""
    if isinstance(value, str):
        return value
    return int(value) if float(value).is_integer() else float(value)


def mapping_of(value: Json) -> JsonObject:
    """Return an object as it is, and an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: Json) -> Sequence[Json]:
    """Return an array as it is, and an empty one in place of anything else."""
    return value if isinstance(value, list | tuple) else ()


def objects_of(value: Json) -> list[JsonObject]:
    """Return the objects in an array."""
    return [one for one in list_of(value) if isinstance(one, Mapping)]


def number_of(value: Json) -> float | None:
    """Return a number as it is, and None in place of anything else."""
    return value if isinstance(value, int | float) else None


def whole_number(value: Json) -> int:
    """Return a whole number of a record.

    Raises
    ------
    ValueError
        The value is no whole number.
    """
    if not isinstance(value, int):
        raise ValueError(f"found {value!r}, expected a whole number")
    return value


def real_number(value: Json) -> float:
    """Return a number of a record.

    Raises
    ------
    ValueError
        The value is no number.
    """
    if not isinstance(value, int | float):
        raise ValueError(f"found {value!r}, expected a number")
    return value


def text_of(value: Json) -> str:
    """Return a text of a record.

    Raises
    ------
    ValueError
        The value is no text.
    """
    if not isinstance(value, str):
        raise ValueError(f"found {value!r}, expected text")
    return value


def labels_of(value: Json) -> list[Label]:
    """Return the labels in an array."""
    return [one for one in list_of(value) if isinstance(one, str | int | float)]


def whole_numbers(value: Json) -> list[int]:
    """Return an array of whole numbers of a record."""
    return [whole_number(one) for one in list_of(value)]


def learners_of(metrics: JsonObject) -> dict[str, JsonObject]:
    """Return what ``metrics.json`` says of each learner, by name."""
    learners = mapping_of(metrics.get("learners"))
    return {str(name): about for name, about in learners.items() if isinstance(about, Mapping)}
