"""The file of a column plan: TOML, a table for each column that is not to be as it is inferred."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

from ikmap.tables import ColumnPlan
from pipeline.errors import InputError
from pipeline.monitoring.plain_text import not_utf8

KEYS = ("kind", "encoding", "why")
NAME = "columns-plan.toml"


def read_plan(path: str) -> dict[str, ColumnPlan]:
    """The columns that a file names.

    Raises
    ------
    InputError
        The file cannot be read, or says what no column can be.
    """
    try:
        tables = tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--columns-plan {path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--columns-plan {path}: {not_utf8('TOML')}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"--columns-plan {path}: not a TOML file: {error}") from error
    plan = {}
    for name, table in tables.items():
        if not isinstance(table, dict) or "kind" not in table:
            raise InputError(f'--columns-plan {path}: {name}: found {table!r}, expected a table with kind = "category"')
        for key, value in table.items():
            if key not in KEYS:
                near = difflib.get_close_matches(key, KEYS, n=1)
                raise InputError(
                    f"--columns-plan {path}: {name}: unknown key {key!r}, expected "
                    f"{near[0] if near else ', '.join(KEYS)}"
                )
            if not isinstance(value, str):
                raise InputError(f"--columns-plan {path}: {name}: {key} = {value!r}, expected a string")
        try:
            plan[name] = ColumnPlan(name, table["kind"], table.get("encoding", "auto"), "--columns-plan")
        except ValueError as error:
            raise InputError(f"--columns-plan {path}: {error}") from None
    return plan


def plan_text(columns: Sequence[ColumnPlan]) -> str:
    """A file that :func:`read_plan` reads: what a run has made of its columns."""
    lines = ["# How this run reads its columns; change it and give it to another: --columns-plan FILE"]
    for column in columns:
        lines += [
            "",
            f"[{json.dumps(column.name)}]",
            f'kind = "{column.kind}"',
            f'encoding = "{column.encoding}"',
            f"why = {json.dumps(column.why)}",
        ]
    return "\n".join(lines) + "\n"
