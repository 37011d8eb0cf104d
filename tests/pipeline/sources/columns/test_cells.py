"""Arrow columns become NumPy arrays, with or without missing cells, however they are cut, and without pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikmap.tables import CATEGORY, NUMBER, TIME
from pipeline.errors import InputError
from pipeline.sources.columns.cells import (
    WantedColumn,
    _as_text,
    arrow_floats,
    as_numbers,
    float_values,
    kind_of_type,
    label_words,
    numbers_together,
)
from tests import ROOT

CELLS = st.lists(st.one_of(st.none(), st.integers(-(2**40), 2**40)), max_size=20)


@pytest.mark.parametrize(
    ("missing", "word", "typed"),
    [
        ({"", "NA", "none"}, "-", "--missing NA,none,-"),
        ({""}, "-", "--missing=-"),
        ({"", "?"}, "no value", "--missing '?,no value'"),
        ({"", "NA"}, "1,5", """--missing 'NA,"1,5"'"""),
        ({"", "NA"}, "x" * 41, "--missing NA,WORD"),
    ],
)
def test_a_word_for_nothing_is_named_beside_those_that_are_known(missing: set[str], word: str, typed: str) -> None:
    said = WantedColumn("a b", NUMBER).expected(word, missing)
    assert said.startswith("a number; if its cells are words, train with --category 'a b'; ")
    assert said.endswith(f"if this one stands for nothing, train with {typed}")


@given(pieces=st.lists(CELLS, max_size=4), skip=st.integers(0, 3))
def test_numbers_however_they_are_cut(pieces: list[list[int | None]], skip: int) -> None:
    column = pa.chunked_array([pa.array(piece, pa.int64())[skip:] for piece in pieces], pa.int64())
    values, words = as_numbers(column, WantedColumn("a", NUMBER), frozenset(), str)
    expected = [np.nan if value is None else float(value) for piece in pieces for value in piece[skip:]]
    assert words is None
    np.testing.assert_array_equal(values, np.array(expected, dtype=np.float64))


WHOLE = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32)


@given(
    st.sampled_from([(pa.int8(), st.integers(-128, 127)), (pa.int64(), WHOLE), (pa.float32(), FLOATS)]).flatmap(
        lambda pair: st.tuples(st.just(pair[0]), st.lists(st.lists(pair[1] | st.none(), min_size=3, max_size=3)))
    ),
    st.integers(0, 2),
    st.integers(1, 4),
)
def test_numbers_at_once_are_those_of_one_column_after_the_other(
    drawn: tuple[pa.DataType, list[list[int | None]]], skip: int, rows: int
) -> None:
    kind, cells = drawn
    columns = [pa.array([row[k] for row in cells], kind) for k in range(3)]
    batches = pa.Table.from_arrays(columns, names=["a", "b", "other"]).slice(skip).to_batches(max_chunksize=rows)
    table = pa.Table.from_batches(batches, pa.schema([("a", kind), ("b", kind), ("other", kind)]))
    X = numbers_together(table, 2)
    assert X is not None
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    for k in range(2):
        np.testing.assert_array_equal(X[:, k], float_values(table.column(k).cast(pa.float64(), safe=False)))


@pytest.mark.parametrize("kinds", [(pa.int64(), pa.float64()), (pa.bool_(), pa.bool_()), (pa.string(), pa.string())])
def test_columns_of_several_types_or_of_no_numbers_are_not_made_at_once(kinds: tuple[pa.DataType, pa.DataType]) -> None:
    table = pa.Table.from_arrays([pa.nulls(2, kind) for kind in kinds], names=["a", "b"])
    assert numbers_together(table, 2) is None
    assert numbers_together(table, 0) is None


@given(values=st.lists(st.floats(allow_infinity=False), max_size=30), step=st.integers(1, 3))
def test_floats_there_and_back(values: list[float], step: int) -> None:
    array = np.array(values, dtype=np.float64)[::step]
    column = arrow_floats(array)
    assert column.null_count == np.isnan(array).sum()
    np.testing.assert_array_equal(float_values(column), array)


@pytest.mark.parametrize(
    ("kind", "of_type"), [(NUMBER, pa.null()), (TIME, pa.timestamp("us")), (CATEGORY, pa.string())]
)
def test_columns_of_missing_cells_alone(kind: str, of_type: pa.DataType) -> None:
    values, _ = as_numbers(pa.chunked_array([pa.nulls(3, of_type)]), WantedColumn("a", kind), frozenset(), str)
    np.testing.assert_array_equal(values, [np.nan] * 3)


def test_durations_are_numbers_also_where_a_model_has_them_for_times() -> None:
    column = pa.chunked_array([pa.array([1500, None], pa.duration("ms"))])
    assert kind_of_type(column.type) == NUMBER
    for kind in (NUMBER, TIME):
        values, words = as_numbers(column, WantedColumn("a", kind), frozenset(), str)
        np.testing.assert_array_equal(values, [1.5, np.nan])
        assert words is None
    for role in ("label", "weight"):
        with pytest.raises(InputError, match="found values of type duration"):
            as_numbers(column, WantedColumn("a", NUMBER, role), frozenset(), str)


@pytest.mark.slow
def test_a_table_is_read_without_pandas(tmp_path: Path) -> None:
    table = {"a": [1.0, None], "b": [1, 2], "c": ["x", None], "y": ["p", "q"]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    program = (
        "import sys; from pipeline.sources import ReadRequest, open_source\n"
        "source = open_source(sys.argv[1], request=ReadRequest(label='y'))\n"
        "rows = [block.X.shape for part in source.fragments() for block in source.read(part)]\n"
        "print(rows, 'pandas' in sys.modules)"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "t.parquet")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[(2, 3)] False"


def test_the_word_of_a_number_does_not_depend_on_those_beside_it() -> None:
    numbers = [49301234567.0, 2.0, None, 1.5, float("nan"), -3.0]
    alone = [_as_text(pa.chunked_array([pa.array([value], pa.float64())])).to_pylist()[0] for value in numbers]
    assert alone[:4] == ["49301234567", "2", None, "1.5"]
    assert _as_text(pa.chunked_array([pa.array(numbers, pa.float64())])).to_pylist() == alone


def test_words_of_a_dictionary_of_numbers_are_those_of_the_numbers() -> None:
    column = pa.chunked_array([pa.array([7.0, 1.5, None])])
    wanted = WantedColumn("a", CATEGORY)
    for same in (column, column.dictionary_encode(), pa.chunked_array([pa.array([7.0, 1.5]).dictionary_encode()])):
        assert as_numbers(same, wanted, frozenset(), str)[1] == ("1.5", "7")


@pytest.mark.parametrize("codes", [False, True])
def test_views_of_text_are_words_numbers_and_times(codes: bool) -> None:
    """Text that polars has written as Arrow, or codes of such text."""

    def column(*cells: str | None) -> pa.ChunkedArray:
        views = pa.array(cells, pa.string_view())
        return pa.chunked_array([views.dictionary_encode() if codes else views])

    def cells_of(kind: str, *cells: str | None) -> list[float]:
        return as_numbers(column(*cells), WantedColumn("a", kind), frozenset(), str)[0].tolist()

    np.testing.assert_array_equal(cells_of(NUMBER, "1", None, "2.5"), [1.0, np.nan, 2.5])
    np.testing.assert_array_equal(cells_of(TIME, "1970-01-02", None, "00:01"), [86400.0, np.nan, 60.0])
    np.testing.assert_array_equal(cells_of(CATEGORY, "b", None, "a"), [1.0, np.nan, 0.0])
    assert label_words(column("b", None, "a"), None, str).tolist() == ["b", None, "a"]
