"""Sweeps over splits by gradient descent or exact ridge regression, with a score at each value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from ikmap.methods.fields import FieldError

if TYPE_CHECKING:
    import numpy as np

    from ikmap.cells import Cells
    from ikmap.learners.rows import Block
    from ikmap.methods.sample import Training
    from ikmap.splits import CellSplit, Swept

EXACT_ROWS = 3000
"""Largest number of rows for exact ridge regression, which takes their square in memory."""
STEEP = 2.0
"""Size of the first step of logistic loss, whose curvature is at most a quarter."""
STORED_GROWTH = 1 / 4
"""Growth of the columns between checkpoints for rows that are too many for memory, where one epoch is enough."""


def gradient_sweep(
    loss: str,
    C: float,
    training: Training,
    held_out: Block,
    splits: Iterator[CellSplit],
    class_weight: Literal["balanced"] | None = None,
) -> Iterator[Swept]:
    """Follow splits with stochastic gradient descent on a loss with weight `C`, as in linear machines."""
    import numpy as np

    from ikmap.learners.rows import balanced_weights
    from ikmap.learners.sweeps.gradient import GradientSettings, GradientSweep
    from ikmap.learners.sweeps.stored import StoredRows, weighed
    from ikmap.splits import Swept
    from ikmap.tasks import criterion_of

    assert training.task is not None
    criterion = criterion_of(training.task)
    rows: object = training.block.rows
    eta = STEEP if loss == "logistic" else GradientSettings.eta
    if isinstance(rows, StoredRows):
        shift = 0.0 if training.classes else rows.mean()
        if class_weight == "balanced":
            rows = rows.balanced(len(training.classes))
        settings = GradientSettings(loss, 1 / (C * rows.n_rows), eta, growth=STORED_GROWTH, seed=training.seed)
        start, no_targets = [rows.start, _cells(held_out)], targets_of(training.y, training, shift)
        sweep = GradientSweep(start, no_targets, settings, None, (rows, lambda y: targets_of(y, training, shift)))
    else:
        y, shift = _targets(training)
        settings = GradientSettings(loss, 1 / (C * len(y)), eta, seed=training.seed)
        start, weight = [training.cells, _cells(held_out)], training.block.sample_weight
        if class_weight == "balanced":
            counts = np.bincount(training.y, weight, len(training.classes))
            weight = weighed(training.y, weight, balanced_weights(counts))
        sweep = GradientSweep(start, y, settings, weight)
    for value in sweep.follow(splits):
        values = criterion.scored_values(sweep.decisions() + shift)
        yield Swept(value, float(criterion.row_scores(held_out.y, values).sum()))


def ridge_sweep(
    C: float, training: Training, held_out: Block, splits: Iterator[CellSplit], by: Literal["auto", "exact", "sgd"]
) -> Iterator[Swept]:
    """Follow splits with ridge regression, exactly or by gradient descent; auto is exact for few rows.

    Raises
    ------
    FieldError
        An exact sweep was asked for, but the rows are too many for memory or have weights.
    """
    from ikmap.learners.sweeps.stored import StoredRows

    rows: object = training.block.rows
    stored, weighted = isinstance(rows, StoredRows), training.block.sample_weight is not None
    if by == "exact" and (stored or weighted):
        found = "rows that are read block by block" if stored else "rows with weights"
        raise FieldError("sweep_by", found, "auto or sgd", value=by)
    if by == "sgd" or stored or weighted or (by == "auto" and len(training.y) > EXACT_ROWS):
        yield from gradient_sweep("squared", C, training, held_out, splits)
        return
    from ikmap.learners.sweeps.ridge import RidgeSweep
    from ikmap.splits import Swept
    from ikmap.tasks import criterion_of

    assert training.task is not None
    criterion = criterion_of(training.task)
    y, shift = _targets(training)
    sweep = RidgeSweep([training.cells, _cells(held_out)], y[:, 0], 1 / (2 * C))
    for point in sweep.follow(splits):
        values = criterion.scored_values(sweep.decisions(point)[:, None] + shift)
        yield Swept(point.value, float(criterion.row_scores(held_out.y, values).sum()), point.log_likelihood)


def _cells(block: Block) -> Cells:
    from ikmap.cells import Cells

    assert isinstance(block.rows, Cells)
    return block.rows


def _targets(training: Training) -> tuple[np.ndarray, float]:
    """Return the targets of each output, shape (n, K), and the number to add to decisions.

    Targets are -1 and 1 for two classes, and for each of more classes; numbers are taken less their mean.
    """
    import numpy as np

    if training.classes:
        return targets_of(training.y, training, 0.0), 0.0
    mean = float(np.average(training.y, weights=training.block.sample_weight))
    return targets_of(training.y, training, mean), mean


def targets_of(y: np.ndarray, training: Training, shift: float) -> np.ndarray:
    """Return the targets of each output, shape (n, K), for some rows with targets `y`."""
    import numpy as np

    n_classes = len(training.classes)
    if not n_classes:
        return y[:, None] - shift
    positive = y[:, None] == (np.arange(n_classes) if n_classes > 2 else np.ones(1))
    return np.where(positive, 1.0, -1.0)
