"""The encoder of a run: kept in the store as plain arrays, read once by each process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ikmap.rows import Rows
from ikmap.tables import Encoder, RawTable
from ikmap.tables.statistics import fold_of, unpacked
from pipeline.storage.kept import PROCESS, Kept
from pipeline.storage.store import Store

ENCODING = "data/encoding"
LEVELS = "levels"
"""Array of a part with the words of its columns, as JSON."""


@dataclass(frozen=True, eq=False)
class StoredEncoder:
    """An encoder, the seed by which training rows have folds, and whether features are sparse."""

    encoder: Encoder
    seed: int
    sparse: bool = False

    def features(self, table: RawTable, training_rows: np.ndarray | None = None) -> Rows:
        """Features of rows.

        Parameters
        ----------
        training_rows : int64 array (n,), optional
            Numbers in their file of the rows, where they are training rows: what their labels have told is left out.
        """
        encode = self.encoder.encode_sparse if self.sparse else self.encoder.encode
        return encode(table, None if training_rows is None else fold_of(training_rows, self.seed))


_kept: Kept[str, tuple[Any, StoredEncoder]] = PROCESS.keeps(2)


def save_encoder(store: Store, encoder: Encoder, seed: int, sparse: bool) -> None:
    """Write the encoder of a run."""
    values, arrays = encoder.parts()
    store.write_group(ENCODING, arrays, {"encoder": values, "seed": seed, "sparse": sparse})


def load_encoder(store: Store) -> StoredEncoder:
    """The encoder of a run, from this process's cache or the store."""
    about = store.need(ENCODING)
    kept = _kept.get(store.path)
    if kept is not None and kept[0] == about:
        return kept[1]
    _, arrays = store.read_group(ENCODING)
    encoder = Encoder.from_parts(about["encoder"], arrays)
    found = StoredEncoder(encoder, about["seed"], about.get("sparse", False))
    _kept.put(store.path, (about, found))
    return found


def levels_of(packed: np.ndarray | None, columns: int) -> tuple[tuple[str, ...] | None, ...]:
    """The words of each column of a part."""
    if packed is None:
        return (None,) * columns
    return tuple(None if words is None else tuple(words) for words in unpacked(packed))
