"""How rows are cut: every row once, bounded sizes, nothing that depends on workers."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikmap.cells import packed_dtype
from pipeline.rows.block_sizes import (
    BLOCK_BYTES,
    CHUNK_BYTES,
    LEAST_PARTS,
    MOST_PARTS,
    PIECE_ROWS,
    SHARD_BYTES,
    STREAM_BYTES,
    TASKS,
    cell_layout,
    choose_parts,
    choose_solver,
    learning_blocks,
    learning_parts,
    packed_bytes,
    packed_row_bytes,
)

rows = st.integers(1, 20_000_000)
partitions = st.integers(1, 5000)


@given(n=rows, t=partitions)
def test_shards_are_whole_chunks_of_bounded_size(n: int, t: int) -> None:
    layout = cell_layout(n, t)
    assert layout.shard_rows % layout.chunk_rows == 0
    assert 64 <= layout.chunk_rows <= PIECE_ROWS
    row = 4 * t
    assert layout.chunk_rows == 64 or layout.chunk_rows * row <= CHUNK_BYTES
    assert layout.shard_rows == layout.chunk_rows or layout.shard_rows * row <= SHARD_BYTES


@given(n=rows, t=partitions)
def test_there_are_tasks_enough_and_not_too_many(n: int, t: int) -> None:
    layout = cell_layout(n, t)
    tasks = -(-n // layout.shard_rows)
    assert tasks >= min(TASKS, n // layout.chunk_rows)
    # More tasks than that only where a shard would be too large.
    assert tasks <= 2 * TASKS + 1 or (layout.shard_rows + layout.chunk_rows) * 4 * t > SHARD_BYTES


@given(n=rows, t=partitions, asked=st.integers(1, 300_000))
def test_shards_are_nearly_what_is_asked_for(n: int, t: int, asked: int) -> None:
    layout = cell_layout(n, t, asked)
    assert asked <= layout.shard_rows <= asked * (1 + 1 / 64)
    assert layout.shard_rows % layout.chunk_rows == 0
    # Neither a shard of single rows nor one that must be read whole.
    assert min(asked, 32) <= layout.chunk_rows <= cell_layout(n, t).chunk_rows


@pytest.mark.parametrize("asked", [1, 37, 4096, 8192, 10_007, 100_003])
def test_shards_of_a_prime_number_of_rows(asked: int) -> None:
    layout = cell_layout(10**6, 100, asked)
    assert layout.chunk_rows > 0.49 * min(asked, 4096)


def test_the_cut_knows_nothing_of_workers() -> None:
    assert list(inspect.signature(cell_layout).parameters) == ["n_rows", "t", "shard_rows"]
    assert list(inspect.signature(learning_blocks).parameters) == [
        "n_rows",
        "row_bytes",
        "seed",
        "shuffled",
        "block_bytes",
    ]


@given(
    n=st.integers(0, 300_000),
    t=st.integers(1, 300),
    psi=st.integers(1, 70_000),
    block_bytes=st.integers(1, 1 << 24),
    shuffled=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_blocks_hold_every_row_once(n: int, t: int, psi: int, block_bytes: int, shuffled: bool, seed: int) -> None:
    offsets = np.arange(t + 1, dtype=np.int64) * psi
    blocks = (
        learning_blocks(n, packed_row_bytes(offsets), seed, shuffled=shuffled, block_bytes=block_bytes) if n else []
    )
    seen = np.zeros(n, dtype=int)
    row = t * packed_dtype(offsets).itemsize
    for block in blocks:
        assert block
        assert block == sorted(block)
        size = 0
        for start, stop in block:
            assert start % PIECE_ROWS == 0
            assert 0 < stop - start <= PIECE_ROWS
            seen[start:stop] += 1
            size += stop - start
        assert size * row <= max(block_bytes, PIECE_ROWS * row)
    assert (seen == 1).all()
    if not shuffled:
        assert [piece for block in blocks for piece in block] == sorted(piece for block in blocks for piece in block)
    assert blocks == (
        learning_blocks(n, packed_row_bytes(offsets), seed, shuffled=shuffled, block_bytes=block_bytes) if n else []
    )


def test_shuffled_blocks_mix_the_file_and_seeds_differ() -> None:
    offsets = np.arange(101, dtype=np.int64) * 256
    cuts = [learning_blocks(10**6, packed_row_bytes(offsets), seed, block_bytes=8 << 20) for seed in (0, 1)]
    assert cuts[0] != cuts[1]
    for block in cuts[0]:
        assert min(start for start, _ in block) < 500_000 < max(start for start, _ in block)


def test_what_fits_is_one_block_in_the_order_of_the_file() -> None:
    offsets = np.arange(101, dtype=np.int64) * 256
    assert STREAM_BYTES == 32 << 20
    (block,) = learning_blocks(300_000, packed_row_bytes(offsets), 0)
    assert block[0] == (0, PIECE_ROWS)
    assert block[-1][1] == 300_000


@pytest.mark.parametrize(
    ("rows", "psi", "expected"),
    [
        (1000, 16, "memory"), (671_088, 256, "memory"), (671_089, 256, "block"), (335_544, 4096, "memory"),
        (335_545, 4096, "block"), (5_368_709, 256, "block"), (5_368_710, 256, "distributed"),
    ],
)  # fmt: skip
def test_the_solver_goes_by_size_unless_asked(rows: int, psi: int, expected: str) -> None:
    size = packed_bytes(rows, 100, psi)
    assert choose_solver(size) == expected
    for asked in ("memory", "block", "distributed"):
        assert choose_solver(size, asked) == asked


def test_parts_go_by_size_unless_asked() -> None:
    assert choose_parts(10**6, 1 << 20) == LEAST_PARTS
    assert choose_parts(10**7, 10 * BLOCK_BYTES + 1) == 11
    assert choose_parts(10**10, 10**12) == MOST_PARTS
    assert choose_parts(10**6, 1 << 20, 3) == 3
    assert choose_parts(5, 500) == choose_parts(5, 500, 100) == 5
    assert list(inspect.signature(choose_parts).parameters) == ["n_rows", "cells_bytes", "requested"]


@given(n=st.integers(1, 300_000), k=st.integers(1, 64), seed=st.integers(0, 1000))
def test_parts_hold_every_row_once(n: int, k: int, seed: int) -> None:
    k = min(n, k)
    parts = learning_parts(n, k, seed)
    assert len(parts) == k
    seen = np.zeros(n, dtype=int)
    sizes = []
    for part in parts:
        assert part == sorted(part)
        for start, stop in part:
            assert 0 < stop - start <= PIECE_ROWS
            seen[start:stop] += 1
        sizes.append(sum(stop - start for start, stop in part))
    assert (seen == 1).all()
    assert min(sizes) > 0
    assert max(sizes) - min(sizes) <= 2 * max(stop - start for part in parts for start, stop in part)
    assert parts == learning_parts(n, k, seed)


def test_parts_mix_the_file() -> None:
    for part in learning_parts(10**6, 8, 0):
        assert part[0][0] < 200_000
        assert part[-1][1] > 800_000
