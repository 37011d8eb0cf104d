"""Refuse files whose feature columns are not those that there must be."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import InputError
from pipeline.monitoring.plain_text import shown


def check_columns(url: str, found: int, expected: int | None, *, fewer: bool = False) -> None:
    """Refuse a file whose number of feature columns differs; `fewer` lets a sparse file leave some out."""
    if found == 0:
        raise InputError(f"{url}: found no feature columns beside the label, expected at least one")
    if expected is not None and (found > expected or (found < expected and not fewer)):
        raise InputError(
            f"{url}: found {found} feature columns, but the training data has {expected}; give data "
            "with the same columns"
        )


def other_columns(url: str, names: Sequence[str], expected: Sequence[str]) -> str:
    """Say in what the names of columns differ."""
    for number, (name, wanted) in enumerate(zip(names, expected, strict=False), start=1):
        if name != wanted:
            return f"{url}: column {number}: found {shown(name)}, expected {shown(wanted)} as in the training data"
    return f"{url}: found {len(names)} columns, expected {len(expected)} as in the training data"
