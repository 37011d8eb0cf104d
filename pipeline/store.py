"""The Zarr store of a run: groups of plain arrays, and sharded arrays of which each task writes whole shards."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate

import numpy as np
import zarr
from fsspec.core import url_to_fs
from zarr.codecs import BloscCodec

from pipeline.errors import InputError, writing

COMPLETE = "complete"
"""Attribute that is written last: a group without it was left half-written and counts as absent."""

ABSENT = -1
"""What a sharded array says of rows whose shard is not there: no cell and no class has this number."""

CHUNK_BYTES = 4 << 20

KEPT_OPEN = 256
"""Groups and arrays that a process keeps open: to open one takes milliseconds, as long as the work of a small task."""

type Stamps = dict[str, tuple[int, int, int]]

_opened: dict[tuple[str, str, str], tuple[Stamps, Any]] = {}


def compressor(dtype: np.dtype) -> BloscCodec:
    """Return the codec of every array here: fast, and near the entropy bound on cells."""
    return BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle", typesize=np.dtype(dtype).itemsize)


def read(array: zarr.Array, rows: slice) -> np.ndarray:
    """Read rows of an array.

    Raises
    ------
    InputError
        If what is stored is damaged, naming the array and what to do.
    """
    try:
        return np.asarray(array[rows])
    except (ValueError, RuntimeError) as error:
        raise InputError(
            f"{array.store_path}: rows {rows.start} to {rows.stop} are damaged ({error}); remove the damaged object "
            "there and give the same command again"
        ) from error


def read_written(array: zarr.Array, rows: slice) -> np.ndarray:
    """Read rows of a sharded array, all of which must have been written.

    Raises
    ------
    InputError
        If a shard is missing or damaged.
    """
    values = read(array, rows)
    if values.size and values.min() <= ABSENT:
        raise InputError(
            f"{array.store_path}: a shard of rows {rows.start} to {rows.stop} is missing; give the same command again"
        )
    return values


def _stamps(folder: Path, members: bool) -> Stamps:
    """What changes when a group or array on a local disk is rewritten: Zarr replaces the files that describe them.

    With `members`, also when one of the arrays in a group is.
    """
    folders = [folder]
    if members and folder.is_dir():
        folders += sorted(Path(entry.path) for entry in os.scandir(folder) if entry.is_dir())
    stamps: Stamps = {}
    for path in folders:
        try:
            status = os.stat(path / "zarr.json")
        except FileNotFoundError:
            continue
        stamps[str(path)] = status.st_mtime_ns, status.st_ino, status.st_size
    return stamps


def _names_it[**P, T](write: Callable[Concatenate[Store, P], T]) -> Callable[Concatenate[Store, P], T]:
    """Have the errors of a method that writes, where there is no room, name the array or group: the first argument."""

    @wraps(write)
    def named(self: Store, *args: P.args, **kwargs: P.kwargs) -> T:
        with writing("/".join([self.path, *map(str, args[:1])])):
            return write(self, *args, **kwargs)

    return named


class Store:
    """A Zarr v3 hierarchy under one path. Small and picklable; every process opens it for itself.

    Parameters
    ----------
    path : str or Path
        Directory of the hierarchy, or its URL (any of fsspec's).
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)

    @property
    def local(self) -> bool:
        """Whether the hierarchy is a directory of this machine."""
        return "://" not in self.path

    @_names_it
    def create(self) -> None:
        """Make the root group, where there is none yet."""
        zarr.open_group(self.path, mode="a")

    @_names_it
    def write_group(self, name: str, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> int:
        """Write a group of arrays whole, replacing one of that name. Returns the bytes of the arrays."""
        self._invalidate(name)
        group = zarr.open_group(self.path, path=name, mode="w")
        for key, array in arrays.items():
            rows = max(1, CHUNK_BYTES // max(1, array.nbytes // max(1, len(array))))
            group.create_array(
                key,
                shape=array.shape,
                dtype=array.dtype,
                chunks=(min(rows, max(1, len(array))), *(max(1, s) for s in array.shape[1:])),
                compressors=compressor(array.dtype),
                config={"write_empty_chunks": True},
            )[...] = array
        group.update_attributes({**attributes, COMPLETE: True})
        return sum(array.nbytes for array in arrays.values())

    def attributes(self, name: str) -> dict[str, Any] | None:
        """Attributes of a complete group, or None where there is none."""
        try:
            attributes = self._kept_open(
                "attributes", name, lambda: dict(zarr.open_group(self.path, path=name, mode="r").attrs)
            )
        except (FileNotFoundError, KeyError):
            return None
        return dict(attributes) if attributes.get(COMPLETE) else None

    def read_group(self, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Read a complete group: attributes and arrays.

        Raises
        ------
        KeyError
            If there is none.
        """
        attributes = self.attributes(name)
        if attributes is None:
            raise KeyError(f"{self.path} holds no complete group {name}")
        group = zarr.open_group(self.path, path=name, mode="r")
        return attributes, {key: np.asarray(array[...]) for key, array in group.arrays()}

    @_names_it
    def delete(self, name: str) -> None:
        """Remove a group and all it holds; nothing happens where there is none."""
        self._invalidate(name)
        root = zarr.open_group(self.path, mode="a")
        if name in root:
            del root[name]

    def _invalidate(self, name: str) -> None:
        """Take the mark of completeness off a group that is about to be removed file by file."""
        if self.attributes(name) is not None:
            zarr.open_group(self.path, path=name, mode="r+").update_attributes({COMPLETE: False})

    def holds(self, output: str) -> bool:
        """Whether an output of a task is there whole: a shard, or a complete group."""
        if "/c/" in output:
            if self.local:
                return (Path(self.path) / output).exists()
            files, root = url_to_fs(self.path)
            return bool(files.exists(f"{root}/{output}"))
        if self.attributes(output) is None:
            return False
        return all(array.nchunks_initialized == array.nchunks for array in self.open_arrays(output).values())

    def open_arrays(self, name: str) -> dict[str, zarr.Array]:
        """Open the arrays of a group for reading parts of them."""
        return dict(
            self._kept_open("arrays", name, lambda: dict(zarr.open_group(self.path, path=name, mode="r").arrays()))
        )

    def _kept_open[T](self, kind: str, name: str, open_it: Callable[[], T]) -> T:
        """What `open_it` gives, from this process's cache as long as the files that describe it are the same.

        Threads may open the same thing twice; what they find in the cache is whole.
        """
        if not self.local:  # to learn whether it has changed would take as long as to open it
            return open_it()
        # Taken before it is opened: what changes in between is opened again next time.
        stamps = _stamps(Path(self.path, name), members=kind == "arrays")
        kept = _opened.get((kind, self.path, name))
        if kept is not None and kept[0] == stamps:
            found: T = kept[1]
            return found
        found = open_it()
        if len(_opened) >= KEPT_OPEN:
            _opened.clear()
        _opened[kind, self.path, name] = stamps, found
        return found

    @_names_it
    def create_sharded(
        self, name: str, shape: tuple[int, ...], dtype: Any, *, shard_rows: int, chunk_rows: int
    ) -> None:
        """Create an array that tasks fill shard by shard; one with the same name and layout is kept as it is."""
        rest = shape[1:]
        try:
            found = zarr.open_array(self.path, path=name, mode="r")
            if (found.shape, found.shards, found.dtype) == (shape, (shard_rows, *rest), np.dtype(dtype)):
                return
        except (FileNotFoundError, KeyError):
            pass
        zarr.create_array(
            self.path,
            name=name,
            shape=shape,
            dtype=dtype,
            shards=(shard_rows, *rest),
            chunks=(chunk_rows, *rest),
            compressors=compressor(np.dtype(dtype)),
            fill_value=ABSENT,
            config={"write_empty_chunks": True},
            overwrite=True,
        )

    @_names_it
    def write_shards(self, name: str, start: int, values: np.ndarray) -> list[str]:
        """Write rows ``start, ...`` of a sharded array: whole shards only, so that no two tasks share an object.

        Returns
        -------
        list of str
            What was written, for :meth:`holds`.

        Raises
        ------
        ValueError
            If the rows do not begin and end where shards do: such a write would lose rows of others.
        """
        # Not a property of the stored array, but of whoever writes it.
        array = self._kept_open(
            "shards",
            name,
            lambda: zarr.open_array(self.path, path=name, mode="r+", config={"write_empty_chunks": True}),
        )
        assert array.shards is not None
        shard, stop, n = array.shards[0], start + len(values), array.shape[0]
        if start % shard or stop > n or (stop % shard and stop != n):
            raise ValueError(f"{name}: rows {start}..{stop} are not whole shards of {shard} of {n} rows")
        array[start:stop] = values
        rest = "/0" * (values.ndim - 1)
        return [f"{name}/c/{k}{rest}" for k in range(start // shard, -(-stop // shard))]

    @_names_it
    def set_attributes(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Set attributes of a group, making it where it is not there yet, and mark it complete."""
        zarr.open_group(self.path, path=name, mode="a").update_attributes({**attributes, COMPLETE: True})
