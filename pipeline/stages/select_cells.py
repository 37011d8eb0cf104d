"""Cross-validation of the learners that work on cells: each psi and each C, fold by fold."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import svm_model
from ikmap.learners.dual.linear_svm_path import fit_linear_svm_path
from ikmap.learners.rows import Block
from ikmap.methods import (
    LEARNERS,
    DualLearner,
    FollowsC,
    Map,
    Path,
    Sample,
    StreamLearner,
    Training,
    WholeLearner,
    capability,
)
from ikmap.methods.search import fitting
from ikmap.methods.values import Value, cells_of_values, grouped, size_of
from ikmap.model_selection import Learner, Predictor, RowScores, score_fold, values_of_C
from ikmap.rows import nbytes_of
from ikmap.tasks import Criterion, Task
from pipeline.params import Params
from pipeline.record_types import TrialRecord
from pipeline.resolve import worded
from pipeline.rows.row_weights import weight_rule, weighted_scores, weights_of
from pipeline.running.foreign import checked_path
from pipeline.stages.select_rows import cv_folds, cv_sample, fit_fold, packed_rows, predictor, search_criterion, some_of
from pipeline.stages.select_sweeps import sweeps
from pipeline.storage.store import Store
from pipeline.training.dual_tasks import svm_params
from pipeline.training.in_memory import dual_model, stream_model

PATH_TOL = 1e-2
"""Duality gap that suffices to compare values of C: at so small a gap the accuracy no longer changes."""
PATH_SWEEPS = 100
"""Most sweeps for one C: a C that needs more is too large to be worth choosing."""
FIRST, FIRST_OF_BUDGET = (4,), (4, 64, 512)
"""Ends of the groups of psi of the first fold, each a task of its own, so that some scores are known early: those of
the smallest psi and, with a budget, which may end the search there, those of more. One search for all psi takes about
half as long."""
MOST_PARTITIONINGS = 300
"""Most partitionings that a search looks at unless all is searched. The work grows with them; more of them make every
candidate better, but seldom another one the best."""


def cell_learners(params: Params) -> tuple[str, ...]:
    """Return the learners on cells with values to choose, one of each set with the same decisions.

    Learners that sweep are not among them (:mod:`pipeline.stages.select_sweeps`).
    """
    on_cells = [name for name in params.learners if LEARNERS[name].about.on == "cells"]
    if on_cells and not params.searches_map_value(params.cv_rows):
        on_cells = [name for name in on_cells if params.searches_C(name)]
    map_searched = bool(on_cells) and bool(params.map_searched)
    if map_searched:
        on_cells = [name for name in on_cells if not sweeps(params, name)]
    wanted = [params.compared_as(name) for name in on_cells if map_searched or params.searches_C(name)]
    return tuple(dict.fromkeys(wanted))


def cell_values(params: Params, sample: Sample, n_rows: int) -> list[Value]:
    """Return the values of the map, such as psi, that are tried on `n_rows` rows of a sample, ascending."""
    if not params.on_cells:
        return []
    search = params.search_of_map(n_rows, sample)
    return [fitting(params.map, params.map_searched, n_rows)] if search is None else list(search.values)


def map_to_search(params: Params) -> Map:
    """Return the map of a search: that of the run, with at most :data:`MOST_PARTITIONINGS` unless all is searched."""
    few = params.search == "race" and params.map.t > MOST_PARTITIONINGS
    return params.map.at({"t": MOST_PARTITIONINGS}) if few else params.map


def groups_of(psis: list[Value], fold: int, params: Params) -> list[list[Value]]:
    """Share out the values of psi among tasks; how they are shared out does not change the result."""
    if not psis:
        return []
    path = capability(params.map, Path)
    if fold or path is None or not path.small_first:
        return grouped(params.map, params.map_searched, psis)
    ends = FIRST if params.budget is None else FIRST_OF_BUDGET
    lows, highs = (0, *ends), (*ends, math.inf)
    groups = [[psi for psi in psis if low < size_of(psi) <= high] for low, high in zip(lows, highs, strict=True)]
    return [group for group in groups if group]


def score_cells(
    store: Store, params: Params, fold: int, wanted: Mapping[Value, Mapping[str, int]], n_rows: int
) -> TrialRecord:
    """Task: score one fold of learners on cells; `wanted` has for each psi the learners and the number of C to try."""
    task, X, y, weight = cv_sample(store, params, n_rows)
    fit, held_out = cv_folds(store, params, n_rows)[fold]
    learners: dict[Value, dict[str, Learner]] = {
        psi: {
            name: _learner(name, params, task, n_Cs, weights_of(weight, fit))
            for name, n_Cs in learners_of_value.items()
        }
        for psi, learners_of_value in wanted.items()
    }

    def scored_by(criterion: Criterion) -> RowScores:
        return lambda target, fold_scores: weighted_scores(
            criterion, criterion.row_scores(target, fold_scores), weights_of(weight, held_out)
        )

    row_scores = {
        name: scored_by(search_criterion(params, task, name))
        for learners_of_value in wanted.values()
        for name in learners_of_value
    }
    learned_rows = X[fit]
    n_learned, n_columns = learned_rows.shape
    sample = Sample(
        n_learned, n_columns, task, learned_rows.__getitem__, params.seed, targets=y[fit].__getitem__
    ).seen_by(params.map.description)
    searched = map_to_search(params)
    path = cells_of_values(searched, params.map_searched, list(learners), sample, [learned_rows, X[held_out]])
    with worded():
        fold_scores = score_fold(checked_path(path, params.partitioner), y[fit], y[held_out], learners, row_scores)
    bytes_read = nbytes_of(X)
    scores = [
        (name, psi, [packed_rows(rows) for rows in path])
        for name, paths in fold_scores.items()
        for psi, path in paths.items()
    ]
    return {"bytes_read": int(bytes_read), "held_out": int(held_out.size), "scores": scores}


def _learner(name: str, params: Params, task: Task, n_Cs: int, weight: np.ndarray | None = None) -> Learner:
    """Return a learner of the run as a function that fits rows in memory, which have the sample weights `weight`."""
    learner, classes, weight_of = params.of(name), task.codec.classes, weight_rule(task)
    along_C, at_once = capability(learner, FollowsC), capability(learner, WholeLearner)
    task = params.decision_task(name, task)
    criterion = search_criterion(params, task, name)

    def stream(cells: Cells, y: np.ndarray, params: Params = params) -> Predictor:
        return predictor(criterion, stream_model(params, name, None, task, Block(cells, y, weight)), name)

    def batch(cells: Cells, y: np.ndarray) -> Predictor:
        return predictor(criterion, dual_model(params, name, task, Block(cells, y, weight_of(y, weight)), 1), name)

    def path(cells: Cells, y: np.ndarray) -> Iterator[Predictor]:
        # Always from the smallest C on, even if only larger ones are left: each solution depends on where it started.
        Cs = values_of_C(len(classes))[:n_Cs]
        dual = params.learner_as(DualLearner, name)
        svm = svm_params(params, dual.at({"C": Cs[0], "tol": max(dual.tol, PATH_TOL)}))
        svm = replace(svm, max_iter=PATH_SWEEPS)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="duality gap")
            for fit in fit_linear_svm_path([Block(cells, y, weight_of(y, weight))], len(classes), svm, Cs):
                yield predictor(criterion, svm_model(fit, classes, svm, divisor=math.sqrt(cells.n_partitions)), name)
                del fit  # The weights of two C are never needed at a time.

    def fit_all(cells: Cells, y: np.ndarray, params: Params = params) -> Predictor:
        whole = params.learner_as(WholeLearner, name)
        places = some_of(np.arange(y.size), whole.compared_on)
        return fit_fold(whole, params, criterion, Block(cells[places], y[places], weights_of(weight, places)))

    def at_each_C(fit: Callable[[Cells, np.ndarray, Params], Predictor]) -> Learner:
        def fits(cells: Cells, y: np.ndarray) -> Iterator[Predictor]:
            for C in values_of_C(len(classes))[:n_Cs]:
                yield fit(cells, y, params.setting(name, C=C))

        return fits

    def rounds(cells: Cells, y: np.ndarray) -> Iterator[Predictor]:
        assert along_C is not None
        training = Training(Block(cells, y, weight_of(y, weight)), classes, params.seed, task=task)
        for model in along_C.path(training, values_of_C(len(classes))[:n_Cs]):
            yield predictor(criterion, model, name)

    if along_C is not None and params.searches_C(name):
        return rounds
    if at_once is not None:
        return at_each_C(fit_all) if params.searches_C(name) else fit_all
    if capability(learner, StreamLearner) is not None:
        return at_each_C(stream) if params.searches_C(name) else stream
    return path if params.searches_C(name) else batch
