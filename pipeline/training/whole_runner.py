"""The runner of learners that take all rows at once: SVMs with a kernel, linear ones on dense maps."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import cast

import numpy as np

from ikmap.cells import Cells
from ikmap.divisions import TooFewKeys
from ikmap.learners.kernel.working_set import WorkingSetTooLarge
from ikmap.learners.rows import Block
from ikmap.methods import LearnsOutOfFold, Shape, Training, WholeLearner, capability
from ikmap.rows import Rows, nbytes_of
from ikmap.tasks import Task as LearningTask
from ikmap.tasks.capabilities import missing_in
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import TrainedRecord, TrainResult
from pipeline.rows.folds import division_of, is_divided
from pipeline.rows.parts import WEIGHTS
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import weight_rule
from pipeline.rows.values import check_values
from pipeline.running.dispatch import Task
from pipeline.running.worker_memory import PROCESS_BYTES, USABLE, refusal, worker_limit
from pipeline.storage.arrays import read
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, OUT_OF_FOLD, save_model
from pipeline.storage.store import Store
from pipeline.training.runner import Runner, TrainingJob


class WholeRunner(Runner):
    """The runner of each :class:`~ikmap.methods.WholeLearner`."""

    def train(self, job: TrainingJob) -> TrainResult:
        context, stage = job.context, job.stage(1)
        task_args = (job.learner, job.fitted, job.value, job.rows.preparation.task, job.n_threads)
        (record,) = stage.run(fit_rows, [Task("fit", (context.store, context.params, *task_args))])
        return stage.finish(job.result(record["content_hash"], record["learner"]))


def fit_rows(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    value: float | None,
    task: LearningTask,
    n_threads: int = 1,
) -> TrainedRecord:
    """Task: train on all training rows, or cells, and store the model.

    Raises
    ------
    DoesNotFit
        An SVM with a kernel has more support vectors than this worker has memory for.
    """
    train = PreparedRows(store, "train")
    if fitted is not None:
        arrays = store.open_arrays(fitted.cells_name("train"))
        all_rows = slice(0, train.n_rows)
        cells = Cells(read(arrays["codes"], all_rows), fitted.offsets(store)).packed()
        weight = read(arrays[WEIGHTS], all_rows) if WEIGHTS in arrays else None
        block = Block(cells, read(arrays["labels"], all_rows), weight, np.arange(train.n_rows))
        size = cells.codes.nbytes
    else:
        block = train.read(0, train.n_rows)
        size = nbytes_of(cast("Rows", block.rows))
    rows = block.rows
    check_values(learner, rows, train.where, train.preparation.column_names, kernel=params.kernel(learner))
    if missing := missing_in(task, block.y):
        raise InputError(f"--learner {learner}: found no training row of {missing}; give another --seed or split")
    block = block._replace(sample_weight=weight_rule(task)(block.y, block.sample_weight))
    limit, most_rows = worker_limit(), None
    method = params.learner_as(WholeLearner, learner, value)
    columns, nnz = (fitted.t, None) if fitted is not None else (train.preparation.n_columns, getattr(rows, "nnz", None))
    shape = Shape(train.n_rows, columns, nnz, task.decisions.outputs)
    if limit is not None and method.working_set:
        memory = USABLE * limit - PROCESS_BYTES
        most_rows = bisect_right(range(train.n_rows + 1), memory, key=partial(method.memory, shape)) - 1
    division = division_of(train, np.arange(train.n_rows), params) if is_divided(params) else None
    training = Training(
        block,
        task.codec.classes,
        params.seed,
        n_threads,
        most_rows,
        task,
        division=division,
    )
    outputs, written = [f"{MODELS}/{learner}"], 0
    try:
        if (honest := capability(method, LearnsOutOfFold)) is None:
            model, summary = method.fit(training)
        else:
            model, summary, out_of_fold = honest.fit_out_of_fold(training)
            outputs.append(f"{OUT_OF_FOLD}/{learner}")
            save_model(store, outputs[-1], out_of_fold)
            written = out_of_fold.nbytes
    except TooFewKeys as error:
        raise InputError(f"--learner {learner}, --split-by {params.split_by}: {error}") from None
    except WorkingSetTooLarge as error:
        assert limit is not None
        needed = PROCESS_BYTES + method.memory(shape, error.needed)
        raise refusal(f"training {learner}", needed, limit, f"without {learner}") from None
    content_hash = save_model(store, f"{MODELS}/{learner}", model)
    return {
        "rows": train.n_rows,
        "bytes_read": int(size),
        "bytes_written": written + model.nbytes,
        "outputs": outputs,
        "content_hash": content_hash,
        "learner": summary,
    }
