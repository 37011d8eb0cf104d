"""Kinds of task and metrics by name, those of other packages among them."""

from __future__ import annotations

from collections.abc import Sequence

from ikmap.tasks.criteria import METRICS, Criterion, criteria_of
from ikmap.tasks.json_values import Json, JsonObject, mapping_of
from ikmap.tasks.task import Task, TaskKind

TASKS: dict[str, TaskKind] = {}
DEFAULT = "classification"
"""What ``--task auto`` means where the description of a data set says nothing else."""
AUTO = "auto"
"""The word of ``--task`` that leaves the kind of task to the data set's description, or to the labels."""


def register(one: TaskKind | type[TaskKind] | type[Criterion]) -> None:
    """Make a kind of task, or a metric, known by its name.

    Raises
    ------
    ValueError
        A name is taken.
    """
    if isinstance(one, type) and issubclass(one, Criterion):
        if one.metric.key in METRICS:
            raise ValueError(f"metric {one.metric.key!r} has a name that is taken")
        METRICS[one.metric.key] = one
        return
    kind = one() if isinstance(one, type) else one
    taken = {AUTO, *task_words(), *TASKS}
    for name in (kind.name, *kind.words):
        if name in taken:
            raise ValueError(f"task {name!r} has a name that is taken")
    TASKS[kind.name] = kind


def unregister(name: str) -> None:
    """Make a kind of task, or a metric, unknown again; nothing happens if there is none of that name."""
    TASKS.pop(name, None)
    METRICS.pop(name, None)


def task_words() -> tuple[str, ...]:
    """Return everything that ``--task`` takes, beside "auto": the words of a task, or its name where it has none."""
    return tuple(word for kind in TASKS.values() for word in kind.words or (kind.name,))


def criteria() -> tuple[str, ...]:
    """Return everything that a search may go by: the registered metrics of all tasks that rank learners."""
    ranking = [kind for kind in TASKS.values() if kind.presenter.metric.ranks]
    return tuple(dict.fromkeys(one.metric.key for kind in ranking for one in criteria_of(kind)))


def task_named(word: str) -> TaskKind:
    """Return the kind of task of a word of ``--task``, or of a data set's description.

    Raises
    ------
    ValueError
        There is none.
    """
    wanted = DEFAULT if word == AUTO else word
    for kind in TASKS.values():
        if wanted == kind.name or wanted in kind.words:
            return kind
    raise ValueError(f"which is none of {', '.join((AUTO, *task_words()))}")


def task_of(metrics: JsonObject) -> TaskKind:
    """Return the kind of task of a run, by its ``metrics.json``, of which any part may be missing."""
    name = mapping_of(metrics.get("data")).get("task")
    return TASKS.get(name if isinstance(name, str) else DEFAULT, TASKS[DEFAULT])


def task_from(values: JsonObject) -> Task:
    """Return the task of which :meth:`~ikmap.tasks.task.Task.as_json` made these values.

    Without a name it is the kind of task that there was first.

    Raises
    ------
    ValueError
        It is not known here.
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
    """Return those of some kinds of task that ``--task auto`` may choose by the labels."""
    return [kind for kind in kinds if kind.labels.choose]
