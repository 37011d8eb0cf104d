"""Kinds of task and metrics by name, including those of other packages."""

from __future__ import annotations

from collections.abc import Sequence

from ikmap.json_values import Json, JsonObject, mapping_of
from ikmap.tasks.criteria import METRICS, Criterion, criteria_of
from ikmap.tasks.task import Task, TaskKind

TASKS: dict[str, TaskKind] = {}
DEFAULT = "classification"
"""Meaning of ``--task auto``, unless the description of a data set says otherwise."""
AUTO = "auto"
"""The word of ``--task`` that leaves the kind of task to the data set's description, or to the labels."""


def register(item: TaskKind | type[TaskKind] | type[Criterion]) -> None:
    """Make a kind of task, or a metric, known by its name.

    Raises
    ------
    ValueError
        A name is taken.
    """
    if isinstance(item, type) and issubclass(item, Criterion):
        if item.metric.key in METRICS:
            raise ValueError(f"metric {item.metric.key!r} has a name that is taken")
        METRICS[item.metric.key] = item
        return
    kind = item() if isinstance(item, type) else item
    taken = {AUTO, *task_words(), *TASKS}
    for name in (kind.name, *kind.words):
        if name in taken:
            raise ValueError(f"task {name!r} has a name that is taken")
    TASKS[kind.name] = kind


def unregister(name: str) -> None:
    """Remove a kind of task or a metric from the registry, if there is one of that name."""
    TASKS.pop(name, None)
    METRICS.pop(name, None)


def task_words() -> tuple[str, ...]:
    """Return all words that ``--task`` takes beside "auto": the words of each task, or its name if it has none."""
    return tuple(word for kind in TASKS.values() for word in kind.words or (kind.name,))


def criteria() -> tuple[str, ...]:
    """Return the names of all metrics that a search can select by: those of the tasks that rank learners."""
    ranking = [kind for kind in TASKS.values() if kind.presenter.metric.ranks]
    return tuple(dict.fromkeys(criterion.metric.key for kind in ranking for criterion in criteria_of(kind)))


def task_named(word: str) -> TaskKind:
    """Return the kind of task for a word of ``--task`` or of the description of a data set.

    Raises
    ------
    ValueError
        No kind of task has that word.
    """
    wanted = DEFAULT if word == AUTO else word
    for kind in TASKS.values():
        if wanted == kind.name or wanted in kind.words:
            return kind
    raise ValueError(f"which is none of {', '.join((AUTO, *task_words()))}")


def task_of(metrics: JsonObject) -> TaskKind:
    """Return the kind of task of a run by its ``metrics.json``; parts of the metrics may be missing."""
    name = mapping_of(metrics.get("data")).get("task")
    return TASKS.get(name if isinstance(name, str) else DEFAULT, TASKS[DEFAULT])


def task_from(values: JsonObject) -> Task:
    """Return the task from which :meth:`~ikmap.tasks.task.Task.as_json` made these values.

    Values of old stores have no name, and describe a classification.

    Raises
    ------
    ValueError
        The kind of task is not registered here.
    """
    return task_kind(values.get("name", DEFAULT)).from_json(values)


def task_kind(name: Json) -> TaskKind:
    """Return the kind of task of that name.

    Raises
    ------
    ValueError
        It is not known here: a worker may lack a package that the client has.
    """
    if isinstance(name, str) and name in TASKS:
        return TASKS[name]
    from socket import gethostname

    raise ValueError(
        f"task {name!r} is not known on {gethostname()}: install the package that has it on this machine too, with pip"
    )


def choosable(kinds: Sequence[TaskKind]) -> list[TaskKind]:
    """Return the kinds of task that ``--task auto`` can choose by the labels."""
    return [kind for kind in kinds if kind.labels.choose]
