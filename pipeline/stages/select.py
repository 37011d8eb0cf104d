"""Select: choose psi and C for each learner by 5-fold cross-validation on a sample of the training rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.linear_svm import fit_linear_svm, svm_model
from ikmap.learners.linear_svm_path import fit_linear_svm_path
from ikmap.learners.ogd import OGDState
from ikmap.learners.rows import Block
from ikmap.model_selection import FOLDS, Learner, Predictor, folds, psis_that_fit, score_fold, values_of_C
from ikmap.seeds import generator
from pipeline.baselines import fit_fold, searched
from pipeline.engine import Context, Record, Stage, Task
from pipeline.learners import LEARNERS
from pipeline.params import Params
from pipeline.prepared import PreparedRows
from pipeline.stages.select_rows import cv_sample, select_rows, some_of
from pipeline.stages.train import PASS_STREAM, svm_params
from pipeline.store import Store

PATH_TOL = 1e-2
"""Duality gap that suffices to compare values of C: accuracy no longer moves where the objective is that close."""
PATH_SWEEPS = 100
"""Most sweeps for one C: a C that needs more is too large to be worth choosing."""


def searches(params: Params) -> list[str]:
    """Names of what cross-validation is to choose: "psi", "C", "gamma", "lambda", or nothing."""
    wanted = {searched(name, params) for name in params.learners}
    if params.C == "auto" and any(LEARNERS[name].takes_C for name in params.learners):
        wanted.add("C")
    return [name for name in ("psi", "C", "gamma", "lambda") if name in wanted]


def select(context: Context) -> dict[str, Any]:
    """Choose psi, C or both for each learner.

    Returns
    -------
    dict
        psi (values tried), accuracy (of each learner, by psi), chosen (for each learner the psi of its best accuracy;
        ties go to the smaller), rows, folds. Where C is searched too: C (values tried), accuracy_by_C (of each learner
        that has a C, by psi, then by C, as far as every fold tried them), chosen_C (ties go to the smaller psi, then to
        the smaller C); accuracy is then that of the best C. tuned: what :func:`select_rows` found, for the learners
        on rows.
    """
    params, store = context.params, context.store
    rows = PreparedRows(store, "train")
    n = rows.n_rows
    used = min(n, params.cv_rows)
    wanted = searches(params)
    if used < n:
        verb = "is" if len(wanted) == 1 else "are"
        context.events.message(f"{' and '.join(wanted)} {verb} chosen on {used:,} of {n:,} training rows (--cv-rows)")
    stage = Stage(context, "select", None, used)
    found: dict[str, Any] = {"rows": used, "folds": FOLDS, "chosen": {}}
    if learners := cell_learners(params):
        found |= _select_cells(stage, learners, used, len(rows.preparation.classes))
    if tuned := select_rows(stage, params, used):
        found["tuned"] = tuned
    return stage.finish(**found)


def cell_learners(params: Params) -> tuple[str, ...]:
    """Learners on cells that there is something to choose for, one of each set with the same decisions."""
    wanted = [
        LEARNERS[name].same_as or name
        for name in params.learners
        if LEARNERS[name].on == "cells" and (params.psi == "auto" or (LEARNERS[name].takes_C and params.C == "auto"))
    ]
    return tuple(dict.fromkeys(wanted))


def _select_cells(stage: Stage, learners: tuple[str, ...], used: int, n_classes: int) -> dict[str, Any]:
    params, store = stage.context.params, stage.context.store
    # A given psi may be more than the rows that a fold leaves: then it is cut there, for the comparison only.
    psis = psis_that_fit(used) if params.psi == "auto" else psis_that_fit(used, psis=[int(params.psi)])
    # Trees are grown anew for each psi, so each psi is a task; one nearest-neighbour search serves all psi.
    groups = [[psi] for psi in psis] if params.partitioner == "iforest" else [psis]
    tasks = [
        Task(f"fold-{k}-psi-{group[0]}", (store, params, learners, k, group, used))
        for group in reversed(groups)
        for k in range(FOLDS)
    ]
    records = stage.run(score, tasks)
    by_C: dict[str, list[list[float]]] = {}
    for name in learners:
        folds_of = {psi: [] for psi in psis}  # type: dict[int, list[list[int]]]
        for record in records:
            for psi, counts in zip(record["psis"], record["correct"][name], strict=True):
                folds_of[psi].append(counts)
        # A C counts where every fold tried it.
        by_C[name] = [[sum(counts) / used for counts in zip(*folds_of[psi], strict=False)] for psi in psis]
    accuracy = {name: [max(by_psi) for by_psi in by_C[name]] for name in learners}
    best = {name: int(np.argmax(accuracy[name])) for name in learners}
    of = {name: psis[best[name]] if params.psi == "auto" else int(params.psi) for name in learners}
    same = {name: LEARNERS[name].same_as or name for name in params.learners}
    chosen = {name: of[known] for name, known in same.items() if known in of}
    found: dict[str, Any] = {"psi": psis, "accuracy": accuracy, "chosen": chosen}
    if params.C == "auto" and any(LEARNERS[name].takes_C for name in learners):
        by_C = {name: by_psi for name, by_psi in by_C.items() if LEARNERS[name].takes_C}
        Cs = values_of_C(n_classes)
        chosen_C = {name: Cs[int(np.argmax(by_psi[best[name]]))] for name, by_psi in by_C.items()}
        found |= {"C": list(Cs), "accuracy_by_C": by_C, "chosen_C": chosen_C}
    return found


def score(store: Store, params: Params, names: tuple[str, ...], fold: int, psis: list[int], n_rows: int) -> Record:
    """Task: one fold of the learners on cells."""
    X, y = cv_sample(store, params, n_rows)
    fit, held_out = folds(n_rows, params.seed)[fold]
    n_classes = len(PreparedRows(store, "train").preparation.classes)
    learners = {name: _learner(name, params, n_classes) for name in names}
    options = {"max_depth": params.max_depth} if params.partitioner == "iforest" else {}
    correct = score_fold(
        X,
        y,
        fit,
        held_out,
        psis,
        learners,
        method=params.partitioner,
        n_partitions=params.t,
        seed=params.seed,
        n_threads=1,
        **options,
    )
    read = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    return {"bytes_read": int(read), "psis": psis, "correct": correct}


def _learner(name: str, params: Params, n_classes: int) -> Learner:
    """The learner of the run, on rows in memory."""
    classes = list(range(n_classes))

    def ogd(cells: Cells, y: np.ndarray) -> Predictor:
        divisor = float(params.t) if params.feature_scale == "kernel" else 1.0
        state = OGDState.start(cells.n_columns, n_classes, eta=params.eta, divisor=divisor)
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
        Cs = values_of_C(n_classes)
        asked = svm_params(replace(params, C=Cs[0], tol=max(params.tol, PATH_TOL)), name)
        asked = replace(asked, max_iter=PATH_SWEEPS)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="duality gap")
            for fit in fit_linear_svm_path([Block(cells, y)], n_classes, asked, Cs):
                yield svm_model(fit, classes, asked, divisor=math.sqrt(params.t)).predict_index
                del fit  # Nobody needs the weights of two C at a time.

    def kernel_svm(cells: Cells, y: np.ndarray) -> Predictor:
        some = some_of(np.arange(y.size))
        return fit_fold(name, params, None, cells[some], y[some])

    if name == "isolation-svm":
        return kernel_svm
    if LEARNERS[name].way == "online":
        return ogd
    return path if params.C == "auto" else batch
