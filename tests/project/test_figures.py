"""Measured figures of the pages: each comes from a file of ``docs/measured`` that a command writes.

A table that is made of a file is made anew and compared; nothing is measured. In prose and in tables written by hand,
what looks measured (`FIGURE`) has to be in one of the files that a comment above the paragraph names, rounded as it may
be::

    <!-- measured: voronoi, iforest; set: 0.05 -->

``set`` lists figures that were not measured: settings, what papers print, what follows from a formula.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.records import BLOCK, FOLDER, PAGES, WRITTEN, load, rendered
from ikmap.methods.registry import has_papers
from tests.project.pages import FENCED
from tests.project.test_commands import commands, fault

NOTED = re.compile(r"\s*<!-- (?:measured: (?P<records>[\w, -]+?))?(?:; )?(?:set: (?P<settings>[^>]+?))? -->\n")
RESULTS = re.compile(r"(?:\s\d*\.\d{2,}){2}|\d\.\d{2,}(?:\s+\d*\.\d{2,})+")
"""A line of results in code: several figures side by side."""
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|https?://\S+|Python \d\.\d+(?: or \d\.\d+)*")
UNITS = r"\s?(?:s|ms|us|ns|seconds|minutes|hours|MiB|GiB|MB|GB|KiB|%|per\scent)(?!\w)"
TIMES = r"\stimes\s(?:as|faster|slower|more|less|longer|larger|smaller)|x\b"
RATES = r"(?:\s(?:million|thousand))?\s(?:rows|rounds|cells)(?:/s|\sa\ssecond)"
FIGURE = re.compile(
    rf"(?<![\w.^/,-])(?:\d*\.\d{{2,}}(?![\w.]*\d)|\d[\d,]*(?:\.\d+)?(?={UNITS}|{TIMES}|{RATES}))", re.IGNORECASE
)
"""What looks measured: two decimals or more, or a unit of time, memory, share or speed."""
DECIMAL = re.compile(rf"{FIGURE.pattern}|(?<![\w.^/,-])\d*\.\d+(?![\w.]*\d)", re.IGNORECASE)
"""The same where a paragraph names records: every decimal number, too."""

NOT_MEASURED = {
    "algorithms.md": "the specification: formulas, and what papers print or small computations decided",
    "options.md": "written from the declarations of the options: their defaults",
}
"""Pages whose figures are not ours to measure, and why."""


@dataclass(frozen=True)
class Paragraph:
    """Text up to an empty line, with the records and settings that the comment above it names."""

    text: str
    records: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


def paragraphs(page: str) -> Iterator[Paragraph]:
    """Yield the paragraphs, lists and tables of a page, without what is made of records.

    Of code, only lines with several figures are left: results as a command prints them.
    """
    for part in re.split(r"\n\s*\n", FENCED.sub("", BLOCK.sub("", page))):
        noted = NOTED.match(part)
        text = NOTED.sub("", part)
        lines = [line for line in text.splitlines() if line.strip()]
        if all(line.startswith("    ") for line in lines):
            text = "\n".join(line for line in lines if RESULTS.search(line))
        records = (noted["records"] or "").split(",") if noted else []
        settings = (noted["settings"] or "").split() if noted else []
        yield Paragraph(CODE.sub(" ", text), tuple(name.strip() for name in records if name), tuple(settings))


def same(shown: str, value: float) -> bool:
    """Whether a figure as it stands in a text is this number, rounded; shares may be in per cent."""
    shown = shown.replace(",", "")
    half = 0.5 * 10.0 ** -len(shown.partition(".")[2]) * (1 + 1e-9)
    return any(abs(float(shown) - scaled) <= half for scaled in (value, 100 * value))


def unfounded(page: str) -> list[str]:
    """Figures that look measured, and are neither in the records that their paragraph names nor settings."""
    found = []
    for paragraph in paragraphs(page):
        found += [
            f"{name} is not in the paragraph: a setting that nothing needs"
            for name in paragraph.settings
            if name not in paragraph.text
        ]
        values = [value for name in paragraph.records for value in load(name).numbers()]
        found += [
            f"{figure}: {' '.join(paragraph.text.split())[:60]}"
            for figure in (DECIMAL if paragraph.records else FIGURE).findall(paragraph.text)
            if figure not in paragraph.settings and not any(same(figure, value) for value in values)
        ]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_are_those_of_the_records(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert rendered(text) == text, "python -m benchmarks.page writes it"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in NOT_MEASURED], ids=lambda page: page.name)
def test_figures_of_prose_are_in_the_records(page: Path) -> None:
    assert unfounded(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_record_says_where_it_comes_from(path: Path) -> None:
    record = load(path.stem)
    (words,) = commands(f"    {record.command}\n")
    assert fault(words) == ""
    assert record.origin
    if record.origin == WRITTEN:
        assert record.commit
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", record.date)
        assert record.machine
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    shown = any(re.search(rf"<!-- (?:begin|measured:)[^>]*\b{path.stem}\b", text) for text in pages)
    assert shown or (not has_papers() and "flows.reproduce" in record.command), "no page shows it"
    for table in record.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_figures_without_a_record_are_found() -> None:
    (value,) = [row[1] for row in load("voronoi").tables[0].rows if row[0] == "a9a, psi 256"]
    seconds = value.split()[0]
    page = f"""A row takes {seconds} us in it.

<!-- measured: voronoi -->
- A row takes {seconds} us,
- or 3.14159 s.

<!-- set: 64 -->
It keeps 64 MiB, 512 MiB and `0.001`.

| accuracy | .8404 |
|---|---|

    python -m flows.batch --drift-delta 0.002

     svm         0.9944   0.9945     0.999
"""
    assert [figure.partition(":")[0] for figure in unfounded(page)] == [
        seconds, "3.14159", "512", ".8404", "0.9944", "0.9945", "0.999",
    ]  # fmt: skip
    assert unfounded("<!-- set: 0.5 -->\nNothing.\n") == ["0.5 is not in the paragraph: a setting that nothing needs"]
    assert FIGURE.findall("3.4x, 3 times as fast, 12 million rows a second, 7 %") == ["3.4", "3", "12", "7"]
    assert FIGURE.findall("version 0.26.1, psi 256, 5 x 5, Python3.12, a_0.25, 2^-16") == []


def test_rounded_figures_are_the_same() -> None:
    assert same("0.845", 0.8446)
    assert same("84.5", 0.8446)
    assert same("5,480", 5.48e3)
    assert not same("0.8404", 0.8409)
    assert not same("0.85", 0.8446)
