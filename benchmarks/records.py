"""Measured figures of the documentation: one file for each result, and the tables that pages show of it.

A record is a file ``docs/measured/NAME.json`` that a command writes. It says which command, commit, day and machine its
figures come from. A page shows a part of it between two comments::

    <!-- begin voronoi; columns: work | ours | ratio; rows: psi 256 -->
    <!-- end voronoi -->

``python -m benchmarks.page`` writes the tables of all records into all pages; a test holds pages to it, without
measuring anything. Prose that repeats a figure names its records in a comment before the paragraph, list or table::

    <!-- measured: voronoi, iforest -->
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "measured"
PAGES = (
    ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "ikmap_papers").glob("*/README.md")),
)  # fmt: skip

BLOCK = re.compile(r"<!-- begin (?P<name>[\w-]+)(?P<shown>[^>]*?) -->\n(?P<body>.*?)<!-- end (?P=name) -->", re.DOTALL)
WRITTEN = "written by the command"
MEASURED_ON = "Measured on: "


@dataclass
class Table:
    """A table as it is shown: texts of its head and of its rows."""

    columns: list[str]
    rows: list[list[str]]

    def part(self, columns: list[str], rows: str) -> Table:
        """Return the table with these columns alone, and the rows in which the pattern is found."""
        kept = [row for row in self.rows if re.search(rows, " | ".join(row))]
        if missing := [name for name in columns if name not in self.columns]:
            raise ValueError(f"no column {missing[0]!r} among {', '.join(self.columns)}")
        places = [self.columns.index(name) for name in columns] or list(range(len(self.columns)))
        return Table([self.columns[i] for i in places], [[row[i] for i in places] for row in kept])

    def markdown(self) -> str:
        head, *rows = [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in (self.columns, *self.rows)
        ]
        return "".join([head, "|---" * len(self.columns) + "|\n", *rows])


@dataclass
class Record:
    """The figures that a command has measured.

    Attributes
    ----------
    command : str
        That measures it again.
    date, commit, machine : str
        When, at which commit and on which machine; "" if that was not kept.
    origin : str
        How the figures got into the file: `WRITTEN`, or from where they were copied.
    about : str
        What was measured, in a sentence.
    tables : list of Table
    notes : list of str
        Sentences with further figures.
    """

    command: str
    date: str
    commit: str
    machine: str
    origin: str
    about: str = ""
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def shown(self, asked: str = "") -> str:
        """Return what a page shows: the tables, the notes, and a line that says where they come from.

        Parameters
        ----------
        asked : str
            What the page asks for after the name: ``; columns: a | b; rows: PATTERN``.

        Raises
        ------
        ValueError
            If a table has no such column, or no row is left.
        """
        wanted = dict(part.strip().split(": ", 1) for part in asked.split(";") if part.strip())
        columns = [name.strip() for name in wanted.pop("columns", "").split("|") if name.strip()]
        rows = wanted.pop("rows", "")
        if wanted:
            raise ValueError(f"{', '.join(wanted)}: expected columns or rows")
        # Of several tables, those that have the columns are shown.
        having = [table for table in self.tables if set(columns) <= set(table.columns)] or self.tables
        parts = [part for table in having if (part := table.part(columns, rows)).rows]
        if self.tables and not parts:
            raise ValueError(f"no row has {rows!r}")
        notes = [] if columns or rows else self.notes
        text = [part.markdown() for part in parts] + ["".join(f"- {note}\n" for note in notes)] * bool(notes)
        return "\n".join([*text, self.source() + "\n"])

    def source(self) -> str:
        """Return one line that says where the figures come from."""
        found = [f"`{self.command}`", self.date, f"commit {self.commit}" if self.commit else "", _brief(self.machine)]
        origin = "" if self.origin == WRITTEN else f" ({self.origin})"
        return f"*{', '.join(filter(None, found))}{origin}*"

    def numbers(self) -> list[float]:
        """Return every number of the tables and notes."""
        texts = [cell for table in self.tables for row in table.rows for cell in row] + self.notes
        return [
            float(number.replace(",", ""))
            for text in texts
            for number in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|(?<!\.)\.\d+", text)
        ]


def _brief(machine: str) -> str:
    """Return the processor, cores and memory alone."""
    return ", ".join(part for part in machine.partition(";")[0].split(", ") if not re.match(r"L\d|caches", part))


def of_markdown(text: str, **known: str) -> Record:
    """Return the record of a text with tables, as benchmarks write it.

    Parameters
    ----------
    text : str
        A heading, a paragraph on what was measured, tables, sentences, and a line that begins with `MEASURED_ON`.
    known : str
        Attributes of the record that the text does not have.
    """
    about: list[str] = []
    tables: list[Table] = []
    notes: list[str] = []
    machine = ""
    inside = False
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
            if not inside:
                tables.append(Table(cells, []))
            elif not set("".join(cells)) <= {"-", ":"} or any(cell == "-" for cell in cells):
                tables[-1].rows.append(cells)
        elif line.startswith(MEASURED_ON):
            machine = line.removeprefix(MEASURED_ON)
        elif line.strip() and not line.startswith(("#", "!")):
            (notes if tables else about).append(line.removeprefix("- ").strip())
        inside = line.startswith("|")
    return Record(machine=machine, about=" ".join(about), tables=tables, notes=notes, **known)


def load(name: str, folder: Path = FOLDER) -> Record:
    """Return a record.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    path = folder / f"{name}.json"
    if not path.exists():
        raise ValueError(f"{path.name} is not in {path.parent.name}")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Record(**{**found, "tables": [Table(**table) for table in found["tables"]]})


def save(name: str, record: Record, folder: Path = FOLDER) -> None:
    """Write the record into its file."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(record), indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def commit() -> str:
    """Return the commit of this checkout, with "+" where files differ from it; "" without git."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--exclude", "*", "--dirty=+"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


def rendered(text: str, folder: Path = FOLDER) -> str:
    """Return the text of a page with its tables as the records have them.

    Raises
    ------
    ValueError
        If a table has no record, or asks for what the record does not have.
    """

    def shown(block: re.Match[str]) -> str:
        name, asked = block["name"], block["shown"]
        try:
            body = load(name, folder).shown(asked)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        return f"<!-- begin {name}{asked} -->\n\n{body}\n<!-- end {name} -->"

    return BLOCK.sub(shown, text)


def write_pages() -> list[Path]:
    """Write the tables of all records into the pages that show them; return the pages that changed."""
    changed = []
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = rendered(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            changed.append(page)
    return changed
