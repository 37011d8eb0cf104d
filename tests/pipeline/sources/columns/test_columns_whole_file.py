"""Kinds hold over the whole file: rows further down are looked at, and what still disagrees is said with its place."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ikmap.tables import CATEGORY, NUMBER, TIME
from pipeline.errors import InputError
from pipeline.sources import Sizes, Source
from pipeline.sources.columns.plan import WIDE
from pipeline.sources.columns.request import TableRequest
from tests.support.opening import opened

ROWS = 3000
PAD = "x" * 200
"""Text that makes these rows a file which is much larger than what is looked at first, and few to parse."""


def text(path: Path, cell: Callable[[int], str], label: Callable[[int], str] = lambda k: f"{k % 2}") -> str:
    """A file that is much larger than what is looked at first."""
    path.write_text("pad,c,label\n" + "".join(f"{PAD},{cell(k)},{label(k)}\n" for k in range(ROWS)))
    return str(path)


def plan(path: str, **request: Any) -> tuple[str, str]:
    column = {column.name: column for column in opened(path, request=TableRequest(**request)).column_plans}["c"]
    return column.kind, column.why


def cells(source: Source, column: int = 0) -> list[float]:
    return [v for f in source.fragments() for block in source.read(f) for v in np.asarray(block.X)[:, column].tolist()]


def refused(path: str, **request: Any) -> str:
    with pytest.raises(InputError) as error:
        cells(opened(path, request=TableRequest(**request)))
    assert "\n" not in str(error.value)
    return str(error.value)


def halves(first: Callable[[int], str], second: Callable[[int], str]) -> Callable[[int], str]:
    return lambda k: first(k) if k < ROWS // 2 else second(k)


def count(k: int) -> str:
    return f"{k}"


def always(cell: str) -> Callable[[int], str]:
    return lambda _: cell


NUMBERS, DATES = "numbers in the first rows", "dates or times in the first rows"
EMPTY = "no value in the first 1,234 rows"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "kind", "why"),
    [
        (halves(count, always("abc")), CATEGORY, f"{NUMBERS}, but not further down, such as 'abc'"),
        (halves(always("1"), always("2001-01-01")), CATEGORY, f"{NUMBERS}, but not further down, such as '2001-01-01'"),
        (halves(always("2001-01-01"), always("abc")), CATEGORY, f"{DATES}, but not further down, such as 'abc'"),
        (halves(count, always("1.5")), NUMBER, NUMBERS),
        (halves(always(""), always("abc")), CATEGORY, f"{EMPTY}; words in rows further down, such as 'abc'"),
        (halves(always(""), always("9:30")), TIME, f"{EMPTY}; dates or times in rows further down"),
        (always(""), NUMBER, EMPTY),
        (halves(always("abc"), count), CATEGORY, "words in the first rows, such as 'abc'"),
        (lambda k: f"{k}" if k != 100 else "abc", NUMBER, f"mostly {NUMBERS}"),
        (lambda k: f"9:{k % 60:02d}" if k != 100 else "abc", TIME, f"mostly {DATES}"),
        (lambda k: f"{2**53 + k}", NUMBER, f"{NUMBERS}; whole numbers beyond 2^53 are rounded"),
        (lambda k: f"{2**53 - k}", NUMBER, NUMBERS),
    ],
)
def test_rows_further_down_are_looked_at(cell: Callable[[int], str], kind: str, why: str, tmp_path: Path) -> None:
    found, reason = plan(text(tmp_path / "t.csv", cell))
    assert (found, re.sub("first [0-9,]+ rows", "first 1,234 rows", reason)) == (kind, why)


def test_a_few_faults_further_down_keep_their_line(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", lambda k: "abc" if k in (ROWS - 1, ROWS - 2) else f"{k}")
    assert refused(path).startswith(
        f"{path}: line {ROWS}, column 'c': found 'abc', expected a number; if its cells are"
    )
    assert plan(path, categories=("c",)) == (CATEGORY, "--category")
    path = text(tmp_path / "d.csv", lambda k: "abc" if k == ROWS - 1 else f"2001-01-{k % 28 + 1:02d}")
    assert refused(path).startswith(f"{path}: line {ROWS + 1}, column 'c': found 'abc', expected a date or time such")


@pytest.mark.slow
def test_formatted_numbers_further_down_are_refused_with_their_line(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", lambda k: f"{k % 1000}" if k < ROWS // 2 else f'"1,{k % 1000:03d}"')
    said = refused(path)
    line = int(said.removeprefix(f"{path}: line ").partition(",")[0])
    assert line > ROWS // 2 + 1
    assert f"column 'c': found '1,{(line - 2) % 1000:03d}', expected plain numbers such as 1234.5" in said


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_place_within_quotes_does_no_harm(ending: str, tmp_path: Path) -> None:
    """Cells that look like rows of another kind: most of the text is within quotes."""
    inside = ending.join(f"a{k},word,b" for k in range(400))
    path = tmp_path / "t.csv"
    path.write_bytes(f"pad,c,label{ending}".encode() + f'"{inside}{ending}",7.5,1{ending}'.encode() * 400)
    assert plan(str(path))[0] == NUMBER
    assert set(cells(opened(str(path)), 1)) == {7.5}


def test_labels_further_down_may_be_words(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", lambda k: f"{k}", lambda k: "1" if k < ROWS // 2 else "one")
    assert opened(path).plan.text_labels
    path = text(tmp_path / "f.csv", lambda k: f"{k}", lambda k: "one" if k == ROWS - 1 else "1")
    source = opened(path)
    assert not source.plan.text_labels
    with pytest.raises(
        InputError,
        match=f"line {ROWS + 1}, column 'label': found 'one', expected a number as in the first rows .the label",
    ):
        cells(source)


FILES = {
    "int": pa.array([1, 0, 1]),
    "float": pa.array([1.0, 0.5, None]),
    "decimal": pa.array([Decimal("1.5"), None, Decimal("2.0")]),
    "bool": pa.array([True, False, None]),
    "null": pa.nulls(3),
    "text": pa.array(["1.5", " 2", ""]),
    "truth": pa.array(["true", "FALSE", "1"]),
    "codes": pa.array(["1", "2", "1"]).dictionary_encode(),
    "words": pa.array(["1", "abc", "2"]),
    "date": pa.array([datetime.date(2001, 1, 1)] * 3),
    "dates": pa.array(["2001-01-01"] * 3),
    "list": pa.array([[1]] * 3),
}


def two_files(folder: Path, types: Sequence[str], suffix: str) -> str:
    folder.mkdir(exist_ok=True)
    for k, kind in enumerate(types):
        table = pa.table({"c": FILES[kind], "label": [0, 1, 0]})
        if suffix == "parquet":
            pq.write_table(table, folder / f"{k}.parquet")
        else:
            with pa.ipc.new_file(folder / f"{k}.arrow", table.schema) as writer:
                writer.write_table(table)
    return str(folder)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("float", [1.0, 0.5, None]), ("decimal", [1.5, None, 2.0]), ("bool", [1.0, 0.0, None]),
        ("null", [None] * 3), ("text", [1.5, 2.0, None]), ("truth", [1.0, 0.0, 1.0]), ("codes", [1.0, 2.0, 1.0]),
        ("words", "row 2, column 'c': found 'abc', expected a number; if its cells are words, train with --cat"),
        ("date", "row 1, column 'c': found values of type date32[day], expected numbers as before it; write all"),
        ("list", "row 1, column 'c': found values of type list<element: int64>, expected numbers as before it"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("first", ["int", "bool", "decimal"])
def test_files_of_other_types_are_read_or_refused(
    first: str, second: str, expected: list[float | None] | str, suffix: str, tmp_path: Path
) -> None:
    path = two_files(tmp_path / "files", [first, second], suffix)
    if isinstance(expected, str):
        assert f"files/1.{suffix}: {expected}" in refused(path).replace("list<item", "list<element")
        return
    assert [None if v != v else v for v in cells(opened(path))[3:]] == expected


def test_a_column_of_dates_takes_dates_alone(tmp_path: Path) -> None:
    assert cells(opened(two_files(tmp_path / "a", ["date", "dates"], "parquet"))) == [978_307_200.0] * 6
    said = refused(two_files(tmp_path / "b", ["date", "int"], "parquet"))
    assert "b/1.parquet: row 1, column 'c': found values of type int64, expected dates or times as before it" in said


def test_booleans_and_numbers_in_csv_files(tmp_path: Path) -> None:
    """In a column of numbers, true and false are 1 and 0; for other words the line is said."""
    (tmp_path / "0.csv").write_text("c,label\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(["0", "1"])))
    (tmp_path / "1.csv").write_text("c,label\nTRUE,0\n,1\n False,1\n1,0\n")
    found = cells(opened(str(tmp_path)))
    assert [None if v != v else v for v in found] == [0.0, 1.0, 1.0, None, 0.0, 1.0]
    (tmp_path / "1.csv").write_text("c,label\n7,0\ntrue,1\n")
    assert cells(opened(str(tmp_path))) == [0.0, 1.0, 7.0, 1.0]
    (tmp_path / "1.csv").write_text("c,label\nfalse,0\ntrue,1\nmaybe,1\n")
    assert "1.csv: line 4, column 'c': found 'maybe', expected a number" in refused(str(tmp_path))


LATE = 100_000
"""Bytes of a block: each of the files below has several, and many rows before the first word."""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "0", "1"])
@pytest.mark.parametrize(("delimiter", "decimal"), [(",", "."), (";", ",")])
def test_true_and_false_are_numbers_in_every_block_of_a_csv_file(
    first: str, delimiter: str, decimal: str, tmp_path: Path
) -> None:
    """Words that the first rows do not have, in a column that is one of numbers by the file before it."""
    rows = [first] * (ROWS - 4) + ["true", " FALSE", "True", f"2{decimal}5"]
    table = [(f"0{decimal}5", cell, k % 2) for k, cell in enumerate(rows)]
    for name, lines in (("0.csv", [(f"0{decimal}5", "0", 0), (f"1{decimal}5", "1", 1)]), ("1.csv", table)):
        text = "".join(f"{PAD}{delimiter}{delimiter.join(map(str, line))}\n" for line in lines)
        (tmp_path / name).write_text(delimiter.join(("pad", "a", "c", "label")) + "\n" + text)
    read = cells(opened(str(tmp_path), sizes=Sizes(block=LATE)), 2)
    assert [None if v != v else v for v in read[2:]] == [float(first) if first else None] * (ROWS - 4) + [1, 0, 1, 2.5]
    (tmp_path / "1.csv").write_text((tmp_path / "1.csv").read_text().replace("FALSE", "maybe"))
    assert f"1.csv: line {ROWS - 1}, column 'c': found 'maybe', expected a number; if its" in refused(str(tmp_path))


def test_true_and_false_are_numbers_in_wide_csv_files(tmp_path: Path) -> None:
    """Tables of numbers alone are parsed row by row, and by Arrow where a cell is none."""
    names = [f"c{j}" for j in range(WIDE)]
    for name, rows in (("0.csv", ["0", "1"]), ("1.csv", ["0"] * 1000 + ["true", "False", ""])):
        body = "".join(f"{cell}{',2.5' * (WIDE - 1)},{k % 2}\n" for k, cell in enumerate(rows))
        (tmp_path / name).write_text(",".join([*names, "label"]) + "\n" + body)
    source = opened(str(tmp_path), sizes=Sizes(block=LATE))
    assert isinstance(source.plan.columns, int)
    read = cells(source)
    assert [None if v != v else v for v in read] == [0, 1, *[0] * 1000, 1, 0, None]
