"""Rows dealt into blocks: each row once, each block a sample of all, the same in memory and in a file."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikmap.cells import Cells, packed_dtype
from ikmap.learners.rows import Block
from pipeline.rows.shuffled_blocks import ShuffledBlocks

T = 3


def source(sizes: list[int], psi: int, weighted: bool, gaps: bool) -> tuple[list[Block], np.ndarray, np.ndarray]:
    """Blocks whose targets are the numbers of their rows; as :class:`CellBlocks`, one with a gap has a wider type."""
    offsets, rng = np.arange(T + 1, dtype=np.int64) * psi, np.random.default_rng(len(sizes))
    codes = rng.integers(0, psi, (sum(sizes), T))
    blocks, ends = [], np.cumsum([0, *sizes])
    for k, (start, stop) in enumerate(pairwise(ends)):
        gap = gaps and k == len(sizes) - 1
        part = codes[start:stop].astype(packed_dtype(offsets, gaps=gap))
        if gap:
            part[0, 1] = np.iinfo(part.dtype).max  # as -1 is written
            codes[start, 1] = np.iinfo(part.dtype).max
        y = np.arange(start, stop)
        blocks.append(Block(Cells(part, offsets), y, 0.5 * y if weighted else None))
    return blocks, offsets, codes


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    psi=st.sampled_from([2, 256, 257]),
    most_rows=st.integers(1, 60),
    weighted=st.booleans(),
    gaps=st.booleans(),
    seed=st.integers(0, 99),
)
def test_each_row_is_in_one_block_of_nearly_equal_ones(
    sizes: list[int], psi: int, most_rows: int, weighted: bool, gaps: bool, seed: int
) -> None:
    blocks, offsets, codes = source(sizes, psi, weighted, gaps)
    how: Any = {"seed": seed, "most_rows": most_rows}
    dealt = [ShuffledBlocks(blocks, sizes, offsets, **how, in_memory=place) for place in (True, False)]
    n = sum(sizes)
    for both in zip(*dealt, strict=True):
        for block in both:
            assert np.array_equal(block.rows.codes, codes[block.y])
            assert (block.sample_weight is None) if not weighted else np.array_equal(block.sample_weight, 0.5 * block.y)
        assert np.array_equal(both[0].y, both[1].y)
        assert both[0].rows.codes.dtype == both[1].rows.codes.dtype == packed_dtype(offsets, gaps=gaps)
    lengths = [block.y.size for block in dealt[0]]
    assert len(lengths) == -(-n // most_rows)
    assert max(lengths) - min(lengths) <= 1
    assert sorted(np.concatenate([block.y for block in dealt[0]])) == list(range(n))


def test_each_block_is_a_sample_of_all_rows() -> None:
    """Also of a file that is sorted: the mean of each block's row numbers is near that of all."""
    sizes = [4000] * 5
    blocks, offsets, _ = source(sizes, 9, weighted=False, gaps=False)
    dealt = ShuffledBlocks(blocks, sizes, offsets, seed=1, most_rows=1000, in_memory=True)
    assert len(dealt) == 20
    for block in dealt:
        of_source = np.bincount(block.y // 4000, minlength=5)
        assert of_source.tolist() == [200] * 5
        # Standard error of the mean of 200 numbers in each of five ranges of 4000: 37.
        assert abs(block.y.mean() - 10_000) < 5 * 37


@pytest.mark.parametrize("in_memory", [True, False])
def test_other_seeds_deal_otherwise(in_memory: bool) -> None:
    blocks, offsets, _ = source([50], 9, weighted=False, gaps=False)
    rows = [
        [
            block.y.tolist()
            for block in ShuffledBlocks(blocks, [50], offsets, seed=seed, most_rows=20, in_memory=in_memory)
        ]
        for seed in (1, 1, 2)
    ]
    assert rows[0] == rows[1] != rows[2]
