"""One pass of online gradient descent over cells against SGDClassifier on the same rows as CSR."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

from benchmarks import environment
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from benchmarks.linear_svm import T, mapped
from ikmap.learners.online.ogd import OGDState

TITLE = "Online gradient descent"
ABOUT = "one pass with the hinge loss over t = 100 cells a row, in order: SGDClassifier on the same rows as CSR"

ETA = 0.37
"""Margins are multiples of eta / t: none is exactly 1 with this step, where scikit-learn updates and we do not."""


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("a9a", "covtype-93k"):
        for psi in (256,) if options.quick else (256, 4096):
            yield Case(f"{name}, psi {psi}", partial(one_pass, name, psi, options))


def one_pass(name: str, psi: int, options: Options) -> Comparison:
    cells, y = mapped(name, options, psi)
    rows = cells.to_csr()

    def ours() -> np.ndarray:
        state = OGDState.start(cells.n_columns, 2, ETA, float(T))
        state.partial_fit(cells, y)
        return state.weights[:, 0]

    def theirs() -> np.ndarray:
        model = SGDClassifier(
            loss="hinge", penalty=None, learning_rate="constant", eta0=ETA, fit_intercept=False,
            max_iter=1, tol=None, shuffle=False,
        )  # fmt: skip
        weights: np.ndarray = model.fit(rows, y).coef_[0]
        return weights

    def check(results: dict[str, Any]) -> str:
        expected = results[label] * np.sqrt(T)
        if not np.allclose(results["ours"], expected, rtol=0, atol=1e-9):
            raise Disagreement(f"weights differ by up to {np.abs(results['ours'] - expected).max():.3g}")
        return f"all {expected.size} weights equal up to rounding"

    label = "SGDClassifier"
    return Comparison(
        Side("ours", ours),
        [Side(label, theirs, target=5.0, warm=theirs)],
        check,
        rows=y.size,
        bound=lambda seconds: (
            f"{seconds / cells.codes.size * 1e9:.2g} ns a cell with update and check of the rows; a gather from "
            f"weights of this size takes {1e9 / environment.gather_rate(cells.n_columns):.2g} ns"
        ),
    )
