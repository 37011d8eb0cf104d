"""Columns of a table as they were before they became features: what belongs together, and what stood there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ikmap.rows import as_dense
from ikmap.tables import CATEGORY, NUMBER
from pipeline.rows.parts import read_levels, read_part
from pipeline.rows.prepared import PreparedRows
from pipeline.tables.encoding import load_encoder


@dataclass(frozen=True)
class Original:
    """A column of the data, as it was read.

    Attributes
    ----------
    number : int
        Among the columns that were read.
    name : str
    kind : {"number", "category", "time"}
    features : tuple of int
        Numbers of the features that are made of it.
    """

    number: int
    name: str
    kind: str
    features: tuple[int, ...]


def originals_of(rows: PreparedRows) -> list[Original]:
    """The columns that features were made of, in order; those of which none was made are left out."""
    about = rows.preparation
    if not about.encoded:
        names = about.column_names or [f"column {j + 1}" for j in range(about.n_columns)]
        return [Original(j, name, NUMBER, (j,)) for j, name in enumerate(names)]
    encoder = load_encoder(rows.store).encoder
    features: dict[int, list[int]] = {}
    for feature, column in enumerate(encoder.origins):
        features.setdefault(column, []).append(feature)
    return [
        Original(j, encoder.columns[j].name, encoder.columns[j].kind, tuple(of)) for j, of in sorted(features.items())
    ]


def original_values(rows: PreparedRows, numbers: np.ndarray, column: Original) -> np.ndarray:
    """What stood in a column, of some rows by ascending number: float64, NaN where missing; of words object, or None.

    Numbers are as they were read, before they were divided or scaled.
    """
    found: list[np.ndarray] = []
    for part, inside in rows.within_parts(numbers):
        X, _ = read_part(rows.store, part.name, 0, part.rows, rows.preparation)
        values = as_dense(X[inside][:, [column.number]])[:, 0].astype(np.float64)
        words = read_levels(rows.store, part.name, X.shape[1])[column.number] if rows.preparation.encoded else None
        if column.kind == CATEGORY:
            texts = np.array([*(words or ()), None], dtype=object)
            values = texts[np.where(np.isnan(values), len(texts) - 1, values).astype(np.int64)]
        found.append(values)
    return np.concatenate(found)
