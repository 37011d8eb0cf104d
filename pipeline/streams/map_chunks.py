"""Tasks of a stream that map chunks to cells, once for all learners on them.

A map that grows with the stream is extended by each task from where the task before has left it. A chunk's cells are
then stored with the number of cells of each partitioning before its first block and after each block. So learners see a
new cell with the first block that has a row in it, however blocks are put together to chunks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from ikmap.arrays import Int32s
from ikmap.methods import Growable, capability
from ikmap.partitioners import Partitions
from ikmap.rows import Rows, nbytes_of
from pipeline.params import Params
from pipeline.record_types import GrownRecord, MapRecord
from pipeline.rows.stream_data import Stream
from pipeline.running.device import DeviceMap, record_of
from pipeline.running.foreign import checked, checked_growth
from pipeline.running.working_clock import working_clock
from pipeline.storage.durable import reading
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import model_of, save_model
from pipeline.streams.checkpoints import Checkpoints, Kept, Place, read_checkpoint

_MAPS: Checkpoints[Partitions] = Checkpoints(4)


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

    def place(self, fitted: Fitted) -> Place:
        """Return where a map is kept between two tasks."""
        return Place(self.run, str(Path(self.folder) / f"{fitted.label}.map.npz"))


def cells_of_chunk(fitted: Fitted, k: int) -> str:
    """Return the name in the store of the cells of chunk k."""
    return f"cells/{fitted.label}/stream/{k:06d}"


def map_chunk(stream: Stream, fitted: list[Fitted], k: int, device: str = "auto") -> MapRecord:
    """Task: map chunk k with all models."""
    X = stream.features(k)
    written, outputs, seconds, maps = 0, [], {}, []
    for model in fitted:
        maps.append(DeviceMap(model.load(stream.store), device))
        began = working_clock()
        codes = maps[-1].codes(X)
        seconds[model.label] = round(working_clock() - began, 6)
        name = cells_of_chunk(model, k)
        written += stream.store.write_group(name, {"codes": codes.astype(np.int32, copy=False)}, {})
        outputs.append(name)
    return {**record_of(maps), **_mapped(X, written, outputs, seconds)}


def map_and_grow(stream: Stream, growing: Growing, k: int, n_threads: int = 1) -> MapRecord:
    """Task: map chunk k with all maps, which are extended by its rows."""
    X = stream.features(k)
    written, outputs, seconds = 0, [], {}
    for fitted in growing.fitted:
        kept = _before(stream, growing, fitted, k, n_threads)
        began = working_clock()
        kept.state, codes, offsets = _grown(growing, kept.state, X, stream.block_rows, n_threads)
        seconds[fitted.label] = round(working_clock() - began, 6)
        name, arrays = cells_of_chunk(fitted, k), {"codes": codes, "offsets": offsets}
        written += stream.store.write_group(name, arrays, {})
        outputs.append(name)
        _MAPS.pass_on(growing.place(fitted), kept, seconds[fitted.label], partial(_arrays, kept.state))
    return _mapped(X, written, outputs, seconds)


def _mapped(X: Rows, written: int, outputs: list[str], seconds: dict[str, float]) -> MapRecord:
    """Return the record of a chunk that was mapped."""
    read = int(nbytes_of(X))
    return {
        "rows": int(X.shape[0]),
        "bytes_read": read,
        "bytes_written": written,
        "outputs": outputs,
        "map_seconds": seconds,
    }


def save_grown(stream: Stream, growing: Growing, fitted: Fitted, k: int, n_threads: int = 1) -> GrownRecord:
    """Task: store a map as it is after k chunks, to score with."""
    kept = _before(stream, growing, fitted, k, n_threads)
    _MAPS.keep(growing.place(fitted), kept)
    model, name = kept.state, replace(fitted, grown=True).name
    content_hash = save_model(stream.store, name, model, offsets=model.offsets.tolist())
    return {
        "bytes_written": model.nbytes,
        "outputs": [name],
        "content_hash": content_hash,
        "most_cells": int(np.diff(model.offsets).max()),
        "cells": [int(fitted.offsets(stream.store)[-1]), int(model.offsets[-1])],
    }


def _grown(
    growing: Growing, model: Partitions, X: Rows, block_rows: int, n_threads: int
) -> tuple[Partitions, Int32s, np.ndarray]:
    """Return a map after the rows of a chunk, their codes, and offsets before the first block and after each block."""
    growable = capability(growing.params.map, Growable)
    assert growable is not None
    codes, offsets = [], [model.offsets]
    for start in range(0, X.shape[0], block_rows):
        model, cells = growable.extend(model, X[start : start + block_rows], n_threads)
        checked_growth(model, offsets[-1])
        codes.append(checked(model, cells.codes))
        offsets.append(model.offsets)
    return model, np.concatenate(codes).astype(np.int32, copy=False), np.stack(offsets)


def _before(stream: Stream, growing: Growing, fitted: Fitted, k: int, n_threads: int) -> Kept[Partitions]:
    """Return a map before chunk k: that of this process, or the last one saved, extended by the chunks since then."""
    place = growing.place(fitted)
    if (kept := _MAPS.take(place, k)) is not None:
        return kept
    first, model = _read(place) if Path(place.file).exists() else (0, fitted.load(stream.store))
    if first > k:  # the cells of an earlier chunk are to be made again
        first, model = 0, fitted.load(stream.store)
    for done in range(first, k):
        model, *_ = _grown(growing, model, stream.features(done), stream.block_rows, n_threads)
    return Kept(model, k)


def _read(place: Place) -> tuple[int, Partitions]:
    """Return the number of chunks before the checkpoint of a map, and the map."""
    chunks, arrays = read_checkpoint(place)
    with reading(place.file):
        metadata = json.loads(bytes(arrays.pop("metadata")))
        model = model_of(place.file, metadata, {name.removeprefix("of."): a for name, a in arrays.items()})
        return chunks, cast("Partitions", model)


def _arrays(model: Partitions) -> dict[str, np.ndarray]:
    """Return the arrays of the checkpoint of a map."""
    metadata = np.frombuffer(json.dumps(model.metadata()).encode(), dtype=np.uint8)
    return {"metadata": metadata, **{f"of.{name}": array for name, array in model.arrays().items()}}
