"""Weights of training rows: those of the task, by the targets, times those of the data; checked before use."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import numpy as np

from ikmap.arrays import Floats
from ikmap.learners.rows import check_weights
from ikmap.methods import LEARNERS, Learner
from ikmap.tasks import TASKS, Criterion, Task
from ikmap.tasks.capabilities import sample_weight
from ikmap.tasks.criteria import ComparesRows
from pipeline.errors import InputError
from pipeline.params import Params

ROUNDING = 2.0**-40
"""Factor by which a mean is raised, so that no share of rows with different weights is rounded above 1."""

type WeightRule = Callable[[np.ndarray, np.ndarray | None], np.ndarray | None]
"""A function from targets and weights of the data to the weights of rows; None: all weigh the same."""


def weight_rule(task: Task) -> WeightRule:
    """Return the function that weighs training rows in a task (:class:`~ikmap.tasks.capabilities.WeighsRows`)."""
    return partial(_weights, task)


def _weights(task: Task, targets: np.ndarray, data_weights: np.ndarray | None) -> np.ndarray | None:
    task_weights = sample_weight(task, targets)
    if task_weights is None:
        return data_weights
    weights = np.ascontiguousarray(task_weights, dtype=np.float64)
    check_weights(weights, targets.size)
    return weights if data_weights is None else weights * data_weights


def refuse_ignored_weights(params: Params, column: str | None, tasks: Collection[str]) -> None:
    """Refuse learners that count every row once in all of some tasks, where a column has weights of rows.

    Nothing is refused as long as the learner is not known.

    Raises
    ------
    InputError
        Naming learners that can weigh rows.
    """
    if column is None or params.undecided:
        return
    ignores_weights = [name for name in params.learners if not _weighs(params.of(name), tasks)]
    if ignores_weights:
        able_learners = [name for name, kind in LEARNERS.items() if _weighs(kind.of_record({})[0], tasks)]
        expected = (
            f"expected some of --learner {','.join(able_learners)}" if able_learners else "no learner weighs rows there"
        )
        verb = "counts" if len(ignores_weights) == 1 else "count"
        where = f" in {next(iter(tasks))}" if len(tasks) == 1 else ""
        raise InputError(
            f"--weight {column}: found --learner {','.join(ignores_weights)}, which {verb} every row once{where}; "
            f"{expected}"
        )


def _weighs(learner: Learner, tasks: Collection[str]) -> bool:
    return any(learner.takes_weights(task) for task in tasks if task in learner.about.tasks)


def every_task() -> list[str]:
    """Return the names of all tasks, for a run whose task is not known yet."""
    return list(TASKS)


def weights_of(weight: Floats | None, rows: np.ndarray | slice) -> Floats | None:
    """Return the weights of some rows."""
    return None if weight is None else weight[rows]


def weight_given(weight: Floats | None) -> tuple[np.ndarray, ...]:
    """Return the further argument of ``partial_fit``, which only states of learners that weigh rows take."""
    return () if weight is None else (weight,)


def weighted_scores(criterion: Criterion, scores: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the scores of the rows of a fold, so that their mean is weighted.

    Scores stay as they are if the score of a row depends on the other rows, as in a ranking.
    """
    if weight is None or isinstance(criterion, ComparesRows):
        return scores
    mean = float(weight.mean()) * (1 + ROUNDING) if weight.size else 0.0
    return scores * (weight / mean) if mean > 0 else scores
