"""Evaluate: a learner's model on the test cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.linear_model import LinearModel
from pipeline.engine import Context, Record, Stage, Task
from pipeline.models import load_model
from pipeline.prepared import PreparedRows
from pipeline.stages.cells import cells_name
from pipeline.stages.partition import Fitted
from pipeline.stages.train import MODELS
from pipeline.store import Store, read_written

TASK_BYTES = 16 << 20
"""Stored cells that a task predicts, or one shard: to predict them takes no longer than a task's way to a worker."""


def evaluate(context: Context, learner: str, fitted: Fitted, content_hash: str) -> dict[str, Any]:
    """Predict the test rows.

    Returns
    -------
    dict
        accuracy (fraction), confusion (rows: true class, columns: predicted), labels.
    """
    store = context.store
    labels = PreparedRows(store, "test").preparation.classes
    codes = store.open_arrays(cells_name(fitted.psi, "test"))["codes"]
    assert codes.shards is not None
    n, step = codes.shape[0], codes.shards[0]
    step *= max(1, TASK_BYTES // (codes.dtype.itemsize * codes.shape[1] * step))
    tasks = [
        Task(f"test-{start:09d}", (store, learner, fitted, content_hash, start, min(start + step, n)))
        for start in range(0, n, step)
    ]
    stage = Stage(context, f"evaluate:{learner}", len(tasks))
    records = stage.run(confusion_of_rows, tasks)
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for record in records:
        true, predicted, count = np.array(record["confusion"], dtype=np.int64).reshape(-1, 3).T
        confusion[true, predicted] += count
    accuracy = float(np.trace(confusion)) / max(1, int(confusion.sum()))
    return stage.finish(accuracy=accuracy, confusion=confusion.tolist(), labels=labels)


def confusion_of_rows(store: Store, learner: str, fitted: Fitted, content_hash: str, start: int, stop: int) -> Record:
    """Task: count (true, predicted, rows) over some shards of test cells."""
    offsets = fitted.load(store).offsets
    model = load_model(store, f"{MODELS}/{learner}", LinearModel, content_hash)
    arrays = store.open_arrays(cells_name(fitted.psi, "test"))
    codes = read_written(arrays["codes"], slice(start, stop))
    true = read_written(arrays["labels"], slice(start, stop))
    predicted = model.predict_index(Cells(codes, offsets).packed())
    n_classes = len(model.classes)
    counts = np.bincount(n_classes * true + predicted, minlength=n_classes**2)
    found = np.flatnonzero(counts)
    return {
        "rows": stop - start,
        "bytes_read": codes.nbytes + true.nbytes,
        "bytes_written": 0,
        "confusion": np.column_stack([*np.divmod(found, n_classes), counts[found]]).tolist(),
    }
