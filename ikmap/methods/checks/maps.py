"""What every map has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ikmap.methods.checks.common import SEED, D, N, round_trip, rows_to_check, same, searching, small_value, true
from ikmap.methods.map import Map, MapShape
from ikmap.methods.sample import Sample


def checks_of_map(one: Map) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield what a map has to do: title, and how to find out."""
    yield "memory grows with the rows", partial(_memory, one)
    for dense in (True, False):
        kind = "dense" if dense else "sparse"
        yield f"cells of {kind} rows", partial(_cells, one, dense)
        yield f"path over {kind} rows", partial(_path, one, dense)
    yield "the same cells for dense and sparse rows", partial(_dense_is_sparse, one)
    if one.grows(_small(one)):
        yield "growing", partial(_growing, one)
    if one.redraws(_small(one)):
        yield "drawing anew", partial(_redrawing, one)
    if one.sweeps(_small(one)):
        yield "splits of its cells", partial(check_splits, one, _small(one))


def _fitted(one: Map, dense: bool, seed: int = SEED, n_threads: int = 1, value: Any = None) -> Any:
    options = _small(one)
    X = rows_to_check(dense)
    sample = Sample(N, D, None, X.__getitem__, seed)
    return one.fit(options, small_value(one, options) if value is None else value, sample, n_threads)


def _small(one: Any) -> Any:
    """Options of few partitionings."""
    options = searching(one)
    return options.replace(t=5) if "t" in one.Options.specs() else options


def _cells(one: Map, dense: bool) -> None:
    model, X, options = _fitted(one, dense), rows_to_check(dense, N + 30), _small(one)
    offsets, value = model.offsets, small_value(one, options)
    true(model.n_partitions == options.t == offsets.size - 1, f"found {model.n_partitions} partitionings, expected t")
    true(offsets.dtype == np.int64 and offsets[0] == 0 and (np.diff(offsets) > 0).all(), "offsets do not ascend from 0")
    most = int(np.diff(offsets).max())
    true(most <= one.n_cells(options, value), f"n_cells: found {one.n_cells(options, value)}, the map has {most}")
    codes = model.cells(X, 1).codes
    true(codes.shape == (N + 30, options.t), f"cells: found the shape {codes.shape}, expected (rows, t)")
    true(((codes >= -1) & (codes < np.diff(offsets))).all(), "cells: found some that are not there")
    same(model.cells(X, 2).codes, codes, "cells by two threads")
    for k in (0, 17, N + 29):
        same(model.cells(X[[k]], 1).codes[0], codes[k], f"cells of row {k} alone")
    same(_fitted(one, dense, n_threads=2).cells(X, 1).codes, codes, "cells of a fit by two threads")
    same(round_trip(model).cells(X, 1).codes, codes, "cells of the model from a store")
    other = _fitted(one, dense, SEED + 1)
    true(other.content_hash != model.content_hash, "another seed gives the same partitionings")


def _path(one: Map, dense: bool) -> None:
    options, X = _small(one), rows_to_check(dense)
    search = one.search(options, N)
    if search is None:
        return
    values = [value for value in search.values if one.refused(options, value, N) is None][:4]
    found = list(one.path(options, values, SEED, X, [X, X[:9]]))
    same([value for value, _ in found], values, "values of the path")
    for value, (whole, few) in found:
        model = _fitted(one, dense, value=value)
        same(whole.codes, model.cells(X, 1).codes, f"cells of the path at {value}")
        same(few.codes, whole.codes[:9], f"cells of few rows of the path at {value}")


def check_splits(one: Map, options: Any) -> None:
    """Refuse a map whose cells after the splits of a sweep are not those of a fit for the value."""
    X = rows_to_check(n=N + 30)
    search = one.search(options, N)
    assert search is not None
    start, splits = one.events(options, search.values[-1], SEED, X[:N], [X[:N], X])
    codes, left = [cells.codes.copy() for cells in start], list(splits)
    values = [split.value for split in left]
    true(values == sorted(values), "events: found values that do not ascend")
    for value in search.values[:4]:
        while left and left[0].value <= value:
            left.pop(0).apply(codes)
        model = one.fit(options, value, Sample(N, D, None, X[:N].__getitem__, SEED), 1)
        for found, rows in zip(codes, (X[:N], X), strict=True):
            same(found, model.cells(rows, 1).codes, f"cells after the splits up to {value}")


def _dense_is_sparse(one: Map) -> None:
    model, X = _fitted(one, False), rows_to_check(False)
    same(model.cells(X.toarray(), 1).codes, model.cells(X, 1).codes, "cells of the same rows, not sparse")


def _memory(one: Map) -> None:
    options, before = _small(one), 0.0
    for n in (1_000, 100_000, 1_000_000):
        needed = sum(one.needed_bytes(options, small_value(one, options), MapShape(n, D, 8.0 * D, True)))
        true(needed >= before, f"needed_bytes: found {needed} of {n} rows, less than of fewer")
        before = needed


def _growing(one: Map) -> None:
    options, X = _small(one), rows_to_check(n=N + 60)
    first = one.fit(options, small_value(one, options), Sample(N, D, None, X[:N].__getitem__, SEED))
    hash_before, before = first.content_hash, first.cells(X, 1).codes
    whole, cells = one.extend(options, first, X[N:])
    true(first.content_hash == hash_before, "extend() has changed the map that it was given")
    same(whole.cells(X[N:], 1).codes, cells.codes, "cells that extend() gives")
    true((cells.codes >= 0).all(), "extend() leaves rows without a cell")
    same(cells.offsets, whole.offsets, "offsets of the cells that extend() gives")
    after = whole.cells(X, 1).codes
    same(after[before >= 0], before[before >= 0], "cells of rows that had one before the map grew")
    true((np.diff(whole.offsets) >= np.diff(first.offsets)).all(), "a partitioning has lost cells")
    pieces = first
    for start, stop in ((N, N + 1), (N + 1, N + 30), (N + 30, N + 60)):
        pieces, _ = one.extend(options, pieces, X[start:stop])
    same(pieces.offsets, whole.offsets, "offsets of the map that grew by pieces")
    same(pieces.cells(X, 1).codes, after, "cells of the map that grew by pieces")
    same(round_trip(whole).cells(X, 1).codes, after, "cells of the grown map from a store")


def _redrawing(one: Map) -> None:
    options, X = _small(one), rows_to_check(n=N + 60)
    value, first = small_value(one, options), _fitted(one, True)
    hash_before, before = first.content_hash, first.cells(X, 1)
    sample = Sample(60, D, None, X[N:].__getitem__, SEED + 1)
    model, drawn = one.redrawn(options, value, first, sample, 1, 1)
    true(first.content_hash == hash_before, "redrawn() has changed the map that it was given")
    true(drawn.shape == (options.t,), f"redrawn: found the shape {drawn.shape}, expected (t,)")
    true(0 < drawn.sum() < options.t, f"redrawn: found {drawn.sum()} partitionings drawn anew, expected half")
    after = model.cells(X, 1)
    same(after.codes[:, ~drawn], before.codes[:, ~drawn], "cells of partitionings that were not drawn anew")
    same(np.diff(after.offsets)[~drawn], np.diff(before.offsets)[~drawn], "numbers of cells of these")
    by_two, _ = one.redrawn(options, value, first, sample, 1, 2)
    true(by_two.content_hash == model.content_hash, "drawing anew by two threads gives another map")
    same(round_trip(model).cells(X, 1).codes, after.codes, "cells of the map from a store")
    _, others = one.redrawn(options, value, model, sample, 2, 1)
    true(not (drawn & others).any(), "redrawn: found the same partitionings twice, expected those drawn longest ago")
