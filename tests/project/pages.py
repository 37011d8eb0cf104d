"""The pages of documentation, and what of them is code: shared by the tests that hold pages to the repository."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from benchmarks.records import BLOCK
from tests import ROOT

PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "ikmap_papers").glob("*/README.md")),
]  # fmt: skip
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    """Return the text of a page without the tables that are made of records."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def spans(text: str) -> list[str]:
    """Return what stands between backticks in a text, each in one line."""
    prose = FENCED.sub("", text)
    prose = "\n".join("" if line.startswith("    ") else line for line in prose.splitlines())
    return [" ".join(span.split()) for span in SPAN.findall(prose.replace("\\|", "|"))]


def blocks(text: str) -> list[str]:
    """Return the blocks of code of a text, fenced or indented, without their indentation."""
    found = [body for _, body in FENCED.findall(text)]
    for part in re.split(r"\n\s*\n", FENCED.sub("\n\n", text)):
        lines = part.splitlines()
        if lines and all(line.startswith("    ") for line in lines if line.strip()):
            found.append("\n".join(line[4:] for line in lines) + "\n")
    return found


@cache
def tracked() -> frozenset[str]:
    """Names of the files of the repository, as far as git ignores none of them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    return frozenset(name for name in listed.decode().split("\0") if name and (ROOT / name).exists())
