"""IK-OGD with full products (algorithms.md 5.4): the same run as in index form, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.cells import Cells
from ikmap.learners.online.ogd import OGDState
from ikmap_papers.isolation_kernel.naive_ogd_state import NaiveOGDState
from tests.naive import learners as naive
from tests.support.narrow import present, read_back
from tests.support.streams import cell_stream, peak_bytes, signs

T, PSI = 13, 6


def both(
    n_classes: int = 2, eta: float = 0.5, columns: int = T * PSI, divisor: float = T
) -> tuple[NaiveOGDState, OGDState]:
    size = (columns, n_classes, eta, divisor)
    return NaiveOGDState.start(*size), OGDState.start(*size)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("eta", [0.5, 0.37])
@pytest.mark.parametrize("divisor", [T, 1])
def test_og1_decisions_support_set_and_weights_of_the_index_form(n_classes: int, eta: float, divisor: int) -> None:
    cells, y = cell_stream(400, T, PSI, n_classes)
    full, index = both(n_classes, eta, divisor=divisor)
    for i in (*range(60), 60):
        part = slice(i, i + 1) if i < 60 else slice(60, 400)
        np.testing.assert_array_equal(full.decision_function(cells[part]), index.decision_function(cells[part]))
        a, b = full.partial_fit(cells[part], y[part]), index.partial_fit(cells[part], y[part])
        np.testing.assert_array_equal(a.predicted, b.predicted)
        assert a.n_support == b.n_support
    np.testing.assert_array_equal(full.index.weights, index.weights)
    np.testing.assert_array_equal(full.index.n_updates, index.n_updates)
    assert (full.n_seen, full.n_support) == (index.n_seen, index.n_support) == (400, full.n_support)


def test_og1_decisions_of_the_definition() -> None:
    cells, y = cell_stream(300, T, PSI)
    state, _ = both()
    expected = naive.ogd_full_product(cells.codes, cells.offsets, signs(y), 0.5, T)
    found = []
    for i in range(300):
        found.append(state.decision_function(cells[i : i + 1])[0, 0])
        state.partial_fit(cells[i : i + 1], y[i : i + 1])
    np.testing.assert_array_equal(found, expected[0])
    np.testing.assert_array_equal(state.index.weights[:, 0], expected[2])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_og5_blocks_and_checkpoints_change_nothing(n_classes: int) -> None:
    cells, y = cell_stream(400, T, PSI, n_classes)
    whole, _ = both(n_classes)
    predicted = whole.partial_fit(cells, y).predicted
    state, parts = both(n_classes)[0], []
    for start, stop in ((0, 1), (1, 150), (150, 150), (150, 400)):
        parts.append(state.partial_fit(cells[start:stop], y[start:stop]).predicted)
        saved = state.checkpoint()
        state.partial_fit(cells, y)
        state = NaiveOGDState.restore(saved)
        assert type(state) is NaiveOGDState
    np.testing.assert_array_equal(np.concatenate(parts), predicted)
    np.testing.assert_array_equal(state.index.table, whole.index.table)
    model = whole.model(list(range(n_classes)), {"psi": PSI})
    again = read_back(model)
    np.testing.assert_array_equal(again.decision_function(cells), whole.decision_function(cells))


def test_every_product_is_made() -> None:
    """A weight outside the row counts with a factor 0: only then is 0 times infinity seen."""
    cells, _ = cell_stream(1, T, PSI)
    other = np.setdiff1d(np.arange(T * PSI), cells.columns()[0])[0]
    full, index = both()
    for state in (full.index, index):
        state.table = np.zeros((T * PSI, 1))
        state.table[other] = np.inf
    assert np.isnan(full.decision_function(cells)[0])
    assert index.decision_function(cells)[0] == 0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_missing_cells_and_packed_codes(n_classes: int) -> None:
    cells, y = cell_stream(300, T, PSI, n_classes)
    rng = np.random.default_rng(3)
    cells.codes[100:200][rng.random((100, T)) < 0.3] = -1
    cells.codes[150] = -1
    full, index = both(n_classes)
    for part in (slice(0, 100), slice(100, 300)):
        rows = cells[part].packed()
        np.testing.assert_array_equal(full.partial_fit(rows, y[part]).predicted, index.partial_fit(rows, y[part])[0])
    np.testing.assert_array_equal(full.index.table, index.table)
    np.testing.assert_array_equal(full.decision_function(cells), index.decision_function(cells))


def test_columns_of_one_row_may_stand_at_any_place_in_the_next() -> None:
    rng = np.random.default_rng(0)
    rows = np.zeros((80, 12))
    np.put_along_axis(rows, np.argsort(rng.random((80, 12)), axis=1)[:, :4], 1.0, axis=1)
    cells, _ = present(Cells.from_csr(sp.csr_array(rows)))
    full, index = both(columns=12, divisor=1)
    y = rng.integers(0, 2, 80)
    np.testing.assert_array_equal(full.partial_fit(cells, y).predicted, index.partial_fit(cells, y).predicted)
    np.testing.assert_array_equal(full.index.table, index.table)


def test_bad_input_is_named_and_nothing_is_learned() -> None:
    cells, y = cell_stream(20, T, PSI)
    state, _ = both()
    wild = cells.codes.copy()
    wild[7, 3] = PSI
    for rows, labels, message in (
        (Cells(wild, cells.offsets), y, "^row 7, column 3: cell 6, expected 0..5$"),
        (cells, np.where(np.arange(20) == 4, 2, y), r"^row 4: class 2 is outside 0\.\.1$"),
        (np.ones((20, T * PSI)), y, "^full products are for cells, got ndarray$"),
        (cell_stream(20, T, 5)[0], y, "^rows have 65 feature columns, expected 78$"),
    ):
        with pytest.raises(ValueError, match=message):
            state.partial_fit(rows, labels)
    assert state.n_seen == 0
    assert not state.index.table.any()
    with pytest.raises(ValueError, match="for cells, got csr_array"):
        state.decision_function(cells.to_csr())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_constant_cell_is_one_more_partitioning_of_one_cell(n_classes: int) -> None:
    cells, y = cell_stream(400, T, PSI, n_classes)
    cells.codes[::5] = -1
    longer = Cells(np.c_[cells.codes, np.zeros(len(cells), np.int32)], np.append(cells.offsets, cells.offsets[-1] + 1))
    state = NaiveOGDState.start(cells.n_columns, n_classes, 0.5, T, constant=True)
    as_a_map = NaiveOGDState.start(longer.n_columns, n_classes, 0.5, T)
    for a, b in ((0, 150), (150, 400)):
        state = NaiveOGDState.restore(state.checkpoint())
        before = as_a_map.partial_fit(longer[a:b], y[a:b]).predicted
        np.testing.assert_array_equal(state.partial_fit(cells[a:b].packed(), y[a:b]).predicted, before)
    np.testing.assert_array_equal(state.decision_function(cells), as_a_map.decision_function(longer))
    model = state.model(list(range(n_classes)))
    np.testing.assert_allclose(model.decision_function(cells), state.decision_function(cells), rtol=1e-12, atol=1e-13)
    assert model.coef.shape[0] == cells.n_columns
    assert (model.decision_function(cells)[::5] == model.intercept).all()
    assert (model.intercept != 0).any()


@pytest.mark.parametrize("n_classes", [2, 10])
def test_memory_is_foreseen(n_classes: int) -> None:
    cells, y = cell_stream(50, T, 20_000, n_classes)
    state = NaiveOGDState.start(cells.n_columns, n_classes, 0.5, T)
    state.partial_fit(cells, y)

    def run() -> None:
        fresh = NaiveOGDState.start(cells.n_columns, n_classes, 0.5, T)
        for _ in range(2):
            fresh.partial_fit(cells, y)

    outputs = 1 if n_classes == 2 else n_classes
    foreseen = 8 * cells.n_columns * (3 * outputs + 1)  # the steps three times, and a one-hot row
    assert 0.5 * foreseen < peak_bytes(run) < foreseen
