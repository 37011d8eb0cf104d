"""Checks of every learner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ikmap.capability import capability
from ikmap.cells import Cells
from ikmap.conformance import CheckFailed, json_values, member, same, true
from ikmap.learners.rows import Block, Rows
from ikmap.methods.anne import Anne
from ikmap.methods.capabilities import CellTables, DecidesOtherwise
from ikmap.methods.checks.common import (
    SEED,
    D,
    N,
    configured_for_checks,
    round_trip,
    rows_to_check,
    sample_of,
    targets_of,
    tasks_of,
    with_small_values,
)
from ikmap.methods.learner import CountsLearner, Learner, State, StreamLearner, WholeLearner
from ikmap.methods.map import Map
from ikmap.methods.registry import MAPS
from ikmap.methods.sample import Sample, Shape, Training
from ikmap.model import Model
from ikmap.partitioners import Partitions
from ikmap.partitioners.redrawn import carry_matrix
from ikmap.seeds import generator
from ikmap.tasks import Label, Task

type Counts = dict[str, NDArray[np.generic]]


@runtime_checkable
class Traces(Protocol):
    """A state with traces of its learning."""

    def traces(self) -> Mapping[str, float]: ...


@runtime_checkable
class Grows(Protocol):
    """A state that can continue when the map gets more cells."""

    def grow(self, old: NDArray[np.int64], new: NDArray[np.int64]) -> None: ...


@runtime_checkable
class Carries(Protocol):
    """A state that can continue when partitionings are redrawn."""

    def carry(self, matrix: sp.csr_array, offsets: NDArray[np.int64]) -> None: ...


@runtime_checkable
class Decides(Protocol):
    """A model with decisions on rows."""

    def decision_function(self, rows: Rows) -> NDArray[np.float64]: ...


@runtime_checkable
class MakesModel(Protocol):
    """A state whose model is made of the classes alone, as callers without parameters make it."""

    def model(self, classes: list[Label]) -> Model: ...


def _decisions(model: object, rows: Rows) -> NDArray[np.float64]:
    with member(model, "decision_function"):
        assert isinstance(model, Decides)
        return model.decision_function(rows)


def _model(state: object, task: Task) -> Model:
    with member(state, "model"):
        assert isinstance(state, MakesModel)
        model = state.model(task.codec.classes)
        if not isinstance(model, Model):
            raise CheckFailed(f"found a {type(model).__name__}, expected an ikmap.model.Model")
        return model


def _learn(state: State, rows: Rows, y: NDArray[np.generic]) -> NDArray[np.generic]:
    """Have a state learn from rows, and return its predictions."""
    with member(state, "partial_fit"):
        return np.asarray(state.partial_fit(rows, y).predicted)


def _arrays(state: State) -> dict[str, NDArray[np.generic]]:
    """Return copies of the arrays of a checkpoint."""
    with member(state, "checkpoint"):
        arrays = {name: np.array(array) for name, array in state.checkpoint().items()}
        for name, array in arrays.items():
            true(array.dtype.kind in "biuf", f"array {name!r} of the checkpoint: found {array.dtype}, expected numbers")
        return arrays


def _restored(fresh: State, arrays: Mapping[str, NDArray[np.generic]]) -> State:
    with member(fresh, "restore"):
        return fresh.restore(arrays)


def checks_of_learner(learner: Learner, searched: frozenset[str]) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the title and the function of each check of a learner."""
    learner = with_small_values(learner, searched)
    yield "memory grows with the rows", partial(_memory, learner)
    for title, task in tasks_of(learner):
        if isinstance(learner, StreamLearner):
            yield f"stream of {title}", partial(_stream, learner, task)
            yield f"checkpoint on {title}", partial(_checkpoint, learner, task)
            if learner.about.on == "cells":
                yield f"rows without cells, stream of {title}", partial(_absent, learner, task)
            if learner.grows:
                yield f"growing on {title}", partial(_growing, learner, task)
            if learner.carries:
                yield f"cells drawn anew on {title}", partial(_carrying, learner, task)
        if isinstance(learner, WholeLearner):
            yield f"fit to {title}", partial(_whole, learner, task)
            if isinstance(learner, CountsLearner):
                yield f"counts of {title}", partial(_counts, learner, task)


def _input_of(learner: Learner) -> tuple[Rows, NDArray[np.int64] | None]:
    """Return the input of the learner: cells and their offsets, or rows."""
    X = rows_to_check()
    if learner.about.on == "rows":
        return X, None
    _, model = _map_of(learner)
    cells = model.cells(X, 1)
    return cells.packed(), cells.offsets


def _map_of(learner: Learner) -> tuple[Map, Partitions]:
    """Return a small map with the tables that the learner needs, and its model."""
    about = learner.about
    kind = Anne if Anne.about.tables.issuperset(about.needs_tables) else MAPS[about.usual_map]
    of_map, searched = configured_for_checks(kind)
    small = of_map.at({"psi": 4} if "psi" in searched else {}).at({"t": 5})
    return small, small.fit(sample_of(small, rows_to_check()))


def _tables(learner: Learner) -> Mapping[str, NDArray[np.float64]]:
    """Return the tables on cells for the learner."""
    if not learner.about.needs_tables:
        return {}
    of_map, model = _map_of(learner)
    tables = capability(of_map, CellTables)
    assert tables is not None
    return tables.cell_tables(model, sample_of(of_map, rows_to_check()))


def _sample(rows: Rows, offsets: NDArray[np.int64] | None, task: Task) -> Sample:
    columns = D if offsets is None else offsets.size - 1
    return Sample(N, columns, task, rows.__getitem__, SEED, offsets)


def _decision_task(learner: Learner, task: Task) -> Task:
    """Return the task with the meaning of the decisions of the learner."""
    deciding = capability(learner, DecidesOtherwise)
    if deciding is None:
        return task
    with member(learner, "decision_task"):
        return deciding.decision_task(task)


def _memory(learner: Learner) -> None:
    before = 0
    with member(learner, "memory"):
        for n in (1_000, 10_000, 100_000):
            needed = learner.memory(Shape(n, 20, None, 1))
            true(needed >= before, f"found {needed} bytes of {n} rows, less than of fewer")
            before = needed


def _started(learner: StreamLearner, sample: Sample, n_threads: int = 1) -> State:
    with member(learner, "start"):
        return learner.start(sample, n_threads)


def _stream(learner: StreamLearner, task: Task) -> None:
    rows, offsets = _input_of(learner)
    y = targets_of(task)
    sample = _sample(rows, offsets, task)

    def learned(cuts: Sequence[int], n_threads: int = 1) -> tuple[State, NDArray[np.generic]]:
        state = _started(learner, sample, n_threads)
        spans = zip([0, *cuts], [*cuts, N], strict=True)
        predicted = [_learn(state, rows[start:stop], y[start:stop]) for start, stop in spans]
        with member(state, "partial_fit"):
            return state, np.concatenate(predicted)

    whole, predicted = learned([])
    with member(whole, "n_seen"):
        true(whole.n_seen == N, f"found {whole.n_seen}, expected {N}")
    decision_task = _decision_task(learner, task)
    decided = _decisions(whole, rows)
    with member(whole, "decision_function"):
        true(
            decided.shape == (N, decision_task.decisions.outputs),
            f"found the shape {decided.shape}, expected (rows, outputs)",
        )
    with member(whole, "partial_fit"):
        for cuts in ([1, 2, 3, 50], [64]):
            state, others = learned(cuts)
            same(others, predicted, f"predictions while learning from pieces that begin at {cuts}")
            same(_decisions(state, rows), decided, f"decisions after pieces that begin at {cuts}")
    with member(learner, "start"):
        same(_decisions(learned([40], 2)[0], rows), decided, "decisions of two threads")
    first = _started(learner, sample)
    decided_first = _decisions(first, rows[:1])
    with member(first, "decision_function"):
        same(decision_task.decisions.predict(decided_first), predicted[:1], "prediction of the first row")
    with member(learner, "summary"):
        json_values(learner.summary(whole), "summary")
    with member(whole, "n_support"):
        json_values(int(whole.n_support), "n_support")
    if learner.traced:
        with member(whole, "traces"):
            assert isinstance(whole, Traces)
            traces = whole.traces()
            true(list(traces) == list(learner.traced), f"found {list(traces)}, expected {list(learner.traced)}")
            json_values(traces, "traces")
    model = _model(whole, task)
    with member(whole, "model"):
        with_parameters = whole.model(task.codec.classes, {})
        true(
            with_parameters.content_hash == model.content_hash,
            "found another model with no parameters, model(classes, {}), than of the classes alone, model(classes)",
        )
        stored = round_trip(model)
        of_model = _decisions(model, rows)
        same(_decisions(stored, rows), of_model, "decisions of the model from a store")
        same(_decisions(stored, rows[10:20]), of_model[10:20], "decisions of some rows alone")


def _absent(learner: StreamLearner, task: Task) -> None:
    """Check that learning from rows that lack cells changes no other cells, in the state and in its model."""
    cells, offsets = _input_of(learner)
    assert isinstance(cells, Cells)
    assert offsets is not None
    offsets = np.concatenate([offsets[:-1], [offsets[-1] + 1]])  # one cell more, the very last, in which no row is
    codes = cells.codes.astype(np.int32)
    codes[generator(SEED).random(codes.shape) < 0.3] = -1
    codes[:2] = -1  # rows without any cell
    cells, y = Cells(codes, offsets), targets_of(task)
    state = _started(learner, Sample(N, offsets.size - 1, task, cells.__getitem__, SEED, offsets))
    what = "(-1 of cells.columns() stands for no cell, and is no place in an array of weights)"
    nowhere = np.full((1, offsets.size - 1), -1, dtype=np.int32)
    last = nowhere.copy()
    last[0, -1] = offsets[-1] - offsets[-2] - 1
    _learn(state, cells.packed()[:50], y[:50])
    _learn(state, cells[50:], y[50:])
    decided, empty = _decisions(state, cells), _decisions(state, Cells(nowhere, offsets))
    with member(state, "partial_fit"):
        same(_decisions(state, Cells(last, offsets)), empty, f"decision of a cell that no row was in {what}")
    made = _model(state, task)
    with member(state, "model"):
        model = round_trip(made)
        true(
            np.allclose(_decisions(model, cells), decided, rtol=1e-9, atol=1e-12),
            f"decisions of rows that lack cells: the model's are not those of the state it was made of {what}",
        )
        true(
            np.allclose(_decisions(model, Cells(nowhere, offsets)), empty, rtol=1e-9, atol=1e-12),
            f"decision of a row without cells: the model's is not that of the state it was made of {what}",
        )


def _checkpoint(learner: StreamLearner, task: Task) -> None:
    rows, offsets = _input_of(learner)
    y = targets_of(task)
    sample = _sample(rows, offsets, task)
    state = _started(learner, sample)
    _learn(state, rows[:37], y[:37])
    arrays = _arrays(state)
    _learn(state, rows[37:], y[37:])
    fresh = _started(learner, sample)
    again = _restored(fresh, arrays)
    with member(fresh, "restore"):
        true(again.n_seen == 37, f"n_seen of a restored state: found {again.n_seen}, expected 37")
        _learn(again, rows[37:], y[37:])
        others = _arrays(again)
        for name, array in _arrays(state).items():
            true(name in others, f"found no array {name!r} in the checkpoint of a restored state")
            same(others[name], array, f"array {name!r} after going on from a checkpoint")
        same(_decisions(again, rows), _decisions(state, rows), "decisions after going on from a checkpoint")


def _whole(learner: WholeLearner, task: Task) -> None:
    rows, _ = _input_of(learner)
    block, tables = Block(rows, targets_of(task)), _tables(learner)
    with member(learner, "fit"):
        model, summary = learner.fit(Training(block, task.codec.classes, SEED, 1, task=task, tables=tables))
        json_values(summary, "summary")
        decision_task = _decision_task(learner, task)
        decided = _decisions(model, rows)
        true(
            decided.shape == (N, decision_task.decisions.outputs),
            f"decisions: found the shape {decided.shape}, not (rows, outputs)",
        )
        by_two, _ = learner.fit(Training(block, task.codec.classes, SEED, 2, task=task, tables=tables))
        true(by_two.content_hash == model.content_hash, "a fit by two threads gives another model")
        stored = round_trip(model)
        same(_decisions(stored, rows), decided, "decisions of the model from a store")


def _counts(learner: CountsLearner, task: Task) -> None:
    rows, offsets = _input_of(learner)
    y = targets_of(task)
    sample = replace(_sample(rows, offsets, task), tables=_tables(learner))
    before: Counts | None = None

    def counted(start: int, stop: int) -> Counts:
        block = Block(rows[start:stop], y[start:stop])
        counts = learner.count(block, sample) if before is None else learner.count_again(block, sample, before)
        for name, array in counts.items():
            true(np.asarray(array).dtype.kind in "biuf", f"counts {name!r}: found {array.dtype}, expected numbers")
        return counts

    whole: Counts = {}
    for look in ("count", "count_again")[: 2 if learner.twice else 1]:
        with member(learner, look):
            of_all = counted(0, N)
        with member(learner, "merge"):
            for cut in (1, 40):
                merged = learner.merge(counted(0, cut), counted(cut, N))
                true(list(merged) == list(of_all), f"found {list(merged)} after merging, expected {list(of_all)}")
                for name, array in of_all.items():
                    left, right = np.asarray(merged[name], np.float64), np.asarray(array, np.float64)
                    close = left.shape == right.shape and np.allclose(left, right, rtol=1e-12, atol=1e-12)
                    true(close, f"counts {name!r} of rows cut at {cut}: found others than of all rows")
        whole, before = {**whole, **of_all}, of_all
    with member(learner, "finish"):
        again, _ = learner.finish(whole, sample)
        training = Training(Block(rows, y), task.codec.classes, SEED, 1, task=task, tables=sample.tables)
        fitted, _ = learner.fit(training)
        true(again.content_hash == fitted.content_hash, "the model of the counts of all rows is not that of fit()")


def _growing(learner: StreamLearner, task: Task) -> None:
    cells, offsets = _input_of(learner)
    assert isinstance(cells, Cells)
    assert offsets is not None
    y = targets_of(task)
    wider = offsets + 2 * np.arange(offsets.size)  # two cells more in each partitioning, in which there is no row
    codes = cells.codes.astype(np.int32)

    def learned(first: NDArray[np.int64], then: NDArray[np.int64]) -> State:
        state = _started(learner, _sample(cells, first, task))
        _learn(state, Cells(codes[:50], first).packed(), y[:50])
        if first is not then:
            with member(state, "grow"):
                assert isinstance(state, Grows)
                state.grow(first, then)
            state = _restored(_started(learner, _sample(cells, first, task)), _arrays(state))
        _learn(state, Cells(codes[50:], then).packed(), y[50:])
        return state

    grown, wide = learned(offsets, wider), learned(wider, wider)
    all_rows = Cells(codes, wider).packed()
    with member(grown, "grow"):
        same(_decisions(grown, all_rows), _decisions(wide, all_rows), "decisions after the map has grown")
        model, other = (_model(state, task) for state in (grown, wide))
        true(
            model.content_hash == other.content_hash,
            "a learner that has grown makes another model than one that had not to",
        )


def _carrying(learner: StreamLearner, task: Task) -> None:
    """Check a learner whose cells of two partitionings are renumbered, and that gets a further cell without rows."""
    cells, offsets = _input_of(learner)
    assert isinstance(cells, Cells)
    assert offsets is not None
    y = targets_of(task)
    new = offsets + np.minimum(np.arange(offsets.size), 1)
    codes, drawn = cells.codes.astype(np.int32), np.arange(offsets.size - 1) < 2
    others = codes.copy()
    others[:, drawn] = (np.diff(offsets)[drawn] - 1) - codes[:, drawn]
    before, after = Cells(codes, offsets), Cells(others, new).packed()
    state = _started(learner, _sample(cells, offsets, task))
    _learn(state, before.packed()[:50], y[:50])
    decided = _decisions(state, before.packed())
    with member(state, "carry"):
        assert isinstance(state, Carries)
        state.carry(carry_matrix(before, Cells(others, new), drawn), new)
        near = "decisions after cells got other numbers: found others than before"
        true(np.allclose(_decisions(state, after), decided, rtol=1e-9, atol=1e-12), near)
        again = _restored(_started(learner, _sample(cells, offsets, task)), _arrays(state))
        for each in (state, again):
            _learn(each, after[50:], y[50:])
        what = "decisions after going on from a checkpoint"
        same(_decisions(again, after), _decisions(state, after), what)
        model = round_trip(_model(state, task))
        true(
            np.allclose(_decisions(model, after), _decisions(state, after), rtol=1e-9, atol=1e-12),
            "decisions after cells were drawn anew: the model's are not those of the state it was made of",
        )
