"""The Zarr store of a run: groups of plain arrays, and sharded arrays of which each task writes whole shards.

Chunks carry a CRC-32C. Metadata carries digests: a group has the digest of its attributes and, in them, those of the
metadata of its arrays. All of them are verified on reading.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, cast

import numpy as np
import zarr
from fsspec.core import url_to_fs
from numpy.typing import DTypeLike
from zarr.core.array_spec import ArrayConfigParams
from zarr.storage import FsspecStore, LocalStore, StorePath

from ikmap.arrays import Array
from ikmap.json_values import JsonObject
from pipeline.errors import Damaged, writing
from pipeline.record_types import Record
from pipeline.storage import durable
from pipeline.storage.arrays import ZarrArray, document_of_array, read, shards_of
from pipeline.storage.lru_cache import PROCESS, LRUCache

COMPLETE = "complete"
"""Attribute that is written last: a group without it was left half-written and counts as missing."""

MEMBERS = "members"
"""Attribute with the digest of each array's metadata."""

CHUNK_BYTES = 4 << 20

KEPT_OPEN = 256
"""Number of groups and arrays that a process keeps open: opening one takes as long as the work of a small task."""

DOCUMENT = "zarr.json"
"""File that describes a group or an array."""

AS_WRITTEN: ArrayConfigParams = {"write_empty_chunks": True, "read_missing_chunks": False}
"""Configuration with which arrays are opened: every chunk is written, and a missing one is an error, never a value."""

type Stamps = dict[str, tuple[int, int, int]]

_opened: LRUCache[tuple[str, str, str], tuple[Stamps, object]] = PROCESS.keeps(KEPT_OPEN)
"""Opened groups and arrays by kind, path and name, and the stamps of the files that describe them."""


def _stamps(folder: str, members: bool) -> Stamps:
    """Return marks that change when a group or array on a local disk is rewritten: Zarr replaces its metadata files.

    With `members`, also when one of the arrays in a group is.
    """
    folders = [folder]
    if members and os.path.isdir(folder):
        folders += sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    stamps: Stamps = {}
    for path in folders:
        try:
            status = os.stat(f"{path}/{DOCUMENT}")
        except FileNotFoundError:
            continue
        stamps[path] = status.st_mtime_ns, status.st_ino, status.st_size
    return stamps


def _names_it[**P, T](write: Callable[Concatenate[Store, P], T]) -> Callable[Concatenate[Store, P], T]:
    """Wrap a method that writes, so that an error for a full disk names the array or group (its first argument)."""

    @wraps(write)
    def named(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
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
        """True if the hierarchy is a directory of this machine."""
        return "://" not in self.path

    @_names_it
    def create(self) -> None:
        """Make the root group, if there is none yet."""
        self._make_group("")
        if self.local:
            durable.written(self.path, Path(self.path).parent)

    @_names_it
    def write_group(self, name: str, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, object]) -> int:
        """Write a whole group of arrays, in place of one of that name; return the bytes of the arrays."""
        self.delete(name)
        members: dict[str, str] = {}
        self._make_groups_above(name)
        for key, array in arrays.items():
            rows = max(1, CHUNK_BYTES // max(1, array.nbytes // max(1, len(array))))
            chunks = (min(rows, max(1, len(array))), *(max(1, s) for s in array.shape[1:]))
            document = document_of_array(array.dtype, array.shape, chunks)
            self._write_document(f"{name}/{key}", document)
            self._open_array(f"{name}/{key}", document, read_only=False)[...] = array
            members[key] = durable.digest_of(document)
        self._describe(name, {**attributes, MEMBERS: members, COMPLETE: True})
        self._written(name, whole=True)
        return sum(array.nbytes for array in arrays.values())

    def attributes(self, name: str) -> Record | None:
        """Return the attributes of a complete group, or None if there is none.

        Raises
        ------
        Damaged
        """
        try:
            attributes = self._kept_open("attributes", name, lambda: self._attributes(name))
        except FileNotFoundError:
            return None
        return dict(attributes) if attributes.get(COMPLETE) else None

    def _attributes(self, name: str) -> Record:
        attributes = self._document(name).get("attributes")
        # Groups that Zarr makes on its way have none.
        return {} if attributes == {} else durable.unsealed(self._at(name), attributes)

    def need(self, name: str) -> Record:
        """Return the attributes of a group that was written.

        Raises
        ------
        Damaged
            Also if there is no such group.
        """
        attributes = self.attributes(name)
        if attributes is None:
            raise Damaged(self._at(name), "found no complete group")
        return attributes

    def read_group(self, name: str) -> tuple[Record, dict[str, Array]]:
        """Read a group that was written: attributes and arrays.

        Raises
        ------
        Damaged
            Also if there is no such group.
        """
        arrays = {key: read(array, slice(0, array.shape[0])) for key, array in self.open_arrays(name).items()}
        return self.need(name), arrays

    @_names_it
    def delete(self, name: str) -> None:
        """Remove a group and all that is in it, if there is one."""
        # The document that marks it as complete goes first, the other files in any order.
        if self.local:
            folder = Path(self.path, name)
            (folder / DOCUMENT).unlink(missing_ok=True)
            if folder.exists():
                shutil.rmtree(folder)
            return
        files, root = url_to_fs(f"{self.path}/{name}")
        for path in (f"{root}/{DOCUMENT}", root):
            with suppress(FileNotFoundError):
                files.rm(path, recursive=True)

    def _at(self, name: str) -> str:
        """Return the path of a group or array, for people."""
        return f"{self.path}/{name}" if name else self.path

    def _document(self, name: str) -> Record:
        """Read the document that describes a group or an array.

        Raises
        ------
        FileNotFoundError
            There is no such document.
        Damaged
        """
        with durable.reading(self._at(name)):
            if self.local:
                with open(f"{self._at(name)}/{DOCUMENT}", "rb") as file:
                    text = file.read()
            else:
                files, path = url_to_fs(f"{self._at(name)}/{DOCUMENT}")
                text = files.cat_file(path)
            document = durable.parsed(self._at(name), text)
            if not isinstance(document, dict):
                raise Damaged(self._at(name), f"found a JSON {type(document).__name__}, expected an object")
            return document

    def _make_groups_above(self, name: str) -> None:
        """Make the groups that a group or array is in.

        Zarr would do so too, but it ends in errors of many types where it cannot read the documents that are there.
        """
        *above, _ = name.split("/")
        for k in range(len(above), -1, -1):
            self._make_group("/".join(above[:k]))

    def _make_group(self, name: str) -> None:
        """Make a group without attributes, unless there is a group; one that is damaged becomes one without."""
        try:
            document = self._document(name)
        except (FileNotFoundError, Damaged):
            document = {}
        if (document.get("zarr_format"), document.get("node_type")) != (3, "group"):
            self._describe(name, {})

    def _describe(self, name: str, attributes: Mapping[str, object]) -> None:
        """Write the document of a group in one step."""
        sealed = durable.sealed(attributes) if attributes else {}
        self._write_document(name, {"attributes": sealed, "zarr_format": 3, "node_type": "group"})

    def _write_document(self, name: str, document: JsonObject) -> None:
        """Write the document that describes a group or an array, in one step."""
        text = json.dumps(document, indent=1).encode()
        if self.local:
            with durable.replacing(
                f"{self._at(name)}/{DOCUMENT}", content=False, entry=False
            ) as file:  # by whoever calls
                file.write(text)
        else:
            files, path = url_to_fs(f"{self._at(name)}/{DOCUMENT}")
            files.pipe_file(path, text)

    def _written(self, name: str, *, whole: bool = False) -> None:
        """Have a group or array flushed: its document, or all of it; and the directories above."""
        if not self.local:
            return
        folder = self.path
        paths = {folder, f"{folder}/{DOCUMENT}"}
        for part in filter(None, name.split("/")):
            folder = f"{folder}/{part}"
            paths |= {folder, f"{folder}/{DOCUMENT}"}
        if whole:
            for root, folders, files in os.walk(folder):
                paths |= {f"{root}/{entry}" for entry in (*folders, *files)}
        durable.written(*paths)

    def keep(self, name: str) -> None:
        """Flush a group that an earlier process has written, as that process may have been stopped before it did."""
        self._written(name, whole=True)

    def _written_below(self, name: str, outputs: Iterable[str]) -> None:
        """Have shards of an array flushed, without its document, which is flushed when the array is created."""
        if self.local:
            top = Path(self.path)
            paths = {top / output for output in outputs}
            between = {parent for path in paths for parent in path.parents if parent.is_relative_to(top / name)}
            durable.written(*paths, *between)

    def holds(self, output: str) -> bool:
        """Return whether an output of a task, a shard or a group, is there. Damage inside it shows only on reading."""
        if "/c/" in output:
            if self.local:
                return (Path(self.path) / output).exists()
            files, root = url_to_fs(self.path)
            return bool(files.exists(f"{root}/{output}"))
        try:
            if self.attributes(output) is None:
                return False
            return all(array.nchunks_initialized == array.nchunks for array in self.open_arrays(output).values())
        except Damaged:
            return False

    def is_verified(self, name: str) -> bool:
        """Read all of a group, and return whether it is there and undamaged."""
        try:
            return self.attributes(name) is not None and bool(self.read_group(name))
        except Damaged:
            return False

    def open_arrays(self, name: str) -> dict[str, ZarrArray]:
        """Open the arrays of a group for reading parts of them.

        Raises
        ------
        Damaged
            The group, or what describes one of its arrays.
        """
        return dict(self._kept_open("arrays", name, lambda: self._arrays(name, "r")))

    def _arrays(self, name: str, mode: str) -> dict[str, ZarrArray]:
        arrays = {}
        for key, digest in self.need(name).get(MEMBERS, {}).items():
            within = f"{name}/{key}" if name else key
            try:
                document = self._document(within)
                if durable.digest_of(document) != digest:
                    raise Damaged(self._at(within), "the digest of its metadata is wrong")
                with durable.reading(self._at(within)):
                    arrays[key] = self._open_array(within, document, read_only=mode == "r")
            except FileNotFoundError:
                raise Damaged(self._at(name), f"found no array {key}") from None
            except Damaged as error:
                raise Damaged(self._at(name), f"array {key}: {error.why}") from None
        return arrays

    def _open_array(self, name: str, document: JsonObject, *, read_only: bool) -> ZarrArray:
        """Return the array that a document describes; nothing is read.

        `zarr.open_array` would read the document once more, and takes three times as long.
        """
        make = LocalStore if self.local else FsspecStore.from_url
        place = StorePath(make(self.path, read_only=read_only)) / name
        return zarr.Array(zarr.AsyncArray(cast("Any", document), place, AS_WRITTEN))

    def _kept_open[T](self, kind: str, name: str, open_it: Callable[[], T]) -> T:
        """Return the result of `open_it`, kept by this process as long as the files that describe it are the same.

        Threads may open the same object twice; the object that they find kept is complete.
        """
        if not self.local:  # finding out whether it has changed would take as long as opening it
            return open_it()
        # Stamps are taken before it is opened: if it changes in between, it is opened again next time.
        stamps = _stamps(self._at(name), members=kind != "attributes")
        cached = _opened.get((kind, self.path, name))
        if cached is not None and cached[0] == stamps:
            return cast("T", cached[1])
        opened = open_it()
        _opened.put((kind, self.path, name), (stamps, opened))
        return opened

    @_names_it
    def create_sharded(
        self, name: str, shape: tuple[int, ...], dtype: DTypeLike, *, shard_rows: int, chunk_rows: int
    ) -> None:
        """Create an array that tasks fill shard by shard; one with the same name and layout is kept as it is."""
        rest = shape[1:]
        group, _, key = name.rpartition("/")
        with suppress(Damaged):
            existing = self.open_arrays(group).get(key)
            if existing is not None and (existing.shape, existing.shards, existing.dtype) == (
                shape, (shard_rows, *rest), np.dtype(dtype)
            ):  # fmt: skip
                self._written(name)  # a process that was stopped may have made it and flushed nothing
                return
        self.delete(name)
        self._make_groups_above(name)
        document = document_of_array(np.dtype(dtype), shape, (chunk_rows, *rest), (shard_rows, *rest))
        self._write_document(name, document)
        self.set_attributes(group, {}, {key: durable.digest_of(document)})
        self._written(name)

    @_names_it
    def write_shards(self, name: str, start: int, values: np.ndarray) -> list[str]:
        """Write rows ``start, ...`` of a sharded array: whole shards only, so that no two tasks share an object.

        Returns
        -------
        list of str
            Names of the shards that were written, for :meth:`holds`.

        Raises
        ------
        ValueError
            If the rows do not begin and end where shards do: such a write would lose other rows.
        """
        group, _, key = name.rpartition("/")
        array = self._kept_open("shards", group, lambda: self._arrays(group, "r+"))[key]
        assert array.shards is not None
        shard, stop, n = array.shards[0], start + len(values), array.shape[0]
        if start % shard or stop > n or (stop % shard and stop != n):
            raise ValueError(f"{name}: rows {start}..{stop} are not whole shards of {shard} of {n} rows")
        array[start:stop] = values
        outputs = [f"{name}/{key}" for _, key in shards_of(array, slice(start, stop))]
        self._written_below(name, outputs)
        return outputs

    @_names_it
    def set_attributes(
        self, name: str, attributes: Mapping[str, object], arrays: Mapping[str, str] | None = None
    ) -> None:
        """Set attributes of a group, which is made if it is not there yet, and mark it complete.

        Parameters
        ----------
        arrays : mapping, optional
            Digests of the metadata of arrays that are new in the group.
        """
        try:
            existing = self.attributes(name) or {}
        except Damaged:
            existing = {}
        members = {**existing.get(MEMBERS, {}), **(arrays or {})}
        self._describe(name, {**existing, **attributes, MEMBERS: members, COMPLETE: True})
        self._written(name)
