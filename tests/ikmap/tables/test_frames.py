"""Tables in memory give the cells that files give: the clock that times show, the words of true and false."""

from __future__ import annotations

import datetime
import io
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from ikmap.tables.frames import cells, table_by_name
from ikmap.tables.raw import CATEGORY, NUMBER, TIME, recoded
from pipeline.sources.columns.cells import WantedColumn, as_numbers
from tests.support.narrow import present

ZONE = ZoneInfo("Europe/Berlin")
MOMENTS = [
    datetime.datetime(2001, 7, 1, 10, 30, tzinfo=ZONE),
    None,
    datetime.datetime(2001, 1, 1, 0, 0, 5, tzinfo=ZONE),
]
SECONDS = [993_983_400.0, np.nan, 978_307_205.0]
CLOCKS = [datetime.time(23, 59), None, datetime.time(0, 0, 1, 500_000)]
BOOLEANS = [True, None, False]
PACKAGES = ["pyarrow", "pandas", "pandas with NA", "pandas with Arrow's types", "polars"]


def arrow() -> pa.Table:
    return pa.table(
        {
            "zoned": pa.array(MOMENTS, pa.timestamp("us", "Europe/Berlin")),
            "nanos": pa.array([993_983_400 * 10**9 + 7, None, 978_307_205 * 10**9], pa.timestamp("ns")),
            "clock": pa.array(CLOCKS, pa.time64("us")),
            "text": ["2001-07-01 10:30", None, "2001-01-01T00:00:05+01:00"],
            "flag": pa.array(BOOLEANS),
            "said": ["True", "", " FALSE"],
        }
    )


def in_package(table: pa.Table, package: str) -> Any:
    """Return the table as one of the package."""
    name = package.partition(" ")[0]
    if not find_spec(name):
        pytest.skip(f"{name} is not installed")
    if name == "pandas":
        frame = table.to_pandas(types_mapper=import_module("pandas").ArrowDtype if "Arrow" in package else None)
        return frame.convert_dtypes() if "NA" in package else frame
    return import_module("polars").from_arrow(table) if name == "polars" else table


@pytest.mark.parametrize("package", PACKAGES)
def test_cells_of_tables_in_memory(package: str) -> None:
    X = in_package(arrow(), package)
    names = ["zoned", "nanos", "clock", "text", "flag", "said"]
    found = table_by_name(X, names, [TIME] * 4 + [CATEGORY] * 2)
    for j in (0, 1, 3):
        np.testing.assert_allclose(found.values[:, j], SECONDS, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(found.values[:, 2], [86_340.0, np.nan, 1.5])
    for j in (4, 5):
        assert found.levels[j] == ("false", "true")
        np.testing.assert_array_equal(found.values[:, j], [1.0, np.nan, 0.0])


@pytest.mark.parametrize("package", PACKAGES)
def test_words_of_times_and_numbers_are_those_that_runs_have(package: str) -> None:
    """The words of a run that reads a file with ``--category``."""
    whole = [993_983_400, None, 978_307_205]
    table = pa.table(
        {
            "zoned": pa.array(MOMENTS, pa.timestamp("us", "Europe/Berlin")),
            "universal": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
            "seconds": pa.array(whole, pa.timestamp("s")),
            "micros": pa.array([993_983_400_000_000, None, 978_307_205_500_000], pa.timestamp("us")),
            "nanos": pa.array([993_983_400 * 10**9 + 7, None, 978_307_205 * 10**9], pa.timestamp("ns")),
            "clock": pa.array(CLOCKS, pa.time64("us")),
            "day": pa.array([datetime.date(2001, 5, 31), None, datetime.date(999, 1, 1)]),
            "single": pa.array([0.1, None, 2.0**31], pa.float32()),
            "count": pa.array([2**53 + 1, 2**53, 7]),
        }
    )
    found = table_by_name(in_package(table, package), table.column_names, [CATEGORY] * table.num_columns)
    for j, name in enumerate(table.column_names):
        codes, words = as_numbers(table[name], WantedColumn(name, CATEGORY), frozenset(), str)
        place = {word: k for k, word in enumerate(present(words))}
        again = recoded(found.values[:, j], present(found.levels[j]), place)
        np.testing.assert_array_equal(again, np.nan_to_num(codes, nan=-1), err_msg=name)


def test_times_among_objects_are_written_as_those_of_a_column() -> None:
    times = [datetime.datetime(2001, 5, 31, 23, 59, tzinfo=datetime.UTC), MOMENTS[0], *CLOCKS, datetime.date(1, 2, 3)]
    assert cells(np.array(times, dtype=object), "when", CATEGORY)[1] == (
        "0001-02-03", "00:00:01.500000", "2001-05-31 23:59:00.000000Z", "2001-07-01 10:30:00.000000+0200",
        "23:59:00.000000",
    )  # fmt: skip


def test_numbers_of_numpy_among_objects_are_numbers() -> None:
    values = np.array([np.int64(7), np.float32(0.5), np.bool_(True), None], dtype=object)
    found, words, kind = cells(values, "x")
    assert (words, kind) == (None, NUMBER)
    np.testing.assert_array_equal(found, [7.0, 0.5, 1.0, np.nan])
    assert cells(np.array([np.int64(7), np.float32(7)], dtype=object), "x", CATEGORY)[1] == ("7",)


def test_numbers_stand_for_nothing_in_columns_of_numbers_and_words_in_others() -> None:
    """Also among objects; true is no number, and a number in a column of words is one of its words."""
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(
        {
            "whole": [1, -9, 3],
            "single": np.array([0.1, -9, 1], dtype=np.float32),
            "mixed": np.array([Decimal(-9), "-9", True], dtype=object),
            "flag": [True, False, True],
            "zip": [-9, 12, 13],
        }
    )
    kinds = [NUMBER] * 4 + [CATEGORY]
    found = table_by_name(X, list(X.columns), kinds, {"", "-9", "1", "0.1"}, (-9.0, 0.1, float(np.float32(0.1)), 1.0))
    nan = np.nan
    expected = [[nan, nan, nan, 1, nan], [nan, nan, nan, 0, 1], [3, nan, 1, 1, 2]]
    np.testing.assert_array_equal(found.values, expected)
    assert found.levels[4] == ("-9", "12", "13")
    of_words_only = table_by_name(X, list(X.columns), kinds, {"", "-9"})
    np.testing.assert_array_equal(of_words_only.values[:, 0], [1, -9, 3])


def test_durations_are_numbers() -> None:
    """They have no month; of models that have them for times, as earlier versions had, they go on being times."""
    spans = pa.table({"tenure": pa.array([90, None, 86_400 * 400], pa.duration("s"))})
    for kind in (NUMBER, TIME):
        np.testing.assert_array_equal(table_by_name(spans, ["tenure"], [kind]).values[:, 0], [90.0, np.nan, 34_560_000])
    assert cells(np.array([90, "NaT"], dtype="timedelta64[s]"), "tenure")[2] == NUMBER


def test_a_word_among_times_is_named() -> None:
    X = pa.table({"when": ["2001-07-01", "soon"]})
    with pytest.raises(ValueError, match="row 1, column 'when': found 'soon', expected a date or time such as"):
        table_by_name(X, ["when"], [TIME])


def test_an_absence_that_cannot_be_compared() -> None:
    """As the NA of pandas, which need not be installed."""

    class NAType:
        def __bool__(self) -> bool:
            raise TypeError

        def __eq__(self, other: object) -> NAType:  # type: ignore[override]
            return self

        __ne__ = __eq__  # type: ignore[assignment]
        __hash__ = None  # type: ignore[assignment]

    found, words, kind = cells(np.array(["a", NAType(), None, np.nan, "b"], dtype=object), "x")
    assert (words, kind) == (("a", "b"), CATEGORY)
    np.testing.assert_array_equal(found, [0.0, np.nan, np.nan, np.nan, 1.0])


@pytest.mark.skipif(not find_spec("pandas"), reason="pandas is not installed")
def test_columns_whose_names_are_numbers_are_found_by_their_text() -> None:
    X = import_module("pandas").DataFrame(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert table_by_name(X, ["1", "0"], [NUMBER, NUMBER]).values.tolist() == [[2.0, 1.0], [4.0, 3.0]]


def test_a_name_of_two_columns_is_refused_where_it_is_wanted() -> None:
    columns = [pa.array([1.0, 2.0])] * 3
    X = pa.Table.from_arrays(columns, ["a", "b", "a"])
    assert table_by_name(X, ["b"], [NUMBER]).values.tolist() == [[1.0], [2.0]]
    with pytest.raises(
        ValueError, match=r"^X: column name 'a' appears twice \(columns 1 and 3\), expected names whose"
    ):
        table_by_name(X, ["b", "a"], [NUMBER, NUMBER])


@pytest.mark.skipif(not find_spec("pandas"), reason="pandas is not installed")
def test_a_number_and_its_text_are_one_name() -> None:
    pandas = import_module("pandas")
    for names in ([0, "0"], ["0", "0"], [0, 0]):
        with pytest.raises(ValueError, match=r"^X: column name '0' appears twice \(columns 1 and 2\)"):
            table_by_name(pandas.DataFrame([[1.0, 2.0]], columns=names), ["0"], [NUMBER])


@pytest.mark.skipif(not find_spec("pandas"), reason="pandas is not installed")
def test_a_column_without_a_name_is_found_as_pandas_calls_it() -> None:
    X = import_module("pandas").read_csv(io.StringIO(",a,y\n7,1.5,0\n8,2.5,1\n"))
    for frame in (X, X.drop(columns="y"), X[["a", "Unnamed: 0"]]):
        assert table_by_name(frame, ["", "a"], [NUMBER, NUMBER]).values.tolist() == [[7.0, 1.5], [8.0, 2.5]]
    own = X.assign(**{"": [5.0, 6.0]})
    assert table_by_name(own, [""], [NUMBER]).values.tolist() == [[5.0], [6.0]]
    known = X.rename(columns={"a": "Unnamed: 1"})
    assert table_by_name(known, ["", "Unnamed: 1"], [NUMBER, NUMBER]).values.tolist() == [[7.0, 1.5], [8.0, 2.5]]
    for other in (known, X.drop(columns="Unnamed: 0")):  # which of them, or none
        with pytest.raises(ValueError, match=r"^X: found no column '', expected it as in the training data"):
            table_by_name(other, [""], [NUMBER])
