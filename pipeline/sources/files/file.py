"""Files, local or on any fsspec URL: open, decompress and identify them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from ikmap.json_values import JsonObject
from pipeline.errors import InputError, NoRows, in_one_line
from pipeline.sources.files.compression import COMPRESSIONS, compression_of
from pipeline.sources.files.limits import MEBIBYTE
from pipeline.sources.files.recoded import as_utf8
from pipeline.sources.files.remote import filesystem
from pipeline.urls import Location, path_and_part


@dataclass(frozen=True)
class File:
    """A file that exists, and how it is compressed (``bz2``, ``gz``, ``xz``, ``zst`` or None)."""

    url: Location
    path: str  # absolute where local: workers may run in another directory
    local: bool
    size: int
    compression: str | None
    encoding: str | None = None  # of text that is not UTF-8, such as cp1252; it is read as UTF-8
    part: str | None = None  # the table of a file that holds several, as it is named behind a #

    @contextmanager
    def open(self, *, scattered: bool = False) -> Iterator[io.BufferedReader]:
        """The content, decompressed; a failure to read is an `InputError`.

        `scattered` reads of a remote file fetch what is asked for, without reading ahead.
        """
        with file_failures(self.url), _open_raw(self.path, self.local, scattered) as raw:
            if self.compression is None:
                yield raw if self.encoding is None else as_utf8(raw, self.encoding, self.url)
                return
            with COMPRESSIONS[self.compression].unpacked(raw) as stream:
                if self.encoding is not None:
                    yield as_utf8(stream, self.encoding, self.url)
                    return
                yield io.BufferedReader(stream, MEBIBYTE)

    @contextmanager
    def open_compressed(self) -> Iterator[io.BufferedReader]:
        """The content as it is; a failure to read is an `InputError`."""
        with file_failures(self.url), _open_raw(self.path, self.local) as raw:
            yield raw

    def identity(self) -> JsonObject:
        """Size, and SHA-256 (local) or the version tag that the remote file system gives."""
        if not self.local:
            with file_failures(self.url), client_failures(self.url):
                fs, path = filesystem(self.path)
                info = fs.info(path)
                tag = info.get("ETag") or info.get("etag")
                if tag:
                    return {"size": self.size, "etag": str(tag)}
                # A signed URL is another one tomorrow, of the same file.
                signed = self.url.place != self.url.whole
                key = hashlib.sha256(self.url.place.encode()).hexdigest() if signed else str(fs.ukey(path))
                return {"size": self.size, "ukey": key}
        digest = hashlib.sha256()
        with file_failures(self.url), _open_raw(self.path, True) as raw:
            while chunk := raw.read(MEBIBYTE):
                digest.update(chunk)
        return {"size": self.size, "sha256": digest.hexdigest()}


def joint_identity(identities: Sequence[JsonObject], size: int) -> JsonObject:
    """Return the identity of several files of so many bytes together; of a single file it is its own."""
    if len(identities) == 1:
        return identities[0]
    digest = hashlib.sha256(json.dumps(identities, sort_keys=True).encode()).hexdigest()
    return {"size": size, "sha256": digest}


def find_file(url: str) -> File:
    """Look a file up: it must exist, be a file, and not be empty.

    Raises
    ------
    InputError
    """
    url = Location(url)
    local = url.is_local or os.path.exists(url.whole)
    path = str(Path(url.whole.removeprefix("file://")).expanduser().absolute()) if local else url
    path, part = path_and_part(path) if local else (path, None)
    with file_failures(url):
        size = _local_size(url, path) if local else _remote_size(url)
        if size == 0:
            raise NoRows(f"{url}: the file is empty (0 bytes), expected rows of data")
        with _open_raw(path, local) as raw:
            start = raw.read(8)
    ending = "" if part is not None else url.name.rpartition(".")[2].lower()
    by_content = compression_of(start)
    if ending in COMPRESSIONS and by_content != ending:
        raise InputError(
            f"{url}: not a .{ending} file: it starts with {start[:6]!r}, expected {COMPRESSIONS[ending].magic!r}"
        )
    return File(url, path, local, size, by_content, part=part)


def _local_size(url: str, path: str) -> int:
    if not os.path.exists(path):
        raise InputError(f"{url}: no such file")
    if os.path.isdir(path):
        raise InputError(f"{url}: is a directory, expected a file")
    if not os.path.isfile(path):
        raise InputError(
            f"{url}: is no file but a pipe or a device, expected a file; flows.online reads a pipe: --input -"
        )
    return os.stat(path).st_size


def _remote_size(url: str) -> int:
    with client_failures(url):
        fs, path = filesystem(url)
        info = fs.info(path)
    if info.get("type") == "directory":
        raise InputError(f"{url}: is a directory, expected a file")
    if info.get("size") is None:
        raise InputError(f"{url}: its server does not tell the size; download the file and give its path")
    return int(info["size"])


@contextmanager
def _open_raw(path: str, local: bool, scattered: bool = False) -> Iterator[io.BufferedReader]:
    if local:
        with open(path, "rb", buffering=MEBIBYTE) as stream:
            yield cast(io.BufferedReader, stream)
    else:
        options = {"cache_type": "none"} if scattered else {}
        with client_failures(path):
            fs, name = filesystem(path)
            remote = fs.open(name, "rb", **options)
        with io.BufferedReader(_Remote(remote, path), MEBIBYTE) as stream:
            yield cast(io.BufferedReader, stream)


class _Remote(io.RawIOBase):
    """A remote file; whatever its client raises becomes one line."""

    def __init__(self, stream: BinaryIO, url: str) -> None:
        self._stream, self._url = stream, url

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        with client_failures(self._url):
            return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        with client_failures(self._url):
            data = self._stream.read(len(buffer))
            at, size = self._stream.tell(), getattr(self._stream, "size", None)
        if not data and size is not None and at < size:
            raise InputError(f"{self._url}: cut off: {at:,} of {size:,} bytes arrived")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


@contextmanager
def client_failures(url: str) -> Iterator[None]:
    """Turn what the client of a remote file system raises into one line: every client has errors of its own."""
    try:
        yield
    except (InputError, OSError, ImportError):  # turned by `file_failures`
        raise
    except Exception as error:
        if isinstance(error, ValueError) and "range requests" in str(error):
            raise InputError(
                f"{url}: its server does not serve parts of files; download the file and give its path"
            ) from error
        kind = "" if isinstance(error, ValueError) or not str(error) else f"{type(error).__name__}: "
        raise InputError(f"{url}: cannot be read: {kind}{in_one_line(error, most=None)}") from error


@contextmanager
def file_failures(url: str) -> Iterator[None]:
    """Turn what can go wrong while reading into one line."""
    try:
        yield
    except InputError:
        raise
    except EOFError as error:
        raise InputError(
            f"{url}: truncated: the compressed data stop before their end marker; copy or download it again"
        ) from error
    except (zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"{url}: damaged: {in_one_line(error, most=None)}; copy or download it again") from error
    except FileNotFoundError as error:
        raise InputError(f"{url}: no such file") from error
    except PermissionError as error:
        raise InputError(f"{url}: cannot be read: permission denied") from error
    except ImportError as error:
        raise InputError(f"{url}: cannot be read: {in_one_line(error, most=None)}") from error
    except OSError as error:
        if str(error) == "Invalid data stream":  # what the bz2 module says
            raise InputError(f"{url}: damaged: invalid bz2 data; copy or download it again") from error
        raise InputError(f"{url}: cannot be read: {in_one_line(error, most=None)}") from error
