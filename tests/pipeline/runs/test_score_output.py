"""The file that scoring writes: parts become one table, in row groups of bounded bytes, with ids as they came."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from datetime import time as time_of_day
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.runs import score_output
from pipeline.runs.score_output import Output, _in_row_groups, parquet_writer, rows_of_group, sha256_of
from pipeline.sources.files.remote import filesystem


def joined(file: Path, parts: Sequence[pa.Table], schema: pa.Schema) -> Path:
    """Write parts as tasks do, and join them; return the file."""
    with Output(str(file)) as output:
        written = []
        for k, part in enumerate(parts):
            fs, path = filesystem(output.part(k))
            with fs.open(path, "wb") as stream, parquet_writer(stream, part.schema) as writer:
                writer.write_table(part)
            written.append((output.part(k), sha256_of(fs, path)))
        output.join(written, schema, lambda k: f"part {k} is damaged")
    return file


@pytest.mark.parametrize("sizes", [[5, 0, 9, 1], [1] * 15, [15], [7, 7, 1]])
def test_row_groups_do_not_depend_on_the_cut(sizes: list[int]) -> None:
    whole = pa.table({"a": list(range(15))})
    starts = np.cumsum([0, *sizes])
    cut = [whole.slice(start, size) for start, size in zip(starts, sizes, strict=False)]
    found = list(_in_row_groups(iter(cut), 7))
    assert [table["a"].to_pylist() for table in found] == [list(range(7)), list(range(7, 14)), [14]]


def test_wide_rows_have_row_groups_of_few_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = pa.schema([("row", pa.int64()), ("name", pa.string()), ("right", pa.bool_()), ("score", pa.float64())])
    assert rows_of_group(few) == score_output.ROW_GROUP
    classes = [(f"probability {k}", pa.float64()) for k in range(1000)]
    assert 8_000 < rows_of_group(pa.schema([*few, *classes])) < 8_400
    assert rows_of_group(pa.schema([*few, *classes[:50]])) == score_output.ROW_GROUP

    # A row has 33 bytes, 16 of them for its text.
    monkeypatch.setattr(score_output, "ROW_GROUP_BYTES", 330)
    table = pa.table({"name": ["a" * k for k in range(25)], "right": [True] * 25, "score": np.arange(25.0)})
    parts = [table.slice(start, stop - start) for start, stop in ((0, 3), (3, 20), (20, 25))]
    one, several = joined(tmp_path / "one.parquet", [table], few), joined(tmp_path / "several.parquet", parts, few)
    assert one.read_bytes() == several.read_bytes()
    found = pq.ParquetFile(one)
    assert [found.metadata.row_group(k).num_rows for k in range(found.num_row_groups)] == [10, 10, 5]
    assert found.read().drop_columns("row").equals(table)
    # One row is the least.
    monkeypatch.setattr(score_output, "ROW_GROUP_BYTES", 1)
    assert rows_of_group(few) == 1


NOON = datetime(2026, 1, 1, 12, 30, 15, tzinfo=UTC)


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("s"), NOON.replace(tzinfo=None)),
        (pa.timestamp("s", "UTC"), NOON),
        (pa.time32("s"), time_of_day(12, 30, 15)),
        (pa.date64(), NOON.date()),
        (pa.duration("s"), NOON - datetime(2025, 1, 1, tzinfo=UTC)),
    ],
    ids=str,
)
def test_ids_that_parquet_stores_in_another_type_are_joined(
    kind: pa.DataType, value: object, name: str, tmp_path: Path
) -> None:
    table = pa.table({"when": pa.array([value, None], kind), "score": [0.5, 1.5]})
    schema = pa.schema([("row", pa.int64()), *table.schema])
    file = joined(tmp_path / name, [table], schema)
    if name.endswith(".parquet"):
        assert pq.read_table(file).to_pydict() == {"row": [0, 1], "when": [value, None], "score": [0.5, 1.5]}
    else:
        first, second, third = file.read_text().splitlines()
        assert first == '"row","when","score"'
        assert (second[:2], second[-4:], third) == ("0,", ",0.5", "1,,1.5")
