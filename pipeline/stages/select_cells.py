"""Cross-validation of the learners that work on cells: each psi and each C, fold by fold."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import svm_model
from ikmap.learners.dual.linear_svm_path import fit_linear_svm_path
from ikmap.learners.rows import Block
from ikmap.methods import LEARNERS, RoundsLearner, Sample, StreamLearner, Training, WholeLearner
from ikmap.methods.map import Value
from ikmap.methods.search import size_of
from ikmap.model_selection import Learner, Predictor, RowScores, score_fold, values_of_C
from ikmap.rows import nbytes_of
from ikmap.tasks import LearningTask
from ikmap.tasks.figure import Judge
from pipeline.params import Params
from pipeline.record_types import Record
from pipeline.rows.row_weights import weighed_scores, weigher, weights_of
from pipeline.running.foreign import checked_path
from pipeline.stages.select_rows import cv_folds, cv_sample, fit_fold, judge_of, packed_rows, predictor, some_of
from pipeline.stages.select_sweeps import sweeps
from pipeline.storage.store import Store
from pipeline.training.in_memory import dual_model, stream_model
from pipeline.training.train_batch import svm_params

PATH_TOL = 1e-2
"""Duality gap that suffices to compare values of C: accuracy no longer moves where the objective is that close."""
PATH_SWEEPS = 100
"""Most sweeps for one C: a C that needs more is too large to be worth choosing."""
FIRST, FIRST_OF_BUDGET = (4,), (4, 64, 512)
"""The first fold is searched for cells up to each of these psi, and for those beyond, in tasks of their own, so that
something is known early: of the smallest psi, and with a budget, which may end the search there, of more. One search
for all psi takes about half as long."""


def cell_learners(params: Params) -> tuple[str, ...]:
    """Learners on cells that there is something to choose for, one of each set with the same decisions.

    Those that sweep are not among them (:mod:`pipeline.stages.select_sweeps`).
    """
    on_cells = {name: LEARNERS[name] for name in params.learners if LEARNERS[name].on == "cells"}
    if on_cells and not params.searches_width(params.cv_rows):
        on_cells = {name: one for name, one in on_cells.items() if one.searches_C(params.of(name))}
    every = bool(on_cells) and params.map.given(params.map_options) is None
    if every:
        on_cells = {name: one for name, one in on_cells.items() if not sweeps(params, name)}
    wanted = [params.compared_as(name) for name, one in on_cells.items() if every or one.searches_C(params.of(name))]
    return tuple(dict.fromkeys(wanted))


def cell_values(params: Params, sample: Sample, n_rows: int) -> list[Value]:
    """Values of the map, such as psi, that are tried on so many rows of a sample, ascending."""
    if not params.on_cells:
        return []
    given, search = params.map.given(params.map_options), params.map.search(params.map_options, n_rows, sample)
    if search is not None:
        return list(search.values)
    assert given is not None
    return [params.map.comparable(params.map_options, given, n_rows)]


def groups_of(psis: list[Value], fold: int, params: Params) -> list[list[Value]]:
    """Divide the values of psi among tasks; how they are divided does not change the result."""
    if not params.map.nested:
        shared: dict[Hashable, list[Value]] = {}
        for psi in psis:
            shared.setdefault(params.map.sharing(params.map_options, psi), []).append(psi)
        return list(shared.values())
    if fold:
        return [psis] if psis else []  # one nearest-neighbour search serves all psi
    ends = FIRST if params.budget is None else FIRST_OF_BUDGET
    lows, highs = (0, *ends), (*ends, math.inf)
    groups = [[psi for psi in psis if low < size_of(psi) <= high] for low, high in zip(lows, highs, strict=True)]
    return [group for group in groups if group]


def score_cells(
    store: Store, params: Params, fold: int, wanted: Mapping[int, Mapping[str, int]], n_rows: int
) -> Record:
    """Task: one fold of learners on cells; `wanted` has for each psi the learners, with how many C to try."""
    task, X, y, w = cv_sample(store, params, n_rows)
    fit, held_out = cv_folds(store, params, n_rows)[fold]
    learners: dict[float, dict[str, Learner]] = {
        psi: {name: _learner(name, params, task, n_Cs, weights_of(w, fit)) for name, n_Cs in of.items()}
        for psi, of in wanted.items()
    }

    def scored_by(judge: Judge) -> RowScores:
        return lambda target, found: weighed_scores(judge, judge.row_scores(target, found), weights_of(w, held_out))

    row_scores = {name: scored_by(judge_of(params, task, name)) for of in wanted.values() for name in of}
    inside = X[fit]
    path = params.map.path(params.map_options, list(learners), params.seed, inside, [inside, X[held_out]])
    found = score_fold(checked_path(path, params.partitioner), y[fit], y[held_out], learners, row_scores)
    read = nbytes_of(X)
    scores = [
        [name, psi, [packed_rows(rows) for rows in path]] for name, of in found.items() for psi, path in of.items()
    ]
    return {"bytes_read": int(read), "held_out": int(held_out.size), "scores": scores}


def _learner(name: str, params: Params, task: LearningTask, n_Cs: int, weight: np.ndarray | None = None) -> Learner:
    """The learner of the run, on rows in memory, which the data gives these weights."""
    learner, classes, weigh = LEARNERS[name], task.classes, weigher(params, name, task)
    task = params.judged(name, task)
    judge = judge_of(params, task, name)

    def stream(cells: Cells, y: np.ndarray) -> Predictor:
        return predictor(judge, stream_model(params, name, None, task, Block(cells, y, weight)))

    def batch(cells: Cells, y: np.ndarray) -> Predictor:
        return predictor(judge, dual_model(params, name, task, Block(cells, y, weigh(y, weight)), 1))

    def path(cells: Cells, y: np.ndarray) -> Iterator[Predictor]:
        # From the smallest C on, whichever are still of interest: each solution depends on where it started.
        Cs = values_of_C(len(classes))[:n_Cs]
        asked = svm_params(params.setting(name, C=Cs[0], tol=max(params.of(name).tol, PATH_TOL)), name)
        asked = replace(asked, max_iter=PATH_SWEEPS)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="duality gap")
            for fit in fit_linear_svm_path([Block(cells, y, weigh(y, weight))], len(classes), asked, Cs):
                yield predictor(judge, svm_model(fit, classes, asked, divisor=math.sqrt(cells.n_partitions)))
                del fit  # Nobody needs the weights of two C at a time.

    def whole(cells: Cells, y: np.ndarray) -> Predictor:
        assert isinstance(learner, WholeLearner)
        some = some_of(np.arange(y.size), learner.compared_on)
        return fit_fold(learner, params, None, (task, judge), Block(cells[some], y[some], weights_of(weight, some)))

    def rounds(cells: Cells, y: np.ndarray) -> Iterator[Predictor]:
        assert isinstance(learner, RoundsLearner)
        training = Training(Block(cells, y, weigh(y, weight)), classes, params.seed, task=task)
        for model in learner.path(params.of(name), training, values_of_C(len(classes))[:n_Cs]):
            yield predictor(judge, model)

    if isinstance(learner, RoundsLearner) and learner.searches_C(params.of(name)):
        return rounds
    if isinstance(learner, WholeLearner):
        return whole
    if isinstance(learner, StreamLearner):
        return stream
    return path if learner.searches_C(params.of(name)) else batch
