"""The plan of a run: what it will take, said before it starts; and the refusal of what cannot fit."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from ikmap.learners.class_descent import LANES
from ikmap.methods import LEARNERS, DualLearner, Shape
from ikmap.model_selection import psis_that_fit
from ikmap.partitioners.voronoi.scores import DENSE_BYTES
from ikmap.partitioners.voronoi.search import SCRATCH_BYTES
from pipeline.datasets import ResolvedDataset
from pipeline.errors import InputError
from pipeline.layout import BLOCK_BYTES, STREAM_BYTES, cell_layout, choose_parts, choose_solver, packed_bytes
from pipeline.memory import PROCESS_BYTES, USABLE, refusal, size
from pipeline.params import Params
from pipeline.prepared import READ_BYTES
from pipeline.stages.train import CLASS_GROUPS
from pipeline.stages.train_distributed import HELD_BYTES, PROBLEMS_AT_ONCE

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
    psi: int,
    *,
    rows_train: int,
    rows_test: int,
    columns: int,
    nnz: int,
    n_classes: int,
    workers: int,
    dense: bool,
) -> Plan:
    """Estimate what is left to do after the ingest.

    Parameters
    ----------
    psi : int
        Cells per partitioning; where it is still to be chosen, the largest that is tried.
    """
    t, n = params.t, rows_train + rows_test
    drawn = rows_train * -math.expm1(t * math.log1p(-min(psi / rows_train, 1 - 1e-12)))
    per_row = columns * 8 if dense else 12 * nnz / max(1, n)
    model = drawn * per_row + t * psi * (4 if params.partitioner == "anne" else 2 * 16)
    search = 40.0 * columns if not dense else 0.0  # numbers that columns are given
    if params.partitioner == "anne":
        # Points after scaling, the same in tiles of float32, principal axes, memberships; rows that are being searched.
        search += (
            drawn * (per_row + 150)
            + (4.0 * columns * drawn if dense else min(4.0 * columns * drawn, DENSE_BYTES))
            + 24 * t * psi
            + 2 * SCRATCH_BYTES
        )
    layout = cell_layout(rows_train, t, params.shard_rows)
    shard = layout.shard_rows * t * 4
    tasks = -(-rows_train // layout.shard_rows) + -(-rows_test // layout.shard_rows)
    problems = 1 if n_classes == 2 else n_classes
    at_once = max(-(-problems // CLASS_GROUPS), min(problems, LANES))
    weights = t * psi * 8 * problems
    cells = packed_bytes(rows_train, t, psi)
    solver = choose_solver(cells, params.solver)
    mapping = model + search + 2 * shard + 3 * READ_BYTES
    # A block that is learned from and the next one, whatever the solver: OGD goes block by block.
    training: float = 2 * min(cells, STREAM_BYTES) + 3 * weights
    held = "block by block"
    if solver == "memory":
        # A label, and for each problem that is solved at once two copies of a dual variable.
        training = max(training, 2 * cells + 3 * weights + (4 + 16 * at_once) * rows_train)
        held = "in memory"
    if solver == "distributed":
        parts = choose_parts(rows_train, cells, params.parts)
        together = min(problems, PROBLEMS_AT_ONCE)
        part = min(-(-cells // parts), BLOCK_BYTES)
        held = f"in {parts} parts of {size(cells / parts)} each"
        # The part that is worked on, twice while it is packed; parts that stay; four copies of its dual variables.
        distributed = HELD_BYTES + 2 * part + 8 * t * psi * 8 * together + (4 + 32 * together) * rows_train / parts
        training = max(distributed, training)
    learners = {name: LEARNERS[name] for name in params.learners}
    shapes = {
        "cells": Shape(rows_train, t, None, n_classes),
        "rows": Shape(rows_train, columns, None if dense else nnz, n_classes),
    }
    own = {name: learner.needed_bytes(params, shapes[learner.on]) for name, learner in learners.items()}
    # A model with a kernel may keep all rows.
    kept = {name: (per_row if LEARNERS[name].on == "rows" else 4 * t) + 8 * problems for name in own}
    output = sum(min(needed, rows_train * kept[name]) for name, needed in own.items())
    lines = [
        f"data: {rows_train:,} training and {rows_test:,} test rows x {columns:,} columns, "
        f"{'dense' if dense else 'sparse'}"
    ]
    if any(LEARNERS[name].on == "cells" for name in own):
        output += n * t * 4 / COMPRESSION + model + 2 * weights
        lines += [
            f"partitions: {params.partitioner}, t = {t}, psi = {psi}, about {drawn:,.0f} different points, "
            f"model {size(model)}",
            f"cells: {tasks} tasks on {workers} workers, {layout.shard_rows:,} rows and {size(shard)} each",
        ]
    else:
        mapping = training = 3 * READ_BYTES
    if any(isinstance(learner, DualLearner) for learner in learners.values()):
        lines.append(
            f"training: {size(cells)} of packed cells, {held} (solver {solver}); weights {size(weights)} a learner"
        )
    lines += [
        f"training {name}: {'at least' if learners[name].working_set else 'about'} {size(needed)}"
        for name, needed in own.items()
        if needed
    ]
    worker = int(PROCESS_BYTES + max(mapping, training, *own.values()))
    lines.append(f"memory: at most about {size(worker)} in a worker; output: about {size(output)}")
    heaviest = max(own, key=own.__getitem__)
    return Plan(tuple(lines), worker, int(output), heaviest if own[heaviest] > max(mapping, training) else "")


def largest_psi(params: Params, rows_train: int) -> int:
    """The most cells per partitioning that a run on so many rows may make; 0 without learners on cells."""
    if all(LEARNERS[name].on == "rows" for name in params.learners):
        return 0
    return max(psis_that_fit(min(rows_train, params.cv_rows))) if params.psi == "auto" else int(params.psi)


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
    psi = largest_psi(params, rows)
    if psi > rows:
        if train.knows_rows:  # a later stage says what is wrong
            return None
        rows = psi  # else it would be wrong
    # Going block by block needs the least memory, and two classes do; sparse rows may become dense ones.
    asked = replace(params, solver=params.solver if params.solver == "memory" else "block")
    plans = [
        make_plan(asked, psi, rows_train=rows, rows_test=tested, columns=train.n_columns or 1, nnz=0, n_classes=2,
                  workers=workers, dense=dense)
        for dense in ([True, False] if train.sparse else [True])
    ]  # fmt: skip
    least = min(plans, key=lambda plan: plan.worker_bytes)
    return replace(least, output_bytes=min(plan.output_bytes for plan in plans))
