"""Evaluate: a learner's model on the test cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from ikmap.cells import Cells
from ikmap.model import Model
from pipeline.engine import Context, Record, Stage, Task
from pipeline.models import load_model
from pipeline.prepared import PreparedRows
from pipeline.stages.cells import cells_name
from pipeline.stages.partition import Fitted
from pipeline.stages.train import MODELS
from pipeline.store import Store, read
from pipeline.values import check_values

TASK_BYTES = 16 << 20
"""Stored cells that a task predicts, or one shard: to predict them takes no longer than a task's way to a worker."""


def evaluate(context: Context, learner: str, fitted: Fitted | None, content_hash: str) -> dict[str, Any]:
    """Predict the test rows, by their cells where the learner works on cells.

    Returns
    -------
    dict
        accuracy (fraction), confusion (rows: true class, columns: predicted), labels.
    """
    store = context.store
    labels = PreparedRows(store, "test").preparation.classes
    n, step = _tasks_of(store, fitted)
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


def _tasks_of(store: Store, fitted: Fitted | None) -> tuple[int, int]:
    """Number of test rows, and of the rows of a task."""
    if fitted is None:
        rows = PreparedRows(store, "test")
        return rows.n_rows, max(1, min(rows.n_rows, TASK_BYTES // rows.row_bytes))
    codes = store.open_arrays(cells_name(fitted, "test"))["codes"]
    assert codes.shards is not None
    n, step = codes.shape[0], codes.shards[0]
    return n, step * max(1, TASK_BYTES // (codes.dtype.itemsize * codes.shape[1] * step))


def confusion_of_rows(
    store: Store, learner: str, fitted: Fitted | None, content_hash: str, start: int, stop: int
) -> Record:
    """Task: count (true, predicted, rows) over some test rows."""
    model: Any = load_model(store, f"{MODELS}/{learner}", Model, content_hash)
    if fitted is None:
        test = PreparedRows(store, "test")
        rows, true = test.read(start, stop)
        check_values(learner, rows, test.where, test.preparation.column_names, start)
        size = rows.nbytes if isinstance(rows, np.ndarray) else rows.data.nbytes + rows.indices.nbytes
    else:
        arrays = store.open_arrays(cells_name(fitted, "test"))
        codes = read(arrays["codes"], slice(start, stop))
        true, size = read(arrays["labels"], slice(start, stop)), codes.nbytes
        rows = Cells(codes, fitted.offsets(store)).packed()
    predicted = model.predict_index(rows)
    n_classes = len(model.classes)
    counts = np.bincount(n_classes * true + predicted, minlength=n_classes**2)
    found = np.flatnonzero(counts)
    return {
        "rows": stop - start,
        "bytes_read": int(size) + true.nbytes,
        "bytes_written": 0,
        "confusion": np.column_stack([*np.divmod(found, n_classes), counts[found]]).tolist(),
    }
