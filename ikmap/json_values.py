"""JSON values: their types, and functions that read a record of which any part may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

type Json = Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None
"""A value that JSON can hold; its containers are only read."""
type JsonObject = Mapping[str, Json]
"""A JSON object that is only read."""
type MutableJsonObject = dict[str, Json]
"""A JSON object under construction."""
type Label = str | int | float
"""A label as a JSON value."""


def plain_label(value: str | float) -> Label:
    """Return a label as a JSON value; a whole number becomes an int."""
    if isinstance(value, str):
        return value
    return int(value) if float(value).is_integer() else float(value)


def mapping_of(value: Json) -> JsonObject:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: Json) -> Sequence[Json]:
    """Return the value if it is an array, else an empty one."""
    return value if isinstance(value, list | tuple) else ()


def objects_of(value: Json) -> list[JsonObject]:
    """Return the objects in an array."""
    return [item for item in list_of(value) if isinstance(item, Mapping)]


def number_of(value: Json) -> float | None:
    """Return the value if it is a number, else None."""
    return value if isinstance(value, int | float) else None


def whole_number(value: Json) -> int:
    """Return the value, which must be a whole number.

    Raises
    ------
    ValueError
        The value is no whole number.
    """
    if not isinstance(value, int):
        raise ValueError(f"found {value!r}, expected a whole number")
    return value


def real_number(value: Json) -> float:
    """Return the value, which must be a number.

    Raises
    ------
    ValueError
        The value is no number.
    """
    if not isinstance(value, int | float):
        raise ValueError(f"found {value!r}, expected a number")
    return value


def text_of(value: Json) -> str:
    """Return the value, which must be text.

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
    return [item for item in list_of(value) if isinstance(item, str | int | float)]


def whole_numbers(value: Json) -> list[int]:
    """Return the whole numbers in an array.

    Raises
    ------
    ValueError
        An item is no whole number.
    """
    return [whole_number(item) for item in list_of(value)]


def learners_of(metrics: JsonObject) -> dict[str, JsonObject]:
    """Return the fields of each learner in ``metrics.json``, by the name of the learner."""
    learners = mapping_of(metrics.get("learners"))
    return {str(name): fields for name, fields in learners.items() if isinstance(fields, Mapping)}
