"""Words that stand for nothing, and the numbers among them in columns of numbers of every format."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from ikmap.tables import NUMBER, ColumnPlan
from pipeline.errors import InputError
from pipeline.sources import Source
from pipeline.sources.columns import table_plan
from pipeline.sources.columns.missing import numbers_among, numbers_of
from pipeline.sources.columns.request import TableRequest
from tests.support.opening import opened

WORDS = ("", "-999", "NA", "-0.1", "1")
TABLE = pa.table(
    {
        "whole": pa.array([39, -999, -9990, None], pa.int32()),
        "real": [0.5, -999.0, -999.5, -0.1],
        "single": pa.array([0.5, -999.0, 1.5, -0.1], pa.float32()),
        "y": [5.0, 6.0, 7.0, -999.0],
    }
)
MEANT = [[39, 0.5, 0.5], [None, None, None], [-9990, -999.5, 1.5], [None, None, None]]


def write(folder: Path, ending: str) -> str:
    path = folder / f"t.{ending}"
    if ending == "parquet":
        pq.write_table(TABLE, path)
    elif ending == "arrow":
        pyarrow.feather.write_feather(TABLE, str(path), compression="uncompressed")
    elif ending == "orc":
        pyarrow.orc.write_table(TABLE, str(path))
    elif ending == "csv":
        pyarrow.csv.write_csv(TABLE, str(path))
    elif ending == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows_as_typed()))
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("create table t (whole integer, real real, single real, y real)")
            connection.executemany("insert into t values (?, ?, ?, ?)", [(*row.values(),) for row in rows_as_typed()])
            connection.commit()
    return str(path)


def rows_as_typed() -> list[dict[str, float | None]]:
    """Return the rows with the digits that float32 numbers are written with."""
    rows: list[dict[str, float | None]] = TABLE.to_pylist()
    return [row | {"single": float(str(np.float32(row["single"] or 0)))} for row in rows]


def cells(source: Source) -> tuple[list[list[float | None]], list[float]]:
    X: list[list[float | None]] = []
    y: list[float] = []
    for fragment in source.fragments():
        for block in source.read(fragment):
            assert isinstance(block.X, np.ndarray)
            X += [[None if np.isnan(v) else float(np.float32(v)) for v in row] for row in block.X]
            y += [] if block.y is None else block.y.tolist()
    return X, y


@pytest.mark.parametrize("ending", ["parquet", "arrow", "orc", "csv", "jsonl", "sqlite"])
@pytest.mark.parametrize("wide", [False, True])
def test_numbers_stand_for_nothing_in_columns_of_every_format(
    ending: str, wide: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels are what they are, where they are numbers by their type."""
    if wide:
        monkeypatch.setattr(table_plan, "WIDE", 0)
    request = TableRequest(missing=WORDS, missing_as_numbers=True, unlabelled=ending == "csv")
    source = opened(write(tmp_path, ending), label="y", request=request)
    assert isinstance(source.plan.columns, int) == wide
    X, y = cells(source)
    assert X == MEANT
    assert y[:3] == [5.0, 6.0, 7.0]
    assert y[3] == -999.0 or (ending == "csv" and np.isnan(y[3]))


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_runs_of_earlier_versions_have_words_in_text_only(ending: str, tmp_path: Path) -> None:
    request = TableRequest.from_json({"missing": list(WORDS)})
    X, _ = cells(opened(write(tmp_path, ending), label="y", request=request))
    assert X[1] == [-999.0, -999.0, -999.0]


def test_true_is_no_number_and_other_types_of_numbers_are(tmp_path: Path) -> None:
    types = {
        "flag": [True, False, None],
        "decimal": pa.array([Decimal("1.00"), Decimal("-0.10"), Decimal("2.50")]),
        "coded": pa.array([-999, 2, 1]).dictionary_encode(),
        "span": pa.array([1, 2, 3], pa.duration("s")),
        "text": ["3", "-999", "NA"],
        "y": [0, 0, 0],
    }
    pq.write_table(pa.table(types), tmp_path / "t.parquet")
    request = TableRequest(missing=WORDS, missing_as_numbers=True)
    X, _ = cells(opened(str(tmp_path / "t.parquet"), label="y", request=request))
    assert [row[:4] for row in X] == [[1, None, None, 1], [0, None, 2, 2], [None, 2.5, None, 3]]


def test_words_for_true_are_no_numbers_and_digits_are_whatever_they_are_written_like(tmp_path: Path) -> None:
    """A CSV file in which stand words for what the training data have as booleans."""
    columns = [ColumnPlan("flag", NUMBER), ColumnPlan("whole", NUMBER)]
    (tmp_path / "t.csv").write_text("flag,whole\ntrue,2\nfalse,-999.00\n1,3\n1.0,-9.99e2\n")
    request = TableRequest(missing=WORDS, missing_as_numbers=True)
    source = opened(str(tmp_path / "t.csv"), request=request, columns=columns, require_label=False)
    assert cells(source)[0] == [[1, 2], [0, None], [None, 3], [None, None]]


def test_labels_of_text_stand_for_nothing_however_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,2.5\n2,-999.0\n")
    request = TableRequest(missing=WORDS, missing_as_numbers=True)
    with pytest.raises(InputError, match="line 3, column 'y': found an empty cell or a word of --missing, expected a"):
        cells(opened(str(tmp_path / "t.csv"), label="y", request=request))
    _, y = cells(opened(str(tmp_path / "t.csv"), label="y", request=replace(request, unlabelled=True)))
    assert y[0] == 2.5
    assert np.isnan(y[1])


def test_a_number_that_stands_for_nothing_may_be_infinite(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, np.inf], "y": [0, 1]}), tmp_path / "t.parquet")
    request = TableRequest(missing=("inf",), missing_as_numbers=True)
    assert cells(opened(str(tmp_path / "t.parquet"), label="y", request=request))[0] == [[1.0], [None]]
    with pytest.raises(InputError, match="found inf, expected a finite number"):
        cells(opened(str(tmp_path / "t.parquet"), label="y", request=replace(request, missing=("-1",))))


def test_numbers_among_words() -> None:
    assert numbers_among(("NA", "-999", "nan", "", "1e3", "0x1")) == ("-999", "1e3")
    assert numbers_of(("-999", "NA")) == (-999.0,)
    assert numbers_of(("0.1", "1e300", "-inf")) == (-np.inf, 0.1, float(np.float32(0.1)), 1e300)
