"""Select: choose psi for each learner by 5-fold cross-validation on a sample of the training rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.linear_svm import fit_linear_svm, svm_model
from ikmap.learners.ogd import OGDState
from ikmap.learners.rows import Block
from ikmap.model_selection import FOLDS, Learner, folds, psis_that_fit, score_fold
from ikmap.seeds import generator
from pipeline.engine import Context, Record, Stage, Task
from pipeline.params import Params
from pipeline.prepared import PreparedRows
from pipeline.stages.train import PASS_STREAM, svm_params
from pipeline.store import Store

STREAM = 2_000_004


def select(context: Context) -> dict[str, Any]:
    """Choose psi for each learner.

    Returns
    -------
    dict
        psi (values tried), accuracy (of each learner, by psi), chosen (for each learner the psi of its best accuracy;
        ties go to the smaller), rows, folds.
    """
    params, store = context.params, context.store
    n = PreparedRows(store, "train").n_rows
    used = min(n, params.cv_rows)
    if used < n:
        context.events.message(f"psi is chosen on {used:,} of {n:,} training rows (--cv-rows)")
    psis = psis_that_fit(used)
    # Trees are grown anew for each psi, so each psi is a task; one nearest-neighbour search serves all psi.
    groups = [[psi] for psi in psis] if params.partitioner == "iforest" else [psis]
    tasks = [
        Task(f"fold-{k}-psi-{group[0]}", (store, params, k, group, used))
        for group in reversed(groups)
        for k in range(FOLDS)
    ]
    stage = Stage(context, "select", len(tasks), used)
    records = stage.run(score, tasks)
    correct = {name: dict.fromkeys(psis, 0) for name in params.learners}
    for record in records:
        for name, counts in record["correct"].items():
            for psi, count in zip(record["psis"], counts, strict=True):
                correct[name][psi] += count
    accuracy = {name: [correct[name][psi] / used for psi in psis] for name in params.learners}
    chosen = {name: psis[int(np.argmax(accuracy[name]))] for name in params.learners}
    return stage.finish(psi=psis, accuracy=accuracy, chosen=chosen, rows=used, folds=FOLDS)


def score(store: Store, params: Params, fold: int, psis: list[int], n_rows: int) -> Record:
    """Task: one fold."""
    train = PreparedRows(store, "train")
    rows = np.arange(train.n_rows)
    if n_rows < train.n_rows:
        drawn = generator(params.seed, STREAM).choice(train.n_rows, n_rows, replace=False, shuffle=False)
        rows = np.sort(drawn)
    X, y = train.take(rows)
    fit, held_out = folds(n_rows, params.seed)[fold]
    learners = {name: _learner(name, params, len(train.preparation.classes)) for name in params.learners}
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

    def ogd(cells: Cells, y: np.ndarray) -> Callable[[Cells], np.ndarray]:
        divisor = float(params.t) if params.feature_scale == "kernel" else 1.0
        state = OGDState.start(cells.n_columns, n_classes, eta=params.eta, divisor=divisor)
        order = np.arange(y.size)
        if params.order == "shuffled":
            order = generator(params.seed, PASS_STREAM, 0).permutation(y.size)
        state.partial_fit(cells[order], y[order])
        return state.model(classes).predict_index

    def batch(cells: Cells, y: np.ndarray) -> Callable[[Cells], np.ndarray]:
        asked = svm_params(params, name)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="duality gap")  # ConvergenceWarning: slow to import
            fit = fit_linear_svm([Block(cells, y)], n_classes, asked)
        return svm_model(fit, classes, asked, divisor=math.sqrt(params.t)).predict_index

    return ogd if name == "ogd" else batch
