"""The encoder of a run: kept in the store, read once by each process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ikmap.rows import Rows
from ikmap.tables import Encoder, RawTable
from ikmap.tables.statistics import packed_arrays, unpacked, unpacked_arrays
from pipeline.storage.durable import reading
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.store import Store

ENCODING = "data/encoding"
TOGETHER = "arrays"
"""The one array of an encoder, with all of its own. Earlier runs have each of its own as an array of the store."""
LEVELS = "levels"
"""Array of a part with the words of its columns, as JSON."""


@dataclass(frozen=True, eq=False)
class StoredEncoder:
    """An encoder; a seed and the rule of the run, by which training rows have folds; what features are.

    Attributes
    ----------
    encoder : Encoder
    seed : int
    sparse : bool
        Whether features are sparse.
    split_by : str or None
    """

    encoder: Encoder
    seed: int
    sparse: bool = False
    split_by: str | None = None

    def features(self, table: RawTable, folds: np.ndarray | None = None) -> Rows:
        """Features of rows.

        Parameters
        ----------
        folds : int64 array (n,), optional
            Of training rows: what the labels of a row's fold have told is left out.
        """
        encode = self.encoder.encode_sparse if self.sparse else self.encoder.encode
        return encode(table, folds)


_kept: LRUCache[str, tuple[object, StoredEncoder]] = PROCESS.keeps(2)


def save_encoder(store: Store, encoder: Encoder, seed: int, *, sparse: bool, split_by: str | None = None) -> None:
    """Write the encoder of a run; this process need not read it then."""
    values, arrays = encoder.parts()
    by = {} if split_by is None else {"split_by": split_by}
    about = {"encoder": values, "seed": seed, "sparse": sparse, **by}
    store.write_group(ENCODING, {TOGETHER: packed_arrays(arrays)}, about)
    _kept.put(store.path, (store.need(ENCODING), StoredEncoder(encoder, seed, sparse, split_by)))


def load_encoder(store: Store) -> StoredEncoder:
    """The encoder of a run, from this process's cache or the store."""
    about = store.need(ENCODING)
    kept = _kept.get(store.path)
    if kept is not None and kept[0] == about:
        return kept[1]
    _, arrays = store.read_group(ENCODING)
    with reading(f"{store.path}/{ENCODING}"):
        if TOGETHER in arrays:
            arrays = unpacked_arrays(arrays[TOGETHER])
        encoder = Encoder.from_parts(about["encoder"], arrays)
        stored = StoredEncoder(encoder, about["seed"], about.get("sparse", False), about.get("split_by"))
    _kept.put(store.path, (about, stored))
    return stored


def levels_of(packed: np.ndarray | None, columns: int) -> tuple[tuple[str, ...] | None, ...]:
    """The words of each column of a part."""
    if packed is None:
        return (None,) * columns
    return tuple(None if words is None else tuple(words) for words in unpacked(packed))
