"""Compiled loops: what is declared, and the cache of what has been compiled."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pytest
from numba import typeof

from ikmap._compiled_cache import imported_names
from ikmap.compiled import LAYOUTS, LOOPS, compiled, group, needed, parsed
from tests import ROOT

pytestmark = pytest.mark.system


HELPER = "from ikmap.compiled import compiled\n\n@compiled\ndef step(x):\n    return x + {add}\n"
LOOP = """
from ikmap.compiled import compiled
from loops_of_a_test._helper_loops import step

@compiled({"long": "i8[::1]", "double": "f8[::1]"})
def total(values):
    sum = values[0] - values[0]
    for value in values:
        sum += step(value)
    return sum
"""
# Reads requests, one a line, and answers each from a process of its own, forked when Numba is ready to compile: that is
# what takes long, and it is the same for all.
FORKS = """
import json, os, signal, sys
import numba
import numpy as np
import ikmap.compiled

numba.njit(lambda values: values[0] + len(values))(np.ones(1))

def use(folder, cache, kinds):
    os.environ["NUMBA_CACHE_DIR"] = cache
    sys.path.insert(0, folder)
    from loops_of_a_test._total_loops import total
    values = [str(total(np.ones(3, dtype=kind))) for kind in kinds]
    return [*values, *(str(sum(of.values())) for of in (total.stats.cache_hits, total.stats.cache_misses))]

sys.dont_write_bytecode = True
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they end
for line in sys.stdin:
    answer, *request = json.loads(line)
    if os.fork() == 0:
        try:
            said = use(*request)
        except BaseException as error:
            said = repr(error)
        with open(answer + ".part", "w") as file:
            json.dump(said, file)
        os.rename(answer + ".part", answer)
        os._exit(0)
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}  # no threads in what is forked
    with subprocess.Popen([sys.executable, "-c", FORKS], env=environment, stdin=subprocess.PIPE, text=True) as process:
        yield process


class Use:
    """A process of its own that has loops of a package compiled, or loads them."""

    def __init__(self, forks: subprocess.Popen[str], folder: Path, cache: Path, *kinds: str) -> None:
        self._forks = forks
        self._answer = folder / f"{uuid4()}.json"
        assert forks.stdin is not None
        forks.stdin.write(json.dumps([str(self._answer), str(folder), str(cache), kinds]) + "\n")
        forks.stdin.flush()

    def found(self) -> list[str]:
        """What comes out, then how many signatures were loaded and how many compiled."""
        deadline = time.monotonic() + 300
        while not self._answer.exists():
            assert time.monotonic() < deadline
            assert self._forks.poll() is None
            time.sleep(0.005)
        found = json.loads(self._answer.read_text())
        assert isinstance(found, list), found
        return found


def package(folder: Path, add: int = 1) -> Path:
    """A package of compiled loops, one of which calls one in another file."""
    inside = folder / "loops_of_a_test"
    inside.mkdir(parents=True, exist_ok=True)
    (inside / "__init__.py").write_text("")
    (inside / "_helper_loops.py").write_text(HELPER.format(add=add))
    (inside / "_total_loops.py").write_text(LOOP)
    return folder


@pytest.fixture
def used(forks: subprocess.Popen[str]) -> Callable[..., list[str]]:
    return lambda *asked: Use(forks, *asked).found()


def test_a_run_needs_what_all_words_of_a_declaration_describe() -> None:
    @compiled({"red round, blue": "f8[::1]", "red": ["i8[::1], {cells}"]})
    def loop(x: Any) -> Any:
        return x

    name = f"{loop.py_func.__module__}.{loop.py_func.__qualname__}"
    try:

        def found(*words: str) -> set[str]:
            return {signature for declared, signature in needed(words) if declared.name == name}

        assert found("red") == found("round") == set()
        assert found("blue") == found("red", "round") == {"f8[::1]"}
        assert found("red", "narrow") == {f"i8[::1], {LAYOUTS['cells']['narrow']}"}
        assert len(found("red", "narrow", "wide", "round")) == 3
    finally:
        del LOOPS[name]


def test_signatures_are_the_types_of_what_loops_are_given() -> None:
    rows = np.zeros((2, 3))
    assert parsed(LAYOUTS["dense"][""]) == (typeof((rows,)),)
    codes, base = np.zeros((2, 3), np.uint8), np.zeros(3, np.uint64)
    assert parsed(LAYOUTS["cells"]["narrow"]) == (typeof((codes, base, 1.0)),)
    frozen = np.frombuffer(b"text", np.uint8)
    assert parsed('Array(u1, 1, "C", readonly=True), i8') == (typeof(frozen), typeof(1))


class Line(NamedTuple):
    slope: float
    starts: np.ndarray


class Pair(NamedTuple):
    first: int
    second: int


@pytest.mark.parametrize(
    ("fields", "value"), [("f8, i8[::1]", Line(2.0, np.arange(3))), ("i8, i8", Pair(1, 2))], ids=["mixed", "alike"]
)
def test_a_group_stands_for_one_argument(fields: str, value: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ikmap.compiled.GROUPS", {})
    kind = type(value)
    assert group(fields)(kind) is kind

    @compiled({"blue": f"{{{kind.__name__}}}, {{csr}}, i8"})
    def loop(given: Any, rows: Any, more: Any) -> Any:
        return given, rows, more

    name = f"{loop.py_func.__module__}.{loop.py_func.__qualname__}"
    try:
        [signature] = [text for found, text in needed(["blue"]) if found.name == name]
        rows = np.zeros(1), np.zeros(1, np.int32), np.zeros(2, np.int64)
        assert parsed(signature) == (typeof(value), typeof(rows), typeof(1))
    finally:
        del LOOPS[name]

    stranger = type(kind.__name__, (kind,), {"__module__": "elsewhere"})
    with pytest.raises(ValueError, match=f"two groups are called {kind.__name__}"):
        group(fields)(stranger)


def test_loops_that_are_stored_stand_in_files_of_loops() -> None:
    """There they are found, and declared; Numba's own cache, which does not see a helper change, is not used."""
    for package_name in ("ikmap", "pipeline", "ikmap_papers"):
        for path in (ROOT / package_name).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
                    assert not any("cache=True" in decorator for decorator in decorators), (path, node.name)
                    if any(decorator.startswith("compiled") for decorator in decorators):
                        assert path.match("_*_loops.py"), (path, node.name)


def test_another_checkout_compiles_nothing_and_a_changed_helper_is_noticed(
    used: Callable[..., list[str]], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    first = package(tmp_path / "first")
    assert used(first, cache, "int64", "float64") == ["6", "6.0", "0", "2"]
    assert used(package(tmp_path / "second"), cache, "int64", "float64") == ["6", "6.0", "2", "0"]
    assert used(package(tmp_path / "third", add=5), cache, "int64") == ["18", "0", "1"]
    assert used(first, cache, "int64") == ["6", "1", "0"], "what others compile takes nothing away"


def parsed_names(source: str) -> set[str]:
    """The names that Python's own parser finds."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)}
    return names


def test_names_that_modules_import_are_those_that_the_parser_finds() -> None:
    sources = [file.read_text() for name in ("ikmap", "ikmap_papers") for file in (ROOT / name).rglob("*.py")]
    assert len(sources) > 100
    for source in sources:
        assert imported_names(source) >= parsed_names(source)


@pytest.mark.parametrize(
    "source",
    [
        "from a.b import (  # one ) of many\n    c as d,  # with a comment, too\n    e,\n)\nimport f",
        "def g():\n    from a import b; import c.d as e, f\n    return b",
        "from a import \\\n    b, c\nif True: import d",
        "from a import(b)\nfrom a import c # , d\nfrom a import *",
    ],
)
def test_names_that_a_source_imports_are_found_however_it_is_written(source: str) -> None:
    assert imported_names(source) == parsed_names(source)


def test_a_damaged_file_is_compiled_anew(used: Callable[..., list[str]], tmp_path: Path) -> None:
    folder, cache = package(tmp_path), tmp_path / "cache"
    assert used(folder, cache, "int64") == ["6", "0", "1"]
    files = sorted((cache / "ikmap").glob("*.total-*"))
    whole = [file.read_bytes() for file in files]
    assert whole
    for damage in (b"", b"garbage", whole[0][:-100], whole[0][:200] + b"\0" * 64 + whole[0][264:]):
        for file in files:
            file.write_bytes(damage)
        assert used(folder, cache, "int64") == ["6", "0", "1"]
        assert used(folder, cache, "int64") == ["6", "1", "0"]


def test_processes_at_the_same_time_do_not_exchange_signatures(forks: subprocess.Popen[str], tmp_path: Path) -> None:
    folder, cache = package(tmp_path), tmp_path / "cache"
    kinds = ("int64", "float64", "float32", "uint8")
    for use in [Use(forks, folder, cache, kind) for kind in (*kinds, kinds[0])]:
        use.found()
    found = Use(forks, folder, cache, *kinds).found()
    assert [float(value) for value in found[:4]] == [6.0] * 4
    assert found[4:] == ["4", "0"]
    assert not list((cache / "ikmap").glob(".*")), "half-written files are left"


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_can_write_is_not_used(used: Callable[..., list[str]], tmp_path: Path, mode: int) -> None:
    """What is in it would be run."""
    folder, cache = package(tmp_path), tmp_path / "cache"
    assert used(folder, cache, "int64")[1:] == ["0", "1"]
    assert (cache / "ikmap").stat().st_mode & 0o777 == 0o700
    (cache / "ikmap").chmod(mode)
    assert used(folder, cache, "int64")[1:] == ["0", "1"]
    (cache / "ikmap").chmod(0o700)
    assert used(folder, cache, "int64")[1:] == ["1", "0"]


def test_without_a_place_to_store_it_everything_works(used: Callable[..., list[str]], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = package(tmp_path)
    for _ in range(2):
        assert used(folder, tmp_path / "file" / "cache", "int64") == ["6", "0", "1"]


def test_what_nobody_has_loaded_for_long_goes(used: Callable[..., list[str]], tmp_path: Path) -> None:
    folder, cache = package(tmp_path), tmp_path / "cache"
    used(folder, cache, "int64")
    old = time.time() - 100 * 86400
    for file in (cache / "ikmap").iterdir():
        os.utime(file, (old, old))
    used(folder, cache, "int64")  # loaded: it is needed
    kept = {file for file in (cache / "ikmap").iterdir() if file.stat().st_mtime > old + 1}
    assert kept
    used(folder, cache, "float32")  # compiled: a time to look around
    assert {file for file in (cache / "ikmap").iterdir() if file.stat().st_mtime < old + 1} == set()
    assert kept <= set((cache / "ikmap").iterdir())
