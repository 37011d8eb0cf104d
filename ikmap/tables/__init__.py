"""Encoding of tables: columns of any kind become features, without files or a cluster.

    raw.py          a table as numbers: missing cells are NaN, words are codes
    times.py        dates and times as seconds
    statistics.py   what is counted of the training rows; adds up over parts in any grouping
    plan.py         which column is encoded how, and why
    encoders.py     one kind of encoding after the other
    encoder.py      all columns together: rows in, features and their names out; stored as plain data

Open ``plan.py`` first. What is computed for a row depends on no row beside it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikmap.tables.column_plan import ColumnPlan
    from ikmap.tables.encoder import Encoder
    from ikmap.tables.plan import EncodingRequest, choose, fit
    from ikmap.tables.raw import CATEGORY, NUMBER, TIME, RawTable
    from ikmap.tables.statistics import Statistics

_PLACES = {
    "encoder": ("Encoder",),
    "plan": ("EncodingRequest", "ColumnPlan", "choose", "fit"),
    "raw": ("CATEGORY", "NUMBER", "TIME", "RawTable"),
    "statistics": ("Statistics",),
}
__all__ = [
    "CATEGORY",
    "NUMBER",
    "TIME",
    "ColumnPlan",
    "Encoder",
    "EncodingRequest",
    "RawTable",
    "Statistics",
    "choose",
    "fit",
]


def __getattr__(name: str) -> object:
    """Import on first use: the words of options need no NumPy."""
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
