"""Map a stream to cells with maps that grow with it: each task extends the map that the task before it has left.

A chunk's cells are stored with the number of cells of each partitioning before its first block and after each block.
So learners see a new cell with the first block that has a row in it, however blocks are put together to chunks.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from ikmap.methods import Growable, capability
from ikmap.partitioners import Partitions
from ikmap.rows import Rows, nbytes_of
from pipeline.params import Params
from pipeline.record_types import GrownRecord, MapRecord
from pipeline.rows.stream_data import Stream
from pipeline.running.foreign import checked, checked_growth
from pipeline.running.working_clock import working_clock
from pipeline.storage.durable import read_arrays, reading, write_arrays
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.models import model_of, save_model

CHECKPOINT_SHARE = 0.05
"""Share of its time that growing may spend on checkpoints."""
MOST_KEPT = 4


@dataclass(frozen=True)
class Growing:
    """The maps of a stream that grow: small enough to travel with every task.

    Attributes
    ----------
    params : Params
    fitted : tuple of Fitted
        Maps as they were fitted on the initial rows.
    folder : str
        Directory of their checkpoints.
    run : str
        Id of the run.
    """

    params: Params
    fitted: tuple[Fitted, ...]
    folder: str
    run: str = ""

    def checkpoint(self, fitted: Fitted) -> str:
        """Return the file of the checkpoint of a map."""
        return str(Path(self.folder) / f"{fitted.label}.map.npz")


def cells_of_chunk(fitted: Fitted, k: int) -> str:
    """Return the name in the store of the cells of chunk k."""
    return f"cells/{fitted.label}/stream/{k:06d}"


def map_and_grow(stream: Stream, growing: Growing, k: int, n_threads: int = 1) -> MapRecord:
    """Task: map chunk k with all maps, which are extended by its rows."""
    X = stream.features(k)
    written, outputs, seconds = 0, [], {}
    for fitted in growing.fitted:
        model, saved = _before(stream, growing, fitted, k, n_threads)
        began = working_clock()
        codes, offsets = [], [model.offsets]
        for start in range(0, X.shape[0], stream.block_rows):
            model, block_codes = _extended(growing, model, X[start : start + stream.block_rows], n_threads)
            codes.append(block_codes)
            offsets.append(model.offsets)
        seconds[fitted.label] = round(working_clock() - began, 6)
        name = cells_of_chunk(fitted, k)
        arrays = {"codes": np.concatenate(codes).astype(np.int32, copy=False), "offsets": np.stack(offsets)}
        written += stream.store.write_group(name, arrays, {})
        outputs.append(name)
        saved = _save_if_due(growing, fitted, k + 1, model, replace(saved, since=saved.since + seconds[fitted.label]))
        _keep(growing, fitted, k + 1, model, saved)
    read = nbytes_of(X)
    return {
        "rows": int(X.shape[0]),
        "bytes_read": int(read),
        "bytes_written": written,
        "outputs": outputs,
        "map_seconds": seconds,
    }


def save_grown(stream: Stream, growing: Growing, fitted: Fitted, k: int, n_threads: int = 1) -> GrownRecord:
    """Task: store a map as it is after k chunks, to score with."""
    model, saved = _before(stream, growing, fitted, k, n_threads)
    _keep(growing, fitted, k, model, saved)
    name = replace(fitted, grown=True).name
    content_hash = save_model(stream.store, name, model, offsets=model.offsets.tolist())
    return {
        "bytes_written": model.nbytes,
        "outputs": [name],
        "content_hash": content_hash,
        "most_cells": int(np.diff(model.offsets).max()),
        "cells": [int(fitted.offsets(stream.store)[-1]), int(model.offsets[-1])],
    }


def _extended(growing: Growing, model: Partitions, rows: Rows, n_threads: int) -> tuple[Partitions, np.ndarray]:
    growable = capability(growing.params.map, Growable)
    assert growable is not None
    larger, cells = growable.extend(model, rows, n_threads)
    checked_growth(larger, model.offsets)
    return larger, checked(larger, cells.codes)


# --- maps that stay in this process from one chunk to the next, and their checkpoints


@dataclass(frozen=True)
class _Saved:
    """Seconds that a map has grown since it was last saved, and seconds that saving took."""

    since: float = 0.0
    cost: float = 0.0


_kept: LRUCache[tuple[str, str], tuple[int, Partitions, _Saved]] = PROCESS.keeps(MOST_KEPT)
"""By run and checkpoint: maps, and the chunk that comes next."""


def _keep(growing: Growing, fitted: Fitted, next_chunk: int, model: Partitions, saved: _Saved) -> None:
    _kept.put((growing.run, growing.checkpoint(fitted)), (next_chunk, model, saved))


def _before(stream: Stream, growing: Growing, fitted: Fitted, k: int, n_threads: int) -> tuple[Partitions, _Saved]:
    """Return a map before chunk k: that of this process, or the last one saved, extended by the chunks since then."""
    next_chunk, model, saved = _kept.get((growing.run, growing.checkpoint(fitted))) or (-1, None, _Saved())
    if next_chunk == k:
        return cast("Partitions", model), saved
    first, model = _read(growing.checkpoint(fitted))
    if model is None or first > k:  # the cells of an earlier chunk are to be made again
        first, model = 0, fitted.load(stream.store)
    for done in range(first, k):
        X = stream.features(done)
        for start in range(0, X.shape[0], stream.block_rows):
            model, _ = _extended(growing, model, X[start : start + stream.block_rows], n_threads)
    return model, _Saved()


def _read(checkpoint: str) -> tuple[int, Partitions | None]:
    if not Path(checkpoint).exists():
        return 0, None
    arrays = read_arrays(checkpoint)
    with reading(checkpoint):
        next_chunk, metadata = int(arrays.pop("next_chunk")), json.loads(bytes(arrays.pop("metadata")))
        model = model_of(checkpoint, metadata, {name.removeprefix("of."): a for name, a in arrays.items()})
        return next_chunk, cast("Partitions", model)


def _save_if_due(growing: Growing, fitted: Fitted, next_chunk: int, model: Partitions, saved: _Saved) -> _Saved:
    """Save a map if saving takes little time compared with making the map again."""
    if saved.cost > CHECKPOINT_SHARE * saved.since:
        return saved
    began = time.perf_counter()
    metadata = np.frombuffer(json.dumps(model.metadata()).encode(), dtype=np.uint8)
    model_arrays = {f"of.{name}": array for name, array in model.arrays().items()}
    write_arrays(growing.checkpoint(fitted), {"next_chunk": np.array(next_chunk), "metadata": metadata, **model_arrays})
    return _Saved(0.0, time.perf_counter() - began)
