"""Write files so that they survive a power cut, and read them so that damage is noticed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO

import numpy as np

from ikmap.json_values import Json, JsonObject
from pipeline.errors import Damaged, InputError, writing
from pipeline.record_types import Record
from pipeline.storage.lru_cache import PROCESS, LRUCache

DIGEST = "digest"
"""Key of a JSON object under which the digest of all others stands."""
AT_ONCE = 8
"""Files that are flushed side by side: the file system then commits its journal once for several of them."""
UNFINISHED = ".partial"
"""How the name of a file ends that is being written; Zarr's own end so too."""
SETTLED_NS = 100_000_000
"""What has not changed for so long has a time of change that its next change will not have: clocks tick in between."""
KEPT_IN_MIND = 10_000
"""Files and directories of which a process knows that they are on the disk as they are."""
_SHA256_BYTES = 32
type Stamp = tuple[int, int, int]
_BLOCK = 1 << 20

_promise: ContextVar[set[str] | None] = ContextVar("promise", default=None)
_on_disk: LRUCache[str, Stamp] = PROCESS.keeps(KEPT_IN_MIND)
"""By path: files and directories that were flushed, as they were then."""


# --- flushing


@contextmanager
def promised() -> Iterator[None]:
    """Flush all that is written inside the ``with`` block when it ends, in one go; after that it may be promised."""
    if _promise.get() is not None:  # whoever is around this one promises
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
    """Note files and directories that were written. The :func:`promised` around flushes them, else they are now."""
    pending = _promise.get()
    if pending is None:
        flush({str(path) for path in paths})
    else:
        pending.update(map(str, paths))


def taken() -> set[str]:
    """Take over what the :func:`promised` around the caller would flush; the caller flushes it now."""
    pending = _promise.get() or set()
    paths = set(pending)
    pending.clear()
    return paths


def flush(paths: set[str]) -> None:
    """Return when files and directories are on the disk. Those that are gone by then were nothing to keep.

    What this process has flushed before is not flushed again unless it has changed: of the directories above a file,
    most have not.

    Raises
    ------
    OSError
        With the path: the disk is full or broken.
    """
    if len(paths) == 1:
        _flush(*paths)
    elif paths:
        with ThreadPoolExecutor(min(AT_ONCE, len(paths))) as pool:
            list(pool.map(_flush, sorted(paths)))


def _flush(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    except PermissionError:
        if os.path.isdir(path):  # somebody else's, above ours
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
        if error.errno == errno.EINVAL and os.path.isdir(path):  # a file system that has no such thing
            return
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(handle)


def _stamp(handle: int) -> Stamp | None:
    """A mark that changes whenever a file or directory changes; None where no such mark can be relied on."""
    about = os.fstat(handle)
    changed = about.st_ctime_ns
    # Some file systems count whole seconds only.
    if changed % 1_000_000_000 == 0 or abs(time.time_ns() - changed) < SETTLED_NS:
        return None
    return about.st_dev, about.st_ino, changed


@contextmanager
def replacing(
    path: str | Path, *, content: bool = True, entry: bool = True, before: Iterable[str] = ()
) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` in one step, or not at all.

    Parameters
    ----------
    content : bool
        What is written is flushed before the file gets its name: after a power cut it is the old one or the new one.
    entry : bool
        And then the name too: it is the new one.
    before : iterable of str
        What else is flushed before the file gets its name, in one go with it.

    Raises
    ------
    InputError
        A directory has that name.
    """
    path = Path(path)
    folders = {path.parent}
    for folder in (path.parent, *path.parent.parents):
        if folder.exists():
            break
        folders.add(folder.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
    try:
        os.chmod(name, 0o666 & ~_umask())  # mkstemp makes files for its owner only
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
        Path(name).unlink(missing_ok=True)
        raise
    if entry:
        flush(set(map(str, folders)))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> None:
    """Write a file for people to read: the old one or the whole new one. It has no digest."""
    with replacing(path) as file:
        file.write(text.encode())


# --- JSON


def digest_of(value: Json) -> str:
    """SHA-256 of a JSON value, however it is written down."""
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


def write_json(
    path: Path, value: Mapping[str, object], *, content: bool = True, entry: bool = True, before: Iterable[str] = ()
) -> None:
    """Write a JSON object with its digest, so that the file is either the old one or the whole new one.

    Parameters are those of :func:`replacing`.
    """
    with replacing(path, content=content, entry=entry, before=before) as file:
        file.write(json.dumps(sealed(value), indent=1).encode())


def read_json(path: Path) -> Record:
    """Read what :func:`write_json` wrote.

    Raises
    ------
    Damaged
        It is something else.
    FileNotFoundError
        There is none.
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
    """Raise :class:`~pipeline.errors.Damaged` for whatever goes wrong while a stored object is read.

    Everything that is read from a run directory is read inside such a ``with`` block: where the bytes are not those
    that were written, decoders raise errors of any type.

    Parameters
    ----------
    path : str or Path
        The object, as the user is told of it.

    Raises
    ------
    Damaged
        The object is not what was written, or the disk cannot give it back. It has no cause, so that nothing else is
        shown.
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
    """Say in a few words why something cannot be read."""
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


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name into one file, the old one or the whole new one: npz, and behind it its SHA-256."""
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **arrays)
        size = file.seek(0, os.SEEK_END)
        sum_of_all = _sum(file, size)
        file.seek(size)
        file.write(sum_of_all)


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Read what :func:`write_arrays` wrote.

    Raises
    ------
    Damaged
        It is something else.
    FileNotFoundError
        There is none.
    """

    with reading(path), open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END) - _SHA256_BYTES
        if size < 0 or _sum(file, size) != file.read(_SHA256_BYTES):
            raise Damaged(str(path), "its SHA-256 is wrong")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)


def _sum(file: IO[bytes], size: int) -> bytes:
    """SHA-256 of the first bytes of a file, which is then read up to there."""
    digest = hashlib.sha256()
    file.seek(0)
    while size and (block := file.read(min(size, _BLOCK))):
        digest.update(block)
        size -= len(block)
    return digest.digest()
