"""How learners that follow splits by gradient descent, or exactly, score what they have learned by then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block
    from ikmap.methods.sample import Training
    from ikmap.splits import CellSplit, Swept

EXACT_ROWS = 3000
"""Ridge regression is solved at every checkpoint for up to so many rows: it takes their square in memory."""


def gradient_sweep(
    loss: str, C: float, training: Training, held_out: Block, splits: Iterator[CellSplit]
) -> Iterator[Swept]:
    """Follow splits with stochastic gradient descent on the loss, of which `C` is the weight, as of linear machines."""
    from ikmap.learners.sweeps.gradient import GradientSettings, GradientSweep
    from ikmap.splits import Swept

    task: Any = training.task
    y, shift = _targets(training)
    settings = GradientSettings(loss, 1 / (C * len(y)), seed=training.seed)
    start: list[Any] = [training.rows, held_out.rows]
    sweep = GradientSweep(start, y, settings, training.block.sample_weight)
    for value in sweep.follow(splits):
        predicted = task.predict(sweep.decisions() + shift)
        yield Swept(value, float(task.row_scores(held_out.y, predicted).sum()))


def ridge_sweep(C: float, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
    """Follow splits with ridge regression: exactly for few rows, else by gradient descent."""
    if len(training.y) > EXACT_ROWS or training.block.sample_weight is not None:
        yield from gradient_sweep("squared", C, training, held_out, splits)
        return
    from ikmap.learners.sweeps.ridge import RidgeSweep
    from ikmap.splits import Swept

    task: Any = training.task
    y, shift = _targets(training)
    start: list[Any] = [training.rows, held_out.rows]
    sweep = RidgeSweep(start, y[:, 0], 1 / (2 * C))
    for point in sweep.follow(splits):
        predicted = task.predict(sweep.decisions(point)[:, None] + shift)
        yield Swept(point.value, float(task.row_scores(held_out.y, predicted).sum()), point.log_likelihood)


def _targets(training: Training) -> tuple[np.ndarray, float]:
    """Targets of each output, shape (n, K), and what is to be added to decisions: -1 and 1 of classes, each by itself
    where there are more than two; numbers less their mean."""
    import numpy as np

    n_classes, y = len(training.classes), training.y
    if not n_classes:
        mean = float(np.average(y, weights=training.block.sample_weight))
        return y[:, None] - mean, mean
    positive = y[:, None] == (np.arange(n_classes) if n_classes > 2 else np.ones(1))
    return np.where(positive, 1.0, -1.0), 0.0
