"""Measured figures of the pages: each comes from a file of ``docs/measured`` that a command writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.records import BLOCK, load

NOTED = re.compile(
    r"^\s*<!-- (?:measured: (?P<records>[\w, -]+?))?(?:; )?(?:set: (?P<settings>[^>]+?))? -->\n", re.MULTILINE
)
CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|https?://\S+", re.DOTALL)
UNITS = r"\s?(?:s|ms|us|ns|seconds|minutes|hours|MiB|GiB|MB|GB|KiB|%|per\scent)(?!\w)"
TIMES = r"\stimes\s(?:as|faster|slower|more|less|longer|larger|smaller)|x\b"
RATES = r"(?:\s(?:million|thousand))?\s(?:rows|rounds|cells)(?:/s|\sa\ssecond)"
FIGURE = re.compile(
    rf"(?<![\w.^/,-])(?:\d*\.\d{{2,}}(?![\w.]*\d)|\d[\d,]*(?:\.\d+)?(?={UNITS}|{TIMES}|{RATES}))", re.IGNORECASE
)
"""What looks measured: two decimals or more, or a unit of time, memory, share or speed."""


@dataclass(frozen=True)
class Paragraph:
    """Text up to an empty line, with the records and settings that the comment above it names."""

    text: str
    records: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


def paragraphs(page: str) -> Iterator[Paragraph]:
    """Yield the paragraphs, lists and tables of a page, without code and what is made of records."""
    for part in re.split(r"\n\s*\n", BLOCK.sub("", page)):
        noted = NOTED.search(part + "\n")
        text = NOTED.sub("", part + "\n")
        if all(line.startswith("    ") for line in text.splitlines()):
            continue  # a command or its output: tests/project/test_commands.py
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
        values = [value for name in paragraph.records for value in load(name).numbers()]
        found += [
            f"{figure}: {' '.join(paragraph.text.split())[:60]}"
            for figure in FIGURE.findall(paragraph.text)
            if figure not in paragraph.settings and not any(same(figure, value) for value in values)
        ]
    return found
