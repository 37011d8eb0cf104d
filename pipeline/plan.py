"""The plan of a run: what it will take, said before it starts; and the refusal of what cannot fit."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from ikmap.methods import LEARNERS, MapShape, Shape
from ikmap.methods.map import Value
from pipeline.datasets import ResolvedDataset
from pipeline.errors import InputError
from pipeline.layout import cell_layout, packed_bytes
from pipeline.memory import PROCESS_BYTES, USABLE, refusal, size
from pipeline.params import Params
from pipeline.prepared import READ_BYTES
from pipeline.stages.runner import CellSizes
from pipeline.stages.train import runner_of

COMPRESSION = 2.6
"""Of cells in the store, as measured; their entropy allows hardly more."""


@dataclass(frozen=True)
class Plan:
    """Estimates, in rows and bytes.

    Attributes
    ----------
    lines : tuple of str
        What a person wants to read.
    worker_bytes : int
        Largest memory of one worker.
    output_bytes : int
        What the run will add to its directory.
    largest : str
        The learner that needs so much memory, where it is one of them and not the cells.
    """

    lines: tuple[str, ...]
    worker_bytes: int
    output_bytes: int
    largest: str = ""

    def check(self, memory_limit: int | None, directory: Path) -> None:
        """Refuse a run that cannot fit.

        Raises
        ------
        DoesNotFit
            The memory: naming what is needed, what there is and which options change it.
        InputError
            The same of the disk.
        """
        if memory_limit is not None and self.worker_bytes > USABLE * memory_limit:
            who = f"training {self.largest}" if self.largest else "a worker"
            less = f"without {self.largest}" if self.largest else "a smaller --psi or --t"
            raise refusal(who, self.worker_bytes, memory_limit, less)
        free = shutil.disk_usage(directory).free
        if self.output_bytes > free:
            raise InputError(
                f"{directory}: the run would write about {size(self.output_bytes)}, found {size(free)} free"
            )


def make_plan(
    params: Params,
    value: Value,
    *,
    rows_train: int,
    rows_test: int,
    columns: int,
    nnz: int,
    outputs: int,
    workers: int,
    dense: bool,
) -> Plan:
    """Estimate what is left to do after the ingest.

    Parameters
    ----------
    outputs : int
        Columns of decisions: one for two classes, else one for each.
    value : int or float
        Of the map, such as psi; where it is still to be chosen, the largest that is tried.
    """
    n = rows_train + rows_test
    per_row = columns * 8 if dense else 12 * nnz / max(1, n)
    problems = outputs
    t = params.t if params.on_cells else 0
    learners = {name: LEARNERS[name] for name in params.learners}
    shapes = {
        "cells": Shape(rows_train, t, None, outputs),
        "rows": Shape(rows_train, columns, None if dense else nnz, outputs),
    }
    own = {name: learner.needed_bytes(params.of(name), shapes[learner.on]) for name, learner in learners.items()}
    # A model with a kernel may keep all rows.
    kept = {name: (per_row if LEARNERS[name].on == "rows" else 4 * t) + 8 * problems for name in own}
    output = sum(min(needed, rows_train * kept[name]) for name, needed in own.items())
    lines = [
        f"data: {rows_train:,} training and {rows_test:,} test rows x {columns:,} columns, "
        f"{'dense' if dense else 'sparse'}"
    ]
    mapping = training = 3.0 * READ_BYTES
    if params.on_cells:
        layout = cell_layout(rows_train, t, params.shard_rows)
        shard = layout.shard_rows * t * 4
        tasks = -(-rows_train // layout.shard_rows) + -(-rows_test // layout.shard_rows)
        shape = MapShape(rows_train, columns, per_row, dense)
        model, search = params.map.needed_bytes(params.map_options, value, shape)
        mapping += model + search + 2 * shard
        most = params.map.n_cells(params.map_options, value)
        cells, weights = packed_bytes(rows_train, t, most), t * most * 8 * problems
        output += n * t * 4 / COMPRESSION + model + 2 * weights
        lines += [
            f"partitions: {params.partitioner}, t = {t}, {params.map.planned(params.map_options, value, shape)}, "
            f"model {size(model)}",
            f"cells: {tasks} tasks on {workers} workers, {layout.shard_rows:,} rows and {size(shard)} each",
        ]
        training = 0.0
        for name in [name for name, learner in learners.items() if learner.on == "cells"]:
            sizes = CellSizes(rows_train, problems, cells, weights)
            needed, held = runner_of(name).needs(params.of(name), sizes)
            training = max(training, needed)
            if held:
                lines.append(f"training {name}: {size(cells)} of packed cells, {held}; weights {size(weights)}")
    lines += [
        f"training {name}: {'at least' if learners[name].working_set else 'about'} {size(needed)}"
        for name, needed in own.items()
        if needed
    ]
    worker = int(PROCESS_BYTES + max(mapping, training, *own.values()))
    lines.append(f"memory: at most about {size(worker)} in a worker; output: about {size(output)}")
    heaviest = max(own, key=own.__getitem__)
    return Plan(tuple(lines), worker, int(output), heaviest if own[heaviest] > max(mapping, training) else "")


def largest_value(params: Params, rows_train: int) -> Value:
    """The largest value of the map that a run on so many rows may have; 0 without learners on cells."""
    if not params.on_cells:
        return 0
    search = params.map.search(params.map_options, min(rows_train, params.cv_rows))
    return search.values[-1] if search is not None else params.map.given(params.map_options) or 0


def least_plan(params: Params, data: ResolvedDataset, workers: int, *, stream: bool = False) -> Plan | None:
    """A plan that no run on this data can undercut, by what the heads of the files tell; None of too few rows.

    Parameters
    ----------
    stream : bool
        All rows are learned from, as in a run on a stream.
    """
    train, test = data.sources
    rows, tested = train.least_rows(), 0 if test is None else test.least_rows()
    if test is None and not stream:
        n_train = data.split.n_train
        n_train = math.ceil(data.split.fraction * rows) if n_train is None else n_train
        rows, tested = n_train, max(0, rows - n_train)
    elif stream:
        rows, tested = rows + tested, 0
    value = largest_value(params, rows)
    if params.on_cells and params.map.refused(params.map_options, value, rows):
        if train.knows_rows:  # a later stage says what is wrong
            return None
        rows = math.ceil(value)  # else it would be wrong
    # Going block by block needs the least memory, and one output does; sparse rows may become dense ones.
    asked = params
    for name in params.learners:
        asked = asked.setting(name, **runner_of(name).least(params.of(name)))
    plans = [
        make_plan(asked, value, rows_train=rows, rows_test=tested, columns=train.n_columns or 1, nnz=0, outputs=1,
                  workers=workers, dense=dense)
        for dense in ([True, False] if train.sparse else [True])
    ]  # fmt: skip
    least = min(plans, key=lambda plan: plan.worker_bytes)
    return replace(least, output_bytes=min(plan.output_bytes for plan in plans))
