"""Cross-validation of the learners that work on cells: each psi and each C, fold by fold."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.linear_svm import fit_linear_svm, svm_model
from ikmap.learners.linear_svm_path import fit_linear_svm_path
from ikmap.learners.rows import Block
from ikmap.methods import LEARNERS, Sample, StreamLearner, WholeLearner
from ikmap.model_selection import Learner, Predictor, folds, psis_that_fit, score_fold, values_of_C
from ikmap.seeds import generator
from pipeline.engine import Record
from pipeline.params import Params
from pipeline.prepared import PreparedRows
from pipeline.stages.select_rows import cv_sample, fit_fold, packed_rows, some_of
from pipeline.stages.train import PASS_STREAM, svm_params
from pipeline.store import Store

PATH_TOL = 1e-2
"""Duality gap that suffices to compare values of C: accuracy no longer moves where the objective is that close."""
PATH_SWEEPS = 100
"""Most sweeps for one C: a C that needs more is too large to be worth choosing."""
FIRST, FIRST_OF_BUDGET = (4,), (4, 64, 512)
"""The first fold is searched for cells up to each of these psi, and for those beyond, in tasks of their own, so that
something is known early: of the smallest psi, and with a budget, which may end the search there, of more. One search
for all psi takes about half as long."""


def cell_learners(params: Params) -> tuple[str, ...]:
    """Learners on cells that there is something to choose for, one of each set with the same decisions."""
    wanted = [
        LEARNERS[name].same_as or name
        for name in params.learners
        if LEARNERS[name].on == "cells" and (params.psi == "auto" or (LEARNERS[name].takes_C and params.C == "auto"))
    ]
    return tuple(dict.fromkeys(wanted))


def cell_values(params: Params, n_rows: int) -> list[int]:
    """Values of psi that are tried, ascending."""
    # A given psi may be more than the rows that a fold leaves: then it is cut there, for the comparison only.
    return psis_that_fit(n_rows) if params.psi == "auto" else psis_that_fit(n_rows, psis=[int(params.psi)])


def groups_of(psis: list[int], fold: int, params: Params) -> list[list[int]]:
    """Values of psi that one task scores: never a matter of the result."""
    if params.partitioner == "iforest":
        return [[psi] for psi in psis]  # trees are grown anew for each psi
    if fold:
        return [psis] if psis else []  # one nearest-neighbour search serves all psi
    ends = FIRST if params.budget is None else FIRST_OF_BUDGET
    lows, highs = (0, *ends), (*ends, math.inf)
    groups = [[psi for psi in psis if low < psi <= high] for low, high in zip(lows, highs, strict=True)]
    return [group for group in groups if group]


def score_cells(
    store: Store, params: Params, fold: int, wanted: Mapping[int, Mapping[str, int]], n_rows: int
) -> Record:
    """Task: one fold of learners on cells; `wanted` has for each psi the learners, with how many C to try."""
    X, y = cv_sample(store, params, n_rows)
    fit, held_out = folds(n_rows, params.seed)[fold]
    n_classes = len(PreparedRows(store, "train").preparation.classes)
    learners = {
        psi: {name: _learner(name, params, n_classes, n_Cs) for name, n_Cs in of.items()} for psi, of in wanted.items()
    }
    options = {"max_depth": params.max_depth} if params.partitioner == "iforest" else {}
    found = score_fold(
        X,
        y,
        fit,
        held_out,
        learners,
        method=params.partitioner,
        n_partitions=params.t,
        seed=params.seed,
        n_threads=1,
        **options,
    )
    read = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    right = [
        [name, psi, [packed_rows(rows) for rows in path]] for name, of in found.items() for psi, path in of.items()
    ]
    return {"bytes_read": int(read), "held_out": int(held_out.size), "right": right}


def _learner(name: str, params: Params, n_classes: int, n_Cs: int) -> Learner:
    """The learner of the run, on rows in memory."""
    classes = list(range(n_classes))

    learner = LEARNERS[name]

    def stream(cells: Cells, y: np.ndarray) -> Predictor:
        assert isinstance(learner, StreamLearner)
        sample = Sample(len(cells), cells.n_partitions, n_classes, cells.__getitem__, cells.offsets)
        state = learner.start(params, None, sample)
        order = np.arange(y.size)
        if params.order == "shuffled":
            order = generator(params.seed, PASS_STREAM, 0).permutation(y.size)
        state.partial_fit(cells[order], y[order])
        return state.model(classes).predict_index

    def batch(cells: Cells, y: np.ndarray) -> Predictor:
        asked = svm_params(params, name)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="duality gap")  # ConvergenceWarning: slow to import
            fit = fit_linear_svm([Block(cells, y)], n_classes, asked)
        return svm_model(fit, classes, asked, divisor=math.sqrt(params.t)).predict_index

    def path(cells: Cells, y: np.ndarray) -> Iterator[Predictor]:
        # From the smallest C on, whichever are still of interest: each solution depends on where it started.
        Cs = values_of_C(n_classes)[:n_Cs]
        asked = svm_params(replace(params, C=Cs[0], tol=max(params.tol, PATH_TOL)), name)
        asked = replace(asked, max_iter=PATH_SWEEPS)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="duality gap")
            for fit in fit_linear_svm_path([Block(cells, y)], n_classes, asked, Cs):
                yield svm_model(fit, classes, asked, divisor=math.sqrt(params.t)).predict_index
                del fit  # Nobody needs the weights of two C at a time.

    def whole(cells: Cells, y: np.ndarray) -> Predictor:
        assert isinstance(learner, WholeLearner)
        some = some_of(np.arange(y.size), learner.compared_on)
        return fit_fold(learner, params, None, cells[some], y[some])

    if isinstance(learner, WholeLearner):
        return whole
    if isinstance(learner, StreamLearner):
        return stream
    return path if params.C == "auto" else batch
