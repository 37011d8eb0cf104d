"""The runner of learners that take all rows at once: SVMs with a kernel, linear ones on dense maps, sums of models."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from ikmap.cells import Cells
from ikmap.divisions import TooFewKeys
from ikmap.learners.kernel.working_set import WorkingSetTooLarge
from ikmap.learners.rows import Block
from ikmap.methods import LearnsOutOfFold, LearnsSeparately, Shape, Training, WholeLearner, capability
from ikmap.methods.values import Value
from ikmap.model import Model
from ikmap.rows import Rows, nbytes_of
from ikmap.tasks import Task as LearningTask
from ikmap.tasks.capabilities import missing_in
from pipeline.errors import DoesNotFit, InputError
from pipeline.params import Params
from pipeline.record_types import TaskRecord, TrainedRecord, TrainResult
from pipeline.resolve import worded
from pipeline.rows.folds import division_of, is_divided
from pipeline.rows.parts import WEIGHTS
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import weight_rule
from pipeline.rows.values import check_values
from pipeline.running.dispatch import Task, tasks_of_a_host
from pipeline.running.worker_memory import PROCESS_BYTES, USABLE, refusal, worker_limit
from pipeline.storage.arrays import read
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, OUT_OF_FOLD, load_model, save_model
from pipeline.storage.store import Store
from pipeline.training.runner import Runner, TrainingJob


class WholeRunner(Runner):
    """The runner of each :class:`~ikmap.methods.WholeLearner`."""

    def train(self, job: TrainingJob) -> TrainResult:
        context = job.context
        fitting = Fitting(context.store, context.params, job.learner, job.fitted, job.value, job.rows.preparation.task)
        n_models = 0 if (separate := fitting.separate) is None else separate.n_models
        stage = job.stage(1 + n_models)
        if n_models:
            n_threads = max(1, job.n_threads // tasks_of_a_host(context.client, n_models))
            stage.run(learn_model, [Task(f"model-{k:03d}", (fitting, n_threads, k)) for k in range(n_models)])
        (record,) = stage.run(fit_rows, [Task("fit", (fitting, job.n_threads))])
        result = job.result(record["content_hash"], record["learner"])
        return stage.finish(result, obsolete=[fitting.group] if n_models else [])


@dataclass(frozen=True)
class Fitting:
    """Arguments of the tasks that train a learner on all training rows, or cells.

    Attributes
    ----------
    store : Store
    params : Params
    learner : str
    fitted : Fitted or None
        Map of the cells; None for a learner on rows.
    value : number or None
        Value that was chosen or given for a learner on rows.
    task : Task
        Task of the learner.
    """

    store: Store
    params: Params
    learner: str
    fitted: Fitted | None
    value: Value | None
    task: LearningTask

    @property
    def method(self) -> WholeLearner:
        """The learner, as the run has set it."""
        return self.params.learner_as(WholeLearner, self.learner, self.value)

    @property
    def separate(self) -> LearnsSeparately | None:
        """The learner, if its models are learned by a task each."""
        return capability(self.method, LearnsSeparately)

    @property
    def group(self) -> str:
        """Group of the store with the models that are learned separately, until they are added up."""
        return f"{MODELS}/{self.learner}-parts"

    @contextmanager
    def naming_options(self) -> Iterator[None]:
        """Turn an error for too few groups or times, or for a map that does not fit, into one that names options."""
        try:
            with worded():
                yield
        except TooFewKeys as error:
            raise InputError(f"--learner {self.learner}, --split-by {self.params.split_by}: {error}") from None
        except DoesNotFit as error:
            raise DoesNotFit(f"--learner {self.learner}: {error}") from None

    def training(self, n_threads: int) -> tuple[Training, Shape, int]:
        """Read all rows; return them with the settings of the run, their sizes, and the bytes that were read."""
        store, params, learner, fitted, task = self.store, self.params, self.learner, self.fitted, self.task
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
        limit, most_rows, method = worker_limit(), None, self.method
        columns, nnz = train.preparation.n_columns, getattr(rows, "nnz", None)
        if fitted is not None:
            columns, nnz = fitted.t, None
        shape = Shape(train.n_rows, columns, nnz, task.decisions.outputs)
        if limit is not None and method.working_set:
            memory = USABLE * limit - PROCESS_BYTES
            most_rows = bisect_right(range(train.n_rows + 1), memory, key=partial(method.memory, shape)) - 1
        division = division_of(train, np.arange(train.n_rows), params) if is_divided(params) else None
        training = Training(block, task.codec.classes, params.seed, n_threads, most_rows, task, division=division)
        return training, shape, int(size)


def learn_model(fitting: Fitting, n_threads: int, k: int) -> TaskRecord:
    """Task: learn one of the models that are added up, and store it for :func:`fit_rows`."""
    training, _, size = fitting.training(n_threads)
    separate, output = fitting.separate, f"{fitting.group}/{k:03d}"
    assert separate is not None
    with fitting.naming_options():
        model = separate.learn(k, training)
    save_model(fitting.store, output, model)
    return {"bytes_read": size, "bytes_written": model.nbytes, "outputs": [output], "temporary": True}


def fit_rows(fitting: Fitting, n_threads: int) -> TrainedRecord:
    """Task: train on all training rows, or cells, or add up the models that tasks have learned; store the model.

    Raises
    ------
    DoesNotFit
        An SVM with a kernel has more support vectors than this worker has memory for, or a map of a sum is too large.
    """
    training, shape, size = fitting.training(n_threads)
    store, learner, method = fitting.store, fitting.learner, fitting.method
    outputs, written = [f"{MODELS}/{learner}"], 0
    try:
        with fitting.naming_options():
            if (separate := fitting.separate) is not None:
                models = [load_model(store, f"{fitting.group}/{k:03d}", Model) for k in range(separate.n_models)]
                model, summary = separate.joined(models, training)
            elif (honest := capability(method, LearnsOutOfFold)) is not None:
                model, summary, out_of_fold = honest.fit_out_of_fold(training)
                outputs.append(f"{OUT_OF_FOLD}/{learner}")
                save_model(store, outputs[-1], out_of_fold)
                written = out_of_fold.nbytes
            else:
                model, summary = method.fit(training)
    except WorkingSetTooLarge as error:
        limit = worker_limit()
        assert limit is not None
        needed = PROCESS_BYTES + method.memory(shape, error.needed)
        raise refusal(f"training {learner}", needed, limit, f"without {learner}") from None
    content_hash = save_model(store, f"{MODELS}/{learner}", model)
    return {
        "rows": shape.n,
        "bytes_read": size,
        "bytes_written": written + model.nbytes,
        "outputs": outputs,
        "content_hash": content_hash,
        "learner": summary,
    }
