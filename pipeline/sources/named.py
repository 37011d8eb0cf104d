"""Files by the name that a user gives: one file, those of a folder (hive partitions too), of a glob, or of a list."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pipeline.errors import InputError
from pipeline.sources.files.compression import without_ending
from pipeline.sources.files.file import client_failures, file_failures
from pipeline.sources.files.hub import refuse_splits, without_caches
from pipeline.sources.files.lakehouse import LOGS, refuse_inside, refuse_listed
from pipeline.sources.files.remote import filesystem
from pipeline.sources.formats import known_formats, shown_formats
from pipeline.urls import Location

HIDDEN = (".", "_")
"""First characters of names of files and folders that are never data."""
UNFINISHED = ".tmp"
_JSON = re.compile(r"\.json$", re.IGNORECASE)


@dataclass(frozen=True)
class Named:
    """A file of a data set.

    Attributes
    ----------
    url : str
    partition : tuple of (str, str or None)
        Columns that the names of its folders give, such as ``year=2001``; None where the value is missing.
    """

    url: str
    partition: tuple[tuple[str, str | None], ...] = ()


def named_files(given: str) -> list[Named]:
    """The files that an input names, in order of their names; of a list, as given.

    Raises
    ------
    InputError
        There is none, the folder or glob cannot be listed, or it is a table of Delta, Iceberg or Hudi.
    """
    names = _named(Location(given))
    refuse_inside({_local_path(Location(file.url)).parent for file in names if Location(file.url).is_local})
    return names


def _named(given: Location) -> list[Named]:
    if _exists(given) is None and len(several := given.several()) > 1:
        return [file for part in several for file in _named(part)]
    if _exists(given) == "file":
        return [Named(given)]
    with file_failures(given), client_failures(given):
        if _exists(given) == "directory":
            names = _below(given)
            if not names:
                raise InputError(
                    f"{given}: found no data file in this folder, expected files of {shown_formats(tables=True)}"
                )
            return names
        if re.search(r"[*?\[]", given.place) and not given.is_web:
            names = _globbed(given)
            if not names:
                raise InputError(f"{given}: found no file of such a name")
            return names
    return [Named(given)]  # what is wrong with it is said when it is opened


def _local_path(url: Location) -> Path:
    return Path(url.whole.removeprefix("file://")).expanduser()


def _exists(url: Location) -> str | None:
    """ "file", "directory" or None; of a remote address only what looks like a folder is asked for."""
    if url.is_local:
        path = _local_path(url)
        return "directory" if path.is_dir() else "file" if path.exists() else None
    if os.path.exists(url.whole):
        return "file"
    if url.is_web or re.search(r"[*?\[,]", url.place):
        return None
    with file_failures(url), client_failures(url):
        fs, inside = filesystem(url)
        return "directory" if fs.isdir(inside) else "file" if fs.exists(inside) else None


def _below(folder: Location) -> list[Named]:
    """The files in a folder and its folders."""
    if folder.is_local:
        root = folder.removeprefix("file://").rstrip("/") or "/"
        top = str(_local_path(folder))
        paths = sorted(os.path.join(place, name) for place, names in _folders(top) for name in names)
    else:
        root = folder.rstrip("/")
        fs, top = filesystem(folder)
        paths = fs.find(top)
    listed = [path[len(top.rstrip("/")) + 1 :] for path in paths]
    refuse_listed(root, listed)
    refuse_splits(root, listed)
    return [Named(f"{root}/{name}", _partition(name)) for name in data_files(listed)]


def _folders(top: str) -> Iterator[tuple[str, list[str]]]:
    """Yield a folder of this machine and those below it, each with the names of its files.

    No folder comes twice: links are followed after all that is there without them, and what is never data comes last.
    """
    seen: set[str] = set()
    links, hidden = [top], list[str]()
    while links or hidden:
        for folder, inner, files in os.walk((links or hidden).pop(0)):
            if (real := os.path.realpath(folder)) in seen:
                inner.clear()
                continue
            seen.add(real)
            hidden += [os.path.join(folder, name) for name in sorted(inner) if name.startswith(HIDDEN)]
            inner[:] = sorted(name for name in inner if not name.startswith(HIDDEN))
            links += [path for name in inner if os.path.islink(path := os.path.join(folder, name))]
            yield folder, files


def _is_table(name: str) -> bool:
    """Return whether a file is one of a table by its name."""
    return any(one.table and one.has_name(without_ending(name)) for one in known_formats().values())


def data_files(names: Iterable[str]) -> list[str]:
    """Return which files of a folder hold data, in order of their names: those of tables, if there are any.

    What has no ending of tables is then no data, such as README.md; beside tables of other formats, JSON describes
    them, such as dataset_info.json. Names that begin with a dot or an underscore, and those of files that are still
    being written, are never data, nor are caches beside a saved data set.
    """
    names = sorted(
        name
        for name in without_caches(list(names))
        if not any(word.startswith(HIDDEN) for word in name.split("/")) and not name.endswith(UNFINISHED)
    )
    tables = [name for name in names if _is_table(name)] or names
    return [name for name in tables if not _JSON.search(name)] or tables


def _globbed(pattern: Location) -> list[Named]:
    if pattern.is_local:
        path = str(_local_path(pattern))
        here = "" if os.path.isabs(path) else os.path.join(os.getcwd(), "")
        names = [name.removeprefix(here) for name in _matching(glob.escape(here) + path)]
        files, fixed = _once(filter(os.path.isfile, names)), _fixed(path)
    else:
        fs, inside = filesystem(pattern)
        files = [str(fs.unstrip_protocol(name)) for name in sorted(fs.glob(inside)) if not fs.isdir(name)]
        top = _fixed(inside)
        fixed = _fixed(pattern)
        refuse_listed(fixed, [name[len(top) + 1 :] for log in LOGS for name in fs.glob(f"{top}/{log}")])
    return [Named(name, _partition(name[len(fixed) :])) for name in files]


def _matching(pattern: str) -> list[str]:
    """Return what an absolute pattern names on this machine; ``**`` stands for folders however deep."""
    head, *tail = re.split(r"/\*\*(?:/|$)", pattern, maxsplit=1)
    if not tail:
        return glob.glob(pattern, include_hidden=True)
    return [
        name
        for top in glob.glob(head or "/", include_hidden=True)
        for folder, _ in _folders(top)
        for name in _matching(os.path.join(glob.escape(folder), tail[0] or "*"))
    ]


def _once(paths: Iterable[str]) -> list[str]:
    """Return paths of files in order; of several ways to one folder, that with the fewest hidden folders and links."""
    paths = sorted(set(paths))
    folders = sorted({os.path.dirname(path) for path in paths}, key=_detours, reverse=True)
    kept = {*{os.path.realpath(folder): folder for folder in folders}.values()}
    return [path for path in paths if os.path.dirname(path) in kept]


def _detours(folder: str) -> tuple[int, int, str]:
    """Return how many hidden folders and how many links are on the way to a folder, and the folder."""
    way = (Path(folder), *Path(folder).parents)
    return sum(part.name.startswith(HIDDEN) for part in way), sum(part.is_symlink() for part in way), folder


def _fixed(pattern: str) -> str:
    """Return the folder of a glob below which names differ."""
    return re.split(r"[*?\[]", pattern)[0].rpartition("/")[0]


def _partition(name: str) -> tuple[tuple[str, str | None], ...]:
    """Columns in the names of folders, as Hive writes them."""
    columns = []
    for word in name.split("/")[:-1]:
        key, equals, value = word.partition("=")
        if equals and key:
            columns.append((key, None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)))
    return tuple(columns)
