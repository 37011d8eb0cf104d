"""Dates in text become the same seconds, to the bit, whoever reads them."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikmap.tables import TIME
from ikmap.tables.times import seconds_in
from pipeline.errors import InputError
from pipeline.sources.columns.cells import WantedColumn, are_times, as_numbers

MISSING = frozenset({"", "NA", "1900-01-01"})
WHEN = WantedColumn("when", TIME)
moments = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999))


@st.composite
def words(draw: st.DrawFn) -> str:
    """Dates in many forms, and words that are nearly dates."""
    moment = draw(moments)
    date = draw(st.sampled_from(["%Y-%m-%d", "%Y%m%d", "%Y/%m/%d", "%d.%m.%Y", "%G-W%V-%u", "%y-%m-%d"]))
    between = draw(st.sampled_from(["", " ", "T", "t", "  ", "x"]))
    clock = draw(
        st.sampled_from(["", "%H", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%H%M%S", "%H:%M:%S,%f", "24:00", "%H:60"])
    )
    cut = draw(st.integers(0, 3)) if clock.endswith("%f") else 0
    zone = draw(st.sampled_from(["", "", "", "Z", "+01:00", "-0530", " UTC"]))
    text = moment.strftime(date).zfill(10 if date == "%Y-%m-%d" else 0) + between + moment.strftime(clock)
    return draw(st.sampled_from(["", "", "", " "])) + text[: len(text) - cut] + zone


near = st.from_regex(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?\Z")


@pytest.mark.slow
@given(
    st.lists(st.one_of(words(), near, moments.map(str), st.sampled_from(["0000-01-01", "1900-01-01", "9:30", "NA"])))
)
def test_arrow_and_we_read_the_same_seconds(cells: list[str]) -> None:
    expected = [np.nan if word.strip() in MISSING else seconds_in(word.strip()) for word in cells]
    good = [k for k, seconds in enumerate(expected) if seconds is not None]
    column = pa.chunked_array([pa.array([cells[k] for k in good], pa.string())])
    for cells_of_column in (column, column.dictionary_encode(), column.cast(pa.large_string())):
        values, levels = as_numbers(cells_of_column, WHEN, MISSING, str)
        assert levels is None
        assert values.tobytes() == np.array([expected[k] for k in good], dtype=np.float64).tobytes()
    stripped = [word.strip() for word in cells]
    assert are_times(stripped).tolist() == [seconds_in(word) is not None for word in stripped]


def test_what_is_no_date_is_said_with_its_first_row_and_what_to_type() -> None:
    column = pa.chunked_array([["2001-01-01", "2001-02-30"], ["late", "2001-02-30", "early"]])
    with pytest.raises(
        InputError,
        match=r"^row 1: found '2001-02-30', expected a date or time .*--category when;.* --missing \S*,2001-02-30\S?$",
    ):
        as_numbers(column, WHEN, MISSING, lambda row: f"row {row}")
    assert as_numbers(column, WHEN, MISSING | {"2001-02-30", "late", "early"}, str)[0].tolist()[0] == 978_307_200.0


def test_words_that_no_cell_has_are_no_fault() -> None:
    codes = pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), pa.array(["nothing", "2001-01-01 00:00:00.5"]))
    assert as_numbers(pa.chunked_array([codes]), WHEN, MISSING, str)[0].tolist()[::2] == [978_307_200.5] * 2
