"""Checks of every map."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ikmap.capability import capability
from ikmap.conformance import CheckFailed, member, same, true
from ikmap.methods.capabilities import CellTables, DoesNotFit, FitsByPartitioning, Growable, Path, Redrawable, Sweepable
from ikmap.methods.checks.common import SEED, D, N, round_trip, rows_to_check, sample_of, with_small_values
from ikmap.methods.map import Map, RowsInfo, refused_on
from ikmap.methods.method import Candidates
from ikmap.methods.search import search_of, smallest_fold
from ikmap.methods.values import at_value, cells_of_values
from ikmap.partitioners import Partitions
from ikmap.seeds import generator

MODEL_ROWS = 20_000
"""Number of rows for a model whose bytes are counted: more than a map may keep beside its estimate."""
MODEL_SLACK = 256 << 10
"""Bytes that a model may have beside the estimate of its map."""


def checks_of_map(method: Map, searched: frozenset[str]) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the title and the function of each check of a map."""
    method = method.at({"t": 5})
    small = with_small_values(method, searched)
    yield "memory grows with the rows", partial(_memory, small)
    yield "memory of the model", partial(_model_memory, small)
    for dense in (True, False):
        kind = "dense" if dense else "sparse"
        yield f"cells of {kind} rows", partial(_cells, small, dense)
        yield f"path over {kind} rows", partial(_path, method, searched, dense)
    yield "the same cells for dense and sparse rows", partial(_dense_is_sparse, small)
    if growing := capability(small, Growable):
        yield "growing", partial(_growing, small, growing)
    if redrawable := capability(small, Redrawable):
        yield "drawing anew", partial(_redrawing, small, redrawable)
    if parts := capability(small, FitsByPartitioning):
        yield "parts of its partitionings", partial(_parts, small, parts)
    if tables := capability(small, CellTables):
        yield "tables of its cells", partial(_tables, small, tables)
    if sweep := capability(method.within(smallest_fold(N)), Sweepable):
        yield "splits of its cells", partial(check_splits, method.within(smallest_fold(N)), sweep)


def _fitted(method: Map, dense: bool, seed: int = SEED, n_threads: int = 1) -> Partitions:
    with member(method, "fit"):
        model = method.fit(sample_of(method, rows_to_check(dense), seed), n_threads)
        true(isinstance(model, Partitions), f"found a {type(model).__name__}, expected ikmap.partitioners.Partitions")
        return model


def _cells(method: Map, dense: bool) -> None:
    model, X = _fitted(method, dense), rows_to_check(dense, N + 30)
    with member(model, "offsets"):
        offsets = model.offsets
        true(offsets.dtype == np.int64 and offsets.ndim == 1, f"found {offsets.dtype} of {offsets.shape}, not int64")
        true(offsets[0] == 0 and (np.diff(offsets) > 0).all(), "offsets do not ascend from 0")
    with member(method, "fit"):
        t = method.n_partitions
        true(model.n_partitions == t, f"found {model.n_partitions} partitionings, expected {t}")
        true(offsets.size == t + 1, f"found offsets of the shape {offsets.shape}, expected ({t + 1},)")
    with member(method, "n_cells"):
        most, largest = int(np.diff(offsets).max()), method.n_cells()
        true(most <= largest, f"found {largest}, the map has {most}")
    with member(model, "cells"):
        codes = model.cells(X, 1).codes
        true(codes.shape == (N + 30, t), f"found the shape {codes.shape}, expected (rows, t)")
        true(codes.dtype.kind in "iu", f"found codes of {codes.dtype}, expected whole numbers")
        true(
            ((codes >= -1) & (codes < np.diff(offsets))).all(),
            f"found cells that are not there, {codes.min()} to {codes.max()}",
        )
        same(model.cells(X, 2).codes, codes, "cells by two threads")
        for k in (0, 17, N + 29):
            same(model.cells(X[[k]], 1).codes[0], codes[k], f"cells of row {k} alone")
        same(round_trip(model).cells(X, 1).codes, codes, "cells of the model from a store")
    with member(method, "fit"):
        same(_fitted(method, dense, n_threads=2).cells(X, 1).codes, codes, "cells of a fit by two threads")
        other = _fitted(method, dense, SEED + 1)
        true(other.content_hash != model.content_hash, "another seed gives the same partitionings")


def _path(method: Map, searched: frozenset[str], dense: bool) -> None:
    X = rows_to_check(dense)
    search = search_of(method, searched, N, sample_of(method, X)) if searched else None
    if search is None:
        return
    values = [value for value in search.values if refused_on(at_value(method, searched, value), N) is None][:4]
    path = capability(method, Path)
    with member(method if path is None else path, "fit" if path is None else "path"):
        cells = list(cells_of_values(method, searched, values, sample_of(method, X), [X, X[:9]]))
        same([value for value, _ in cells], values, "values of the path")
        for value, (whole, few) in cells:
            model = _fitted(at_value(method, searched, value), dense)
            same(whole.codes, model.cells(X, 1).codes, f"cells of the path at {value}")
            same(whole.offsets, model.offsets, f"offsets of the path at {value}")
            same(few.codes, whole.codes[:9], f"cells of few rows of the path at {value}")


def check_splits(method: Map, sweep: Sweepable) -> None:
    """Raise :class:`CheckFailed` unless the cells after the splits of a sweep are those of a fit for the value.

    Parameters
    ----------
    method, sweep
        The same map, with no more cells than every fold of the rows allows.
    """
    X = rows_to_check(n=N + 30)
    sample = sample_of(method, X[:N])
    with member(method, "search_space"):
        space = method.search_space(frozenset({sweep.swept}), N, sample)
        candidates = space.get(sweep.swept, Candidates(()))
        true(candidates.values, f"found nothing to try of {sweep.swept!r}, which its cells split along")
    with member(sweep, "events"):
        start, splits = sweep.events(candidates.values[-1], sample, [X[:N], X])
        codes, left = [cells.codes.copy() for cells in start], list(splits)
        values = [split.value for split in left]
        true(values == sorted(values), "found values that do not ascend")
        for value in candidates.values[:4]:
            while left and left[0].value <= value:
                left.pop(0).apply(codes)
            model = method.at({sweep.swept: value}).fit(sample, 1)
            for after, rows in zip(codes, (X[:N], X), strict=True):
                same(after, model.cells(rows, 1).codes, f"cells after the splits up to {value}")


def _dense_is_sparse(method: Map) -> None:
    model, X, dense = _fitted(method, False), rows_to_check(False), rows_to_check(False)
    assert not isinstance(dense, np.ndarray)
    with member(model, "cells"):
        same(model.cells(dense.toarray(), 1).codes, model.cells(X, 1).codes, "cells of the same rows, not sparse")


def _memory(method: Map) -> None:
    before = 0.0
    with member(method, "memory"):
        for n in (1_000, 100_000, 1_000_000):
            memory = method.memory(RowsInfo(n, D, 8.0 * D, True))
            needed = memory.model + memory.scratch
            true(needed >= before, f"found {needed} bytes of {n} rows, less than of fewer")
            before = needed


def _model_memory(method: Map) -> None:
    X = generator(SEED).random((MODEL_ROWS, D))
    with member(method, "fit"):
        model = method.fit(sample_of(method, X))
    taken = sum(array.nbytes for array in model.arrays().values())
    with member(method, "memory"):
        estimate = method.memory(RowsInfo(MODEL_ROWS, D, 8.0 * D, True)).model
        true(
            taken <= estimate + MODEL_SLACK,
            f"found {estimate:,.0f} bytes for the model of {MODEL_ROWS:,} rows, which has {taken:,}",
        )


def _growing(method: Map, growing: Growable) -> None:
    X = rows_to_check(n=N + 60)
    with member(method, "fit"):
        first = method.fit(sample_of(method, X[:N]))
    hash_before, before = first.content_hash, first.cells(X, 1).codes
    with member(growing, "extend"):
        whole, cells = growing.extend(first, X[N:])
        true(first.content_hash == hash_before, "it has changed the map that it was given")
        same(whole.cells(X[N:], 1).codes, cells.codes, "cells that it gives")
        true((cells.codes >= 0).all(), "it leaves rows without a cell")
        same(cells.offsets, whole.offsets, "offsets of the cells that it gives")
        after = whole.cells(X, 1).codes
        same(after[before >= 0], before[before >= 0], "cells of rows that had one before the map grew")
        true((np.diff(whole.offsets) >= np.diff(first.offsets)).all(), "a partitioning has lost cells")
        pieces = first
        for start, stop in ((N, N + 1), (N + 1, N + 30), (N + 30, N + 60)):
            pieces, _ = growing.extend(pieces, X[start:stop])
        same(pieces.offsets, whole.offsets, "offsets of the map that grew by pieces")
        same(pieces.cells(X, 1).codes, after, "cells of the map that grew by pieces")
        same(round_trip(whole).cells(X, 1).codes, after, "cells of the grown map from a store")


def _redrawing(method: Map, redrawable: Redrawable) -> None:
    X, t = rows_to_check(n=N + 60), method.n_partitions
    first = _fitted(method, True)
    hash_before, before = first.content_hash, first.cells(X, 1)
    sample = sample_of(method, X[N:], SEED + 1)
    with member(redrawable, "redrawn"):
        model, drawn = redrawable.redrawn(first, sample, 1, 1)
        true(first.content_hash == hash_before, "it has changed the map that it was given")
        true(drawn.shape == (t,), f"found the shape {drawn.shape}, expected (t,)")
        true(0 < drawn.sum() < t, f"found {drawn.sum()} partitionings drawn anew, expected half")
        after = model.cells(X, 1)
        same(after.codes[:, ~drawn], before.codes[:, ~drawn], "cells of partitionings that were not drawn anew")
        same(np.diff(after.offsets)[~drawn], np.diff(before.offsets)[~drawn], "numbers of cells of these")
        by_two, _ = redrawable.redrawn(first, sample, 1, 2)
        true(by_two.content_hash == model.content_hash, "drawing anew by two threads gives another map")
        same(round_trip(model).cells(X, 1).codes, after.codes, "cells of the map from a store")
        _, others = redrawable.redrawn(model, sample, 2, 1)
        true(not (drawn & others).any(), "found the same partitionings twice, expected those drawn longest ago")


def _parts(method: Map, parts: FitsByPartitioning) -> None:
    X, t = rows_to_check(), method.n_partitions
    whole = _fitted(method, True)
    with member(parts, "fit_part"):
        some = [parts.fit_part(X, SEED, start, stop) for start, stop in ((0, 1), (1, t))]
    with member(parts, "joined"):
        true(parts.joined(some).content_hash == whole.content_hash, "found another map of its parts than fit() makes")
    with member(parts, "check_size"):
        parts.check_size(X, SEED, 1e15)
        try:
            parts.check_size(X, SEED, 1.0)
        except DoesNotFit as error:
            true(str(error), "found an error without words")
        else:
            raise CheckFailed("found a model that fits into a byte, expected DoesNotFit")


def _tables(method: Map, tables: CellTables) -> None:
    model = _fitted(method, True)
    with member(tables, "cell_tables"):
        by_name = tables.cell_tables(model, sample_of(method, rows_to_check()))
        names = method.description.tables
        true(set(by_name) == names, f"found {sorted(by_name)}, expected what about.tables names: {sorted(names)}")
        for name, table in by_name.items():
            n = int(model.offsets[-1])
            true(table.shape == (n,), f"{name}: found the shape {table.shape}, expected ({n},)")
