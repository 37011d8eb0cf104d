"""The pages of documentation: what they name is there, and the table of pages lists every one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("ikmap", "pipeline", "flows", "cluster", "tests", "benchmarks", "docs", "examples")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
NAMED = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`")
BARE = re.compile(r"`(?!__init__\.py)(\w+\.(?:py|cu))`")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as browsers of Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing_links(page: Path, text: str) -> list[str]:
    found = []
    for name, anchor in LINK.findall(text):
        if ":" in name:
            continue  # an address
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(f"{name}#{anchor}" if anchor else name)
    return found


def missing_files(text: str) -> list[str]:
    """Files and folders that are named with their path and are not there; modules that are named without one."""
    return [name for name in NAMED.findall(text) if not (ROOT / name).exists()] + BARE.findall(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert missing_links(page, text) == []
    assert missing_files(text) == []


def test_checker_sees_what_is_missing() -> None:
    page = ROOT / "docs" / "index.md"
    assert missing_links(page, "[a](no.md) [b](files.md#no) [c](files.md)") == ["no.md", "files.md#no"]
    assert missing_files("`pipeline/store.py`, `engine.py`, `pipeline/storage/store.py`") == [
        "pipeline/store.py",
        "engine.py",
    ]


def test_table_of_pages_lists_every_page() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {(ROOT / "docs" / name).resolve() for name, _ in LINK.findall(text)}
    assert {path.resolve() for path in PAGES} - listed == {ROOT / "docs" / "index.md"}


def test_table_of_data_sets_lists_every_one() -> None:
    known = tomllib.loads((ROOT / "pipeline" / "datasets" / "datasets.toml").read_text(encoding="utf-8"))["dataset"]
    table = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(known)
