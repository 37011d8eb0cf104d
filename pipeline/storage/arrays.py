"""Arrays of the store: their compression, and reading them with errors that name the damaged object."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import zarr
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.core.buffer import Buffer
from zarr.storage import MemoryStore

from pipeline.errors import Damaged
from pipeline.record_types import Record
from pipeline.storage.durable import reading

# A chunk goes through all codecs at once: the same bytes in less time, as no step waits in a queue of its own.
zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"})

type ZarrArray = zarr.Array[Any]
"""An array of a store, whichever version of Zarr's metadata describes it."""

ABSENT = int(np.iinfo(np.int32).min)
"""Fill value of sharded arrays of whole numbers: no cell and no class has this number."""
ABSENT_FRACTION = float(np.nextafter(np.finfo(np.float64).min, 0.0))
"""Fill value of sharded arrays of fractions, the number next to the lowest: no target is that low."""


def document_of_array(
    dtype: np.dtype, shape: tuple[int, ...], chunks: tuple[int, ...], shards: tuple[int, ...] | None = None
) -> Record:
    """Return the document with which Zarr describes an array.

    `zarr.create_array` takes several times as long as all else that is done to write a small array.
    """
    document: Record = json.loads(_template(dtype, len(shape), shards is not None))
    document["shape"] = list(shape)
    document["chunk_grid"]["configuration"]["chunk_shape"] = list(shards or chunks)
    if shards is not None:
        document["codecs"][0]["configuration"]["chunk_shape"] = list(chunks)
    return document


@cache
def _template(dtype: np.dtype, ndim: int, sharded: bool) -> bytes:
    """Return the document of an array of one element, as Zarr writes it."""
    one = (1,) * ndim
    files: dict[str, Buffer] = {}
    absent = ABSENT_FRACTION if dtype.kind == "f" else ABSENT
    zarr.create_array(
        MemoryStore(files),
        shape=one,
        dtype=dtype,
        chunks=one,
        shards=one if sharded else None,
        compressors=compressors(dtype),
        fill_value=absent if sharded else None,
    )
    return files["zarr.json"].to_bytes()


def compressors(dtype: np.dtype) -> tuple[BytesBytesCodec, ...]:
    """Return the codecs of every array here: fast, near the entropy bound on cells, and verified on reading."""
    blosc = BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle", typesize=np.dtype(dtype).itemsize)
    return blosc, Crc32cCodec()


def read(array: ZarrArray, rows: slice) -> np.ndarray:
    """Read rows of an array.

    Raises
    ------
    Damaged
        Naming the shard of a sharded array, else the group that the array is in.
    """
    try:
        with reading(_place(array).rpartition("/")[0]):
            return _decoded(array, rows)
    except Damaged:
        for part, key in shards_of(array, rows):
            with reading(f"{_place(array)}/{key}"):
                _decoded(array, part)
        raise


def _decoded(array: ZarrArray, rows: slice) -> np.ndarray:
    values = np.asarray(array[rows])
    if array.shards is not None and values.size and _any_absent(values):
        raise ValueError("found none")
    return values


def _any_absent(values: np.ndarray) -> bool:
    return bool((values == ABSENT_FRACTION).any() if values.dtype.kind == "f" else values.min() == ABSENT)


def shards_of(array: ZarrArray, rows: slice) -> Iterator[tuple[slice, str]]:
    """Yield the rows that are in each shard, and its key; nothing if the array has no shards."""
    if array.shards is None:
        return
    size, rest = array.shards[0], "/0" * (array.ndim - 1)
    for k in range(rows.start // size, math.ceil(rows.stop / size)):
        yield slice(max(rows.start, k * size), min(rows.stop, (k + 1) * size)), f"c/{k}{rest}"


def _place(array: ZarrArray) -> str:
    return str(array.store_path).removeprefix("file://")
