"""Weights of training rows: what the task makes of the targets, times what the data says; checked before use."""

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
"""A share of rows that weigh differently must not be rounded above 1."""

type WeightRule = Callable[[np.ndarray, np.ndarray | None], np.ndarray | None]
"""Weights of rows by their targets, and by those that the data gives them; None: all weigh the same."""


def weight_rule(task: Task) -> WeightRule:
    """Return how training rows are weighed in a task (:class:`~ikmap.tasks.capabilities.WeighsRows`)."""
    return partial(_weights, task)


def _weights(task: Task, targets: np.ndarray, own: np.ndarray | None) -> np.ndarray | None:
    found = sample_weight(task, targets)
    if found is None:
        return own
    weights = np.ascontiguousarray(found, dtype=np.float64)
    check_weights(weights, targets.size)
    return weights if own is None else weights * own


def refuse_ignored_weights(params: Params, column: str | None, tasks: Collection[str]) -> None:
    """Refuse learners that count every row once in all of these tasks, where a column says how much rows count.

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
        able = [name for name, kind in LEARNERS.items() if _weighs(kind.of_record({})[0], tasks)]
        expected = f"expected some of --learner {','.join(able)}" if able else "no learner weighs rows there"
        verb = "counts" if len(ignores_weights) == 1 else "count"
        of = f" in {next(iter(tasks))}" if len(tasks) == 1 else ""
        raise InputError(
            f"--weight {column}: found --learner {','.join(ignores_weights)}, which {verb} every row once{of}; "
            f"{expected}"
        )


def _weighs(learner: Learner, tasks: Collection[str]) -> bool:
    return any(learner.takes_weights(task) for task in tasks if task in learner.about.tasks)


def every_task() -> list[str]:
    """Names of all tasks, where it is not known yet which one it is."""
    return list(TASKS)


def weights_of(weight: Floats | None, rows: np.ndarray) -> Floats | None:
    """Those of some rows."""
    return None if weight is None else weight[rows]


def weight_given(weight: Floats | None) -> tuple[np.ndarray, ...]:
    """The further argument of ``partial_fit``, which only states of learners that weigh rows take."""
    return () if weight is None else (weight,)


def weighted_scores(criterion: Criterion, scores: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Scores of the rows of a fold, so that their mean is weighted.

    Where what a row counts depends on the other rows, as in a ranking, they stay as they are.
    """
    if weight is None or isinstance(criterion, ComparesRows):
        return scores
    mean = float(weight.mean()) * (1 + ROUNDING) if weight.size else 0.0
    return scores * (weight / mean) if mean > 0 else scores
