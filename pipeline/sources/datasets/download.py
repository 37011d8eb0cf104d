"""Download one file: afterwards it is there, whole and verified, or not there at all.

A file behind a web address is read where it is, if the server serves parts of files; else it is downloaded first.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from pipeline.errors import InputError
from pipeline.sources.files.compression import ENDINGS
from pipeline.sources.files.file import find_file
from pipeline.sources.files.remote import check_proxies, headers_for, refuse_without_query
from pipeline.storage.durable import flush
from pipeline.urls import Location

#: Called as ``progress(bytes_so_far, bytes_in_all)``; the second is None where the server does not say.
Progress = Callable[[int, int | None], None]

COPIES = "web"
"""Folder of the data directory with copies of files that cannot be read where they are."""

_BLOCK = 1 << 20


class DownloadError(Exception):
    """The file did not arrive, or not as it should; says why in a few words.

    Attributes
    ----------
    missing : bool
        True where the server answered that there is no such file.
    """

    def __init__(self, reason: str, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


def download(
    url: str,
    target: Path,
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
    timeout: float = 60.0,
) -> None:
    """Download `url` to `target` through a temporary name in the same directory.

    The number of bytes is compared with what the server announced, a compressed file is read to its
    end, and a checksum, where given, must agree; only then does the file get its name. Whatever
    goes wrong or interrupts, `target` is not made.

    Parameters
    ----------
    url : str
        http, https or file address.
    target : Path
        Its suffix tells how the file is compressed (.bz2, .xz, .gz, .zst or not at all).
    sha256 : str, optional
        Hexadecimal digest of the file as downloaded.
    progress : callable, optional
        See `Progress`; called once before the first byte and after every block.
    timeout : float
        Seconds without a byte after which the server is given up.

    Raises
    ------
    DownloadError
        No connection, no such file, cut off, or damaged.
    InputError
        The directory of `target` cannot be written.
    """
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
    digest = hashlib.sha256()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("xb") as sink:
            for block, done, total in _blocks(url, timeout):
                sink.write(block)
                digest.update(block)
                if progress:
                    progress(done, total)
            sink.flush()
            os.fsync(sink.fileno())
        if sha256 is not None and digest.hexdigest() != sha256.lower():
            raise DownloadError(f"its SHA-256 is {digest.hexdigest()}, expected {sha256.lower()}")
        _check_content(partial, target.suffix)
        partial.replace(target)
        flush({str(target.parent)})
    except OSError as error:
        raise InputError(
            f"{target.parent}: cannot write to the data directory ({error.strerror}); "
            "choose another with --data-dir or IKMAP_DATA_DIR"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def readable(
    url: str,
    data_dir: Path,
    *,
    say: Callable[[str], None],
    progress: Callable[[str, int, int | None], None] | None = None,
    timeout: float = 60.0,
) -> Location:
    """Return where a file can be read: where it is, or in a copy.

    Parameters
    ----------
    url : str
        Anything that can be opened; only http and https addresses, or several with commas between, are asked for.
    data_dir : Path
        A server that answers with the whole file when asked for a part has it downloaded to there. The copy is taken
        again next time, as long as the server tells of the same version of the file.
    say : callable
        Told, in one line, that a copy is made, or taken.
    progress : callable, optional
        Called with the name of the file, and as `Progress`.

    Raises
    ------
    InputError
        The server does not answer, has no such file, or stops in the middle; or there is no room.
    """
    place = Location(url)
    if len(several := place.several()) > 1 and any(one.is_web for one in several):
        paths = [readable(one, data_dir, say=say, progress=progress, timeout=timeout) for one in several]
        return Location(",".join(one.whole for one in paths))
    if not place.is_web:
        return place
    refuse_without_query(place)
    if place.place.endswith("/") or re.search(r"[*\[]", place.place):
        raise InputError(
            f"{place}: found a folder or a glob, which no web server lists; name its files, with commas between"
        )
    version = _version_of_whole(place, timeout)
    if version is None:
        return place
    key = hashlib.sha256("\n".join((place.whole, *version)).encode()).hexdigest()[:16]
    name = place.name[:100]
    target = data_dir / COPIES / key / (name if name.strip(".") else "data")
    if any(version[1:]) and target.exists():
        say(f"{place}: reading the copy {target}")
        return Location(str(target))
    say(f"{place}: its server does not serve parts of files; downloading it to {target}")
    try:
        download(place, target, progress=None if progress is None else partial(progress, target.name), timeout=timeout)
    except DownloadError as error:
        raise InputError(f"{place}: download failed: {error}") from error
    return Location(str(target))


def _request(url: str, headers: Mapping[str, str]) -> urllib.request.Request:
    """Return the request that reading a file makes: with what the environment says for it (``FSSPEC_HTTPS``)."""
    check_proxies()
    place = Location(url)
    request = urllib.request.Request(
        place.whole, headers={"User-Agent": "ikmap", "Accept-Encoding": "identity", **headers}
    )
    for key, value in headers_for(place).items():
        request.add_unredirected_header(key, value)
    return request


def _version_of_whole(url: str, timeout: float) -> tuple[str, ...] | None:
    """None of a file of which the server serves parts; else its length, tag and date, as far as the server tells."""
    try:
        with urllib.request.urlopen(_request(url, {"Range": "bytes=0-0"}), timeout=timeout) as response:
            if response.status == 206:
                return None
            return tuple(response.headers.get(key, "") for key in ("Content-Length", "ETag", "Last-Modified"))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # of an empty file there are no parts; whoever opens it says so
            return None
        raise InputError(f"{url}: cannot be read: the server answered {error.code}") from error
    except urllib.error.URLError as error:
        raise InputError(f"{url}: cannot be read: {error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: an address that is none
        raise InputError(f"{url}: cannot be read: {error or type(error).__name__}") from error


def _blocks(url: str, timeout: float) -> Iterator[tuple[bytes, int, int | None]]:
    """Yield an empty block, then those of the body, each with the bytes so far and the bytes announced."""
    done = 0
    try:
        with urllib.request.urlopen(_request(url, {}), timeout=timeout) as response:
            announced = response.headers.get("Content-Length", "")
            total = int(announced) if announced.isdecimal() else None
            yield b"", 0, total
            while block := response.read(_BLOCK):
                done += len(block)
                yield block, done, total
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"the server answered {error.code}", error.code in (404, 410)) from error
    except urllib.error.URLError as error:
        raise DownloadError(str(error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(f"cut off after {done:,} bytes: {error or type(error).__name__}") from error
    if total is not None and done != total:
        raise DownloadError(f"cut off: {done:,} of {total:,} bytes arrived")


def _check_content(path: Path, suffix: str) -> None:
    """Read a compressed file to its end; refuse a web page in place of a plain one."""
    compression = suffix.removeprefix(".") if suffix in ENDINGS else None
    try:
        file = find_file(str(path))
        if compression and file.compression != compression:
            raise DownloadError(f"what came is not a {suffix} file")
        with file.open() as content:
            block = content.read(_BLOCK)
            if block.lstrip()[:1] == b"<":
                raise DownloadError("a web page came instead of the data")
            while block and compression:
                block = content.read(_BLOCK)
    except InputError as error:
        raise DownloadError("what came is empty or damaged") from error
