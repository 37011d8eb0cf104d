"""Ridge regression goes along a sweep over lifetimes as it is told."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from ikmap.learners.rows import Block
from ikmap.methods import FieldError, Sample, Training
from ikmap.methods.mondrian import Mondrian
from ikmap.methods.ridge import Ridge
from ikmap.methods.sweeping import EXACT_ROWS
from ikmap.splits import Swept
from ikmap.tasks import TASKS, LabelRequest, Task, criterion_of

ROWS = 90
LIMIT = 2.0


def problem() -> tuple[np.ndarray, np.ndarray, Task]:
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, 2))
    y = np.cos(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=ROWS)
    kind = TASKS["regression"]
    return X, y, kind.find([kind.read(y, y.size)[1]], LabelRequest())


def swept(by: Literal["auto", "exact", "sgd"], weight: np.ndarray | None = None) -> list[Swept]:
    X, y, task = problem()
    learned, held_out = X[:60], X[60:]
    sample = Sample(60, 2, None, learned.__getitem__, 1)
    sets, splits = Mondrian(t=5, lifetime=LIMIT).events(LIMIT, sample, [learned, held_out])
    training = Training(Block(sets[0], y[:60], weight), [], 1, task=task)
    return list(Ridge(C=5.0, sweep_by=by).sweep(training, Block(sets[1], y[60:]), splits))


def test_an_exact_sweep_solves_the_equations_of_the_last_lifetime() -> None:
    X, y, task = problem()
    last = swept("exact")[-1]
    model = Mondrian(t=5, lifetime=last.value).fit(Sample(60, 2, None, X[:60].__getitem__, 1))
    phi, mean = model.cells(X[:60]).to_csr().toarray(), y[:60].mean()
    w = np.linalg.solve(phi.T @ phi + 0.1 * np.eye(phi.shape[1]), phi.T @ (y[:60] - mean))
    predicted = model.cells(X[60:]).to_csr() @ w + mean
    assert last.total == pytest.approx(float(criterion_of(task).row_scores(y[60:], predicted).sum()), rel=1e-9)
    assert last.log_likelihood is not None


def test_few_rows_are_swept_exactly_unless_it_is_said_otherwise() -> None:
    assert EXACT_ROWS >= 60
    assert swept("auto") == swept("exact")
    descended = swept("sgd")
    assert all(point.log_likelihood is None for point in descended)
    assert [point.total for point in descended] != [point.total for point in swept("exact")]
    with pytest.raises(FieldError, match=r"^sweep_by exact: found rows with weights, expected auto or sgd$"):
        swept("exact", np.ones(60))
    assert swept("auto", np.ones(60)) == swept("sgd", np.ones(60))
