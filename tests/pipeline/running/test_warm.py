"""Workers have imported what their tasks need before the first one comes."""

from __future__ import annotations

import ast
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cluster import connect
from pipeline.running.warm import MODULES, WarmUp
from tests import ROOT
from tests.support.machine import no_process_to_fork_from

pytestmark = pytest.mark.system

PIPELINE = ROOT / "pipeline"


def loaded() -> list[str]:
    return sorted(sys.modules)


@dataclass
class Seen:
    """Modules that a worker has, and pages that it needs, before and after it is given the plugin."""

    modules_before: set[str]
    modules: set[str]
    modules_of_restarted: set[str]
    pages_before: int
    pages: int


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    """Of a worker that is not forked from a process that has imported everything: the plugin is for all others."""
    with no_process_to_fork_from(), connect("local", workers=1, memory_limit="1GB") as cluster:

        def modules() -> set[str]:
            return set(cluster.client.submit(loaded, pure=False).result())

        def pages() -> int:
            return int(cluster.client.submit(new_pages, pure=False).result())

        modules_before, pages_before = modules(), pages()
        for _ in range(2):
            cluster.client.register_plugin(WarmUp())
        modules_after, pages_after = modules(), pages()
        cluster.client.restart()
        yield Seen(modules_before, modules_after, modules(), pages_before, pages_after)


def test_workers_present_and_restarted_have_imported_the_stages(seen: Seen) -> None:
    assert not seen.modules_before & set(MODULES)
    assert set(MODULES) <= seen.modules
    assert set(MODULES) <= seen.modules_of_restarted


ARRAYS, SIZE = 50, 1 << 20


def new_pages() -> int:
    """Pages that the kernel had to find for arrays of a MiB, one after the other."""
    np.ones(SIZE // 8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(ARRAYS):
        np.ones(SIZE // 8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_workers_keep_memory_that_they_will_need_again(seen: Seen) -> None:
    assert seen.pages_before > ARRAYS * SIZE // resource.getpagesize() // 2
    assert seen.pages < seen.pages_before // 10


def test_every_module_with_tasks_is_named() -> None:
    """A task is a function whose docstring begins so; those that compile run before the others are loaded."""
    with_tasks = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in PIPELINE.rglob("*.py")
        if '"""Task: ' in path.read_text(encoding="utf-8")
    }
    assert len(with_tasks) > 10
    assert with_tasks - set(MODULES) == {"pipeline.running.compiling"}


def test_the_plugin_itself_is_light() -> None:
    """A worker unpickles it by importing its module, which must not take the stages with it."""
    tree = ast.parse((PIPELINE / "running" / "warm.py").read_text())
    names = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert names == {"__future__", "collections.abc", "importlib", "distributed"}


def test_what_was_compiled_before_is_loaded_and_nothing_is_compiled(tmp_path: Path) -> None:
    script = """
import sys
from ikmap.compiled import LOOPS
from pipeline.running.compiling import compile_jobs, needed
from pipeline.running.warm import load_compiled
jobs = needed({"cell-masses"})
loops = [LOOPS[job.name].dispatcher for job in jobs]
if sys.argv[1] == "compile":
    assert load_compiled() == 0
    assert not any(loop.signatures for loop in loops)
    assert compile_jobs(jobs) == []
else:
    load_compiled()
    assert all(loop.signatures for loop in loops), "not loaded"
    assert not any(loop.stats.cache_misses for loop in loops)
"""
    for what in ("compile", "load"):
        command = [sys.executable, "-c", script, what]
        subprocess.run(command, cwd=PIPELINE.parent, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, check=True)
