"""Partition: draw the subsamples, fetch just those rows, fit the partitionings and store them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ikmap.partitioners import draw_subsamples, fit_partitions
from pipeline.engine import Context, Record, Stage, Task
from pipeline.errors import InputError
from pipeline.models import save_model
from pipeline.params import Params
from pipeline.prepared import PreparedRows
from pipeline.store import Store

PARTITIONS = "partitions"


def partition(context: Context, psi: int) -> dict[str, Any]:
    """Fit the t partitionings of psi cells.

    Returns
    -------
    dict
        content_hash, n_columns (of the feature map), nbytes (of the model).

    Raises
    ------
    InputError
        If psi is larger than the training set.
    """
    n = PreparedRows(context.store, "train").n_rows
    if psi > n:
        raise InputError(f"--psi {psi}: found {n} training rows, expected at least psi")
    stage = Stage(context, "partition", 1)
    (record,) = stage.run(fit, [Task("fit", (context.store, context.params, psi))])
    return stage.finish(**{key: record[key] for key in ("content_hash", "n_columns", "nbytes")})


def fit(store: Store, params: Params, psi: int) -> Record:
    """Task: fit and store the model."""
    train = PreparedRows(store, "train")
    draws = draw_subsamples(train.n_rows, params.t, psi, params.seed)
    used, position = np.unique(draws, return_inverse=True)
    points, _ = train.take(used)
    model = fit_partitions(
        points,
        position.reshape(draws.shape),
        method=params.partitioner,
        seed=params.seed,
        max_depth=params.max_depth,
        n_threads=1,
    )
    content_hash = save_model(store, PARTITIONS, model)
    return {
        "rows": int(used.size),
        "bytes_read": int(points.nbytes if isinstance(points, np.ndarray) else points.data.nbytes * 2),
        "bytes_written": model.nbytes,
        "content_hash": content_hash,
        "n_columns": int(model.offsets[-1]),
        "nbytes": model.nbytes,
    }
