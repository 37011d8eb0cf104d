"""Checks that every kind of task and every metric has to pass: ``python -m ikmap.methods.checks NAME ...``.

They hold a task to what commands, searches, streams and stores rely on: labels become targets and targets labels,
stored targets stay as they are, states of shards add up to that of all rows, and the report and the schema know every
metric. A fault is one line with class and member.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ikmap.conformance import Check, CheckFailed, faults_of, member
from ikmap.tasks.checks.abilities import checks_of_capabilities
from ikmap.tasks.checks.common import cases_of
from ikmap.tasks.checks.labels import (
    check_codec,
    check_decode,
    check_label_sets,
    check_members,
    check_parts,
    check_record,
    check_stored_targets,
    check_task_members,
)
from ikmap.tasks.checks.metrics import cases_with, check_described, check_metric
from ikmap.tasks.checks.presenters import check_presented, check_presenter, check_schema, check_values
from ikmap.tasks.checks.scores import check_decisions, check_main_metric, check_scorer
from ikmap.tasks.criteria import Criterion
from ikmap.tasks.task import TaskKind

__all__ = ["check_criterion", "check_task", "checks_of_criterion", "checks_of_task"]

CHECKS_OF_CASES = {
    "parts of a task": check_task_members,
    "records": check_record,
    "parts of the labels": check_parts,
    "codec": check_codec,
    "labels of targets": check_decode,
    "stored targets": check_stored_targets,
    "decisions": check_decisions,
    "scorer": check_scorer,
    "main metric": check_main_metric,
    "values of the schema": check_values,
    "report": check_presented,
}
"""Checks of the task that some labels make, by title."""


def checks_of_task(task: type[TaskKind] | TaskKind) -> Iterator[Check]:
    """Yield everything that a kind of task has to do: for ``pytest.mark.parametrize`` with ``ids=str``.

    Parameters
    ----------
    task : class, or object of a class, of TaskKind
        The kind of task; it need not be registered, but its main metric has to be.

    Raises
    ------
    CheckFailed
        The class lacks members, or no object can be made of it.
    """
    kind = _kind(task)
    with member(kind, "name"):
        name = str(kind.name)
    yield Check(name, "members", partial(check_members, kind))
    yield Check(name, "presenter", partial(check_presenter, kind))
    yield Check(name, "schema", partial(check_schema, kind))
    yield Check(name, "labels", partial(check_label_sets, kind))
    for case in cases_of(kind):
        for title, check in CHECKS_OF_CASES.items():
            yield Check(name, f"{title} on {case.title}", partial(check, case))
        for title, run in checks_of_capabilities(case):
            yield Check(name, f"{title} on {case.title}", run)


def checks_of_criterion(criterion: type[Criterion]) -> Iterator[Check]:
    """Yield everything that a metric has to do, in every registered task that has it.

    Raises
    ------
    CheckFailed
        The class lacks members.
    """
    _refuse_missing(criterion, ("metric", "tasks"))
    name = criterion.metric.key
    yield Check(name, "description", partial(check_described, criterion))
    for case in cases_with(criterion):
        title = f"scores of {case.task.name} on {case.title}"
        yield Check(name, title, partial(check_metric, criterion, case))


def check_task(task: type[TaskKind] | TaskKind) -> list[str]:
    """Return a line for each fault of a kind of task."""
    return _faults(checks_of_task(task))


def check_criterion(criterion: type[Criterion]) -> list[str]:
    """Return a line for each fault of a metric."""
    return _faults(checks_of_criterion(criterion))


def _faults(checks: Iterator[Check]) -> list[str]:
    """Return the faults of the checks, and the fault because of which there are no more checks."""
    run: list[Check] = []
    last: list[str] = []
    try:
        run.extend(checks)
    except CheckFailed as error:
        last = [str(error)]
    faults = faults_of(run)
    return [*faults, *(line for line in last if not any(fault.endswith(line) for fault in faults))]


def _kind(task: type[TaskKind] | TaskKind) -> TaskKind:
    cls = task if isinstance(task, type) else type(task)
    _refuse_missing(cls, ("name", "presenter"))
    if not isinstance(task, type):
        return task
    with member(task, "__init__"):
        return task()


def _refuse_missing(cls: type, attributes: tuple[str, ...]) -> None:
    """Refuse a class that lacks methods or attributes that it has to have."""
    missing = sorted(getattr(cls, "__abstractmethods__", ())) + [name for name in attributes if not hasattr(cls, name)]
    if missing:
        raise CheckFailed(f"{cls.__name__} lacks the member {', '.join(missing)}", named=True)
