"""The layers of the design: flows, cluster, ikmap_papers -> pipeline -> ikmap, and nothing points back."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests import ROOT

DATA_PLANE = {"dask", "distributed", "zarr", "prefect", "pyarrow", "fsspec"}
FORBIDDEN = {
    "ikmap": DATA_PLANE | {"pipeline", "flows", "cluster", "ikmap_papers", "tests"},
    "pipeline": {"prefect", "flows", "cluster", "ikmap_papers", "tests"},
    "cluster": {"prefect", "ikmap", "flows", "ikmap_papers", "tests"},
    "flows": {"ikmap_papers", "tests"},
    "ikmap_papers": DATA_PLANE | {"flows", "cluster", "tests"},
}
THERE = [package for package in FORBIDDEN if (ROOT / package).is_dir()]
"""The product may be without ``ikmap_papers``, which it finds by the name of the package if it is installed."""

ROOMS = {
    "pipeline": [
        "record_types", "urls", "monitoring", "errors", "package_faults", "resolve", "params", "storage", "running",
        "sources", "rows", "training", "stages", "streams", "report", "reproduce", "runs",
    ],
    "pipeline/sources": ["files", "columns", "formats", "source", "named", "open", "feeds", "datasets"],
    "flows": ["interrupts", "cli", "options", "runs", "prefect", "batch", "online", "score", "reproduce"],
    "ikmap/learners": [
        "_memory_loops", "_tally_loops", "_rows_loops", "_codes_loops", "_scores_loops", "rows",
        "out_of_fold", "linear_model", "mapped_model", "cells_model", "boosting", "dual", "kernel", "novelty",
        "online", "ridge", "stacking", "sweeps",
    ],
}  # fmt: skip
"""Folders and files of a package: each imports what stands before it, and nothing that stands after it."""
MOST_ARROWS = {"pipeline": 90, "pipeline/sources": 23, "flows": 22, "ikmap/learners": 31}


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, top-level package) of every absolute import, also those in functions and by name."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                for name in names:
                    yield node.lineno, name.name.partition(".")[0]
            case ast.ImportFrom(module=str(module), level=0):
                yield node.lineno, module.partition(".")[0]
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield node.lineno, module.partition(".")[0]


def violations(package: str, source: str) -> list[tuple[int, str]]:
    return [(line, name) for line, name in imports(source) if name in FORBIDDEN[package]]


@pytest.mark.parametrize("package", THERE)
def test_no_import_points_back(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files
        for line, name in violations(package, path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import zarr.core",
        "import numpy, zarr as z",
        "from zarr import open_group",
        "from zarr.codecs import BloscCodec",
        "def save():\n    import zarr",
        "class A:\n    def save(self):\n        if True:\n            from zarr import save",
        "import importlib\nzarr = importlib.import_module('zarr.core')",
        "from importlib import import_module\nimport_module('zarr')",
        "__import__('zarr')",
    ],
)
def test_checker_sees_every_form_of_import(source: str) -> None:
    assert [name for _, name in violations("ikmap", source)] == ["zarr"]


@pytest.mark.parametrize("source", ["from . import zarr", "from .zarr import x", "zarr = 1", "import zarrs"])
def test_checker_is_not_misled(source: str) -> None:
    assert violations("ikmap", source) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import ikmap", DATA_PLANE | {"cupy"}),
        ("import pipeline.sources.datasets.registry", {"prefect", "cupy", "numba"}),
        ("import cluster", {"prefect", "ikmap", "cupy"}),
    ],
)
def test_import_does_not_load(statement: str, absent: set[str]) -> None:
    """Also not by way of what it imports."""
    code = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "sys" in loaded
    assert loaded & absent == set()


def rooms_imported(package: str) -> dict[tuple[str, str], list[str]]:
    """Which room of a package imports which other one: the files that do."""
    prefix = package.replace("/", ".") + "."
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        room = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            match node:
                case ast.Import(names=imported):
                    names = [name.name for name in imported]
                case ast.ImportFrom(module=str(module), level=0, names=imported):
                    names = [f"{module}.{name.name}" for name in imported]
            for name in names:
                other = name.removeprefix(prefix).partition(".")[0]
                if name.startswith(prefix) and other != room:
                    found.setdefault((room, other), []).append(str(path.relative_to(ROOT)))
    return found


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_only_those_before_them(package: str) -> None:
    order = ROOMS[package]
    there = {
        path.name.removesuffix(".py") for path in (ROOT / package).iterdir() if path.suffix == ".py" or path.is_dir()
    }
    assert there - {"__init__", "__pycache__"} == set(order)
    arrows = {pair: files for pair, files in rooms_imported(package).items() if pair[0] != "__init__"}
    assert {pair: files for pair, files in arrows.items() if order.index(pair[0]) < order.index(pair[1])} == {}
    assert 0 < len(arrows) <= MOST_ARROWS[package]
