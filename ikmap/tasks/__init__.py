"""What can be learned. Each task says everything about itself, in one file of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ikmap.tasks.classification import Classification
from ikmap.tasks.novelty import Novelty
from ikmap.tasks.task import Asked, Figure, LearningTask, Tally, plain_label

__all__ = [
    "LATER",
    "TASKS",
    "Asked",
    "Figure",
    "LearningTask",
    "Tally",
    "plain_label",
    "task_from",
    "task_named",
    "task_of",
    "task_words",
]

TASKS: dict[str, type[LearningTask]] = {task.name: task for task in (Classification, Novelty)}
DEFAULT = Classification.name
"""What ``--task auto`` means where the description of a data set says nothing else."""
LATER = ("regression", "novelty")
"""Names that tasks will have which may not be here yet."""


def task_words() -> tuple[str, ...]:
    """Everything that ``--task`` takes, beside "auto": the words of a task, or its name where it has none."""
    return tuple(word for task in TASKS.values() for word in task.words or (task.name,))


def task_named(word: str) -> type[LearningTask]:
    """The task of a word of ``--task``, or of a data set's description.

    Raises
    ------
    ValueError
        There is none.
    """
    wanted = DEFAULT if word == "auto" else word
    for task in TASKS.values():
        if wanted == task.name or wanted in task.words:
            return task
    taken = f"--task {TASKS[DEFAULT].words[-1]} takes each label for a class"
    known = ", ".join(("auto", *task_words()))
    raise ValueError(f"which is not available yet; {taken}" if word in LATER else f"which is none of {known}")


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
