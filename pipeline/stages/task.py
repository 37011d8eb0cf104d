"""Find the task of a run, by its option or its data set's definition, and check that its learners can do it."""

from __future__ import annotations

from ikmap.methods import LEARNERS, FieldError
from ikmap.tasks import AUTO, TASKS, TaskKind, task_by_labels, task_named
from ikmap.tasks.capabilities import WeighsRows, capability
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.resolve import flag
from pipeline.sources.datasets.registry import ResolvedDataset


def requested_word(params: Params, data: ResolvedDataset) -> tuple[str, str]:
    """The word for what is to be learned, as in ``--task``, and whether the option or the data set says so."""
    if params.task != "auto":
        return params.task, f"--task {params.task}"
    return data.task, f'data set {data.name} is defined with task = "{data.task}"'


def requested_task(params: Params, data: ResolvedDataset) -> TaskKind:
    """The task of a run.

    Raises
    ------
    InputError
        There is none of that name, or one of the learners does not serve it, or would ignore what its rows weigh.
    """
    word, reason = requested_word(params, data)
    may_be = [each.learners for each in params.alternatives()]
    served = [
        one
        for one in TASKS.values()
        if any(all(one.name in LEARNERS[name].about.tasks for name in learners) for learners in may_be)
    ]
    try:
        task = task_by_labels(served, data.two_class is not None) if word == AUTO else task_named(word)
    except ValueError as error:
        raise InputError(f"{reason}, {error}") from None
    if task.name == AUTO:
        return task
    if data.inliers is not None and not task.labels.inliers:
        takers = ", ".join(name for name, one in TASKS.items() if one.labels.inliers)
        raise InputError(f"--inliers: found task {task.name} ({reason}), expected --task {takers}")
    params = params.settled(task)
    ignores_weights = [
        name
        for name, kind in LEARNERS.items()
        if capability(task, WeighsRows) and not kind.of_record({})[0].takes_weights(task.name)
    ]
    able = [name for name, kind in LEARNERS.items() if task.name in kind.about.tasks and name not in ignores_weights]
    instead = f"expected --learner {','.join(able)}, or some of these" if able else "no learner does yet"
    if refused := [name for name in params.learners if task.name not in LEARNERS[name].about.tasks]:
        verb = "does" if len(refused) == 1 else "do"
        raise InputError(f"--learner {','.join(refused)}: {verb} not learn {task.name} ({reason}); {instead}")
    if refused := [name for name in params.learners if name in ignores_weights]:
        verb = "ignores" if len(refused) == 1 else "ignore"
        raise InputError(f"--learner {','.join(refused)}: {verb} what rows weigh in {task.name} ({reason}); {instead}")
    refuse_unsuited(params, task, reason)
    return task


def refuse_unsuited(params: Params, task: TaskKind, reason: str) -> None:
    """Refuse options that learners cannot have for the task, and searches where there is nothing to choose by.

    Raises
    ------
    InputError
        With `reason`: by what it is known that this is the task.
    """
    for name in params.learners:
        try:
            params.of(name).check_task(task.name)
        except FieldError as error:
            raise InputError(f"{error.worded(flag)} ({reason})") from None
        if not task.labels.needed and params.searches_for(name, params.cv_rows):
            raise InputError(
                f"--learner {name}: found task {task.name} ({reason}), which has no labels to choose numbers by; "
                f"expected --task {task.name}, with which learners have numbers of their own, or numbers, as --psi 32"
            )
    on_cells = any(LEARNERS[name].about.on == "cells" for name in params.learners)
    if on_cells and params.map.description.sees_labels and not task.labels.needed:
        raise InputError(
            f"--partitioner {params.partitioner}: found task {task.name} ({reason}), which has no labels to grow trees "
            "by; expected a map that needs none, as --partitioner iforest"
        )
