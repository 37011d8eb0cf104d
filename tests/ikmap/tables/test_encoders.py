"""Encodings agree with the obvious computation, add up to the same bits over any parts, and are plain data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.tables import CATEGORY, NUMBER, TIME, ColumnPlan, Encoder, EncodingRequest, RawTable, Statistics, choose, fit
from ikmap.tables.encoders import time_parts
from ikmap.tables.plan import SMOOTH
from ikmap.tables.raw import coded, recoded
from ikmap.tables.statistics import drawn_rows, fold_of
from tests.naive.tables import mean_targets, middle_rank

N = 300
KINDS = [NUMBER, CATEGORY, TIME]
PLAN = [ColumnPlan("x", NUMBER), ColumnPlan("w", CATEGORY), ColumnPlan("t", TIME)]


def cells() -> tuple[np.ndarray, list[str | None], np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=N), 1)
    x[rng.random(N) < 0.1] = np.nan
    words = [None if k == 0 else f"w{k}" for k in rng.integers(0, 12, N).tolist()]
    return x, words, rng.integers(9 * 10**8, 10**9, N).astype(float)


def table(rows: slice = slice(None)) -> RawTable:
    """Each part has codes of its own."""
    x, words, t = cells()
    codes, levels = coded(words[rows])
    return RawTable(np.column_stack([x[rows], codes, t[rows]]), (None, levels, None))


def statistics(cuts: list[int]) -> Statistics:
    y = np.arange(N) % 2
    drawn = np.zeros(N, dtype=np.bool_)
    drawn[drawn_rows(N, 0)] = True
    parts = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, N], strict=True)]
    return Statistics.total(
        [
            Statistics.of(table(rows), KINDS, fold_of(np.arange(N), 7)[rows], y[rows, None], drawn[rows])
            for rows in parts
        ]
    )


@pytest.mark.parametrize("categories", ["onehot", "target", "count", "hash"])
@pytest.mark.parametrize("numbers", ["none", "minmax", "standard", "quantile"])
def test_bits_depend_on_no_chunk(categories: str, numbers: str) -> None:
    asked = EncodingRequest(numbers, categories, "both")
    whole, cut = (fit(choose(PLAN, found, asked), found) for found in (statistics([]), statistics([1, 30, 31, 200])))
    folds = fold_of(np.arange(N), 7)
    expected = whole.encode(table(), folds)
    assert np.isfinite(expected).all()
    assert expected.shape == (N, len(whole.names))
    again = Encoder.from_parts(*cut.parts())
    assert again.names == whole.names
    assert again.columns == whole.columns
    for part in (slice(0, 1), slice(1, 250), slice(250, N)):  # codes of words differ from part to part
        assert again.encode(table(part), folds[part]).tobytes() == expected[part].tobytes()


@pytest.mark.parametrize("enough", [25, 10_000])
def test_targets_of_words_as_computed_row_by_row(enough: int) -> None:
    _, words, _ = cells()
    found = statistics([100])
    encoder = fit(choose(PLAN, found, EncodingRequest(categories="target")), found, enough=enough)
    at, folds = encoder.names.index("w (target)"), fold_of(np.arange(N), 7)
    within, after = mean_targets(words, (np.arange(N) % 2).tolist(), folds.tolist(), SMOOTH, enough)
    np.testing.assert_allclose(encoder.encode(table(), folds)[:, at], within, rtol=1e-14)
    np.testing.assert_allclose(encoder.encode(table())[:, at], [after[word] for word in words], rtol=1e-14)
    counts = sorted(words.count(word) for word in set(words))
    assert enough > 1000 or counts[0] < enough <= counts[-1]


def test_quantiles_are_middle_ranks() -> None:
    x, _, _ = cells()
    found = statistics([])
    encoder = fit(choose(PLAN, found, EncodingRequest(numbers="quantile")), found)
    there = x[~np.isnan(x)].tolist()
    expected = [middle_rank(there, value) for value in there]
    np.testing.assert_allclose(encoder.encode(table())[~np.isnan(x), 0], expected, rtol=1e-14)


def test_a_missing_number_is_the_median_and_marked() -> None:
    x, _, _ = cells()
    found = statistics([])
    encoder = fit(choose(PLAN, found, EncodingRequest(numbers="none")), found)
    assert encoder.names[:2] == ("x", "x is missing")
    X = encoder.encode(table())
    there = np.sort(x[~np.isnan(x)])
    assert set(X[np.isnan(x), 0]) == {there[there.size // 2]}
    np.testing.assert_array_equal(X[:, 1], np.isnan(x))


def test_rare_words_share_a_feature() -> None:
    words = ["a"] * 6000 + ["b"] * 6000 + ["c"] * 3 + ["d"] * 2
    codes, levels = coded(words)
    raw, n = RawTable(codes[:, None], (levels,)), len(words)
    none = np.zeros((n, 0), dtype=np.int64)
    found = Statistics.of(raw, [CATEGORY], np.zeros(n, dtype=np.int64), none, np.ones(n, dtype=np.bool_))
    encoder = fit(choose([ColumnPlan("w", CATEGORY)], found, EncodingRequest()), found)
    assert encoder.names == ("w=a", "w=b", "w is rare")
    new = RawTable(np.array([[0.0], [1.0], [np.nan]]), (("c", "never"),))
    assert encoder.encode(new).tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_what_tells_no_rows_apart_is_left_out() -> None:
    n = 200
    codes, levels = coded([f"id-{k}" for k in range(n)])
    raw = RawTable(np.column_stack([np.ones(n), codes, np.full(n, np.nan), np.arange(n)]), (None, levels, None, None))
    plan = [ColumnPlan(name, kind) for name, kind in zip("abcd", [NUMBER, CATEGORY, NUMBER, NUMBER], strict=True)]
    none = np.zeros((n, 0), dtype=np.int64)
    kinds = [column.kind for column in plan]
    found = Statistics.of(raw, kinds, np.zeros(n, dtype=np.int64), none, np.ones(n, dtype=np.bool_))
    chosen = choose(plan, found, EncodingRequest())
    assert [column.encoding for column in chosen] == ["drop", "drop", "drop", "minmax"]
    assert "200 different words in 200 rows: an id or free text" in chosen[1].why
    with pytest.raises(ValueError, match="found no column that tells rows apart in 200 samples"):
        fit(chosen[:3], found)
    with pytest.raises(ValueError, match="column 'b': encoding = 'target', but nothing is learned from labels"):
        fit([ColumnPlan("a", NUMBER, "drop"), ColumnPlan("b", CATEGORY, "target"), *chosen[2:]], found)


def test_a_column_of_very_many_words_is_left_out_and_the_rest_is_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is not refused for a column of ids, even where each comes more than twice."""
    monkeypatch.setattr("ikmap.tables.plan.MOST_LEVELS", 100)
    n = 600
    for n_words, encoding in ((100, "count"), (101, "drop")):
        codes, levels = coded([f"id-{k % n_words}" for k in range(n)])
        raw = RawTable(codes[:, None], (levels,))
        none = np.zeros((n, 0), dtype=np.int64)
        found = Statistics.of(raw, [CATEGORY], np.zeros(n, dtype=np.int64), none, np.ones(n, dtype=np.bool_))
        (column,) = choose([ColumnPlan("w", CATEGORY)], found, EncodingRequest())
        assert column.encoding == encoding
    assert column.why == "101 different words in 600 rows: an id or free text"


@pytest.mark.parametrize("cuts", [[], [100], [1, 30, 31, 200]], ids=str)
def test_no_word_is_held_of_a_limited_column_with_very_many(monkeypatch: pytest.MonkeyPatch, cuts: list[int]) -> None:
    """The words are let go as soon as some parts together have too many of them, whichever these are."""
    for limit, too_many in ((11, False), (10, True)):
        for module in ("statistics", "plan"):
            monkeypatch.setattr(f"ikmap.tables.{module}.MOST_LEVELS", limit)
        found, held = statistics(cuts), statistics(cuts).limited([1])
        again = Statistics.unpacked(held.packed())
        assert again.levels[1].too_many is too_many
        assert again.levels[1].words == (() if too_many else found.levels[1].words)
        for other in (again, found):
            total = Statistics.total([again, other]).levels[1]
            assert total.too_many is too_many
            assert total.rows.sum() == (0 if too_many else 2 * N)
        assert Statistics.unpacked(found.limited([]).packed()).levels[1].words == found.levels[1].words
        town = choose(PLAN, again, EncodingRequest())[1]
        assert (town.encoding == "drop") is too_many
    assert town.why == f"more than 10 different words in {N - int(found.missing[1])} rows: an id or free text"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, (1970, 1, 1, 3, 0, 0)),
        (951_782_399.5, (2000, 2, 28, 0, 1439, 59.5)),
        (951_782_400, (2000, 2, 29, 1, 0, 0)),
        (-1, (1969, 12, 31, 2, 1439, 59)),
    ],
)
def test_parts_of_times(seconds: float, expected: tuple[Any, ...]) -> None:
    found = time_parts(np.array([seconds]))
    assert tuple(float(values[0]) for values in found.values()) == expected


@pytest.mark.parametrize(
    ("low", "days", "step", "expected"),
    [
        (9e8, 3, 3600.0, []),  # three times round the clock are too few
        (9e8, 20, 3600.0, [".minute"]),
        (9e8, 150, 3600.0, [".weekday", ".minute"]),
        (9e8, 400, 86_400.0, [".day", ".weekday"]),
        (9e8, 3000, 86_400.0, [".month", ".day", ".weekday"]),
        (0.0, 0.9, 60.0, [".minute"]),  # times of the day, without a date
    ],
)
def test_parts_of_times_that_come_round(low: float, days: float, step: float, expected: list[str]) -> None:
    t = np.arange(low, low + days * 86_400, step)
    raw, none = RawTable(np.column_stack([t, t]), (None, None)), np.zeros((t.size, 0), dtype=np.int64)
    folds, drawn = np.zeros(t.size, dtype=np.int64), np.ones(t.size, dtype=np.bool_)
    found = Statistics.of(raw, [TIME, TIME], folds, none, drawn)
    plan = choose(
        [ColumnPlan("t", TIME), ColumnPlan("u", TIME, "parts")], found, EncodingRequest(), only_times="recurring"
    )
    assert plan[0].encoding == ("recurring" if expected else "drop")
    encoder = fit(plan, found)
    assert [name for name in encoder.names if name.startswith("t")] == [f"t{part}" for part in expected]
    assert set(expected) <= {name.removeprefix("u") for name in encoder.names}
    both = encoder.encode(raw)
    for k, part in enumerate(expected):
        np.testing.assert_array_equal(both[:, k], both[:, encoder.names.index(f"u{part}")])
    assert choose([ColumnPlan("t", TIME)], found, EncodingRequest())[0].encoding == "parts"


def test_folds_and_drawn_rows_go_by_number() -> None:
    folds = fold_of(np.arange(10_000), 3)
    assert np.bincount(folds, minlength=5).min() > 1900
    np.testing.assert_array_equal(fold_of(np.arange(500, 600), 3), folds[500:600])
    assert drawn_rows(10, 0).tolist() == list(range(10))
    assert np.unique(drawn_rows(100_000, 0)).size == 1 << 16


@pytest.mark.parametrize("categories", ["onehot", "target", "hash"])
@pytest.mark.parametrize("times", ["parts", "both"])
def test_sparse_features_are_the_same(categories: str, times: str) -> None:
    found = statistics([])
    encoder = fit(choose(PLAN, found, EncodingRequest("minmax", categories, times)), found)
    words = RawTable(table().values, (None, ("new", *(f"w{k}" for k in range(1, 11)), "w11"), None))
    folds = fold_of(np.arange(N), 7)
    for of in (table(), words, table(slice(0, 1)), table(slice(0, 0))):
        whole, sparse = encoder.encode(of, folds[: of.rows]), encoder.encode_sparse(of, folds[: of.rows])
        assert sparse.has_canonical_format
        assert (sparse.data != 0).all()
        assert sparse.toarray().tobytes() == (whole + 0.0).tobytes()
        assert int(np.diff(sparse.indptr).max(initial=0)) <= encoder.entries


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [
        *((NUMBER, word) for word in ("none", "minmax", "standard", "quantile", "drop")),
        *((TIME, word) for word in ("parts", "cycles", "both", "recurring")),
        (CATEGORY, "onehot"),
    ],
)
def test_a_column_without_a_value_is_left_out_though_its_encoding_is_planned(kind: str, encoding: str) -> None:
    """The plan is that of a run on an earlier table, in which the column had values."""
    empty, levels = coded([None] * 9) if kind == CATEGORY else (np.full(9, np.nan), None)
    cells = RawTable(np.column_stack([empty, np.arange(9.0)]), (levels, None))
    everyone = np.ones(9, dtype=np.bool_)
    counts = Statistics.of(cells, (kind, NUMBER), np.zeros(9, dtype=int), np.zeros((9, 0), dtype=int), everyone)
    columns = [ColumnPlan("empty", kind, encoding, "planned"), ColumnPlan("x", NUMBER)]
    encoder = fit(choose(columns, counts, EncodingRequest()), counts)
    assert encoder.names == ("x",)
    assert encoder.columns[0].encoding == "drop"
    assert encoder.columns[0].why == ("planned" if encoding == "drop" else "planned; every cell is missing")


def test_a_number_that_is_always_the_same_or_missing_is_scaled_too() -> None:
    raw = RawTable(np.where(np.arange(50) % 3 == 0, np.nan, 2023.0)[:, None], (None,))
    none = np.zeros((50, 0), dtype=np.int64)
    found = Statistics.of(raw, [NUMBER], np.zeros(50, dtype=np.int64), none, np.ones(50, dtype=np.bool_))
    encoder = fit(choose([ColumnPlan("year", NUMBER)], found, EncodingRequest("minmax")), found)
    again = Encoder.from_parts(*encoder.parts())
    new = RawTable(np.array([[2023.0], [np.nan], [5000.0], [-1.0]]), (None,))
    assert again.encode(new).tolist() == [[0, 0], [0, 1], [0, 0], [0, 0]]


def test_a_whole_number_as_a_word_is_known_with_and_without_its_fraction() -> None:
    place = {"1": 0, "2.0": 1, "3": 2, "3.0": 3, "x": 4, "007": 5}
    found = ("1.0", "2", "3", "3.0", "x.0", "7", "7.0", "-1.0", "4.0")
    codes = np.arange(len(found), dtype=np.float64)
    assert recoded(codes, found, place).tolist() == [0, 1, 2, 3, -1, -1, -1, -1, -1]


def test_a_time_as_a_word_is_known_in_other_units() -> None:
    place = {"2001-05-31 23:59:00.000000": 0, "23:59:00": 1, "2001-05-31 23:59:00.500Z": 2}
    known = ("2001-05-31 23:59:00", "2001-05-31 23:59:00.000000000", "23:59:00.000", "2001-05-31 23:59:00.500000Z")
    others = ("2001-05-31 23:59:00.000001", "23:59:00.5", "2001-05-31 23:59:00.500000", "2001-05-31 23:59:00+0200")
    codes = np.arange(len(known + others), dtype=np.float64)
    assert recoded(codes, known + others, place).tolist() == [0, 0, 1, 2, -1, -1, -1, -1]
