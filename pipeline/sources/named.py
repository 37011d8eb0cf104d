"""Files by the name that a user gives: one file, those of a folder (hive partitions too), of a glob, or of a list."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pipeline.errors import InputError
from pipeline.sources.files.compression import without_ending
from pipeline.sources.files.file import client_failures, file_failures
from pipeline.sources.files.hub import refuse_splits
from pipeline.sources.files.lakehouse import LOGS, refuse_inside, refuse_listed
from pipeline.sources.files.remote import filesystem
from pipeline.sources.formats import known_formats, shown_formats
from pipeline.urls import Location

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
    root = folder.removeprefix("file://").rstrip("/") or "/"
    fs, top = filesystem(str(Path(root).expanduser()) if folder.is_local else folder)
    listed = [path[len(top.rstrip("/")) + 1 :] for path in fs.find(top)]
    refuse_listed(root if folder.is_local else folder, listed)
    refuse_splits(root if folder.is_local else folder.rstrip("/"), listed)
    return [
        Named(f"{root if folder.is_local else folder.rstrip('/')}/{name}", _partition(name))
        for name in data_files(listed)
    ]


def _is_table(name: str) -> bool:
    """Return whether a file is one of a table by its name."""
    return any(one.table and one.has_name(without_ending(name)) for one in known_formats().values())


def data_files(names: Iterable[str]) -> list[str]:
    """Return which files of a folder hold data, in order of their names: those of tables, if there are any.

    What has no ending of tables is then no data, such as README.md; beside tables of other formats, JSON describes
    them, such as dataset_info.json. Names that begin with a dot or an underscore, and those of files that are still
    being written, are never data.
    """
    names = sorted(
        name
        for name in names
        if not any(word.startswith((".", "_")) for word in name.split("/")) and not name.endswith(UNFINISHED)
    )
    tables = [name for name in names if _is_table(name)] or names
    return [name for name in tables if not _JSON.search(name)] or tables


def _globbed(pattern: Location) -> list[Named]:
    if pattern.is_local:
        path = _local_path(pattern)
        fs, _ = filesystem("/")
        start = "" if path.is_absolute() else str(Path.cwd()) + "/"
        names = [name.removeprefix(start) if start else name for name in fs.glob(start + str(path))]
        files = [name for name in sorted(names) if Path(name).is_file()]
    else:
        fs, inside = filesystem(pattern)
        files = [str(fs.unstrip_protocol(name)) for name in sorted(fs.glob(inside)) if not fs.isdir(name)]
        top = _fixed(inside)
        refuse_listed(_fixed(pattern), [name[len(top) + 1 :] for log in LOGS for name in fs.glob(f"{top}/{log}")])
    fixed = _fixed(pattern)
    return [Named(name, _partition(name[len(fixed) :])) for name in files]


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
