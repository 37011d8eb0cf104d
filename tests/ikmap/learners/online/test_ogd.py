"""Online gradient descent: properties OG1-OG7 of algorithms.md 5.5, and the state's contract."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.cells import Cells
from ikmap.learners.online.ogd import OGDState, ogd_divisor, steps_to_margin
from tests.naive import learners as naive
from tests.support.narrow import present

T, PSI = 13, 6
OFFSETS = np.arange(T + 1) * PSI
ETA = 0.5  # A power of two: every sum is an exact multiple of it, so all forms must agree bit for bit.


type Scale = Literal["kernel", "raw"]


def stream(n: int = 400, n_classes: int = 2, seed: int = 0, psi: int = PSI) -> tuple[Cells, np.ndarray]:
    """Cells with a label that depends on some of them, with noise."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, psi, (n, T)).astype(np.int32)
    y = (codes[:, : T // 2].sum(axis=1) + rng.integers(0, psi, n)) % (5 * n_classes) // 5
    return Cells(codes, np.arange(T + 1) * psi), y.astype(np.int32)


def run(
    cells: Cells, y: np.ndarray, *, eta: float = ETA, scale: Scale = "kernel", n_classes: int = 2
) -> tuple[OGDState, np.ndarray, list[int]]:
    """The state after all rows, with the decision before each step and the support set, row by row."""
    state = OGDState.start(cells.n_columns, n_classes, eta, ogd_divisor(cells, scale))
    decisions, support = [], []
    for i in range(len(cells)):
        decisions.append(state.decision_function(cells[i : i + 1])[0].squeeze())
        if state.partial_fit(cells[i : i + 1], y[i : i + 1]).n_support:
            support.append(i)
    return state, np.array(decisions), support


@pytest.mark.parametrize("seed", range(3))
def test_og1_primal_full_product_and_dual_agree_bitwise(seed: int) -> None:
    cells, y = stream(seed=seed)
    c = np.where(y == 1, 1.0, -1.0)
    state, decisions, support = run(cells, y)
    for reference in (
        naive.ogd_primal(cells.codes, OFFSETS, c, ETA, T),
        naive.ogd_full_product(cells.codes, OFFSETS, c, ETA, T),
        naive.ogd_dual(cells.codes, c, ETA),
    ):
        np.testing.assert_array_equal(decisions, reference[0])
        assert support == reference[1]
    assert 0 < len(support) < len(cells)
    np.testing.assert_array_equal(state.weights[:, 0], naive.ogd_primal(cells.codes, OFFSETS, c, ETA, T)[2])


def test_raw_scale_is_the_predictor_without_division() -> None:
    cells, y = stream()
    c = np.where(y == 1, 1.0, -1.0)
    _, decisions, support = run(cells, y, scale="raw")
    expected = naive.ogd_primal(cells.codes, OFFSETS, c, ETA, 1)
    np.testing.assert_array_equal(decisions, expected[0])
    assert support == expected[1]
    assert len(support) < len(run(cells, y)[2])


def test_og2_weights_are_the_sum_over_the_support_set() -> None:
    cells, y = stream()
    state, _, support = run(cells, y)
    c = np.where(y[support] == 1, 1.0, -1.0)
    X = naive.one_hot(cells.codes[support], OFFSETS)
    np.testing.assert_array_equal(state.weights[:, 0], X.T @ (ETA * c))


@pytest.mark.parametrize("label", [0, 1])
def test_og3_first_row_is_predicted_positive_and_always_an_update(label: int) -> None:
    cells, _ = stream(1)
    state = OGDState.start(cells.n_columns, 2, ETA, T)
    progress = state.partial_fit(cells, np.array([label]))
    assert progress.predicted.tolist() == [1]
    assert progress.n_support == 1
    assert state.n_updates.tolist() == [1]


def test_og4_renaming_cells_changes_nothing() -> None:
    cells, y = stream(n_classes=3)
    rng = np.random.default_rng(1)
    names = np.array([rng.permutation(PSI) for _ in range(T)])
    renamed = Cells(np.ascontiguousarray(names[np.arange(T), cells.codes].astype(np.int32)), OFFSETS)
    a, decisions_a, support_a = run(cells, y, n_classes=3)
    b, decisions_b, support_b = run(renamed, y, n_classes=3)
    np.testing.assert_array_equal(decisions_a, decisions_b)
    assert support_a == support_b
    columns = (names + OFFSETS[:-1, None]).ravel()
    np.testing.assert_array_equal(b.weights[columns], a.weights)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("eta", [0.5, 0.3])
def test_og5_blocks_and_checkpoints_change_nothing(n_classes: int, eta: float) -> None:
    cells, y = stream(n_classes=n_classes)
    whole = OGDState.start(cells.n_columns, n_classes, eta, T)
    predicted = whole.partial_fit(cells, y).predicted
    state, parts = OGDState.start(cells.n_columns, n_classes, eta, T), []
    for start, stop in ((0, 1), (1, 150), (150, 150), (150, 399), (399, 400)):
        parts.append(state.partial_fit(cells[start:stop], y[start:stop]).predicted)
        saved = state.checkpoint()
        state.partial_fit(cells, y)  # What goes on after the checkpoint must not reach into it.
        state = OGDState.restore(saved)
    np.testing.assert_array_equal(np.concatenate(parts), predicted)
    for name, array in whole.checkpoint().items():
        np.testing.assert_array_equal(state.checkpoint()[name], array)
    assert whole.n_seen == 400


def test_og6_work_depends_on_t_only() -> None:
    """A step reads and writes t weights, whatever psi is and however many support points there are."""
    for psi in (6, 500):
        cells, y = stream(psi=psi)
        state = OGDState.start(cells.n_columns, 2, ETA, T)
        state.partial_fit(cells[:-1], y[:-1])
        row, label = cells[len(cells) - 1 :], y[-1:]
        own = row.columns()[0]
        before = state.decision_function(row)[0]
        others = np.setdiff1d(np.arange(cells.n_columns), own)
        state.table[others] = 99  # Anything read outside the row's own t weights would show.
        assert state.decision_function(row)[0] == before
        old = state.weights[own]
        progress = state.partial_fit(row, label)
        assert progress.predicted[0] == (before >= 0)
        np.testing.assert_array_equal(np.abs(state.weights[own] - old), ETA * progress.n_support)
        assert (state.table[others] == 99).all()
        assert state.checkpoint()["table"].size == T * psi


@pytest.mark.parametrize("n_classes", [2, 3])
def test_og7_every_block_of_weights_has_the_same_sum(n_classes: int) -> None:
    cells, y = stream(n_classes=n_classes)
    state = run(cells, y, n_classes=n_classes)[0]
    sums = state.weights.reshape(T, PSI, -1).sum(axis=1)
    np.testing.assert_array_equal(sums, np.broadcast_to(sums[0], sums.shape))


def test_one_against_the_rest_is_one_run_per_class() -> None:
    cells, y = stream(n_classes=4)
    state, decisions, support = run(cells, y, n_classes=4)
    any_step = set()
    for k in range(4):
        c = np.where(y == k, 1.0, -1.0)
        f, steps, w = naive.ogd_primal(cells.codes, OFFSETS, c, ETA, T)
        np.testing.assert_array_equal(decisions[:, k], f)
        np.testing.assert_array_equal(state.weights[:, k], w)
        assert state.n_updates[k] == len(steps)
        any_step |= set(steps)
    assert support == sorted(any_step)
    assert state.n_support == len(support)
    again = OGDState.start(cells.n_columns, 4, ETA, T)
    np.testing.assert_array_equal(again.partial_fit(cells, y).predicted, decisions.argmax(axis=1))


def test_margin_of_exactly_one_is_no_update() -> None:
    cells = Cells(np.zeros((3, 4), dtype=np.int32), np.arange(5))
    state = OGDState.start(4, 2, eta=1.0, divisor=4)
    assert state.partial_fit(cells, np.array([1, 1, 1])).n_support == 1
    assert state.decision_function(cells).tolist() == [[1.0], [1.0], [1.0]]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_layout_and_type_of_rows_gives_the_same(n_classes: int) -> None:
    cells, y = stream(n_classes=n_classes)
    expected = OGDState.start(cells.n_columns, n_classes, ETA, T)
    predicted = expected.partial_fit(cells, y).predicted
    csr = cells.to_csr(normalize=False)
    for rows in (cells.packed(), Cells(cells.codes.astype(np.uint16), OFFSETS), csr, csr.toarray()):
        state = OGDState.start(cells.n_columns, n_classes, ETA, T)
        np.testing.assert_array_equal(state.partial_fit(rows, y).predicted, predicted)
        np.testing.assert_array_equal(state.weights, expected.weights)
    model = expected.model(list(range(n_classes)))
    np.testing.assert_array_equal(model.decision_function(cells), expected.decision_function(cells))


def test_sample_weight_scales_the_step() -> None:
    cells, y = stream(50)
    weight = np.ones(50)
    weight[10] = 0
    with_zero = OGDState.start(cells.n_columns, 2, ETA, T)
    with_zero.partial_fit(cells, y, weight)
    without = OGDState.start(cells.n_columns, 2, ETA, T)
    keep = np.arange(50) != 10
    without.partial_fit(cells[keep], y[keep])
    np.testing.assert_array_equal(with_zero.weights, without.weights)
    doubled = OGDState.start(cells.n_columns, 2, ETA, T)
    doubled.partial_fit(cells[:1], y[:1], np.array([2.0]))
    assert set(np.abs(doubled.weights).ravel()) == {0.0, 2 * ETA}


@pytest.mark.parametrize("eta", [0.37, 1e-3, 40.0])
@pytest.mark.parametrize("scale", ["kernel", "raw"])
@pytest.mark.parametrize("psi", [6, 500])
def test_any_step_size_is_exact_up_to_one_rounding(eta: float, scale: Scale, psi: int) -> None:
    cells, y = stream(psi=psi)
    state, decisions, support = run(cells, y, eta=eta, scale=scale)
    expected = naive.ogd_primal(cells.codes, cells.offsets, np.where(y == 1, 1.0, -1.0), eta, ogd_divisor(cells, scale))
    np.testing.assert_array_equal(decisions, expected[0])
    assert support == expected[1]
    np.testing.assert_array_equal(state.weights[:, 0], expected[2])
    whole = OGDState.start(cells.n_columns, 2, eta, ogd_divisor(cells, scale))
    np.testing.assert_array_equal(whole.partial_fit(cells.packed(), y).predicted, expected[0] >= 0)
    np.testing.assert_array_equal(whole.weights[:, 0], expected[2])


@pytest.mark.parametrize("t", [1, 15, 16, 17, 300])
def test_any_number_of_partitionings(t: int) -> None:
    rng = np.random.default_rng(t)
    cells = Cells(rng.integers(0, 4, (300, t)), np.arange(t + 1) * 4).packed()
    y = (cells.codes[:, 0] > 1) ^ (rng.random(300) < 0.2)
    state = OGDState.start(cells.n_columns, 2, 0.3, t)
    predicted = state.partial_fit(cells, y.astype(int)).predicted
    f, support, w = naive.ogd_primal(cells.codes, cells.offsets, np.where(y, 1, -1), 0.3, t)
    np.testing.assert_array_equal(predicted, f >= 0)
    assert state.n_support == len(support)
    np.testing.assert_array_equal(state.weights[:, 0], w)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_integers_widen_before_they_overflow(sign: int, n_classes: int) -> None:
    """Every row takes a step at first: more than int8 and then int16 hold, by what only some cells see."""
    n, before = 33_000, 32_760
    cells = Cells(np.zeros((n, 2), dtype=np.int32), np.array([0, 2, 3]))
    cells.codes[before::2, 0] = 1
    y = np.full(n, 1 if sign > 0 else 0)
    state = OGDState.start(3, n_classes, eta=1e-6, divisor=1.0)
    types = []
    for start, stop in ((0, 120), (120, 127), (127, 128), (128, before), (before, n)):
        state.partial_fit(cells[start:stop], y[start:stop])
        types.append(state.table.dtype)
        expected = np.bincount(cells.columns()[:stop].ravel(), minlength=3)
        for k in range(state.table.shape[1]):
            positive = y[0] == (k if n_classes > 2 else 1)
            np.testing.assert_array_equal(state.table[:, k], expected if positive else -expected)
    assert types == [np.int8, np.int8, np.int16, np.int16, np.int32]
    whole = OGDState.start(3, n_classes, eta=1e-6, divisor=1.0)
    whole.partial_fit(cells, y)
    np.testing.assert_array_equal(whole.table, state.table)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_missing_cells_and_chunks(n_classes: int) -> None:
    """A chunk with missing cells takes another way through the code, so chunks must not show."""
    cells, y = stream(n_classes=n_classes)
    rng = np.random.default_rng(3)
    cells.codes[100:200][rng.random((100, T)) < 0.3] = -1
    cells.codes[150] = -1
    whole, parts = (OGDState.start(cells.n_columns, n_classes, 0.37, T) for _ in range(2))
    predicted = whole.partial_fit(cells, y).predicted
    found = [parts.partial_fit(cells[a:b], y[a:b]).predicted for a, b in ((0, 100), (100, 180), (180, 300), (300, 400))]
    np.testing.assert_array_equal(np.concatenate(found), predicted)
    np.testing.assert_array_equal(parts.table, whole.table)
    for k in range(whole.table.shape[1]):
        c = np.where(y == (k if n_classes > 2 else 1), 1, -1)
        np.testing.assert_array_equal(whole.weights[:, k], naive.ogd_primal(cells.codes, OFFSETS, c, 0.37, T)[2])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_constant_cell_is_one_more_partitioning_of_one_cell(n_classes: int) -> None:
    cells, y = stream(n_classes=n_classes)
    cells.codes[::5] = -1
    longer = Cells(np.c_[cells.codes, np.zeros(len(cells), np.int32)], np.append(OFFSETS, OFFSETS[-1] + 1))
    state = OGDState.start(cells.n_columns, n_classes, ETA, T, constant=True)
    as_a_map = OGDState.start(longer.n_columns, n_classes, ETA, T)
    for a, b in ((0, 150), (150, 400)):
        state = type(state).restore(state.checkpoint())
        before = as_a_map.partial_fit(longer[a:b], y[a:b]).predicted
        np.testing.assert_array_equal(state.partial_fit(cells[a:b].packed(), y[a:b]).predicted, before)
    np.testing.assert_array_equal(state.decision_function(cells), as_a_map.decision_function(longer))
    model = state.model(list(range(n_classes)))
    np.testing.assert_allclose(model.decision_function(cells), state.decision_function(cells), rtol=1e-12, atol=1e-13)
    assert model.coef.shape[0] == cells.n_columns
    assert (model.decision_function(cells)[::5] == model.intercept).all()
    assert (model.intercept != 0).any()


def test_a_constant_cell_stays_the_last_as_others_are_added() -> None:
    cells, y = stream()
    new = OFFSETS + 2 * np.arange(T + 1)
    state = OGDState.start(cells.n_columns, 2, ETA, T, constant=True)
    state.partial_fit(cells, y)
    expected = state.decision_function(cells)
    state.grow(OFFSETS, new)
    np.testing.assert_array_equal(state.decision_function(Cells(cells.codes, new)), expected)


def test_other_rows_go_on_from_the_weights_of_cells() -> None:
    cells, y = stream()
    state = OGDState.start(cells.n_columns, 2, ETA, T)
    state.partial_fit(cells[:100], y[:100])
    state.partial_fit(cells[100:200], y[100:200], np.ones(100))
    assert state.table.dtype == np.float64
    state = OGDState.restore(state.checkpoint())
    state.partial_fit(cells[200:300].to_csr(normalize=False), y[200:300])
    state.partial_fit(cells[300:], y[300:])
    expected = run(cells, y)[0]
    np.testing.assert_array_equal(state.weights, expected.weights)
    np.testing.assert_array_equal(state.decision_function(cells), expected.decision_function(cells))
    assert state.n_support == expected.n_support


def test_bad_input_is_named_and_nothing_is_learned() -> None:
    cells, y = stream(20)
    state = OGDState.start(cells.n_columns, 2, ETA, T)
    wild = cells.codes.copy()
    wild[7, 3] = PSI
    for rows, labels, weight, message in (
        (Cells(wild, OFFSETS), y, None, "row 7, column 3"),
        (cells, np.where(np.arange(20) == 4, 2, y), None, "row 4: class 2"),
        (cells, y[:-1], None, "20 integers"),
        (cells, y, np.full(20, -1.0), "row 0: sample weight -1.0"),
        (cells, y, np.ones(3), r"expected \(20,\)"),
        (np.ones((20, 3)), y, None, "3 feature columns, expected 78"),
    ):
        with pytest.raises(ValueError, match=message):
            state.partial_fit(rows, labels, weight)
    assert state.n_seen == 0
    assert not state.table.any()
    for bad in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match="eta"):
            OGDState.start(3, 2, bad)
    with pytest.raises(ValueError, match="scale"):
        ogd_divisor(cells, "other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 classes"):
        OGDState.start(3, 1)


def test_columns_of_one_row_may_stand_at_any_place_in_the_next() -> None:
    """Cells read back from CSR with as many ones in every row: no position belongs to a partitioning."""
    rng = np.random.default_rng(0)
    rows = np.zeros((80, 12))
    np.put_along_axis(rows, np.argsort(rng.random((80, 12)), axis=1)[:, :4], 1.0, axis=1)
    y = (rows[:, :6].sum(axis=1) + rng.normal(size=80) > 2).astype(int)
    cells, _ = present(Cells.from_csr(sp.csr_array(rows)))
    whole, single = OGDState.start(12, 2, 0.5, 1.0), OGDState.start(12, 2, 0.5, 1.0)
    progress = whole.partial_fit(cells, y)
    f, support, _ = naive.ogd_primal(cells.codes, cells.offsets, np.where(y == 1, 1, -1), 0.5, 1.0)
    np.testing.assert_array_equal(progress.predicted, f >= 0)
    assert progress.n_support == len(support)
    for r in range(80):
        single.partial_fit(cells[r : r + 1], y[r : r + 1])
    np.testing.assert_array_equal(single.table, whole.table)


@pytest.mark.parametrize(
    ("eta", "divisor", "expected"),
    [
        (1.0, 1.0, 1),
        (1.0, 10.0, 10),
        (3.0, 10.0, 4),
        (20.0, 10.0, 1),
        (0.35, 84.0, 240),  # 84 / 0.35 is a little more than 240, and 0.35 * 240 / 84 is 1.0
        (0.29, 261.0, 900),
        (1e-300, 1e300, 2**53),
    ],
)
def test_steps_to_a_margin_of_one(eta: float, divisor: float, expected: int) -> None:
    """The smallest number of steps by which the margin, as it is computed, is 1."""
    assert steps_to_margin(eta, divisor) == expected
    assert expected == 2**53 or eta * expected / divisor >= 1.0
    assert expected == 1 or eta * (expected - 1) / divisor < 1.0
