"""Tables of Delta, Iceberg and Hudi, which are refused: their folders also hold rows that were removed or replaced.

Which files and rows are the table is written in a log beside the data; read as plain Parquet, it would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import InputError

_DELTA, _HUDI, _ICEBERG = "_delta_log", ".hoodie", ".metadata.json"
_LISTED = re.compile(
    rf"(?P<table>.*?)(?:^|/)(?:(?P<mark>{_DELTA}|{re.escape(_HUDI)})(?:/|$)|metadata/[^/]+{re.escape(_ICEBERG)}$)"
)
LOGS = (f"{_DELTA}/*", f"{_HUDI}/*", f"metadata/*{_ICEBERG}")
"""Globs of the files by which such tables are known, below the table."""
_WRITE = "python -c \"{imports}, pyarrow.parquet as p; p.write_table({rows}, 'copy.parquet')\""


def refuse_listed(folder: str, names: Iterable[str]) -> None:
    """Refuse a folder in which such a table is, by the names of the files below it, relative to the folder.

    Raises
    ------
    InputError
        It says how to write the rows of the table as Parquet.
    """
    for name in names:
        if match := _LISTED.match(name):
            raise _refused("/".join(part for part in (folder.rstrip("/"), match["table"]) if part), match["mark"])


def refuse_inside(folders: Iterable[Path]) -> None:
    """Refuse local folders that are such a table, or stand somewhere in one.

    Raises
    ------
    InputError
        It says how to write the rows of the table as Parquet.
    """
    looked: set[Path] = set()
    for folder in folders:
        for table in (folder, *folder.absolute().parents):
            if table in looked:
                break
            looked.add(table)
            for mark in (_DELTA, _HUDI):
                if (table / mark).is_dir():
                    raise _refused(str(table), mark)
            if any((table / "metadata").glob(f"*{_ICEBERG}")):
                raise _refused(str(table), None)


def _refused(table: str, mark: str | None) -> InputError:
    if mark == _DELTA:
        kind = "a Delta table"
        command = _WRITE.format(imports="import deltalake", rows=f"deltalake.DeltaTable({table!r}).to_pyarrow_table()")
    elif mark == _HUDI:
        kind = "a Hudi table"
        command = f"spark.read.format('hudi').load({table!r}).write.parquet('copy')"
    else:
        kind, newest = "an Iceberg table", f"{table}/metadata/NEWEST{_ICEBERG}"
        rows = f"s.StaticTable.from_metadata({newest!r}).scan().to_arrow()"
        command = _WRITE.format(imports="import pyiceberg.table as s", rows=rows)
    return InputError(
        f"{table}: found {kind}, whose folder also holds rows that were removed, expected plain files; write its "
        f"rows as Parquet, and give that: {command}"
    )
