"""Tasks of linear problems on cells: solve some in memory or block by block, store solutions, and merge them."""

from __future__ import annotations

import math
import sys
import tempfile
import warnings
from dataclasses import asdict

import numpy as np

from ikmap.arrays import Bools
from ikmap.json_values import Label
from ikmap.learners.dual.certificate import certificate
from ikmap.learners.dual.linear_svm import SVMFit, SVMParams, fit_linear_svm, svm_model
from ikmap.learners.linear_model import LinearModel
from ikmap.methods import DualLearner
from pipeline.errors import writing
from pipeline.params import Params
from pipeline.record_types import ModelRecord, Record, SolutionRecord
from pipeline.rows.block_sizes import BLOCK_BYTES, VISIT_BYTES, learning_blocks, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import weight_rule
from pipeline.rows.shuffled_blocks import ShuffledBlocks
from pipeline.running.worker_memory import room
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, save_model
from pipeline.storage.store import Store

SOLUTION_ARRAYS = ("coef", "intercept")
OF_TARGETS = ("center", "scale")
ROOM = 0.5
"""Share of a worker's free memory: cells that take more, and are visited block by block, are in a file."""
OF_PROBLEMS = ("problems", "primal", "dual", "gap", "n_iter", "converged", "n_support")
"""Numbers of each problem: kept in attributes, as arrays of a few numbers take longer to store than to compute."""


def problem_of(params: Params, learner: str) -> SVMParams:
    """Return the problem that a linear learner of a run is to solve."""
    return svm_params(params, params.learner_as(DualLearner, learner))


def svm_params(params: Params, learner: DualLearner) -> SVMParams:
    """Return the problem that a linear learner is to solve on the cells of a run."""
    problem = {name: value for name, value in asdict(learner.problem).items() if value is not None}
    return SVMParams(**problem, fit_intercept=not params.map.description.reaches_all, seed=params.seed)


def solve_whole(
    store: Store, params: Params, learner: str, fitted: Fitted, classes: list[Label], solver: str = "memory"
) -> SolutionRecord:
    """Task: solve all one-vs-rest problems, where they are few, and store the model."""
    fit, rows, read = _solve(store, params, learner, fitted, len(classes), None, solver)
    stored = store_model(store, params, learner, classes, [fit], fitted.t)
    return {**stored, "rows": rows, "bytes_read": read, "certificate": certificate(fit)}


def solve_classes(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted,
    n_classes: int,
    group: list[int],
    number: int,
    solver: str = "memory",
) -> SolutionRecord:
    """Task: solve some of the one-vs-rest problems and store their solutions."""
    fit, rows, read = _solve(store, params, learner, fitted, n_classes, group, solver)
    return {**store_solution(store, learner, number, fit), "rows": rows, "bytes_read": read}


def model_of_kept(
    store: Store, params: Params, learner: str, fitted: Fitted, kept: Bools, n_threads: int
) -> LinearModel:
    """Return the model that solves all problems on the cells of some training rows, read block by block.

    Parameters
    ----------
    kept : bool array, shape (n,)
        True for the training rows that are learned from.
    """
    classes = PreparedRows(store, "train").preparation.task.codec.classes
    fit, _, _ = _solve(store, params, learner, fitted, len(classes), None, "block", kept, n_threads)
    return svm_model([fit], classes, problem_of(params, learner), divisor=math.sqrt(fitted.t))


def _solve(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted,
    n_classes: int,
    group: list[int] | None,
    solver: str,
    kept: Bools | None = None,
    n_threads: int | None = None,
) -> tuple[SVMFit, int, int]:
    """Solve problems (None: all), in memory or block by block; return also the rows, and the bytes that were read."""
    offsets, train = fitted.offsets(store), PreparedRows(store, "train")
    row_bytes, seed = packed_row_bytes(offsets), params.seed
    at_once = solver == "memory" and (n_classes > 2 or row_bytes * train.n_rows <= BLOCK_BYTES)
    block_size = {"block_bytes": sys.maxsize} if at_once else {}
    ranges = learning_blocks(train.n_rows, row_bytes, seed, shuffled=False, **block_size)
    weight_of = weight_rule(train.preparation.task)
    stored = CellBlocks(store, fitted.cells_name("train"), offsets, ranges, weight_of, kept)
    blocks: CellBlocks | ShuffledBlocks = stored
    if not at_once:
        most_rows = max(1, VISIT_BYTES // row_bytes)
        in_memory = solver == "memory" or row_bytes * train.n_rows <= ROOM * room()
        blocks = ShuffledBlocks(stored, stored.sizes, offsets, seed=seed, most_rows=most_rows, in_memory=in_memory)
    n_threads = n_threads if group is None else 1
    with warnings.catch_warnings(), writing(tempfile.gettempdir()):  # of dual variables
        # A ConvergenceWarning, known by its text: the class takes a second to import, and the gap is in the result.
        warnings.filterwarnings("ignore", message="duality gap")
        fit = fit_linear_svm(blocks, n_classes, problem_of(params, learner), classes_subset=group, n_threads=n_threads)
    return fit, train.n_rows, stored.bytes_read + (0 if at_once else blocks.bytes_read)


def store_solution(store: Store, learner: str, number: int, fit: SVMFit) -> SolutionRecord:
    """Store the solutions of a group of classes until they are merged; return a record."""
    name = solved_name(learner, number)
    numbers = {key: getattr(fit, key).tolist() for key in OF_PROBLEMS} | {key: getattr(fit, key) for key in OF_TARGETS}
    written = store.write_group(name, {key: getattr(fit, key) for key in SOLUTION_ARRAYS}, numbers)
    return {
        "bytes_written": written,
        "outputs": [name],
        "temporary": True,
        "certificate": certificate(fit),
    }


def merge_classes(
    store: Store, params: Params, learner: str, classes: list[Label], names: list[str], t: int
) -> ModelRecord:
    """Task: make one model of the solutions of all groups."""
    fits = []
    for name in names:
        attributes, arrays = store.read_group(name)
        solution: Record = {**arrays, **{key: np.array(attributes[key]) for key in OF_PROBLEMS}}
        solution |= {key: attributes[key] for key in OF_TARGETS}
        fits.append(SVMFit(**solution, alphas=np.empty((solution["problems"].size, 0)), history=()))
    return store_model(store, params, learner, classes, fits, t)


def store_model(
    store: Store, params: Params, learner: str, classes: list[Label], fits: list[SVMFit], t: int
) -> ModelRecord:
    """Store the model that solves all problems, on cells of t partitionings."""
    model = svm_model(fits, classes, problem_of(params, learner), divisor=math.sqrt(t))
    output = f"{MODELS}/{learner}"
    return {
        "bytes_read": model.nbytes,
        "bytes_written": model.nbytes,
        "outputs": [output],
        "content_hash": save_model(store, output, model),
    }


def solved_name(learner: str, group: int) -> str:
    """Return the name in the store of the solutions of a group of classes, until they are merged."""
    return f"{MODELS}/{learner}-solved/{group:03d}"
