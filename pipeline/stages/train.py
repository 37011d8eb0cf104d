"""Train: one learner on the stored cells. Batch learners solve groups of classes side by side; OGD is one pass."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ikmap.learners.linear_svm import SVMFit, SVMParams, fit_linear_svm, svm_model
from ikmap.learners.ogd import OGDState
from ikmap.seeds import generator
from pipeline.cell_blocks import CellBlocks, SpooledBlocks
from pipeline.engine import Context, Record, Stage, Task
from pipeline.layout import learning_blocks
from pipeline.models import save_model
from pipeline.params import Params
from pipeline.prepared import PreparedRows
from pipeline.stages.cells import cells_name
from pipeline.stages.partition import Fitted
from pipeline.store import Store

MODELS = "models"
CLASS_GROUPS = 16
"""One-vs-rest problems are solved in at most this many tasks."""
CURVE_POINTS = 200
SOLUTION = ("problems", "coef", "intercept", "primal", "dual", "gap", "n_iter", "converged", "n_support")
PASS_STREAM = 2_000_003


def train(context: Context, learner: str, fitted: Fitted) -> dict[str, Any]:
    """Train "svm", "logistic" or "ogd" on the cells of one model.

    Returns
    -------
    dict
        psi, content_hash of the learner's model, and what the learner has to say of itself.
    """
    train = PreparedRows(context.store, "train")
    classes, n = train.preparation.classes, train.n_rows
    k = 1 if len(classes) == 2 else len(classes)
    groups = [group.tolist() for group in np.array_split(np.arange(k), min(k, CLASS_GROUPS))]
    stage = Stage(context, f"train:{learner}", 1 if learner == "ogd" else len(groups) + 1, n)
    if learner == "ogd":
        checkpoint = str(context.run.task_record(stage.name, "checkpoint").with_suffix(".npz"))
        task = Task("pass", (context.store, context.params, fitted, classes, checkpoint))
        (record,) = stage.run(train_ogd, [task])
        Path(checkpoint).unlink(missing_ok=True)
    else:
        tasks = [
            Task(
                f"classes-{i:03d}",
                (context.store, context.params, learner, fitted, len(classes), group, i),
            )
            for i, group in enumerate(groups)
        ]
        solved = stage.run(solve_classes, tasks)
        names = [_solved_name(learner, i) for i in range(len(groups))]
        merge = Task("merge", (context.store, context.params, learner, classes, names))
        (record,) = stage.run(merge_classes, [merge])
        record["learner"] = _worst([task["certificate"] for task in solved])
    details = record["learner"]
    if not details.get("converged", True):
        context.events.message(
            f"{learner}: duality gap {details['duality_gap']:.2g} is above --tol {context.params.tol:g}"
        )
    result = stage.finish(psi=fitted.psi, content_hash=record["content_hash"], **details)
    if learner != "ogd":
        context.store.delete(f"{MODELS}/{learner}-solved")  # only now: until here an interrupted run still needs them
    return result


def svm_params(params: Params, learner: str) -> SVMParams:
    """Return what the batch learners are asked to solve."""
    return SVMParams(
        loss="logistic" if learner == "logistic" else params.loss,  # type: ignore[arg-type]
        C=params.C,
        tol=params.tol,
        class_weight="balanced" if params.class_weight == "balanced" else None,
        seed=params.seed,
    )


def solve_classes(
    store: Store, params: Params, learner: str, fitted: Fitted, n_classes: int, group: list[int], number: int
) -> Record:
    """Task: solve some of the one-vs-rest problems and store their solutions."""
    offsets, n_rows = fitted.load(store).offsets, PreparedRows(store, "train").n_rows
    ranges = learning_blocks(n_rows, offsets, params.seed, shuffled=False)
    stored = CellBlocks(store, cells_name(fitted.psi, "train"), offsets, ranges)
    blocks = stored if len(stored) == 1 else SpooledBlocks(stored, offsets)
    with warnings.catch_warnings():
        # A ConvergenceWarning, told by its text: the class takes a second to import, and the gap is in the result.
        warnings.filterwarnings("ignore", message="duality gap")
        fit = fit_linear_svm(blocks, n_classes, svm_params(params, learner), classes_subset=group)
    solution = {name: getattr(fit, name) for name in SOLUTION}
    name = _solved_name(learner, number)
    written = store.write_group(name, solution, {})
    return {
        "rows": n_rows,
        "bytes_read": blocks.bytes_read,
        "bytes_written": written,
        "outputs": [name],
        "temporary": True,
        "certificate": {
            "duality_gap": float(fit.gap.max()),
            "objective": float(fit.primal.sum()),
            "iterations": int(fit.n_iter.max()),
            "converged": bool(fit.converged.all()),
            **({"n_support": int(fit.n_support[0])} if n_classes == 2 else {}),
        },
    }


def merge_classes(store: Store, params: Params, learner: str, classes: list[Any], names: list[str]) -> Record:
    """Task: make one model of the solutions of all groups."""
    fits = []
    for name in names:
        _, arrays = store.read_group(name)
        fits.append(SVMFit(**arrays, alphas=np.empty((arrays["problems"].size, 0)), history=()))
    model = svm_model(fits, classes, svm_params(params, learner), divisor=math.sqrt(params.t))
    output = f"{MODELS}/{learner}"
    return {
        "bytes_read": model.nbytes,
        "bytes_written": model.nbytes,
        "outputs": [output],
        "content_hash": save_model(store, output, model),
    }


def _solved_name(learner: str, group: int) -> str:
    """Where the solutions of a group of classes stand until they are merged."""
    return f"{MODELS}/{learner}-solved/{group:03d}"


def train_ogd(store: Store, params: Params, fitted: Fitted, classes: list[Any], checkpoint: str) -> Record:
    """Task: one pass of online gradient descent, going on from the checkpoint of an interrupted attempt.

    Blocks are visited in a fixed order and rows within a block in a seeded shuffle of their own, so the pass is the
    same wherever and however often it was interrupted.
    """
    offsets, n_rows = fitted.load(store).offsets, PreparedRows(store, "train").n_rows
    name = cells_name(fitted.psi, "train")
    ranges = learning_blocks(n_rows, offsets, params.seed, shuffled=params.order == "shuffled")
    blocks = CellBlocks(store, name, offsets, ranges)
    divisor = float(params.t) if params.feature_scale == "kernel" else 1.0
    state = OGDState.start(int(offsets[-1]), len(classes), eta=params.eta, divisor=divisor)
    first, mistakes = 0, np.zeros(0, dtype=np.int64)
    per_point = max(1, -(-n_rows // CURVE_POINTS))
    if Path(checkpoint).exists():
        with np.load(checkpoint, allow_pickle=False) as saved:
            state = OGDState.restore(saved)
            first, mistakes = int(saved["next_block"]), saved["mistakes"]
    for k in range(first, len(blocks)):
        rows, y, _ = blocks[k]
        if params.order == "shuffled":
            order = generator(params.seed, PASS_STREAM, k).permutation(y.size)
            rows, y = rows[order], y[order]
        seen = state.n_seen
        wrong = state.partial_fit(rows, y).predicted != y
        point = (seen + np.arange(y.size)) // per_point
        mistakes = np.concatenate([mistakes, np.zeros(point[-1] + 1 - mistakes.size, dtype=np.int64)])
        mistakes += np.bincount(point, weights=wrong, minlength=mistakes.size).astype(np.int64)
        if k + 1 < len(blocks):
            _save_checkpoint(checkpoint, {**state.checkpoint(), "next_block": np.array(k + 1), "mistakes": mistakes})
    model = state.model(classes, {"feature_scale": params.feature_scale, "order": params.order, "seed": params.seed})
    content_hash = save_model(store, f"{MODELS}/ogd", model)
    ends = np.minimum(np.arange(1, mistakes.size + 1) * per_point, n_rows)
    return {
        "rows": n_rows,
        "bytes_read": blocks.bytes_read,
        "bytes_written": model.nbytes,
        "outputs": [f"{MODELS}/ogd"],
        "content_hash": content_hash,
        "learner": {
            "updates": int(state.n_updates.sum()),
            "n_support": int(state.n_support),
            "curve": {"rows": ends.tolist(), "accuracy": (1 - np.cumsum(mistakes) / ends).round(6).tolist()},
        },
    }


def _save_checkpoint(path: str, arrays: dict[str, np.ndarray]) -> None:
    """Replace the checkpoint in one step."""
    folder = Path(path).parent
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, suffix=".partial")
    with os.fdopen(handle, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    os.replace(name, path)


def _worst(certificates: list[Record]) -> Record:
    """Sum up the certificates of all groups: the widest gap, the most iterations."""
    return {
        "duality_gap": max(c["duality_gap"] for c in certificates),
        "objective": sum(c["objective"] for c in certificates),
        "iterations": max(c["iterations"] for c in certificates),
        "converged": all(c["converged"] for c in certificates),
        **{key: value for key, value in certificates[0].items() if key == "n_support"},
    }
