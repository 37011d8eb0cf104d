"""Columns of a table as they were before they became features: the features of each, and its values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ikmap.rows import as_dense
from ikmap.tables import CATEGORY, NUMBER
from pipeline.rows.encoding import load_encoder
from pipeline.rows.parts import read_levels, read_part
from pipeline.rows.prepared import PreparedRows


@dataclass(frozen=True)
class Original:
    """A column of the data, as it was read.

    Attributes
    ----------
    number : int
        Number among the columns that were read.
    name : str
    kind : {"number", "category", "time"}
    features : tuple of int
        Numbers of the features that are made of the column.
    """

    number: int
    name: str
    kind: str
    features: tuple[int, ...]


def originals_of(rows: PreparedRows) -> list[Original]:
    """Return the columns that features were made of, in order; columns without features are left out."""
    preparation = rows.preparation
    if not preparation.encoded:
        names = preparation.column_names or [f"column {j + 1}" for j in range(preparation.n_columns)]
        return [Original(j, name, NUMBER, (j,)) for j, name in enumerate(names)]
    encoder = load_encoder(rows.store).encoder
    features: dict[int, list[int]] = {}
    for feature, column in enumerate(encoder.origins):
        features.setdefault(column, []).append(feature)
    return [
        Original(j, encoder.columns[j].name, encoder.columns[j].kind, tuple(numbers))
        for j, numbers in sorted(features.items())
    ]


def original_values(rows: PreparedRows, numbers: np.ndarray, column: Original) -> np.ndarray:
    """Return the values of a column in some rows by ascending number: float64, or object for words; NaN if missing.

    Numbers are as they were read, before they were divided or scaled.
    """
    values_of_parts: list[np.ndarray] = []
    for part, inside in rows.within_parts(numbers):
        X, _ = read_part(rows.store, part.name, 0, part.rows, rows.preparation)
        values = as_dense(X[inside][:, [column.number]])[:, 0].astype(np.float64)
        words = read_levels(rows.store, part.name, X.shape[1])[column.number] if rows.preparation.encoded else None
        if column.kind == CATEGORY:
            texts = np.array([*(words or ()), None], dtype=object)
            values = texts[np.where(np.isnan(values), len(texts) - 1, values).astype(np.int64)]
        values_of_parts.append(values)
    return np.concatenate(values_of_parts)
