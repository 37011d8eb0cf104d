"""Write files so that they survive a power cut, and read them so that damage is noticed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

import numpy as np

from ikmap.json_values import Json, JsonObject
from pipeline.errors import Damaged, InputError, writing
from pipeline.record_types import Record
from pipeline.storage.lru_cache import PROCESS, LRUCache

DIGEST = "digest"
"""Key of a JSON object with the digest of all other entries."""
AT_ONCE = 8
"""Number of files that are flushed side by side: the file system then commits its journal once for several of them."""
UNFINISHED = ".partial"
"""End of the name of a file that is being written, as of Zarr's own."""
SETTLED_NS = 100_000_000
"""Nanoseconds without a change after which the next change has another time of change: clocks tick in between."""
KEPT_IN_MIND = 10_000
"""Number of files and directories that a process remembers to be on the disk as they are."""
_SHA256_BYTES = 32
_RUN = "of run"
"""Name of the array with the id of the run that a file of arrays belongs to."""
type Stamp = tuple[int, int, int]
_BLOCK = 1 << 20

_promise: ContextVar[set[str] | None] = ContextVar("promise", default=None)
_on_disk: LRUCache[str, Stamp] = PROCESS.keeps(KEPT_IN_MIND)
"""Stamps of files and directories when they were flushed, by path."""


# --- flushing


@contextmanager
def promised() -> Iterator[None]:
    """Flush all files written inside the ``with`` block when it ends, in one go; then a record may promise them."""
    if _promise.get() is not None:  # the block around this one flushes
        yield
        return
    paths: set[str] = set()
    token = _promise.set(paths)
    try:
        yield
    finally:
        _promise.reset(token)
    flush(paths)


def written(*paths: str | Path) -> None:
    """Note files and directories that were written: the :func:`promised` around flushes them, else this call does."""
    pending = _promise.get()
    if pending is None:
        flush({str(path) for path in paths})
    else:
        pending.update(map(str, paths))


@contextmanager
def flushed_at_once() -> Iterator[None]:
    """Flush files inside the ``with`` block as they are written, whatever is promised around it.

    A thread in a copy of another's context would else add to what the other one takes over at any moment.
    """
    token = _promise.set(None)
    try:
        yield
    finally:
        _promise.reset(token)


def taken() -> set[str]:
    """Take over the paths that the :func:`promised` around the caller would flush; the caller flushes them."""
    pending = _promise.get() or set()
    paths = set(pending)
    pending.clear()
    return paths


def flush(paths: set[str]) -> None:
    """Flush files and directories to the disk; those that no longer exist are passed over.

    A file or directory that this process has flushed before is not flushed again unless it has changed: most of the
    directories above a file have not.

    Raises
    ------
    OSError
        The disk is full or broken; the error has the path.
    """
    at_once = min(AT_ONCE, len(paths))
    if at_once > 1:
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(_flush, sorted(paths)))
    else:
        for path in sorted(paths):
            _flush(path)


def _flush(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    except PermissionError:
        if os.path.isdir(path):  # a directory of another user, above ours
            return
        raise
    try:
        stamp = _stamp(handle)
        if stamp is not None and _on_disk.get(path) == stamp:
            return
        os.fsync(handle)
        if stamp is not None:
            _on_disk.put(path, stamp)
    except OSError as error:
        if error.errno == errno.EINVAL and os.path.isdir(path):  # a file system that cannot flush directories
            return
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(handle)


def _stamp(handle: int) -> Stamp | None:
    """Return a mark that changes whenever a file or directory changes; None if no such mark is reliable."""
    status = os.fstat(handle)
    changed = status.st_ctime_ns
    # Some file systems count whole seconds only.
    if changed % 1_000_000_000 == 0 or abs(time.time_ns() - changed) < SETTLED_NS:
        return None
    return status.st_dev, status.st_ino, changed


@contextmanager
def replacing(
    path: str | Path, *, content: bool = True, entry: bool = True, before: Iterable[str] = ()
) -> Iterator[IO[bytes]]:
    """Open a file to write to, which takes the place of `path` in one step, or not at all.

    Parameters
    ----------
    content : bool
        Whether the content is flushed before the file gets its name: after a power cut it is the old or the new file.
    entry : bool
        Whether the name is flushed too: it is the new file.
    before : iterable of str
        Paths that are flushed before the file gets its name, in one go with it.

    Raises
    ------
    InputError
        A directory has the name of the file.
    """
    parent, entry_name = os.path.split(os.fspath(path).rstrip("/"))
    parent = folder = parent or os.curdir
    folders = {folder}
    while not os.path.exists(folder):
        folder = os.path.dirname(folder) or os.curdir
        folders.add(folder)
    os.makedirs(parent, exist_ok=True)
    name = os.path.join(parent, f".{entry_name}.{secrets.token_hex(8)}{UNFINISHED}")
    # mkstemp would make a file for its owner only, and the umask cannot be read without setting it for all threads.
    handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with writing(path), os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            flush({*before, *([name] if content else [])})
        try:
            os.replace(name, path)
        except IsADirectoryError:
            raise InputError(
                f"{path}: found a directory, expected a file or nothing; remove it, then give the same command again"
            ) from None
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    if entry:
        flush(folders)


def write_text(path: Path, text: str) -> None:
    """Write a file for people to read, which is then either the old file or the whole new one. It has no digest."""
    with replacing(path) as file:
        file.write(text.encode())


# --- JSON


def digest_of(value: Json) -> str:
    """Return the SHA-256 of a JSON value, independent of how it is written down."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(value: Mapping[str, object]) -> JsonObject:
    """Return a JSON object with its digest."""
    plain: JsonObject = json.loads(json.dumps({key: kept for key, kept in value.items() if key != DIGEST}))
    return {**plain, DIGEST: digest_of(plain)}


def unsealed(path: str | Path, value: object) -> Record:
    """Return a JSON object without its digest, which must be right.

    Raises
    ------
    Damaged
    """
    if not isinstance(value, dict):
        raise Damaged(str(path), f"found a JSON {type(value).__name__}, expected an object")
    plain = dict(value)
    if plain.pop(DIGEST, None) != digest_of(plain):
        raise Damaged(str(path), "its digest is wrong")
    return plain


def json_text(value: Mapping[str, object]) -> bytes:
    """Return a JSON object with its digest as text, a line for each entry of it and of the objects and lists in it."""
    # Python needs four times as long to indent an object, and a run writes its manifest at the end of each stage.
    lines = [f" {json.dumps(key)}: {_lines(kept)}" for key, kept in sealed(value).items()]
    return "\n".join(["{", ",\n".join(lines), "}"]).encode()


def _lines(value: Json) -> str:
    """Return a value as text, with a line for each entry of an object, or of a list of objects."""
    if isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(kept)}" for key, kept in value.items()) + "}"
    if isinstance(value, list) and any(isinstance(kept, dict) for kept in value):
        return "[\n" + ",\n".join(f"  {json.dumps(kept)}" for kept in value) + "]"
    return json.dumps(value)


def write_json(
    path: Path, value: Mapping[str, object], *, content: bool = True, entry: bool = True, before: Iterable[str] = ()
) -> None:
    """Write a JSON object with its digest, so that the file is either the old one or the whole new one.

    Parameters are those of :func:`replacing`.
    """
    with replacing(path, content=content, entry=entry, before=before) as file:
        file.write(json_text(value))


def read_json(path: Path) -> Record:
    """Read a file that :func:`write_json` wrote.

    Raises
    ------
    Damaged
        The file is not as it was written.
    FileNotFoundError
        There is no such file.
    """
    with reading(path):
        return unsealed(path, parsed(path, path.read_bytes()))


def parsed(path: str | Path, text: bytes) -> object:
    """Return the value of JSON text.

    Raises
    ------
    Damaged
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Damaged(str(path), "is empty" if not text else "it is not JSON") from None


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Raise :class:`~pipeline.errors.Damaged` for any error of reading a stored object.

    All objects of a run directory are read inside such a ``with`` block: where the bytes are not those that were
    written, decoders raise errors of any type.

    Parameters
    ----------
    path : str or Path
        Path of the object, for the error message.

    Raises
    ------
    Damaged
        The object is not as it was written, or the disk cannot read it. It has no cause, so that nothing else is shown.
    FileNotFoundError, InputError, MemoryError, OSError
        As they are: there is no such object, it has been named already, or the machine is at fault.
    """
    try:
        yield
    except (FileNotFoundError, InputError, MemoryError):
        raise
    except OSError as error:
        if error.errno not in _UNREADABLE:
            raise
        raise Damaged(str(path), f"cannot be read: {error.strerror or error}") from None
    except Exception as error:
        raise Damaged(str(path), _why(error)) from None


_UNREADABLE = (None, errno.EIO, errno.EISDIR, errno.ENOTDIR, errno.EINVAL)


def _why(error: Exception) -> str:
    """Return in a few words why an object cannot be read."""
    text = " ".join(str(error).split())
    if "checksum" in text:
        return "its checksum is wrong"
    if "too short" in text:  # for the index of a shard
        return "it is cut short"
    if type(error).__name__ == "ChunkNotFoundError" or text == "found none":  # Zarr is not imported here
        return "some of it is missing"
    kind = "" if isinstance(error, ValueError) and text else type(error).__name__
    return ": ".join(word for word in (kind, text[:100]) if word)


# --- arrays that a task goes on from


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray], run: str = "") -> None:
    """Write arrays by name into one file, which is either the old or the whole new one: npz followed by its SHA-256.

    Parameters
    ----------
    run : str
        Id of the run that goes on from the arrays; empty: any may.
    """
    of_run = {_RUN: np.array(run)} if run else {}
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **arrays, **of_run)
        size = file.seek(0, os.SEEK_END)
        digest = _sum(file, size)
        file.seek(size)
        file.write(digest)


def read_arrays(path: str | Path, run: str = "") -> dict[str, np.ndarray]:
    """Read a file that :func:`write_arrays` wrote.

    Parameters
    ----------
    run : str
        Id of the run that goes on from the arrays; empty: files of all runs are read. Earlier versions wrote none.

    Raises
    ------
    Damaged
        The file is not as it was written, or belongs to another run.
    FileNotFoundError
        There is no such file.
    """

    with reading(path), open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END) - _SHA256_BYTES
        if size < 0 or _sum(file, size) != file.read(_SHA256_BYTES):
            raise Damaged(str(path), "its SHA-256 is wrong")
        file.seek(0)
        with np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
        of_run = str(arrays.pop(_RUN, run))
        if run and of_run != run:
            raise Damaged(str(path), f"it is of another run, {of_run}")
        return arrays


def _sum(file: IO[bytes], size: int) -> bytes:
    """Return the SHA-256 of the first bytes of a file, and leave its position after them."""
    digest = hashlib.sha256()
    file.seek(0)
    while size and (block := file.read(min(size, _BLOCK))):
        digest.update(block)
        size -= len(block)
    return digest.digest()
