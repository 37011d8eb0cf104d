"""Tests replace nothing of ours: they watch a run as its users do, and make it fail as the world does."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT

TESTS = ROOT / "tests"
OURS = ("benchmarks", "cluster", "flows", "ikmap", "ikmap_papers", "pipeline", "tests")
OTHERS = {
    "ThreadPoolExecutor", "create_progress_artifact", "create_table_artifact", "monotonic", "open",
    "performance_report", "update_progress_artifact",
}  # fmt: skip
"""Functions and classes of other packages that modules of ours have by name."""

LEFT = {
    # One cluster for all commands of a test; a snapshot around each stage of a command.
    "support/one_process.py": 2,
    "support/stored_runs.py": 1,
    "pipeline/running/test_running_full_disk.py": 1,
    "system/test_batch.py": 1,
    "ikmap_papers/isolation_kernel/test_runs.py": 1,
    # What flows of Prefect call, which their server starts.
    "services/test_prefect.py": 6,
    "services/test_prefect_deployments.py": 1,
    # Ways that are chosen by speed, each of which has to give the same.
    "ikmap/learners/boosting/test_boosting.py": 1,
    "ikmap/partitioners/test_voronoi.py": 4,
    "ikmap/test_device.py": 4,
    # What compiled loops are called with.
    "ikmap/learners/online/test_norma.py": 1,
    "ikmap_papers/norma/test_norma_dual.py": 1,
    # What takes minutes to bring about, or cannot be.
    "cluster/test_local.py": 1,
    "ikmap/methods/test_checks.py": 1,
    "pipeline/sources/formats/test_formats_hostile.py": 1,
}
"""Patches of functions and classes of ours that are left, by file. The numbers may fall, and never rise."""

ADVICE = """
Do not replace what is ours: the test would go on passing as the product changes under it. Instead
- observe what a user sees: events (tests.support.one_process.Heard), records, files, what a client was sent (Watched);
- pass something in: a client, events, an executor, a device, a learner of the test's own (tests.plugins.registered);
- kill a run by tests.support.kills (KilledWhen, KilledAfter) or calls.killed_at, count calls by calls.counted;
- let it fail for real: a file that is missing, damaged or too large, a worker without memory (in_process.on_worker),
  a machine that is otherwise (tests.support.machine);
- make sizes small by the fixture `small_sizes`.
"""


def patches_of_ours(path: Path) -> Iterator[int]:
    """Yield the lines in which a test replaces a function or a class of ours, or a member of one."""
    text = path.read_text(encoding="utf-8")
    if "patch.setattr" not in text and "patch.delattr" not in text:
        return
    tree = ast.parse(text)
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imported |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            imported |= {name.asname or name.name.partition(".")[0]: name.name for name in node.names}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(ast.Name(patch), "setattr" | "delattr"), args=[target, *named]) if (
                "patch" in patch
            ):
                pass
            case _:
                continue
        words = ast.unparse(target).removeprefix("f'").strip("'")
        if isinstance(target, ast.Constant | ast.JoinedStr):
            place, _, name = words.rpartition(".")
        else:
            root = words.removeprefix("type(").partition(".")[0]
            place = imported.get(root, f"tests.{root}")
            name = ast.unparse(named[0]).strip("'")
        if place.partition(".")[0] in OURS and name not in OTHERS and not name.strip("_").isupper():
            yield node.lineno


def test_what_is_ours_is_not_replaced() -> None:
    lines = {path.relative_to(TESTS).as_posix(): list(patches_of_ours(path)) for path in TESTS.rglob("*.py")}
    found = Counter({name: len(numbers) for name, numbers in lines.items() if numbers})
    more = {name: lines[name] for name in found if found[name] > LEFT.get(name, 0)}
    assert not more, f"{more}{ADVICE}"
    there = {name: number for name, number in LEFT.items() if (TESTS / name.partition("/")[0]).is_dir()}  # no papers?
    fewer = {name: found[name] for name, number in there.items() if found[name] < number}
    assert not fewer, f"fewer than LEFT says, so lower it: {fewer}"


def test_patches_are_told_apart(tmp_path: Path) -> None:
    text = """
import os
from pipeline.stages import select
from pipeline.storage.store import Store
patch.setattr(select, "score", None)  # ours
monkeypatch.setattr(Store, "keep", None)  # ours
monkeypatch.setattr("flows.stages.select.score", None)  # ours
monkeypatch.setattr(f"flows.{name}.score", None)  # ours
monkeypatch.setattr(type(kind), "work", None)  # ours, as far as one sees
monkeypatch.setattr(os, "fsync", None)
monkeypatch.setattr(select, "ROWS", 1)
monkeypatch.setattr("pipeline.runs.metrics.performance_report", None)
monkeypatch.setenv("HOME", "")
"""
    (tmp_path / "test_x.py").write_text(text)
    ours = [number for number, line in enumerate(text.splitlines(), 1) if "# ours" in line]
    assert list(patches_of_ours(tmp_path / "test_x.py")) == ours
