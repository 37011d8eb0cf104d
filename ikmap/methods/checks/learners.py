"""What every learner has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.rows import Block
from ikmap.methods.anne import ANNE
from ikmap.methods.checks.common import (
    SEED,
    D,
    N,
    json_values,
    round_trip,
    rows_to_check,
    same,
    small_value,
    targets_of,
    tasks_of,
    true,
)
from ikmap.methods.learner import Learner
from ikmap.methods.learners import CountsLearner, StreamLearner, WholeLearner
from ikmap.methods.map import Map
from ikmap.methods.registry import MAPS
from ikmap.methods.sample import Sample, Shape, Training
from ikmap.partitioners.redrawn import carry_matrix
from ikmap.seeds import generator
from ikmap.tasks import Task


def checks_of_learner(one: Learner) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield what a learner has to do: title, and how to find out."""
    yield "memory grows with the rows", partial(_memory, one)
    for title, task in tasks_of(one):
        if isinstance(one, StreamLearner):
            yield f"stream of {title}", partial(_stream, one, task)
            yield f"checkpoint on {title}", partial(_checkpoint, one, task)
            if one.on == "cells":
                yield f"rows without cells, stream of {title}", partial(_absent, one, task)
            if one.grows:
                yield f"growing on {title}", partial(_growing, one, task)
            if one.carries:
                yield f"cells drawn anew on {title}", partial(_carrying, one, task)
        if isinstance(one, WholeLearner):
            yield f"fit to {title}", partial(_whole, one, task)
            if isinstance(one, CountsLearner):
                yield f"counts of {title}", partial(_counts, one, task)


def _seen(one: Learner) -> tuple[Any, np.ndarray | None]:
    """What the learner learns from: cells and their offsets, or rows."""
    X = rows_to_check()
    if one.on == "rows":
        return X, None
    *_, model = _map_of(one)
    cells: Cells = model.cells(X, 1)
    return cells.packed(), cells.offsets


def _map_of(one: Learner) -> tuple[Map, Any, Any]:
    """A small map that knows of cells what the learner needs to know, its options, and its model."""
    of_map: Map = ANNE if ANNE.tables.issuperset(one.tables) else MAPS[one.usual_map]
    options = of_map.Options(t=5, psi=4)
    return of_map, options, of_map.fit(options, 4, _rows())


def _rows() -> Sample:
    X = rows_to_check()
    return Sample(N, D, None, X.__getitem__, SEED)


def _tables(one: Learner) -> Mapping[str, np.ndarray]:
    """What the learner is told of cells beside their numbers."""
    if not one.tables:
        return {}
    of_map, options, model = _map_of(one)
    return of_map.cell_tables(options, model, _rows())


def _given(one: Any) -> tuple[Any, Any]:
    """Options, and the value of what would be chosen."""
    options = one.resolved(one.Options(), searching=False)
    return options, small_value(one, options)


def _sample(rows: Any, offsets: np.ndarray | None, task: Task) -> Sample:
    columns = D if offsets is None else offsets.size - 1
    return Sample(N, columns, task, rows.__getitem__, SEED, offsets)


def _memory(one: Learner) -> None:
    options, before = _given(one)[0], 0
    for n in (1_000, 10_000, 100_000):
        needed = one.needed_bytes(options, Shape(n, 20, None, 1))
        true(needed >= before, f"needed_bytes: found {needed} of {n} rows, less than of fewer")
        before = needed


def _stream(one: StreamLearner, task: Task) -> None:
    rows, offsets = _seen(one)
    y = targets_of(task)
    options, value = _given(one)
    sample = _sample(rows, offsets, task)

    def learned(cuts: Sequence[int], n_threads: int = 1) -> tuple[Any, np.ndarray]:
        state, predicted = one.start(options, value, sample, n_threads), []
        for start, stop in zip([0, *cuts], [*cuts, N], strict=True):
            predicted.append(np.asarray(state.partial_fit(rows[start:stop], y[start:stop]).predicted))
        return state, np.concatenate(predicted)

    whole, predicted = learned([])
    true(whole.n_seen == N, f"n_seen: found {whole.n_seen}, expected {N}")
    decided = whole.decision_function(rows)
    read = one.judged(options, task)
    true(
        decided.shape == (N, read.decisions.outputs),
        f"decisions: found the shape {decided.shape}, expected (rows, outputs)",
    )
    for cuts in ([1, 2, 3, 50], [64]):
        state, others = learned(cuts)
        same(others, predicted, f"predictions while learning from pieces that begin at {cuts}")
        same(state.decision_function(rows), decided, f"decisions after pieces that begin at {cuts}")
    same(learned([40], 2)[0].decision_function(rows), decided, "decisions of two threads")
    first = one.start(options, value, sample, 1)
    same(read.decisions.predict(first.decision_function(rows[:1])), predicted[:1], "prediction of the first row")
    json_values(one.facts(whole), "facts")
    json_values(int(whole.n_support), "n_support")
    traces = whole.traces() if one.traced else {}
    true(list(traces) == list(one.traced), f"traces: found {list(traces)}, expected {list(one.traced)}")
    json_values(traces, "traces")
    model = whole.model(task.codec.classes, {})
    given = round_trip(model)
    same(given.decision_function(rows), model.decision_function(rows), "decisions of the model from a store")
    same(given.decision_function(rows[10:20]), given.decision_function(rows)[10:20], "decisions of some rows alone")


def _absent(one: StreamLearner, task: Task) -> None:
    """What was learned of rows that lack cells touches no cell that they do not have, in the state and in its model."""
    rows, offsets = _seen(one)
    assert offsets is not None
    offsets = np.concatenate([offsets[:-1], [offsets[-1] + 1]])  # one cell more, the very last, in which no row is
    codes = rows.codes.astype(np.int32)
    codes[generator(SEED).random(codes.shape) < 0.3] = -1
    codes[:2] = -1  # rows without any cell
    cells, y, (options, value) = Cells(codes, offsets), targets_of(task), _given(one)
    state = one.start(options, value, Sample(N, offsets.size - 1, task, cells.__getitem__, SEED, offsets), 1)
    state.partial_fit(cells.packed()[:50], y[:50])
    state.partial_fit(cells[50:], y[50:])
    decided = state.decision_function(cells)
    nowhere = np.full((1, offsets.size - 1), -1, dtype=np.int32)
    last = nowhere.copy()
    last[0, -1] = offsets[-1] - offsets[-2] - 1
    empty = state.decision_function(Cells(nowhere, offsets))
    what = "(-1 of cells.columns() stands for no cell, and is no place in an array of weights)"
    same(state.decision_function(Cells(last, offsets)), empty, f"decision of a cell that no row was in {what}")
    model = round_trip(state.model(task.codec.classes, {}))
    true(
        np.allclose(model.decision_function(cells), decided, rtol=1e-9, atol=1e-12),
        f"decisions of rows that lack cells: the model's are not those of the state it was made of {what}",
    )
    true(
        np.allclose(model.decision_function(Cells(nowhere, offsets)), empty, rtol=1e-9, atol=1e-12),
        f"decision of a row without cells: the model's is not that of the state it was made of {what}",
    )


def _checkpoint(one: StreamLearner, task: Task) -> None:
    rows, offsets = _seen(one)
    y = targets_of(task)
    options, value = _given(one)
    sample = _sample(rows, offsets, task)
    state = one.start(options, value, sample, 1)
    state.partial_fit(rows[:37], y[:37])
    arrays = {name: np.array(array) for name, array in state.checkpoint().items()}
    for name, array in arrays.items():
        true(array.dtype.kind in "biuf", f"array {name!r} of the checkpoint: found {array.dtype}, expected numbers")
    state.partial_fit(rows[37:], y[37:])
    again = one.start(options, value, sample, 1).restore(arrays)
    true(again.n_seen == 37, f"n_seen of a restored state: found {again.n_seen}, expected 37")
    again.partial_fit(rows[37:], y[37:])
    for name, array in state.checkpoint().items():
        same(again.checkpoint()[name], array, f"array {name!r} after going on from a checkpoint")
    same(again.decision_function(rows), state.decision_function(rows), "decisions after going on from a checkpoint")


def _whole(one: WholeLearner, task: Task) -> None:
    rows, _ = _seen(one)
    options, value = _given(one)
    block = Block(rows, targets_of(task))
    tables = _tables(one)
    model, facts = one.fit(options, Training(block, task.codec.classes, SEED, value, 1, task=task, tables=tables))
    json_values(facts, "facts")
    decided = model.decision_function(rows)
    read = one.judged(options, task)
    true(
        decided.shape == (N, read.decisions.outputs),
        f"decisions: found the shape {decided.shape}, expected (rows, outputs)",
    )
    by_two, _ = one.fit(options, Training(block, task.codec.classes, SEED, value, 2, task=task, tables=tables))
    true(by_two.content_hash == model.content_hash, "a fit by two threads gives another model")
    given = round_trip(model)
    same(given.decision_function(rows), decided, "decisions of the model from a store")


def _counts(one: CountsLearner, task: Task) -> None:
    rows, offsets = _seen(one)
    y, (options, value) = targets_of(task), _given(one)
    sample, before = replace(_sample(rows, offsets, task), tables=_tables(one)), None

    def counted(start: int, stop: int) -> dict[str, np.ndarray]:
        block = Block(rows[start:stop], y[start:stop])
        if before is None:
            counts = one.count(options, value, block, sample)
        else:
            counts = one.count_again(options, value, block, sample, before)
        for name, array in counts.items():
            true(np.asarray(array).dtype.kind in "biuf", f"counts {name!r}: found {array.dtype}, expected numbers")
        return counts

    whole: dict[str, np.ndarray] = {}
    for _ in range(2 if one.twice else 1):
        found = counted(0, N)
        for cut in (1, 40):
            merged = one.merge(counted(0, cut), counted(cut, N))
            true(list(merged) == list(found), f"counts: found {list(merged)} after merging, expected {list(found)}")
            for name, array in found.items():
                close = merged[name].shape == array.shape and np.allclose(merged[name], array, rtol=1e-12, atol=1e-12)
                true(close, f"counts {name!r} of rows cut at {cut}: found others than of all rows")
        whole, before = {**whole, **found}, found
    again, _ = one.finish(options, value, whole, sample)
    training = Training(Block(rows, y), task.codec.classes, SEED, value, 1, task=task, tables=sample.tables)
    fitted, _ = one.fit(options, training)
    true(again.content_hash == fitted.content_hash, "the model of the counts of all rows is not that of fit()")


def _growing(one: StreamLearner, task: Task) -> None:
    rows, offsets = _seen(one)
    assert offsets is not None
    y, (options, value) = targets_of(task), _given(one)
    wider = offsets + 2 * np.arange(offsets.size)  # two cells more in each partitioning, in which there is no row
    codes = rows.codes.astype(np.int32)

    def learned(first: np.ndarray, then: np.ndarray) -> Any:
        state = one.start(options, value, _sample(rows, first, task), 1)
        state.partial_fit(Cells(codes[:50], first).packed(), y[:50])
        if first is not then:
            state.grow(first, then)
            state = one.start(options, value, _sample(rows, first, task), 1).restore(state.checkpoint())
        state.partial_fit(Cells(codes[50:], then).packed(), y[50:])
        return state

    grown, wide = learned(offsets, wider), learned(wider, wider)
    all_rows = Cells(codes, wider).packed()
    same(grown.decision_function(all_rows), wide.decision_function(all_rows), "decisions after the map has grown")
    model, other = (state.model(task.codec.classes, {}) for state in (grown, wide))
    true(
        model.content_hash == other.content_hash,
        "a learner that has grown makes another model than one that had not to",
    )


def _carrying(one: StreamLearner, task: Task) -> None:
    """Cells of the first two partitionings get other numbers, and one of them a cell more in which there is no row."""
    rows, offsets = _seen(one)
    assert offsets is not None
    y, (options, value) = targets_of(task), _given(one)
    new = offsets + np.minimum(np.arange(offsets.size), 1)
    codes, drawn = rows.codes.astype(np.int32), np.arange(offsets.size - 1) < 2
    others = codes.copy()
    others[:, drawn] = (np.diff(offsets)[drawn] - 1) - codes[:, drawn]
    before, after = Cells(codes, offsets), Cells(others, new).packed()
    state = one.start(options, value, _sample(rows, offsets, task), 1)
    state.partial_fit(before.packed()[:50], y[:50])
    decided = state.decision_function(before.packed())
    state.carry(carry_matrix(before, Cells(others, new), drawn), new)
    near = "decisions after cells got other numbers: found others than before"
    true(np.allclose(state.decision_function(after), decided, rtol=1e-9, atol=1e-12), near)
    again = one.start(options, value, _sample(rows, offsets, task), 1).restore(state.checkpoint())
    for of in (state, again):
        of.partial_fit(after[50:], y[50:])
    same(again.decision_function(after), state.decision_function(after), "decisions after going on from a checkpoint")
    model = round_trip(state.model(task.codec.classes, {}))
    true(
        np.allclose(model.decision_function(after), state.decision_function(after), rtol=1e-9, atol=1e-12),
        "decisions after cells were drawn anew: the model's are not those of the state it was made of",
    )
