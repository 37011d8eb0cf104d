"""The pages of documentation: what they name is there, and the table of pages lists every one."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

from ikmap.methods.registry import has_papers
from tests import ROOT
from tests.project.pages import PAGES, blocks, spans, text_of, tracked

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
ENDINGS = "py|cu|h|toml|md|yaml|yml|json|svg|sbatch|sh|html|css|js|j2|txt|cfg|cff"
"""Of files that a repository has; those of other kinds, such as train.csv, are a user's."""
WORD = re.compile(rf"(?<![\w./:~$*{{=>-])(?:[\w.-]+/)*(?:[\w.-]+/|[\w-]+\.(?:{ENDINGS}))(?![\w*(./{{-])")
DOTTED = re.compile(r"(?<![\w./-])(?:ikmap|pipeline|flows|cluster|benchmarks|examples)(?:\.(?!py\b)\w+)+(?![\w/-])")
OF_A_RUN = {
    "manifest.json", "metrics.json", "report.html", "dask-report.html", "run.toml", "results.json", "columns-plan.toml",
    "store.zarr/", "records/", "predictions/",
}  # fmt: skip
"""Files and folders that a run leaves."""
OF_A_USER = {
    "my.toml", "plan.toml", "scheduler.json", "__init__.py", "cluster.yaml", "README.md", "runs/", "tls/", "sales/",
    "slurm-logs/", "targets.json", "web/",
}  # fmt: skip
"""Names in examples, and names that stand for many files."""
ENTRY_POINTS = {"ikmap.papers", "ikmap.formats"}
"""Groups of entry points."""


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
        if not has_papers() and "ikmap_papers" in target.parts:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(f"{name}#{anchor}" if anchor else name)
    return found


def missing_files(text: str) -> list[str]:
    """Files, folders and modules that a page names and that are not there; modules that prose names without a path.

    A path may be a part of one, such as ``running/stage.py``. Where a line of code has a folder in a column of its own,
    what it names has to lie in a folder of that name.
    """
    missing = []
    for span in spans(text):
        bare = [word for word in WORD.findall(span) if word.endswith((".py", ".cu")) and "/" not in word]
        missing += [word for word in WORD.findall(span) if not leads_somewhere(word) or word in set(bare) - OF_A_USER]
    lines = [line.partition("  #")[0].strip() for block in blocks(text) for line in block.splitlines()]
    for line in lines:
        folders = re.findall(r"(?:[a-z_]+/)+(?=  )", line)
        missing += [word for word in WORD.findall(line) if not leads_somewhere(word, folders[-1] if folders else "")]
    names = [name for code in [*spans(text), *lines] for name in DOTTED.findall(code)]
    return missing + [name for name in names if name not in ENTRY_POINTS and not resolves(name)]


def leads_somewhere(path: str, folder: str = "") -> bool:
    """Whether a path leads to a file or folder of the repository below a folder of that name, or to one of a user."""
    if {path, path.partition("/")[0] + "/", path.rpartition("/")[2]} & (OF_A_RUN | OF_A_USER) or re.search(
        r"[A-Z]{3}", path
    ):
        return True
    if path.removeprefix("tests/").startswith("ikmap_papers/") and not has_papers():
        return True
    end = f"/{path}" if path.endswith("/") else f"/{path}$"
    return any(end in f"/{name}$" and f"/{folder}" in f"/{name}" for name in tracked())


def resolves(name: str) -> bool:
    """Whether a dotted name is a module of ours, or what one has."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = text_of(page)
    assert missing_links(page, text) == []
    assert missing_files(text) == []


def test_checker_sees_what_is_missing() -> None:
    page = ROOT / "docs" / "index.md"
    assert missing_links(page, "[a](no.md) [b](files.md#no) [c](files.md)") == ["no.md", "files.md#no"]
    assert missing_files("`pipeline/store.py`, `turbine.py`, `pipeline/storage/store.py`") == [
        "pipeline/store.py",
        "turbine.py",
    ]
    assert missing_files("`tests/naive/`, `tests/navy/`, `ikmap.cells.Cells`, `ikmap.cell`") == [
        "tests/navy/",
        "ikmap.cell",
    ]
    assert missing_files("    tasks   running/    stage.py  batch.py\n") == ["batch.py"]
    assert missing_files("    python cluster/none.py --input train.csv  # or other.py\n") == ["cluster/none.py"]


def test_table_of_pages_lists_every_page() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {(ROOT / "docs" / name).resolve() for name, _ in LINK.findall(text)}
    assert {path.resolve() for path in PAGES} - listed == {ROOT / "docs" / "index.md"}


def test_table_of_data_sets_lists_every_one() -> None:
    known = tomllib.loads((ROOT / "pipeline" / "sources" / "datasets" / "datasets.toml").read_text(encoding="utf-8"))[
        "dataset"
    ]
    table = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(known)
