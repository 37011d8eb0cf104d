"""What can be learned. Each task says everything about itself, in one file of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ikmap.tasks.bad_label import BadLabel
from ikmap.tasks.classification import Classification
from ikmap.tasks.novelty import Novelty
from ikmap.tasks.regression import Regression
from ikmap.tasks.task import Asked, Figure, LearningTask, Tally, plain_label

__all__ = [
    "AUTO",
    "TASKS",
    "Asked",
    "BadLabel",
    "Figure",
    "LearningTask",
    "Tally",
    "criteria",
    "plain_label",
    "task_by_labels",
    "task_from",
    "task_named",
    "task_of",
    "task_words",
]

TASKS: dict[str, type[LearningTask]] = {task.name: task for task in (Classification, Regression, Novelty)}
DEFAULT = Classification.name
"""What ``--task auto`` means where the description of a data set says nothing else."""


AUTO = "auto"
"""The word of ``--task`` that leaves it to the data set's description, or to the labels."""


def task_by_labels(served: Sequence[type[LearningTask]], two_class: bool) -> type[LearningTask]:
    """What ``--task auto`` means where no description says it: one of the tasks that all learners of a run serve.

    Parameters
    ----------
    served : sequence of types
    two_class : bool
        Labels are said to be classes.

    Returns
    -------
    type
        The only one that labels may choose; :class:`~ikmap.tasks.by_labels.ByLabels`, which finds out, where there are
        several; the usual one where there is none.
    """
    from ikmap.tasks.by_labels import ByLabels

    open_to = [task for task in served if task.by_labels]
    if two_class or not open_to:
        return TASKS[DEFAULT]
    return open_to[0] if len(open_to) == 1 else ByLabels


def task_words() -> tuple[str, ...]:
    """Everything that ``--task`` takes, beside "auto": the words of a task, or its name where it has none."""
    return tuple(word for task in TASKS.values() for word in task.words or (task.name,))


def criteria() -> tuple[str, ...]:
    """Everything that a search may go by: the figures of all tasks that rank, and what else they offer."""
    found = [key for task in TASKS.values() if task.figure.ranks for key in (task.figure.key, *task.criteria)]
    return tuple(dict.fromkeys(found))


def task_named(word: str) -> type[LearningTask]:
    """The task of a word of ``--task``, or of a data set's description.

    Raises
    ------
    ValueError
        There is none.
    """
    wanted = DEFAULT if word == AUTO else word
    for task in TASKS.values():
        if wanted == task.name or wanted in task.words:
            return task
    raise ValueError(f"which is none of {', '.join((AUTO, *task_words()))}")


def task_of(metrics: Mapping[str, Any]) -> type[LearningTask]:
    """The task of a run, by what its ``metrics.json`` says, of which any part may be missing."""
    data = metrics.get("data")
    name = data.get("task") if isinstance(data, Mapping) else None
    return TASKS.get(name if isinstance(name, str) else DEFAULT, TASKS[DEFAULT])


def task_from(values: Mapping[str, Any]) -> LearningTask:
    """The task of which :meth:`LearningTask.as_json` made these values; without a name, the first that there was.

    Raises
    ------
    ValueError
        It is not known here.
    """
    name = values.get("name", DEFAULT)
    if name not in TASKS:
        raise ValueError(f"task {name!r} is not known here; install the package that has it on this machine too")
    return TASKS[name].from_json(values)
