"""Dual variables in a file: what an array would hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikmap.learners.dual.dual_variables import DualVariables


@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=8), data=st.data())
def test_they_are_those_of_an_array(sizes: list[int], data: st.DataObject) -> None:
    duals, array = DualVariables(3, sizes), np.zeros((3, sum(sizes)))
    starts = np.cumsum([0, *sizes])
    for step in range(6):
        problem = data.draw(st.integers(0, 2))
        numbers = data.draw(st.lists(st.integers(0, len(sizes) - 1), unique=True))
        rows = np.concatenate([np.arange(starts[b], starts[b + 1]) for b in numbers] or [np.zeros(0, int)])
        assert np.array_equal(duals.read(problem, numbers), array[problem, rows])
        array[problem, rows] = 1 + step + np.arange(rows.size)
        duals.write(problem, numbers, array[problem, rows])
    found = duals.array()
    assert np.array_equal(found, array)
    found[:] = -1.0  # the caller's own from here on
    assert np.array_equal(duals.array(), array)


def test_the_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    duals = DualVariables(1, [4])
    duals.write(0, [0], np.arange(4.0))
    assert list(tmp_path.iterdir()) == []
    array = duals.array()
    del duals
    assert array.tolist() == [[0.0, 1.0, 2.0, 3.0]]
