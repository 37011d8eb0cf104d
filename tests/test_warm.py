"""Workers have imported what their tasks need before the first one comes."""

from __future__ import annotations

import ast
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cluster import connect
from pipeline.warm import MODULES, WarmUp

PIPELINE = Path(__file__).parents[1] / "pipeline"


def loaded() -> list[str]:
    return sorted(sys.modules)


def test_workers_present_and_restarted_have_imported_the_stages() -> None:
    with connect("local", workers=1, memory_limit="1GB") as cluster:
        before = set(cluster.client.submit(loaded, pure=False).result())
        assert not before & set(MODULES)
        for _ in range(2):
            cluster.client.register_plugin(WarmUp())
        assert set(MODULES) <= set(cluster.client.submit(loaded, pure=False).result())
        cluster.client.restart()
        assert set(MODULES) <= set(cluster.client.submit(loaded, pure=False).result())


ARRAYS, SIZE = 50, 1 << 20


def new_pages() -> int:
    """Pages that the kernel had to find for arrays of a MiB, one after the other."""
    np.ones(SIZE // 8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(ARRAYS):
        np.ones(SIZE // 8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_workers_keep_memory_that_they_will_need_again() -> None:
    with connect("local", workers=1, memory_limit="1GB") as cluster:
        returned = cluster.client.submit(new_pages, pure=False).result()
        cluster.client.register_plugin(WarmUp())
        kept = cluster.client.submit(new_pages, pure=False).result()
    assert returned > ARRAYS * SIZE // resource.getpagesize() // 2
    assert kept < returned // 10


def test_every_module_with_tasks_is_named() -> None:
    stages = {f"pipeline.stages.{path.stem}" for path in (PIPELINE / "stages").glob("[!_]*.py")}
    assert stages == {module for module in MODULES if module.startswith("pipeline.stages.")}


def test_the_plugin_itself_is_light() -> None:
    """A worker unpickles it by importing its module, which must not take the stages with it."""
    tree = ast.parse((PIPELINE / "warm.py").read_text())
    names = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert names == {"__future__", "contextlib", "importlib", "typing", "distributed"}


def test_a_damaged_cache_is_no_matter(tmp_path: Path) -> None:
    script = """
import numpy as np
from pipeline.readers import _libsvm_loops as loops
from pipeline.warm import load_compiled
load_compiled()
loops.count(np.zeros(8, dtype=np.uint8))
"""
    for damage in (b"", b"\0" * 200, b"garbage"):
        for index in tmp_path.rglob("*.nbi"):
            index.write_bytes(damage)
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-W", "ignore", "-c", script if not damage else script.rpartition("loops.count")[0]]
        subprocess.run(command, cwd=PIPELINE.parent, env=environment, check=True)
    assert any(tmp_path.rglob("*.nbi"))


def test_what_was_compiled_before_is_loaded_and_nothing_is_compiled(tmp_path: Path) -> None:
    """In a cache of its own: tests of other files compile the same loop for other types."""
    script = """
import numpy as np
from pipeline.readers import _libsvm_loops as loops
from pipeline.warm import load_compiled
if {first}:
    loops.count(np.zeros(8, dtype=np.uint8))
else:
    assert not loops.count.signatures
    loaded = load_compiled()
    ours = [loop for loop in vars(loops).values() if hasattr(loop, "stats")]
    assert loops.count.signatures, "not loaded"
    assert loaded >= sum(len(loop.signatures) for loop in ours)
    assert not any(loop.stats.cache_misses for loop in ours)
"""
    for first in (True, False):
        command = [sys.executable, "-c", script.format(first=first)]
        subprocess.run(command, cwd=PIPELINE.parent, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, check=True)
