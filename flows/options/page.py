"""``python -m flows.options.page``: write the tables of ``docs/options.md`` as the options are declared.

What stands before the first table and after the last one is left as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from flows.options.batch import BatchOptions
from flows.options.command_line import Options
from flows.options.common import RUN
from flows.options.online import OnlineOptions
from flows.options.option import Option
from flows.options.reproduce import ReproduceOptions
from flows.options.score import ScoreOptions

COMMANDS: tuple[type[Options], ...] = (BatchOptions, OnlineOptions, ReproduceOptions, ScoreOptions)
PAGE = Path(__file__).parents[2] / "docs" / "options.md"
BEGIN = f"## `python -m {COMMANDS[0].PROGRAM}`\n"
END = "## What goes together\n"
CONFIG = "| **`--config FILE`** |  | TOML file with options; see below |\n"
PRESET = "| `--preset NAME` |  | Method of a paper, one of {names}; flags and `--config` win over its options |\n"


def tables() -> str:
    """All options of all commands in Markdown."""
    return "".join(map(_of_command, COMMANDS))


def page(text: str) -> str:
    """The text of the page with its tables made anew."""
    before, rest = text.split(BEGIN, 1)
    return before + tables() + END + rest.split(END, 1)[1]


def _of_command(command: type[Options]) -> str:
    found = f"## `python -m {command.PROGRAM}`\n\n"
    for group in command.GROUPS:
        listed = [option for option in command.specs().values() if option.name not in command.REFUSED]
        rows = [_row(option) for option in listed if option.group == group]
        if group == RUN:
            names = ", ".join(f"`{name}`" for name in command.PRESETS)
            rows += [CONFIG, *([PRESET.format(names=names)] if names else [])]
        if rows:
            found += f"### {group}\n\n| option | default | meaning |\n|---|---|---|\n{''.join(rows)}\n"
    return found


def _row(option: Option) -> str:
    words = f"`{' '.join([option.flag, *filter(None, [_cell(option.kind.metavar or '')])])}`"
    words = f"**{words}**" if option.common else words
    shown = ",".join(option.default) if isinstance(option.default, tuple) else option.default
    default = "" if shown in (None, "") else "off" if shown is False else f"`{shown}`"
    default = "required" if option.required else default
    meaning = _cell(option.help)
    return f"| {words} | {default} | {meaning[:1].upper()}{meaning[1:]} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the page. Options of methods of other packages that are installed here are not among them."""
    if os.environ.get("IKMAP_PACKAGES") != "off":
        command = [sys.executable, "-m", "flows.options.page"]
        return subprocess.run(command, env={**os.environ, "IKMAP_PACKAGES": "off"}).returncode
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
