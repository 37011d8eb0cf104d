"""The encoder of a run: read as it was written, now and by earlier states of the program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ikmap.tables import CATEGORY, NUMBER, ColumnPlan, Encoder, EncodingRequest, RawTable, Statistics, choose, fit
from pipeline.rows.encoding import ENCODING, TOGETHER, load_encoder, save_encoder
from pipeline.storage.lru_cache import PROCESS
from tests.support.runs import new_store

N = 60
COLUMNS = [ColumnPlan("x", NUMBER), ColumnPlan("w", CATEGORY)]


def encoder_and_table() -> tuple[Encoder, RawTable]:
    rng = np.random.default_rng(0)
    table = RawTable(np.column_stack([rng.normal(size=N), rng.integers(0, 3, N)]), (None, ("a", "b", "c")))
    folds, targets, every = np.arange(N) % 5, rng.integers(0, 2, (N, 1)), np.ones(N, dtype=np.bool_)
    statistics = Statistics.of(table, [column.kind for column in COLUMNS], folds, targets, every)
    request = EncodingRequest(numbers="quantile", categories="target")
    return fit(choose(COLUMNS, statistics, request), statistics), table


@pytest.mark.parametrize("earlier", [False, True])
def test_features_are_the_same_when_the_encoder_is_read(earlier: bool, tmp_path: Path) -> None:
    """Earlier states of the program wrote each array of an encoder as an array of the store."""
    store, (encoder, table) = new_store(tmp_path), encoder_and_table()
    if earlier:
        values, arrays = encoder.parts()
        assert len(arrays) > 1
        store.write_group(ENCODING, arrays, {"encoder": values, "seed": 7})
    else:
        save_encoder(store, encoder, 7, sparse=False)
        assert list(store.open_arrays(ENCODING)) == [TOGETHER]
    PROCESS.forget()
    stored = load_encoder(store)
    assert stored.encoder is not encoder
    assert stored.seed == 7
    assert np.array_equal(stored.features(table), encoder.encode(table))
