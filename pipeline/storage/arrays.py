"""Arrays of the store: how they are compressed, and how they are read, with errors that name what is damaged."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import zarr
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import BloscCodec, Crc32cCodec

from pipeline.errors import Damaged

ABSENT = int(np.iinfo(np.int32).min)
"""Fill value of sharded arrays of whole numbers: no cell and no class has this number."""
ABSENT_FRACTION = float(np.nextafter(np.finfo(np.float64).min, 0.0))
"""The same of fractions, the number next to the lowest: no target is that far out."""


def compressors(dtype: np.dtype) -> tuple[BytesBytesCodec, ...]:
    """Return the codecs of every array here: fast, near the entropy bound on cells, and verified on reading."""
    blosc = BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle", typesize=np.dtype(dtype).itemsize)
    return blosc, Crc32cCodec()


def read(array: zarr.Array, rows: slice) -> np.ndarray:
    """Read rows of an array.

    Raises
    ------
    Damaged
        Naming the shard of a sharded array, else the group that the array is in.
    """
    try:
        return _decoded(array, rows)
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        for part, key in shards_of(array, rows):
            try:
                _decoded(array, part)
            except Exception as damage:
                raise Damaged(f"{_place(array)}/{key}", _reason(damage)) from damage
        raise Damaged(_place(array).rpartition("/")[0], _reason(error)) from error


def _decoded(array: zarr.Array, rows: slice) -> np.ndarray:
    values = np.asarray(array[rows])
    if array.shards is not None and values.size and _any_absent(values):
        raise ValueError("found none")
    return values


def _any_absent(values: np.ndarray) -> bool:
    return bool((values == ABSENT_FRACTION).any() if values.dtype.kind == "f" else values.min() == ABSENT)


def shards_of(array: zarr.Array, rows: slice) -> Iterator[tuple[slice, str]]:
    """Yield those of the rows that are in each shard, and its key; nothing where the array has none."""
    if array.shards is None:
        return
    size, rest = array.shards[0], "/0" * (array.ndim - 1)
    for k in range(rows.start // size, math.ceil(rows.stop / size)):
        yield slice(max(rows.start, k * size), min(rows.stop, (k + 1) * size)), f"c/{k}{rest}"


def _place(array: zarr.Array) -> str:
    return str(array.store_path).removeprefix("file://")


def _reason(error: Exception) -> str:
    """Why something cannot be read, in a few words."""
    text = str(error)
    if "checksum" in text:
        return "its checksum is wrong"
    if "too short" in text:  # for the index of a shard
        return "it is cut short"
    if isinstance(error, zarr.errors.ChunkNotFoundError) or text == "found none":
        return "some of it is missing"
    return " ".join(text.split())[:100] or type(error).__name__
