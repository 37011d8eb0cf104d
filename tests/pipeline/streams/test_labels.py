"""Rows whose labels come late are read again in the order of their labels, few at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.rows.stream_data import LateBatch
from pipeline.streams.labels import LateRows
from pipeline.streams.rows import StreamRows

CHUNK = 10


class CountedRows(StreamRows):
    """Rows of chunks, as they are; notes which chunks are read."""

    def __init__(self, X: Any) -> None:
        self.X, self.read = X, list[int]()

    def stored(self, stream: Any, k: int) -> Any:  # noqa: ARG002
        self.read.append(k)
        return self.X[k * CHUNK : (k + 1) * CHUNK]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("together", [1, 7, 1000])
def test_rows_are_read_in_the_order_of_their_labels(sparse: bool, together: int) -> None:
    rng = np.random.default_rng(together)
    X = rng.integers(0, 3, (5 * CHUNK, 4)).astype(np.float64)
    places = rng.permutation(4 * CHUNK)[:30] + 5
    before = np.sort(rng.integers(0, 4, places.size))
    stream: Any = SimpleNamespace(rows_initial=0, first_of=lambda k: k * CHUNK)
    taking = CountedRows(sp.csr_array(X) if sparse else X)
    come = LateRows(stream, LateBatch(places, before, np.zeros(places.size)), taking, 4, together)
    for block in range(5):
        at = come.at(block)
        wanted = np.arange(at.start, at.stop)[rng.random(at.stop - at.start) < 0.7]
        if wanted.size:
            rows: Any = come.rows(wanted)
            assert np.array_equal(rows.toarray() if sparse else rows, X[places[wanted]])
    # Each group of labels reads each of its chunks once.
    groups = [places[a : a + together] // CHUNK for a in range(0, places.size, together)]
    assert len(taking.read) <= sum(np.unique(group).size for group in groups)
