"""A task is made of small objects, in modules that import each other in one direction only."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from ikmap.tasks import TASKS, capabilities, task
from ikmap.tasks.criteria import Criterion, criteria_of
from ikmap.tasks.importance import IMPORTANCE
from ikmap.tasks.metric import Metric
from ikmap.tasks.registry import criteria
from tests import ROOT

FOLDER = ROOT / "ikmap" / "tasks"


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imported(path: Path) -> set[str]:
    """Modules of this folder that a module imports, also in functions and for type checkers."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & {module_of(each) for each in FOLDER.rglob("*.py")} | (names & {"ikmap.tasks"})


def test_no_module_imports_one_that_imports_it() -> None:
    files = [path for path in FOLDER.rglob("*.py") if path.name != "__init__.py"]
    assert len(files) > 20
    graph = {module_of(path): imported(path) for path in files}
    assert not [name for name, names in graph.items() if "ikmap.tasks" in names]
    order = list(TopologicalSorter(graph).static_order())  # refuses a circle
    assert order.index("ikmap.tasks.task") < order.index("ikmap.tasks.classification.kind")


def members(cls: type) -> set[str]:
    """Public names that a class declares, those of its ancestors here among them."""
    found: set[str] = set()
    for one in cls.__mro__:
        if one.__module__.startswith("ikmap."):
            found |= {name for name in (*vars(one), *inspect.get_annotations(one)) if not name.startswith("_")}
    return found


@pytest.mark.parametrize(
    "cls",
    [
        task.Task, task.TaskKind, task.Codec, task.Decisions, task.Scorer, task.MetricState, task.Presenter, Criterion,
        Metric,
    ],
)  # fmt: skip
def test_the_objects_of_a_task_are_small(cls: type) -> None:
    assert 1 <= len(members(cls)) <= 8, sorted(members(cls))


def test_capabilities_are_smaller() -> None:
    kinds = [
        cls
        for cls in vars(capabilities).values()
        if isinstance(cls, type) and inspect.isabstract(cls) and cls.__module__ == capabilities.__name__
    ]
    assert len(kinds) >= 8
    assert all(len(members(cls)) <= 3 for cls in kinds)


def test_what_labels_are_to_each_kind() -> None:
    rules = {name: kind.labels for name, kind in TASKS.items()}
    assert [name for name, of_kind in rules.items() if of_kind.needed] == ["classification", "regression"]
    assert [name for name, of_kind in rules.items() if of_kind.inliers] == ["novelty"]
    assert [name for name, of_kind in rules.items() if of_kind.choose] == ["classification", "regression"]
    assert task.LabelRules() == task.LabelRules(needed=True, inliers=False, choose=False)


def schemas(value: object) -> Iterator[Mapping[str, object]]:
    """Every part of a JSON Schema that says what type something is of."""
    if isinstance(value, Mapping):
        if "type" in value:
            yield value
        value = list(value.values())
    for part in value if isinstance(value, list) else []:
        yield from schemas(part)


def test_counts_in_metrics_may_be_0_and_shares_1() -> None:
    """A schema that refused them would refuse metrics of runs. Only the tenths that are listed have a row each."""
    sources = [IMPORTANCE]
    for kind in TASKS.values():
        schema = kind.presenter.schema
        sources += [schema.labels, schema.rows, schema.learner]
    known = [part for source in sources for part in schemas(dict(source))]
    assert len(known) > 50
    assert [part["minimum"] for part in known if part.get("minimum", 0) != 0] == [1]
    assert {part["maximum"] for part in known if "maximum" in part} <= {1}


def test_metrics_of_every_kind_are_known() -> None:
    """The main one first, and those that a search may go by."""
    keys = {name: [one.metric.key for one in criteria_of(kind)] for name, kind in TASKS.items()}
    assert keys == {
        "classification": ["accuracy", "balanced_accuracy", "roc_auc", "log_loss", "brier"],
        "regression": ["r2"],
        "novelty": ["alert_rate"],
    }
    assert criteria() == ("accuracy", "balanced_accuracy", "roc_auc", "log_loss", "brier", "r2")


def test_nothing_is_of_any_type() -> None:
    assert not [path.name for path in FOLDER.rglob("*.py") if re.search(r"\bAny\b", path.read_text())]


def test_a_task_of_its_own_is_short() -> None:
    text = (ROOT / "tests" / "plugins" / "number_task.py").read_text().splitlines()
    start = next(k for k, line in enumerate(text) if line.startswith("@dataclass"))
    end = next(k for k, line in enumerate(text) if line.startswith("class CellSums"))
    assert end - start <= 120
