"""The plan of a run: the memory and disk that it will take, estimated beforehand; what cannot fit is refused."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ikmap.methods import LEARNERS, RowsInfo, Shape, WholeLearner, capability, refused_on
from ikmap.methods.search import Value, size_of
from pipeline.datasets.registry import ResolvedDataset
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.rows.block_sizes import cell_layout, packed_bytes
from pipeline.rows.prepared import READ_BYTES
from pipeline.running.worker_memory import PROCESS_BYTES, USABLE, refusal, size
from pipeline.stages.calibrate import FIT_BYTES, is_requested
from pipeline.training.runner import CellSizes
from pipeline.training.train import runner_of

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


@dataclass(frozen=True)
class DataSizes:
    """What is known of the rows of a run.

    Attributes
    ----------
    rows_train, rows_test : int
    columns : int
    nnz : int
        Entries of sparse rows, in all.
    outputs : int
        Columns of decisions: one for two classes, else one for each.
    dense : bool
    """

    rows_train: int
    rows_test: int
    columns: int
    nnz: int
    outputs: int
    dense: bool

    @property
    def row_bytes(self) -> float:
        """Of a row in memory, on average."""
        return self.columns * 8 if self.dense else 12 * self.nnz / max(1, self.rows_train + self.rows_test)


@dataclass(frozen=True)
class _Part:
    """What a part of the run will take, in bytes, and what is said of it."""

    memory: float = 0.0
    output: float = 0.0
    lines: tuple[str, ...] = ()


def make_plan(params: Params, value: Value, sizes: DataSizes, workers: int) -> Plan:
    """Estimate what is left to do after the ingest.

    Parameters
    ----------
    value : int or float
        Of the map, such as psi; where it is still to be chosen, the largest that is tried.
    """
    data = (
        f"data: {sizes.rows_train:,} training and {sizes.rows_test:,} test rows x {sizes.columns:,} columns, "
        f"{'dense' if sizes.dense else 'sparse'}"
    )
    t = params.map_at(value).n_partitions if params.on_cells else 0
    own = _own_bytes(params, sizes, t, _columns(params, value) if params.on_cells else 0)
    parts = [_Part(3.0 * READ_BYTES, _kept_bytes(sizes, own, t))]
    if is_requested(params):
        parts.append(_Part(*_calibrating(params, value, sizes, t)))
    if params.on_cells:
        parts += [_mapping(params, value, sizes, workers), _training_on_cells(params, value, sizes)]
    shared = max(part.memory for part in parts)
    output = sum(part.output for part in parts)
    worker = int(PROCESS_BYTES + max(shared, *own.values()))
    heaviest = max(own, key=own.__getitem__)
    lines = (
        data,
        *(line for part in parts for line in part.lines),
        *(
            f"training {name}: {'at least' if _has_working_set(params, name) else 'about'} {size(needed)}"
            for name, needed in own.items()
            if needed
        ),
        f"memory: at most about {size(worker)} in a worker; output: about {size(output)}",
    )
    return Plan(lines, worker, int(output), heaviest if own[heaviest] > shared else "")


def _own_bytes(params: Params, sizes: DataSizes, t: int, cells: int) -> dict[str, int]:
    """What training each learner takes beside what all take."""
    shapes = {"rows": Shape(sizes.rows_train, sizes.columns, None if sizes.dense else sizes.nnz, sizes.outputs)}
    if params.on_cells:
        shapes["cells"] = Shape(sizes.rows_train, t, None, sizes.outputs, cells)
    return {name: params.of(name).memory(shapes[LEARNERS[name].about.on]) for name in params.learners}


def _has_working_set(params: Params, learner: str) -> bool:
    """Return whether what a learner takes is the least that it may turn out to."""
    whole = capability(params.of(learner), WholeLearner)
    return whole is not None and whole.working_set


def _kept_bytes(sizes: DataSizes, own: Mapping[str, int], t: int) -> float:
    """What models with rows in them take: one with a kernel may keep all rows."""
    of_row = {"rows": sizes.row_bytes, "cells": 4.0 * t}
    return sum(
        min(needed, sizes.rows_train * (of_row[LEARNERS[name].about.on] + 8 * sizes.outputs))
        for name, needed in own.items()
    )


def _mapping(params: Params, value: Value, sizes: DataSizes, workers: int) -> _Part:
    """Partitionings and cells."""
    of_map = params.map_at(value)
    t, shape = of_map.n_partitions, RowsInfo(sizes.rows_train, sizes.columns, sizes.row_bytes, sizes.dense)
    rows = cell_layout(sizes.rows_train, t, params.shard_rows).shard_rows
    shard, tasks = rows * t * 4, -(-sizes.rows_train // rows) + -(-sizes.rows_test // rows)
    needed = of_map.memory(shape)
    cells = (sizes.rows_train + sizes.rows_test) * t * 4
    lines = (
        f"partitions: {params.partitioner}, t = {t}, {of_map.plan_words(shape)}, model {size(needed.model)}",
        f"cells: {tasks} tasks on {workers} workers, {rows:,} rows and {size(shard)} each",
    )
    memory = 3.0 * READ_BYTES + needed.model + needed.scratch + 2 * shard
    return _Part(memory, cells / COMPRESSION + needed.model, lines)


def _training_on_cells(params: Params, value: Value, sizes: DataSizes) -> _Part:
    """All learners on cells, by their runners."""
    of_map = params.map_at(value)
    most, t = of_map.n_cells(), of_map.n_partitions
    cells, weights = packed_bytes(sizes.rows_train, t, most), t * most * 8 * sizes.outputs
    of = CellSizes(sizes.rows_train, sizes.outputs, cells, weights)
    needs = {
        name: runner_of(name).needs(params.of(name), of)
        for name in params.learners
        if LEARNERS[name].about.on == "cells"
    }
    lines = tuple(
        f"training {name}: {size(cells)} of packed cells, {held}; weights {size(weights)}"
        for name, (_, held) in needs.items()
        if held
    )
    return _Part(max(needed for needed, _ in needs.values()), 2 * weights, lines)


def _calibrating(params: Params, value: Value, sizes: DataSizes, t: int) -> tuple[float, float, tuple[str, ...]]:
    """Training on most of the rows, in memory: twice what is learned from, and the weights."""
    most = params.map_at(value).n_cells() if params.on_cells else 0
    cells = packed_bytes(sizes.rows_train, t, most) if params.on_cells else 0
    rows = (
        sizes.row_bytes * sizes.rows_train
        if any(LEARNERS[name].about.on == "rows" for name in params.learners)
        else 0.0
    )
    held = min(FIT_BYTES, max(cells, rows))
    weights = 3 * t * most * 8 * sizes.outputs if params.on_cells else 0
    return 2 * held + weights, 0.0, (f"calibration: learns from {size(held)} in a task",)


def largest_value(params: Params, rows_train: int) -> Value:
    """The largest value of the map that a run on so many rows may have; 0 without learners on cells."""
    if not params.on_cells:
        return 0
    on_cells = [name for name in params.learners if LEARNERS[name].about.on == "cells"]
    found = [params.width(name, rows_train) for name in on_cells]
    if None in found and (search := params.search_of_map(min(rows_train, params.cv_rows))):
        found += reversed(search.values)
    return largest_of(params, [value for value in found if value is not None])


def largest_of(params: Params, values: Iterable[Value]) -> Value:
    """The value that makes the most cells, of several of the map of a run; 0 of none."""
    return max(values, key=lambda value: _columns(params, value), default=0)


def _columns(params: Params, value: Value) -> int:
    """Columns of the features, at most."""
    of_map = params.map_at(value)
    return of_map.n_partitions * of_map.n_cells()


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
    if params.on_cells and refused_on(params.map_at(value), rows) is not None:
        if train.knows_rows:  # a later stage says what is wrong
            return None
        rows = math.ceil(size_of(value))  # else it would be wrong
    # Going block by block needs the least memory, and one output does; sparse rows may become dense ones.
    asked = params
    for name in params.learners:
        asked = asked.setting(name, **runner_of(name).least(params.of(name)))
    plans = [
        make_plan(asked, value, DataSizes(rows, tested, train.n_columns or 1, 0, 1, dense), workers)
        for dense in ([True, False] if train.sparse else [True])
    ]
    least = min(plans, key=lambda plan: plan.worker_bytes)
    return replace(least, output_bytes=min(plan.output_bytes for plan in plans))
