"""Blocks of stored cells: the rows and labels that were written, in the wanted order, one block in memory."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from ikmap.cells import Cells
from pipeline.rows.block_sizes import BlockLayout, learning_blocks, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks, SpooledBlocks, joined
from pipeline.stages.cells import create_cells
from pipeline.storage.store import Store
from tests.support.runs import new_store

N, T = 9000, 3


@pytest.fixture(scope="module", params=[7, 300, 70_000])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Cells, np.ndarray]:
    """Cells in shards of 1000 rows; psi as given takes 1, 2 and 4 bytes."""
    store = new_store(tmp_path_factory.mktemp("store"))
    rng = np.random.default_rng(0)
    codes = rng.integers(request.param, size=(N, T), dtype=np.int32)
    codes[0] = request.param - 1
    labels = rng.integers(5, size=N, dtype=np.int32)
    create_cells(store, "cells", N, T, BlockLayout(1000, 250), np.dtype(np.int32))
    store.write_shards("cells/codes", 0, codes)
    store.write_shards("cells/labels", 0, labels)
    return store, Cells(codes, np.arange(T + 1, dtype=np.int64) * request.param), labels


@pytest.mark.parametrize("shuffled", [True, False])
@pytest.mark.parametrize("block_bytes", [1, 1 << 30])
def test_blocks_hold_what_was_stored(stored: tuple[Store, Cells, np.ndarray], block_bytes: int, shuffled: bool) -> None:
    store, cells, labels = stored
    ranges = learning_blocks(N, packed_row_bytes(cells.offsets), 1, shuffled=shuffled, block_bytes=block_bytes)
    blocks = CellBlocks(store, "cells", cells.offsets, ranges)
    assert len(blocks) == len(ranges) == (3 if block_bytes == 1 else 1)
    for number in [*range(len(ranges)), 0]:
        rows = np.concatenate([np.arange(start, stop) for start, stop in ranges[number]])
        found, y, weight, ids = blocks[number]
        assert isinstance(found, Cells)
        assert found.codes.dtype == cells.packed().codes.dtype
        assert np.array_equal(found.codes, cells.codes[rows])
        assert np.array_equal(y, labels[rows])
        assert weight is None
        assert ids is None


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_rows_that_are_not_kept_are_left_out_of_their_blocks(
    stored: tuple[Store, Cells, np.ndarray], share: float
) -> None:
    store, cells, labels = stored
    kept = np.random.default_rng(1).random(N) < share
    ranges = learning_blocks(N, packed_row_bytes(cells.offsets), 1, block_bytes=1)
    blocks = CellBlocks(store, "cells", cells.offsets, ranges, kept=kept)
    assert sum(blocks.sizes) == np.count_nonzero(kept)
    for number, block_ranges in enumerate(ranges):
        rows = np.concatenate([np.arange(start, stop) for start, stop in block_ranges])
        rows = rows[kept[rows]]
        found, y, *_ = blocks[number]
        assert isinstance(found, Cells)
        assert np.array_equal(found.codes, cells.codes[rows])
        assert np.array_equal(y, labels[rows])
        assert blocks.sizes[number] == rows.size


def test_neighbouring_ranges_are_read_together() -> None:
    ranges = [(0, 4), (4, 8), (8, 9), (20, 24), (24, 28), (30, 90)]
    assert list(joined(ranges, 8)) == [(0, 8), (8, 9), (20, 28), (30, 90)]
    assert list(joined(ranges, 100)) == [(0, 9), (20, 28), (30, 90)]
    assert list(joined(ranges, 1)) == ranges


def test_a_block_is_read_when_it_is_asked_for_and_once_in_a_row(stored: tuple[Store, Cells, np.ndarray]) -> None:
    store, cells, _ = stored
    blocks = CellBlocks(
        store, "cells", cells.offsets, learning_blocks(N, packed_row_bytes(cells.offsets), 0, block_bytes=1)
    )
    assert blocks.bytes_read == 0
    first = blocks[0]
    read = blocks.bytes_read
    assert read == first.y.size * 4 * (T + 1)
    assert blocks[0] is first
    assert blocks.bytes_read == read
    blocks[1]
    assert blocks[0] is not first


@pytest.mark.slow
@pytest.mark.parametrize("visit_rows", [1024, 1000, 4096, None])
@pytest.mark.parametrize("block_bytes", [1, 1 << 30])
@pytest.mark.parametrize("weighs", [False, True])
def test_the_spool_holds_the_same_rows_in_the_same_order(
    stored: tuple[Store, Cells, np.ndarray], block_bytes: int, visit_rows: int | None, weighs: bool
) -> None:
    store, cells, labels = stored
    ranges = learning_blocks(N, packed_row_bytes(cells.offsets), 1, shuffled=False, block_bytes=block_bytes)
    weigh = (lambda y, _: y + 0.5) if weighs else None
    blocks = SpooledBlocks(CellBlocks(store, "cells", cells.offsets, ranges, weigh), cells.offsets, visit_rows)
    found = [blocks[k] for k in range(len(blocks))]
    if visit_rows is None:  # the blocks of the source
        assert [block.y.size for block in found] == [sum(stop - start for start, stop in block) for block in ranges]
    else:
        assert max(block.y.size for block in found) <= visit_rows
    assert np.array_equal(np.concatenate([block.rows.codes for block in found]), cells.codes)  # type: ignore[union-attr]
    assert np.array_equal(np.concatenate([block.y for block in found]), labels)
    if weighs:
        weights = [block.sample_weight for block in found]
        assert np.array_equal(np.concatenate(weights), labels + 0.5)  # type: ignore[arg-type]
        assert all(array.flags.aligned for block in found for array in (block.sample_weight, block.rows.codes))  # type: ignore[union-attr]
    else:
        assert all(block.sample_weight is None for block in found)
    again = blocks[len(blocks) - 1]
    assert np.array_equal(again.y, found[-1].y)
    row_bytes = 4 + 8 * weighs + T * cells.packed().codes.itemsize
    assert blocks.bytes_read == (N + again.y.size) * row_bytes


@pytest.mark.slow
def test_the_spool_is_gone_with_its_object(
    stored: tuple[Store, Cells, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, cells, _ = stored
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = CellBlocks(
        store, "cells", cells.offsets, learning_blocks(N, packed_row_bytes(cells.offsets), 0, block_bytes=1)
    )
    blocks = SpooledBlocks(source, cells.offsets)
    file = blocks._file
    assert list(tmp_path.iterdir()) == []  # a kill leaves nothing either: the file has no name
    assert os.fstat(file.fileno()).st_nlink == 0
    blocks[0]
    del blocks
    gc.collect()
    assert file.closed
