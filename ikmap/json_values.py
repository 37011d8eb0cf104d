"""Names of the types of JSON values, for annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

type Json = str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None
"""A value that JSON can hold; its containers are only read."""
type JsonObject = dict[str, Json]
"""A JSON object under construction, with the text keys that JSON allows."""
type Label = str | int | float | bool
"""A class label of a stored model."""
