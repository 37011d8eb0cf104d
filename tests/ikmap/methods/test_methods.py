"""What learners say of themselves is what they do."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from ikmap.methods import KERNELS, LEARNERS, MAPS
from ikmap.tasks import TASKS, criteria_of
from pipeline.resolve import chosen, map_for, usual_learner
from tests import ROOT


@pytest.mark.parametrize("module", sorted({module for kind in LEARNERS.values() for module in kind.about.models}))
def test_modules_of_models_define_kinds(module: str) -> None:
    found = __import__(module, fromlist=["kind"])
    assert any(getattr(value, "__module__", "") == module and hasattr(value, "kind") for value in vars(found).values())


@pytest.mark.slow
def test_a_process_that_has_imported_nothing_else_can_read_every_kind_of_model() -> None:
    script = (
        "import ikmap.methods, ikmap.model; ikmap.methods.import_models(); print(*sorted(ikmap.model.KINDS), sep=',')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"linear", "kernel", "mapped", "fourier", "nystroem", "chi2"} <= set(done.stdout.strip().split(","))


@pytest.mark.slow
def test_declarations_import_nothing_heavy() -> None:
    script = "import sys, ikmap.methods; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "numba", "sklearn"} & set(done.stdout.split())


def compared_names(source: str, names: set[str]) -> list[tuple[int, str]]:
    """Where a source compares something with one of these names, or looks one up among constants: line and name."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            parts: list[ast.AST] = [node.left, *node.comparators]
        elif isinstance(node, ast.match_case):
            parts = [node.pattern]
        else:
            continue
        constants = (inner for part in parts for inner in ast.walk(part) if isinstance(inner, ast.Constant))
        found += [(node.lineno if hasattr(node, "lineno") else 0, c.value) for c in constants if c.value in names]
    return found


@pytest.mark.parametrize("package", ["pipeline", "flows"])
def test_nobody_compares_the_names_of_methods(package: str) -> None:
    """A method says of itself what it does; whoever asks for its name will be wrong about the next one."""
    names = {*LEARNERS, *MAPS, *KERNELS} - {"rows"}
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    found = [
        f"{path}:{line} compares with {name!r}"
        for path in files
        for line, name in compared_names(path.read_text(encoding="utf-8"), names)
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    ["x == 'svm'", "'ogd' != x", "x in ('a', 'svm')", "match x:\n    case 'svm' | 'b':\n        pass", "x in {'svm'}"],
)
def test_the_checker_sees_every_form_of_comparison(source: str) -> None:
    assert [name for _, name in compared_names(source, {"svm", "ogd"})] == ["ogd" if "ogd" in source else "svm"]


@pytest.mark.parametrize(
    ("learners", "expected"),
    [
        (["svm"], "iforest"),
        (["idk"], "inne"),
        (["idk", "iforest-score"], "iforest"),
        (["iforest-score", "idk"], "iforest"),
        (["kernel-ogd"], "iforest"),
    ],
)
def test_the_map_of_a_run_that_names_none_tells_every_learner_enough(learners: list[str], expected: str) -> None:
    assert map_for(learners) == expected


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("auto", {"iforest", "logistic", "ridge", "iforest-score"}),
        ("multiclass", {"iforest", "logistic"}),
        ("regression", {"iforest", "ridge"}),
        ("novelty", {"iforest", "iforest-score"}),
    ],
)
def test_the_learner_auto_stands_for_the_usual_one_of_each_possible_task(task: str, expected: set[str]) -> None:
    assert set(chosen("auto", ("auto",), task=task)) == expected
    assert set(chosen("anne", ("auto",), task=task)) == (expected - {"iforest"}) | {"anne"}


def test_every_task_of_ours_has_a_usual_learner_that_serves_it() -> None:
    for task in TASKS.values():
        assert task.name in LEARNERS[usual_learner(task)].about.tasks
        assert task.usual.criterion in ("", *(one.metric.key for one in criteria_of(task)))
