"""The repository itself: portable, pinned, documented, in small modules."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT

PACKAGES = tuple(name for name in ("ikmap", "pipeline", "flows", "cluster", "ikmap_papers") if (ROOT / name).is_dir())
"""The product may be without ``ikmap_papers``."""
MOST_PARAMETERS, MOST_OF_A_LOOP = 8, 12
"""Of a function, and of one in a file of compiled loops."""
EXCUSED = {
    "ikmap/learners/online/norma_steps.py: respond": "compiled, as the loops that call it",
    "ikmap/estimators/dual.py: CellSVC.__init__": "scikit-learn wants a parameter for each setting",
    "ikmap/estimators/kernels.py: FourierSVC.__init__": "scikit-learn wants a parameter for each setting",
    "ikmap/estimators/kernels.py: TwoStageGMMClassifier.__init__": "scikit-learn wants a parameter for each setting",
    "ikmap/estimators/norma.py: CellNormaClassifier.__init__": "scikit-learn wants a parameter for each setting",
    "ikmap/estimators/norma.py: CellNormaRegressor.__init__": "scikit-learn wants a parameter for each setting",
    "ikmap/estimators/norma.py: CellNormaDetector.__init__": "scikit-learn wants a parameter for each setting",
}
"""Functions with more parameters, and why."""

# Written so that this file does not contain what it looks for.
FOREIGN = re.compile(
    "|".join(
        [
            r"(?<![\w.])/" + r"(?:root|home|Users|work|mnt|scratch)/[\w.-]+",  # somebody's directory
            "[A-Z]:" + r"\\\\?Users",
            r"(?:pypi|pythonhosted|anaconda|npmjs)" + r"\.(?:org|com)",  # a registry
            r"(?:deb|security)" + r"\.debian\.org",
            r"(?:extra-)?index" + r"-url\s*=",
        ]
    )
)


def tracked_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a checkout to know the tracked files")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file()]


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def numbers_of_parameters(source: str) -> dict[str, int]:
    """How many parameters every function has, besides the object or class that a method is of."""
    found = {}

    def visit(node: ast.AST, within: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = (
                f"{within}{child.name}"
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                else ""
            )
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                of = child.args
                names = [arg.arg for arg in (*of.posonlyargs, *of.args, *of.kwonlyargs)]
                found[name] = len(names) - (names[:1] in (["self"], ["cls"]))
            visit(child, f"{name}." if name else within)

    visit(ast.parse(source), "")
    return found


def pins() -> dict[str, str]:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def test_no_path_of_a_machine_and_no_registry() -> None:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}: {match.group()}"
            for number, line in enumerate(text.splitlines(), 1)
            for match in FOREIGN.finditer(line)
        ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "home/ann/data.csv",
        "cd /" + "root/x",
        "https://pypi" + ".org/simple",
        "pip --index-url" + " = x",
    ],
)
def test_the_search_for_foreign_names_finds_them(text: str) -> None:
    assert FOREIGN.search(text)


@pytest.mark.parametrize("text", ["https://a.b/~c/home/d", "runs/a9a", "../work/x", "/usr/local/bin", "/tmp/x"])
def test_the_search_for_foreign_names_lets_others_pass(text: str) -> None:
    assert not FOREIGN.search(text)


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in modules()
        if (text := path.read_text(encoding="utf-8")).strip() and not ast.get_docstring(ast.parse(text))
    ]
    assert silent == []


def test_urls_are_taken_apart_in_one_place() -> None:
    """What takes them apart may also write them, with what is secret in them."""
    others = [
        str(path.relative_to(ROOT))
        for path in modules()
        if re.search(r"\burl(split|parse|unsplit|unparse)\b|://.*rpartition", path.read_text(encoding="utf-8"))
    ]
    assert others == []


@pytest.mark.slow
def test_functions_have_few_parameters() -> None:
    many = {}
    for path in modules():
        most = MOST_OF_A_LOOP if path.match("_*_loops.py") else MOST_PARAMETERS
        for name, number in numbers_of_parameters(path.read_text(encoding="utf-8")).items():
            if number > most:
                many[f"{path.relative_to(ROOT).as_posix()}: {name}"] = number
    assert {name: number for name, number in many.items() if name not in EXCUSED} == {}
    assert set(EXCUSED) <= set(many), "these need no excuse any more"


def test_parameters_are_counted_of_every_function() -> None:
    source = """
def plain(a, /, b, *rest, c=1, **more):
    def inner(d): ...

class Kind:
    async def method(self, e, *, f): ...
    if True:
        @classmethod
        def make(cls): ...
"""
    assert numbers_of_parameters(source) == {"plain": 3, "plain.inner": 1, "Kind.method": 2, "Kind.make": 0}


def test_pins_are_plain_and_sorted() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    names = [line.partition("==")[0].lower() for line in lines if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []
    assert len(names) == len(set(names)) > 50
    assert names == sorted(names)
    assert "pip" not in names


def test_every_requirement_is_pinned_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["project"]["optional-dependencies"]
    texts = project["build-system"]["requires"] + project["project"]["dependencies"]
    texts += [text for group in ("pipeline", "test", "lint") for text in groups[group]]
    wanted = [Requirement(text) for text in project["project"]["dependencies"] + project["build-system"]["requires"]]
    wanted += [Requirement(text) for group in ("pipeline", "test", "lint") for text in groups[group]]
    pinned = pins()
    wrong = [
        f"{need} is pinned to {pinned.get(canonicalize_name(need.name))}"
        for need in wanted
        if not (version := pinned.get(canonicalize_name(need.name))) or version not in need.specifier
    ]
    assert wrong == []


def test_scripts_can_be_run() -> None:
    scripts = sorted((ROOT / ".ci").iterdir())
    assert {"find-python", "make-venv", "run"} <= {script.name for script in scripts}
    assert [script.name for script in scripts if not os.access(script, os.X_OK)] == []


def test_change_log_is_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert latest is not None
    assert latest.group(1) == version


def find_python(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the search with nothing but `sh` and what is in `tmp_path`."""
    return subprocess.run(
        ["/bin/sh", str(ROOT / ".ci" / "find-python")],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def command(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def test_find_python_passes_over_shims_that_refuse(tmp_path: Path) -> None:
    """A python3.12 on PATH that fails, an old python3, and the real one in a version manager's directory."""
    command(tmp_path / "python3.12", "echo 'python3.12: command not found' >&2; exit 127")
    command(tmp_path / "python3", "exit 1")
    command(tmp_path / ".pyenv" / "versions" / "3.12.1" / "bin" / "python3.12", "echo /right/one")
    done = find_python(tmp_path)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "/right/one", "")


def test_find_python_takes_the_one_named_or_none(tmp_path: Path) -> None:
    command(tmp_path / "python3.12", "echo /other/one")
    command(tmp_path / "mine", "echo /my/one")
    assert find_python(tmp_path, PYTHON=str(tmp_path / "mine")).stdout.strip() == "/my/one"
    refused = find_python(tmp_path, PYTHON=str(tmp_path / "nothing"))
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert len(refused.stderr.splitlines()) == 1


def test_find_python_says_when_venv_is_missing(tmp_path: Path) -> None:
    for name in ("python3.12", "python3.13", "python3", "python"):
        command(tmp_path / name, "exit 3")
    done = find_python(tmp_path)
    if done.returncode == 0:
        pytest.skip("a system-wide Python 3.12 or 3.13 is found whatever PATH says")
    assert done.returncode == 2
    assert "ensurepip" in done.stderr
    assert len(done.stderr.splitlines()) == 1
