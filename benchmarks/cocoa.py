"""CoCoA+ with all parts in this process, without the workers that improve them in the pipeline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ikmap.learners.dual.block_reader import BlockReader
from ikmap.learners.dual.cocoa import Coordinator, RoundConstants, improve, survey
from ikmap.learners.dual.linear_svm import SVMFit, SVMParams, problem_numbers, warn_unless_solved
from ikmap.learners.rows import Blocks


def fit_cocoa(
    parts: Sequence[Blocks],
    n_classes: int,
    params: SVMParams | None = None,
    *,
    classes_subset: Sequence[int] | None = None,
    cell_value: float | None = None,
) -> SVMFit:
    """Solve as :func:`~ikmap.learners.dual.linear_svm.fit_linear_svm` does, part by part, in this process.

    The objective is the same and so is the certificate; the solution differs within the duality gap, and depends on
    how the rows are divided into parts.

    Parameters
    ----------
    parts : sequence of sequences of Block
        The training set, in K parts. Rows of all classes in every part make it fast.
    n_classes, params, classes_subset, cell_value
        The same as there. ``inner_sweeps`` is the number of sweeps over a part in a round, ``max_iter`` that of rounds.

    Returns
    -------
    SVMFit
        ``n_iter`` counts rounds; the dual variables stand in the order of the parts.

    Warns
    -----
    ConvergenceWarning
        If the wanted gap was not reached.
    """
    params = params or SVMParams()
    problems = problem_numbers(n_classes, classes_subset)
    if len(parts) == 0:
        raise ValueError("no parts to learn from")
    readers = [BlockReader(blocks, n_classes, cell_value, params.normalize) for blocks in parts]
    rounds = RoundConstants.of(params, n_classes, problems, [survey(reader, n_classes) for reader in readers])
    columns = {reader.columns for reader in readers if reader.columns is not None}
    if len(columns) > 1:
        raise ValueError(f"parts have different numbers of feature columns: {sorted(columns)}")
    coordinator = Coordinator(rounds, columns.pop())
    alphas = [np.zeros((len(problems), sum(reader.rows_of_blocks()))) for reader in readers]
    before = alphas
    while (order := coordinator.order) is not None:
        w, w_before = coordinator.w, coordinator.w_before
        done = [
            improve(rounds, k, reader, order, alphas[k], before[k], w, w_before) for k, reader in enumerate(readers)
        ]
        coordinator.absorb(order, [report for _, report in done])
        following = coordinator.order
        for p in set(order.problems) - set(following.problems if following else ()):
            for k, (new, _) in enumerate(done):
                new[p] = alphas[k][p]
        before, alphas = alphas, [new for new, _ in done]
    fit = coordinator.fit(np.concatenate(alphas, axis=1))
    warn_unless_solved(fit, params, "rounds")
    return fit
