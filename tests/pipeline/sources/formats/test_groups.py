"""Blocks of the rows of a fragment."""

from __future__ import annotations

import pytest

from pipeline.sources.formats.groups import even_block


@pytest.mark.parametrize(
    ("rows", "usual", "block"),
    [(0, 10, 1), (1, 10, 1), (10, 10, 10), (12, 10, 12), (13, 10, 7), (25, 10, 13), (30, 10, 10)],
)
def test_blocks_of_a_fragment_are_even(rows: int, usual: int, block: int) -> None:
    assert even_block(rows, usual) == block
