"""The objective that block minimisation and the distributed solver end with, against the solver in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cocoa import fit_cocoa
from benchmarks.harness import Case, Options, Row
from benchmarks.linear_svm import TOL, mapped
from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import SVMFit, SVMParams, fit_linear_svm
from ikmap.learners.rows import Block
from pipeline.rows.cell_blocks import VISIT_ROWS

TITLE = "Solvers beyond memory"
ABOUT = "objective of the block and the distributed solver against the solver in memory, relative difference"

PARTS = 4
"""Parts of the distributed solver; each stands for the shards of one worker."""


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("a9a", "covtype-93k"):
        for loss in ("squared_hinge", "hinge"):
            for C in (0.1, 1.0):
                yield Case(f"{name}, {loss}, C = {C:g}", rows=partial(same_objective, name, loss, C, options))


def same_objective(name: str, loss: str, C: float, options: Options) -> list[Row]:
    cells, y = mapped(name, options)
    params = SVMParams(loss=loss, C=C, tol=TOL / 2)  # type: ignore[arg-type]
    case = f"{name}, {loss}, C = {C:g}"
    inside, seconds = _timed(lambda: fit_linear_svm([Block(cells, y)], 2, params))
    rows = []
    for label, solve in (("block minimisation", _in_blocks), ("distributed (CoCoA+)", _in_parts)):
        fit, took = _timed(partial(solve, cells, y, params))
        difference = abs(fit.primal[0] - inside.primal[0]) / inside.primal[0]
        note = f"certified gaps {inside.gap[0]:.2g} in memory, {fit.gap[0]:.2g}; {fit.n_iter[0]} visits of all rows"
        rows.append(Row(case, label, [took], [seconds], float(difference), 1e-3, "<=", notes=[note]))
    return rows


def _timed(work: Callable[[], SVMFit]) -> tuple[SVMFit, float]:
    begin = time.perf_counter()
    return work(), time.perf_counter() - begin


def _in_blocks(cells: Cells, y: Any, params: SVMParams) -> SVMFit:
    blocks = [Block(cells[k : k + VISIT_ROWS], y[k : k + VISIT_ROWS]) for k in range(0, y.size, VISIT_ROWS)]
    return fit_linear_svm(blocks, 2, params)


def _in_parts(cells: Cells, y: Any, params: SVMParams) -> SVMFit:
    return fit_cocoa([[Block(cells[part], y[part])] for part in np.array_split(np.arange(y.size), PARTS)], 2, params)
