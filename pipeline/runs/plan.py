"""The plan of a run: the memory and disk that it will take, estimated beforehand; a run that cannot fit is refused."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ikmap.methods import LEARNERS, RowsInfo, Shape, WholeLearner, capability, refused_on
from ikmap.methods.values import Value, size_of
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.rows.block_sizes import cell_layout, packed_bytes
from pipeline.rows.prepared import READ_BYTES
from pipeline.running.repair import STORE
from pipeline.running.worker_memory import PROCESS_BYTES, USABLE, refusal, size
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.calibrate import FIT_BYTES, is_requested
from pipeline.storage.models import MODELS
from pipeline.training.runner import CellSizes
from pipeline.training.train import runner_of

COMPRESSION = 2.6
"""Factor by which cells are compressed in the store, as measured; their entropy allows hardly more."""
OUTPUT = ("partitions", "cells", MODELS)
"""Groups of the store whose size is estimated as the output of a run."""


@dataclass(frozen=True)
class Plan:
    """Estimates, in rows and bytes.

    Attributes
    ----------
    lines : tuple of str
        Lines for people.
    worker_bytes : int
        Largest memory of one worker.
    output_bytes : int
        Bytes that the run will add to its directory.
    largest : str
        Learner that needs the largest memory, unless the cells need it.
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
            The memory does not suffice; the error names the needed memory, the limit, and options that change it.
        InputError
            The disk does not suffice.
        """
        if memory_limit is not None and self.worker_bytes > USABLE * memory_limit:
            what = f"training {self.largest}" if self.largest else "a worker"
            remedy = f"without {self.largest}" if self.largest else "a smaller --psi or --t"
            raise refusal(what, self.worker_bytes, memory_limit, remedy)
        free = shutil.disk_usage(directory).free
        # A run that goes on has written some of it already, which is looked for only where it matters.
        if self.output_bytes > free and (left := self.output_bytes - _written_bytes(directory)) > free:
            raise InputError(f"{directory}: the run would write about {size(left)}, found {size(free)} free")


def _written_bytes(directory: Path) -> int:
    """Return the bytes of what a run has written so far of its output."""
    files = (path for group in OUTPUT for path in (directory / STORE / group).rglob("*"))
    return sum(path.stat().st_size for path in files if path.is_file())


@dataclass(frozen=True)
class DataSizes:
    """Sizes of the rows of a run.

    Attributes
    ----------
    rows_train, rows_test : int
    columns : int
    nnz : int
        Number of entries of all sparse rows.
    outputs : int
        Number of columns of decisions: one for two classes, else one for each class.
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
        """Bytes of a row in memory, on average."""
        return self.columns * 8 if self.dense else 12 * self.nnz / max(1, self.rows_train + self.rows_test)


@dataclass(frozen=True)
class _Part:
    """Memory and output of a part of the run, in bytes, and lines about it."""

    memory: float = 0.0
    output: float = 0.0
    lines: tuple[str, ...] = ()


def make_plan(params: Params, value: Value, sizes: DataSizes, workers: int) -> Plan:
    """Estimate the rest of a run after the ingest.

    Parameters
    ----------
    value : int or float
        Value of the map, such as psi; where it is still to be chosen, the largest that is tried.
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
    """Return the memory that training each learner takes for itself."""
    shapes = {"rows": Shape(sizes.rows_train, sizes.columns, None if sizes.dense else sizes.nnz, sizes.outputs)}
    if params.on_cells:
        shapes["cells"] = Shape(sizes.rows_train, t, None, sizes.outputs, cells)
    return {name: params.of(name).memory(shapes[LEARNERS[name].about.on]) for name in params.learners}


def _has_working_set(params: Params, learner: str) -> bool:
    """Return whether the estimate for a learner is only the least memory that it may take."""
    at_once = capability(params.of(learner), WholeLearner)
    return at_once is not None and at_once.working_set


def _kept_bytes(sizes: DataSizes, own: Mapping[str, int], t: int) -> float:
    """Return the bytes of models with rows in them: one with a kernel may keep all rows."""
    row_bytes = {"rows": sizes.row_bytes, "cells": 4.0 * t}
    return sum(
        min(needed, sizes.rows_train * (row_bytes[LEARNERS[name].about.on] + 8 * sizes.outputs))
        for name, needed in own.items()
    )


def _mapping(params: Params, value: Value, sizes: DataSizes, workers: int) -> _Part:
    """Estimate partitionings and cells."""
    method = params.map_at(value)
    t, shape = method.n_partitions, RowsInfo(sizes.rows_train, sizes.columns, sizes.row_bytes, sizes.dense)
    rows = cell_layout(sizes.rows_train, t, params.shard_rows).shard_rows
    shard, tasks = rows * t * 4, -(-sizes.rows_train // rows) + -(-sizes.rows_test // rows)
    needed = method.memory(shape)
    cells = (sizes.rows_train + sizes.rows_test) * t * 4
    lines = (
        f"partitions: {params.partitioner}, t = {t}, {method.plan_words(shape)}, model {size(needed.model)}",
        f"cells: {tasks} tasks on {workers} workers, {rows:,} rows and {size(shard)} each",
    )
    memory = 3.0 * READ_BYTES + needed.model + needed.scratch + 2 * shard
    return _Part(memory, cells / COMPRESSION + needed.model, lines)


def _training_on_cells(params: Params, value: Value, sizes: DataSizes) -> _Part:
    """Estimate the training of all learners on cells, by their runners."""
    method = params.map_at(value)
    most_cells, t = method.n_cells(), method.n_partitions
    cells, weights = packed_bytes(sizes.rows_train, t, most_cells), t * most_cells * 8 * sizes.outputs
    cell_sizes = CellSizes(sizes.rows_train, sizes.outputs, cells, weights)
    needs = {
        name: runner_of(name).needs(params.of(name), cell_sizes)
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
    """Estimate training on the rows of a fold: twice what it holds of them in memory, and the weights."""
    most_cells = params.map_at(value).n_cells() if params.on_cells else 0
    cells = packed_bytes(sizes.rows_train, t, most_cells) if params.on_cells else 0
    rows = (
        sizes.row_bytes * sizes.rows_train
        if any(LEARNERS[name].about.on == "rows" for name in params.learners)
        else 0.0
    )
    fit_bytes = min(FIT_BYTES, max(cells, rows))
    weights = 3 * t * most_cells * 8 * sizes.outputs if params.on_cells else 0
    return 2 * fit_bytes + weights, 0.0, (f"calibration: a task holds {size(fit_bytes)} of the rows of a fold",)


def largest_value(params: Params, rows_train: int) -> Value:
    """Return the largest value of the map that a run on `rows_train` rows may have; 0 without learners on cells."""
    if not params.on_cells:
        return 0
    on_cells = [name for name in params.learners if LEARNERS[name].about.on == "cells"]
    values = [params.map_value(name, rows_train) for name in on_cells]
    if None in values and (search := params.search_of_map(min(rows_train, params.cv_rows))):
        values += reversed(search.values)
    return largest_of(params, [value for value in values if value is not None])


def largest_of(params: Params, values: Iterable[Value]) -> Value:
    """Return the value of the map that makes the most cells, of some values; 0 if there are none."""
    return max(values, key=lambda value: _columns(params, value), default=0)


def _columns(params: Params, value: Value) -> int:
    """Return the most columns that the features may have."""
    method = params.map_at(value)
    return method.n_partitions * method.n_cells()


def least_plan(params: Params, data: ResolvedDataset, workers: int, *, stream: bool = False) -> Plan | None:
    """Return a plan that no run on the data can undercut, by the heads of the files; None if there are too few rows.

    Parameters
    ----------
    stream : bool
        Whether all rows are learned from, as in a run on a stream.
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
    # Solving block by block with one output needs the least memory; sparse rows may become dense.
    least_params = params
    for name in params.learners:
        least_params = least_params.setting(name, **runner_of(name).least(params.of(name)))
    plans = [
        make_plan(least_params, value, DataSizes(rows, tested, train.n_columns or 1, 0, 1, dense), workers)
        for dense in ([True, False] if train.sparse else [True])
    ]
    least = min(plans, key=lambda plan: plan.worker_bytes)
    return replace(least, output_bytes=min(plan.output_bytes for plan in plans))
