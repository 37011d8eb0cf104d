"""Figure 1 of the NORMA paper: one pass over digits without labels, and those that are most novel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ikmap.arrays import Array, Floats
from ikmap.kernels import GaussianKernel
from ikmap.learners.online.norma_rule import usual_rule
from ikmap.rows import Rows, as_dense
from ikmap_papers.norma.norma_dual_state import NormaDualState
from pipeline.record_types import Record, RecordView


def novel_digits(rows: Rows, target: np.ndarray, options: RecordView) -> Record:
    """Learn from the first rows in order, and rank these and the first test rows by f(x) - rho.

    Parameters
    ----------
    rows : ndarray or csr_array, shape (n, d)
        Pixels between -1 and 1; training rows, then test rows.
    target : ndarray, shape (n,)
        Digits, for the captions only.
    options : mapping
        ``train``, ``test``: how many rows to take of both; ``after``: where the test rows begin; ``nu``;
        ``two_sigma_squared`` of the kernel; ``shown``: how many digits of each kind.

    Returns
    -------
    dict
        ``margin_errors``: how many there were with steps of 1 / sqrt(train), ``rate``, their share in each fifth of the
        pass, and ``rho`` at its end; ``decreasing``: how many there are with steps of 1 / sqrt(row number);
        ``errors``, the first of them, and ``train`` and ``test``, the worst by the last function, and ``mean_train``
        and ``mean_test`` by the mean of all: each a list of row number, digit, score (None for the errors) and
        pixels, 0 to 255.
    """
    n, m, shown = options["train"], options["test"], options["shown"]
    begin = min(options["after"], len(target) - m)
    train, test = (_dense(rows[start:stop]) for start, stop in ((0, n), (begin, begin + m)))
    kernel = GaussianKernel(1.0 / options["two_sigma_squared"])
    mean_rule = usual_rule("novelty", nu=options["nu"], eta=n**-0.5, decreasing=False, average=True)
    rules = {"": replace(mean_rule, average=False), "mean_": mean_rule}
    decreasing = NormaDualState(usual_rule("novelty", nu=options["nu"], average=False), kernel)
    record: Record = {"decreasing": int(decreasing.partial_fit(train).beyond.sum())}
    for prefix, rule in rules.items():
        state = NormaDualState(rule, kernel)
        beyond = state.partial_fit(train).beyond
        for name, X, first in (("train", train, 0), ("test", test, begin)):
            scores = state.decision_function(X)[:, 0]
            worst = np.argsort(-scores, kind="stable")[:shown]
            record[prefix + name] = [_digit(X[i], target[first + i], int(i), -float(scores[i])) for i in worst]
        errors = np.flatnonzero(beyond)
        record |= {
            "margin_errors": int(errors.size),
            "rate": [round(float(fifth.mean()), 5) for fifth in np.array_split(beyond, 5)],
            "rho": float(state.numbers.thresholds(False)[0]),
            "errors": [_digit(train[i], target[i], int(i), None) for i in errors[:shown]],
        }
    return record


def _dense(rows: Rows) -> Floats:
    return np.ascontiguousarray(as_dense(rows), dtype=np.float64)


def _digit(pixels: Floats, target: Array, row: int, score: float | None) -> list[object]:
    # Bright on dark, as they were scanned.
    shades = np.clip(np.rint((pixels + 1.0) * 127.5), 0, 255).astype(int).tolist()
    return [row, int(target), None if score is None else round(score, 6), shades]
