"""Masses of cells are the numbers of rows in them, in whatever integers the codes come."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.novelty.masses import add_rows


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32])
def test_masses_count_rows_by_cell(dtype: type) -> None:
    """-1, and its bits without a sign, is a cell that is absent."""
    offsets = np.array([0, 3, 7])
    codes = np.array([[0, 3], [2, -1], [2, 3], [-1, 0]])
    masses = np.full(7, 10.0)
    add_rows(Cells(codes.astype(dtype), offsets), masses)
    assert masses.tolist() == [11.0, 10.0, 12.0, 11.0, 10.0, 10.0, 12.0]
