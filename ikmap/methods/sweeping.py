"""How learners that follow splits by gradient descent, or exactly, score what they have learned by then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from ikmap.methods.fields import FieldError

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block
    from ikmap.methods.sample import Training
    from ikmap.splits import CellSplit, Swept

EXACT_ROWS = 3000
"""Ridge regression is solved at every checkpoint for up to so many rows: it takes their square in memory."""
STEEP = 2.0
"""Size of the first step of logistic loss, whose curvature is at most a quarter."""
STORED_GROWTH = 1 / 4
"""Share by which columns grow between checkpoints where rows are so many that they are stored: an epoch goes far."""


def gradient_sweep(
    loss: str, C: float, training: Training, held_out: Block, splits: Iterator[CellSplit]
) -> Iterator[Swept]:
    """Follow splits with stochastic gradient descent on the loss, of which `C` is the weight, as of linear machines."""
    from ikmap.learners.sweeps.gradient import GradientSettings, GradientSweep
    from ikmap.learners.sweeps.stored import StoredRows
    from ikmap.splits import Swept
    from ikmap.tasks import criterion_of

    assert training.task is not None
    criterion = criterion_of(training.task)
    start: list[Any] = [training.rows, held_out.rows]
    eta = STEEP if loss == "logistic" else GradientSettings.eta
    if isinstance(training.rows, StoredRows):
        stored: StoredRows = training.rows
        shift = 0.0 if training.classes else stored.mean()
        settings = GradientSettings(loss, 1 / (C * stored.n_rows), eta, growth=STORED_GROWTH, seed=training.seed)
        start[0] = stored.start
        nothing = targets_of(training.y, training, shift)
        sweep = GradientSweep(start, nothing, settings, None, (stored, lambda y: targets_of(y, training, shift)))
    else:
        y, shift = _targets(training)
        settings = GradientSettings(loss, 1 / (C * len(y)), eta, seed=training.seed)
        sweep = GradientSweep(start, y, settings, training.block.sample_weight)
    for value in sweep.follow(splits):
        predicted = criterion.scored_values(sweep.decisions() + shift)
        yield Swept(value, float(criterion.row_scores(held_out.y, predicted).sum()))


def ridge_sweep(
    C: float, training: Training, held_out: Block, splits: Iterator[CellSplit], by: Literal["auto", "exact", "sgd"]
) -> Iterator[Swept]:
    """Follow splits with ridge regression: exactly, by gradient descent, or (auto) exactly for few rows.

    Raises
    ------
    FieldError
        It is to be exact, and the rows are too many to be in memory, or have weights.
    """
    from ikmap.learners.sweeps.stored import StoredRows

    stored, weighed = isinstance(training.rows, StoredRows), training.block.sample_weight is not None
    if by == "exact" and (stored or weighed):
        found = "rows that are read block by block" if stored else "rows with weights"
        raise FieldError("sweep_by", found, "auto or sgd", value=by)
    if by == "sgd" or stored or weighed or (by == "auto" and len(training.y) > EXACT_ROWS):
        yield from gradient_sweep("squared", C, training, held_out, splits)
        return
    from ikmap.learners.sweeps.ridge import RidgeSweep
    from ikmap.splits import Swept
    from ikmap.tasks import criterion_of

    assert training.task is not None
    criterion = criterion_of(training.task)
    y, shift = _targets(training)
    start: list[Any] = [training.rows, held_out.rows]
    sweep = RidgeSweep(start, y[:, 0], 1 / (2 * C))
    for point in sweep.follow(splits):
        predicted = criterion.scored_values(sweep.decisions(point)[:, None] + shift)
        yield Swept(point.value, float(criterion.row_scores(held_out.y, predicted).sum()), point.log_likelihood)


def _targets(training: Training) -> tuple[np.ndarray, float]:
    """Targets of each output, shape (n, K), and what is to be added to decisions: -1 and 1 of classes, each by itself
    where there are more than two; numbers less their mean."""
    import numpy as np

    if training.classes:
        return targets_of(training.y, training, 0.0), 0.0
    mean = float(np.average(training.y, weights=training.block.sample_weight))
    return targets_of(training.y, training, mean), mean


def targets_of(y: np.ndarray, training: Training, shift: float) -> np.ndarray:
    """The same of some rows, from their targets."""
    import numpy as np

    n_classes = len(training.classes)
    if not n_classes:
        return y[:, None] - shift
    positive = y[:, None] == (np.arange(n_classes) if n_classes > 2 else np.ones(1))
    return np.where(positive, 1.0, -1.0)
