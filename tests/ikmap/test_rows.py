"""Blocks of rows cover every row once and take no more bytes than they may."""

from __future__ import annotations

import pytest

from ikmap.rows import row_blocks


@pytest.mark.parametrize("n_rows", [0, 1, 7, 1000])
@pytest.mark.parametrize("row_bytes", [0.0, 1.0, 24.0, 10_000.0])
def test_every_row_is_in_one_block_and_blocks_are_no_larger_than_asked(n_rows: int, row_bytes: float) -> None:
    blocks = list(row_blocks(n_rows, row_bytes, block_bytes=240))
    assert [row for block in blocks for row in range(n_rows)[block]] == list(range(n_rows))
    sizes = [block.stop - block.start for block in blocks]
    assert all(size == 1 or size * row_bytes <= 240 for size in sizes)
    assert len(set(sizes[:-1])) <= 1
