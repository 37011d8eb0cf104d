"""Partition: fit the partitionings and store them.

Most maps draw subsamples, and only those rows are fetched; mondrian and binning are fitted on all rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import cast

import numpy as np

from ikmap.methods import FitsByPartitioning, capability, refused_on
from ikmap.methods.values import Value, named
from ikmap.rows import Rows
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import FittedRecord, PartitionResult
from pipeline.resolve import flag, worded
from pipeline.rows.prepared import PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.stage import Context, Stage
from pipeline.running.workers import workers_of
from pipeline.stages.fit_parts import PARTS, fit_part, is_in_parts, join_parts, part_tasks, refuse_too_large
from pipeline.storage.fitted import Fitted, label_of
from pipeline.storage.models import save_model
from pipeline.storage.store import Store


def partition(context: Context, values: Sequence[Value]) -> PartitionResult:
    """Fit the partitionings for each value of the map's parameter.

    Returns
    -------
    dict
        fitted: for each value, in ascending order, the fields of its :class:`Fitted`.

    Raises
    ------
    InputError
        If the training set is not large enough for a value.
    """
    values = sorted(set(values))
    params, n = context.params, PreparedRows(context.store, "train").n_rows
    for value in reversed(values):
        if (refusal := refused_on(params.map_at(value), n)) is not None:
            raise InputError(refusal.worded(flag))
    parameter, in_parts = params.map_parameter, is_in_parts(params, n)
    if in_parts:
        names = [f"partitions/{label_of(params.partitioner, parameter, value)}" for value in values]
        parts = [
            task
            for name, value in zip(names, values, strict=True)
            for task in part_tasks(context.store, params, name, value)
        ]
        stage = Stage(context, "partition", len(parts) + len(values))
        stage.run(fit_part, parts)
        tasks = [
            Task(named(parameter, value), (context.store, params, name))
            for name, value in zip(names, values, strict=True)
        ]
        fits = zip(values, stage.run(join_parts, tasks), strict=True)
    else:
        stage = Stage(context, "partition", len(values))
        n_threads = max(1, cores_of_a_host(context) // len(values))
        tasks = [Task(named(parameter, value), (context.store, params, value, n_threads)) for value in values]
        fits = zip(values, stage.run(fit, tasks), strict=True)
    models = [
        Fitted(params.partitioner, parameter, value, record["most_cells"], record["content_hash"], record["t"])
        for value, record in fits
    ]
    for model in models:
        if model.most_cells == 1:
            context.events.message(
                f"partition: all rows have the same cell in every partitioning of {model.label}: are all columns "
                f"constant? If not, give a larger --{parameter}"
            )
    result: PartitionResult = {"fitted": [asdict(model) for model in models]}
    return stage.finish(result, obsolete=[PARTS] if in_parts else [])


def cores_of_a_host(context: Context) -> int:
    """Return the threads of this run on the machine with the fewest: a few tasks may use cores that would be idle."""
    hosts: Counter[str] = Counter()
    for worker in workers_of(context.client).values():
        hosts[worker["host"]] += worker["nthreads"]
    return max(1, min(hosts.values(), default=1) // context.share)


def fit(store: Store, params: Params, value: Value, n_threads: int = 1) -> FittedRecord:
    """Task: fit and store the model, which is the same for any number of threads."""
    train = PreparedRows(store, "train")
    seen = _Seen(train)
    sample = replace(train.sample(params.seed), take=seen.take).seen_by(params.map.description)
    if capability(params.map, FitsByPartitioning) is not None:
        refuse_too_large(params, value, train.read(0, train.n_rows).rows)
    with worded():
        model = params.map_at(value).fit(sample, n_threads)
    label = label_of(params.partitioner, params.map_parameter, value)
    content_hash = save_model(store, f"partitions/{label}", model, offsets=model.offsets.tolist())
    return {
        "rows": seen.rows,
        "bytes_read": seen.bytes,
        "bytes_written": model.nbytes,
        "outputs": [f"partitions/{label}"],
        "most_cells": int(np.diff(model.offsets).max()),
        "t": model.n_partitions,
        "content_hash": content_hash,
    }


class _Seen:
    """A count of the rows that a map has looked at."""

    def __init__(self, rows: PreparedRows) -> None:
        self._rows = rows
        self.rows = self.bytes = 0

    def take(self, numbers: np.ndarray) -> Rows:
        """Return rows by ascending number."""
        rows = cast("Rows", self._rows.take(numbers).rows)
        self.rows += rows.shape[0]
        self.bytes += rows.nbytes if isinstance(rows, np.ndarray) else 2 * rows.data.nbytes
        return rows
