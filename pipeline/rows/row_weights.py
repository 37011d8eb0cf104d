"""Weights of training rows: the learner computes them from the targets, and they are checked before use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ikmap.learners.rows import check_weights
from ikmap.methods import LEARNERS, Learner
from ikmap.tasks import LearningTask
from pipeline.params import Params

type Weigh = Callable[[np.ndarray], np.ndarray | None]
"""Weights of rows by their targets; None: all weigh the same."""


def weigher(params: Params, learner: str, task: LearningTask) -> Weigh:
    """How a learner of a run weighs rows (:meth:`~ikmap.methods.Learner.weigh`)."""
    return partial(_weights, LEARNERS[learner], params.of(learner), task)


def _weights(learner: Learner, options: Any, task: LearningTask, targets: np.ndarray) -> np.ndarray | None:
    found = learner.weigh(options, task, targets)
    if found is None:
        return None
    weights = np.ascontiguousarray(found, dtype=np.float64)
    check_weights(weights, targets.size)
    return weights
