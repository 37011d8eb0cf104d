"""Batch learners that take all rows at once: SVMs with a kernel, linear ones on dense maps."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import Any

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.kernel_model import KernelModel
from ikmap.learners.working_set import WorkingSetTooLarge
from pipeline.baselines import check_values, fit_batch, is_kernel_svm, needed_bytes, sum_up
from pipeline.engine import Record
from pipeline.errors import InputError
from pipeline.learners import LEARNERS
from pipeline.memory import PROCESS_BYTES, USABLE, refusal, worker_limit
from pipeline.models import MODELS, save_model
from pipeline.params import Params
from pipeline.prepared import PreparedRows
from pipeline.stages.cells import cells_name
from pipeline.stages.partition import Fitted
from pipeline.store import Store, read


def fit_rows(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    value: float | None,
    classes: list[Any],
    n_threads: int = 1,
) -> Record:
    """Task: train on all training rows, or cells, and store the model.

    Raises
    ------
    DoesNotFit
        An SVM with a kernel has more support vectors than this worker has memory for.
    """
    train = PreparedRows(store, "train")
    if LEARNERS[learner].on == "cells":
        assert fitted is not None
        arrays = store.open_arrays(cells_name(fitted.psi, "train"))
        every = slice(0, train.n_rows)
        rows: Any = Cells(read(arrays["codes"], every), fitted.offsets(store)).packed()
        y, size = read(arrays["labels"], every), rows.codes.nbytes
    else:
        rows, y = train.read(0, train.n_rows)
        size = rows.nbytes if isinstance(rows, np.ndarray) else rows.data.nbytes + rows.indices.nbytes
    check_values(learner, rows, train.where, train.preparation.column_names)
    if missing := sorted(set(range(len(classes))) - set(np.unique(y).tolist())):
        named = ", ".join(repr(classes[k]) for k in missing[:5])
        raise InputError(f"--learner {learner}: found no training row of class {named}; give another --seed or split")
    limit, most = worker_limit(), None
    sizes: dict[str, Any] = {"n": train.n_rows, "d": train.preparation.n_columns, "nnz": getattr(rows, "nnz", None)}
    needed = partial(needed_bytes, learner, params, **sizes, n_classes=len(classes))
    if limit is not None and is_kernel_svm(learner):
        memory = USABLE * limit - PROCESS_BYTES
        most = bisect_right(range(train.n_rows + 1), memory, key=lambda w: needed(working_set=w)) - 1
    try:
        model, found = fit_batch(learner, params, value, rows, y, classes, n_threads, most)
    except WorkingSetTooLarge as error:
        assert limit is not None
        in_all = PROCESS_BYTES + needed(working_set=error.needed)
        raise refusal(f"training {learner}", in_all, limit, f"without {learner}") from None
    content_hash = save_model(store, f"{MODELS}/{learner}", model)
    return {
        "rows": train.n_rows,
        "bytes_read": int(size),
        "bytes_written": model.nbytes,
        "outputs": [f"{MODELS}/{learner}"],
        "content_hash": content_hash,
        "learner": {"n_support": int(model.coef.shape[0])} if isinstance(model, KernelModel) else sum_up([found]),
    }
