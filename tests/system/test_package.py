"""What is handed on: a wheel with all that the software reads, the licence, and how to cite it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from email import message_from_string
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

from tests import ROOT
from tests.project.test_project import PACKAGES, tracked_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """A wheel that is built from the tracked files alone, as from a fresh clone; nothing is fetched."""
    folder = tmp_path_factory.mktemp("clone")
    for path in tracked_files():
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    code = "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"
    (folder / "dist").mkdir()
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return ZipFile(folder / "dist" / done.stdout.splitlines()[-1])


def test_wheel_holds_every_file_of_the_packages(wheel: ZipFile) -> None:
    """Modules, compiled kernels' sources, tables, templates, manifests: what is tracked in a package is read by it."""
    names = {str(path.relative_to(ROOT)) for path in tracked_files()}
    wanted = {name for name in names if name.split("/")[0] in PACKAGES}
    kinds = {".py", ".cu", ".toml", ".html", ".svg", ".css", ".js", ".typed", ".json"}
    assert {Path(name).suffix for name in wanted} >= kinds
    assert wanted - set(wheel.namelist()) == set()


def test_wheel_holds_nothing_else(wheel: ZipFile) -> None:
    assert {name.split("/")[0] for name in wheel.namelist()} == {*PACKAGES, f"ikmap-{PROJECT['version']}.dist-info"}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_say_that_they_are_typed(wheel: ZipFile, package: str) -> None:
    assert wheel.read(f"{package}/py.typed") == b""


def test_wheel_says_its_licence(wheel: ZipFile) -> None:
    info = f"ikmap-{PROJECT['version']}.dist-info"
    about = message_from_string(wheel.read(f"{info}/METADATA").decode())
    assert about["License-Expression"] == "BSD-3-Clause"
    assert about.get_all("License-File") == ["LICENSE"]
    text = wheel.read(f"{info}/licenses/LICENSE").decode()
    assert text.startswith("BSD 3-Clause License\n\nCopyright (c) 2026, The ikmap developers\n")
    assert text.count("\n1. ") == text.count("\n2. ") == text.count("\n3. ") == 1


def check_entry(entry: dict[str, Any], keys: set[str]) -> None:
    """Check a software entry or a reference against what Citation File Format 1.2.0 says of these keys."""
    assert entry.keys() >= {"title", "authors"}
    assert entry.keys() <= keys
    assert all(isinstance(entry[key], str) and entry[key] for key in ("title", "license", "message") if key in entry)
    assert all(type(entry[key]) is int for key in ("year", "start", "end") if key in entry)
    assert entry["authors"]
    for author in entry["authors"]:
        assert author.keys() in ({"name"}, {"family-names", "given-names", "affiliation"})
        assert all(isinstance(value, str) and value for value in author.values())


def test_citation() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    of_software = {"cff-version", "message", "type", "title", "authors", "version", "license", "references"}
    assert cited.keys() == of_software
    check_entry(cited, of_software)
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert str(cited["version"]) == PROJECT["version"]
    assert cited["license"] == PROJECT["license"]
    for reference in cited["references"]:
        check_entry(reference, {"type", "title", "authors", "year", "collection-title", "start", "end"})
        assert reference["type"] in {"generic", "conference-paper"}
    first = [reference["authors"][0]["family-names"] for reference in cited["references"]]
    assert first == ["Ting", "Li", "Kivinen", "Balog"]
