"""The papers use the product as strangers do: by public names, and without the pipeline where methods are listed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

FOLDER = ROOT / "ikmap_papers"
PRODUCT = ("ikmap", "pipeline", "flows", "cluster")


def private_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything private of the product, or of another object, that a module uses."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=imported):
                names = [name.name for name in imported]
            case ast.ImportFrom(module=str(module), level=0, names=imported):
                names = [f"{module}.{name.name}" for name in imported]
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=attribute):
                if is_private(attribute):
                    yield node.lineno, attribute
                continue
            case _:
                continue
        for name in names:
            first, *rest = name.split(".")
            if first in PRODUCT and any(map(is_private, rest)):
                yield node.lineno, name


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_papers_use_public_names() -> None:
    files = sorted(FOLDER.rglob("*.py"))
    assert files
    assert [
        f"{path.relative_to(ROOT)}:{line} uses {name}"
        for path in files
        for line, name in private_names(path.read_text(encoding="utf-8"))
    ] == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from ikmap.learners._loops import add", ["ikmap.learners._loops.add"]),
        ("from pipeline.report import _page", ["pipeline.report._page"]),
        ("import ikmap._compiled", ["ikmap._compiled"]),
        ("def f(x):\n    from ikmap import _simd\n    return x._hidden", ["ikmap._simd", "_hidden"]),
        ("from ikmap_papers.gmm._own import x\nself._x = x.__class__", []),
    ],
)
def test_the_checker_sees_private_names(source: str, names: list[str]) -> None:
    assert sorted(name for _, name in private_names(source)) == sorted(names)


@pytest.mark.slow
def test_listing_papers_and_methods_loads_no_pipeline() -> None:
    """``ikmap`` may ask for the methods of papers where Dask is not installed."""
    folders = sorted(str(path.parent.relative_to(ROOT)).replace("/", ".") for path in FOLDER.rglob("__init__.py"))
    code = f"import sys, {', '.join(folders)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "ikmap_papers" in loaded
    assert loaded & {"pipeline", "dask", "distributed", "zarr", "numpy"} == set()


def test_every_folder_has_its_tests() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert {path.parent.name for path in Path(__file__).parent.glob("*/__init__.py")} >= folders
