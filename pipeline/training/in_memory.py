"""Train learners of a run on some rows in memory, for cross-validation and calibration."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import cast

import numpy as np

from ikmap import seed_paths
from ikmap.cells import Cells
from ikmap.divisions import Division
from ikmap.learners.dual.linear_svm import fit_linear_svm, svm_model
from ikmap.learners.rows import Block
from ikmap.learners.rows import n_rows as count_rows
from ikmap.methods import FollowsC, Sample, StreamLearner, Training, WholeLearner, capability
from ikmap.methods.values import Value
from ikmap.seeds import generator
from ikmap.tasks import Task
from pipeline.params import Params
from pipeline.rows.block_sizes import learning_blocks, packed_row_bytes
from pipeline.rows.prepared import row_bytes
from pipeline.rows.row_weights import weight_given, weight_rule, weights_of
from pipeline.storage.models import Decider
from pipeline.training.dual_tasks import problem_of


def train_in_memory(
    params: Params,
    learner: str,
    value: Value | None,
    task: Task,
    block: Block,
    n_threads: int = 1,
    division: Division | None = None,
) -> Decider:
    """Return the model that a learner of a run makes of some rows, or of their cells.

    Parameters
    ----------
    value
        Numbers that were chosen or given for a learner on rows.
    block : Block
        Rows, some of every class.
    division : Division, optional
        Division of the rows, for a learner that holds out some of them.
    """
    method = params.learner(learner, value)
    if capability(method, StreamLearner) is not None:
        return stream_model(params, learner, value, task, block)
    weighted_block = block._replace(sample_weight=weight_rule(task)(block.y, block.sample_weight))
    at_once = capability(method, WholeLearner)
    if at_once is None:
        return dual_model(params, learner, task, weighted_block, n_threads)
    training = Training(weighted_block, task.codec.classes, params.seed, n_threads, task=task, division=division)
    if (along_C := capability(method, FollowsC)) is not None:
        C = method.value_at("C")
        assert isinstance(C, int | float)
        return cast("Decider", next(iter(along_C.path(training, [float(C)]))))
    return cast("Decider", at_once.fit(training)[0])


def stream_model(params: Params, learner: str, value: Value | None, task: Task, block: Block) -> Decider:
    """Learn in one pass over the rows, in the order of a run on these rows."""
    rows = block.rows
    if isinstance(rows, Cells):
        bytes_of_row = packed_row_bytes(rows.offsets)
        sample_args = count_rows(rows), rows.n_partitions, task, rows.__getitem__, params.seed, rows.offsets
        sample = Sample(*sample_args, reaches_all=params.map.description.reaches_all)
    else:
        bytes_of_row = row_bytes(rows.shape[1])
        sample = Sample(count_rows(rows), rows.shape[1], task, rows.__getitem__, params.seed)
    all_ranges = learning_blocks(block.y.size, bytes_of_row, params.seed, shuffled=params.order == "shuffled")
    places = (np.concatenate([np.arange(*part) for part in ranges]) for ranges in all_ranges)
    blocks = (Block(rows[of], block.y[of], weights_of(block.sample_weight, of)) for of in places)
    return model_of_stream(params, learner, value, task, sample, blocks)


def model_of_stream(
    params: Params, learner: str, value: Value | None, task: Task, sample: Sample, blocks: Iterable[Block]
) -> Decider:
    """Learn in one pass over blocks of rows, shuffled within each, as a run does."""
    state = params.learner_as(StreamLearner, learner, value).start(sample)
    for k, block in enumerate(blocks):
        order = np.arange(block.y.size)
        if params.order == "shuffled":
            order = generator(params.seed, seed_paths.PASSES, k).permutation(order)
        state.partial_fit(block.rows[order], block.y[order], *weight_given(weights_of(block.sample_weight, order)))
    return cast("Decider", state.model(task.codec.classes, {}))


def dual_model(params: Params, learner: str, task: Task, block: Block, n_threads: int | None = None) -> Decider:
    """Return the model that solves the linear problems on cells."""
    cells, problem, classes = block.rows, problem_of(params, learner), task.codec.classes
    assert isinstance(cells, Cells)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="duality gap")  # ConvergenceWarning: slow to import
        fit = fit_linear_svm([block], len(classes), problem, n_threads=n_threads)
    return cast("Decider", svm_model(fit, classes, problem, divisor=math.sqrt(cells.n_partitions)))
