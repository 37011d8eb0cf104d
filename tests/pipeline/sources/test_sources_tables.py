"""Files of tables: every format gives the same rows, columns go by name, and a fault is said in one line."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from ikmap.tables import NUMBER, ColumnPlan
from pipeline.errors import InputError
from pipeline.sources import CsvFormat, ReadRequest, Sizes, Source, open_source
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.named import named_files
from tests.support.opening import opened

CSV = """name;size;when;city;label
a;1.5;2001-01-01 00:01;Köln;yes
b;;2001-05-31;"a;b";no
c;-2e3;;?;yes
"""


def rows(source: Source) -> tuple[list[list[Any]], list[Any]]:
    """Cells as they were meant, and labels."""
    found: list[list[Any]] = []
    labels: list[Any] = []
    for fragment in source.fragments():
        for block in source.read(fragment):
            levels = block.levels or (None,) * block.X.shape[1]
            for row in np.asarray(block.X).tolist():
                found.append(
                    [
                        None if v != v else words[int(v)] if words is not None else v
                        for v, words in zip(row, levels, strict=True)
                    ]
                )
            labels += [] if block.y is None else block.y.tolist()
    return found, labels


FIRST = datetime.datetime(2001, 1, 1, 0, 1)
SECONDS = [978_307_260.0, 991_267_200.0, None]
EXPECTED: list[list[Any]] = [["a", 1.5, SECONDS[0], "Köln"], ["b", None, SECONDS[1], "a;b"], ["c", -2000.0, None, None]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_csv_delimiter_header_quotes_and_encoding_are_found(encoding: str, packed: bool, tmp_path: Path) -> None:
    content = CSV.encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    source = opened(str(path), label="label", request=TableRequest(drop=("name",)), sizes=Sizes(block=40))
    assert rows(source) == ([row[1:] for row in EXPECTED], ["yes", "no", "yes"])
    (said,) = source.said()
    assert "read as CSV, columns divided by a semicolon, names in line 1" in said
    assert ("cp1252" in said) == (encoding == "cp1252")


def typed() -> pa.Table:
    when = [FIRST, datetime.datetime(2001, 5, 31), None]
    return pa.table(
        {
            "name": ["a", "b", "c"],
            "size": pa.array([1.5, None, -2000]),
            "when": pa.array(when, pa.timestamp("ns")),
            "city": pa.array(["Köln", "a;b", None]).dictionary_encode(),
            "label": ["yes", "no", "yes"],
        }
    )


@pytest.mark.parametrize("kind", ["parquet", "arrow", "zstd", "brotli"])
def test_typed_files_give_the_same(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("t.arrow" if kind == "arrow" else "t.parquet")
    if kind == "arrow":
        with pa.ipc.new_file(path, typed().schema) as writer:
            writer.write_table(typed(), max_chunksize=2)
    else:
        pq.write_table(typed(), path, row_group_size=1, compression="snappy" if kind == "parquet" else kind)
    source = opened(str(path), label="label", sizes=Sizes(fragment=1, block=64))
    assert len(source.fragments()) > 1
    assert rows(source) == (EXPECTED, ["yes", "no", "yes"])
    for fragment in source.fragments():  # blocks that are skipped are those that would have come first
        blocks = list(source.read(fragment))
        after = [block.X.tobytes() for block in source.read(fragment, skip=1)]
        assert after == [block.X.tobytes() for block in blocks[1:]]


def of_pandas(kind: str, path: Path, index: Any) -> str:
    """Write a table as pandas does: its index is a column, of which the metadata speak."""
    columns = {"__index_level_0__": [7, 9], "a": [1.0, 2.0], "y": [0, 1]}
    metadata = index if isinstance(index, bytes) else json.dumps({"index_columns": index}).encode()
    rows_of_pandas = pa.table(columns).replace_schema_metadata({b"pandas": metadata})
    if kind == "parquet":
        pq.write_table(rows_of_pandas, path / "t.parquet")
        return str(path / "t.parquet")
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(path / "t.arrow", rows_of_pandas.schema) as writer:
        writer.write_table(rows_of_pandas)
    return str(path / "t.arrow")


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_an_index_without_a_name_is_no_column(kind: str, tmp_path: Path) -> None:
    url = of_pandas(kind, tmp_path, ["__index_level_0__"])
    source, name = opened(url), "Parquet" if kind == "parquet" else "Arrow"
    assert source.column_names == ("a",)
    assert rows(source) == ([[1.0], [2.0]], [0.0, 1.0])
    assert source.said() == [f"{url}: read as {name} without the index that pandas wrote (__index_level_0__)"]


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_an_index_that_is_asked_for_by_name_is_a_column(kind: str, tmp_path: Path) -> None:
    """Runs of earlier versions have learned from the index or left it out by an option, and go on to do so."""
    name = "__index_level_0__"
    url = of_pandas(kind, tmp_path, [name])
    source = opened(url, columns=[ColumnPlan(name, "number"), ColumnPlan("a", "number")])
    assert rows(source) == ([[7.0, 1.0], [9.0, 2.0]], [0.0, 1.0])
    assert source.said() == []
    assert rows(opened(url, request=TableRequest(drop=(name,)))) == ([[1.0], [2.0]], [0.0, 1.0])
    assert opened(url, request=TableRequest(id=name)).id_column == name
    assert rows(opened(url, label=name)) == ([[1.0, 0.0], [2.0, 1.0]], [7.0, 9.0])


@pytest.mark.parametrize(
    "index", [[], [{"kind": "range"}], ["a"], "__index_level_0__", b"{", b"\xff", b"[" * 9999, b""]
)
def test_other_columns_of_pandas_are_columns(index: Any, tmp_path: Path) -> None:
    source = opened(of_pandas("parquet", tmp_path, index))
    assert source.column_names == ("__index_level_0__", "a")
    assert rows(source)[0] == [[7.0, 1.0], [9.0, 2.0]]


def test_types_of_numbers_and_times(tmp_path: Path) -> None:
    pq.write_table(
        pa.table(
            {
                "b": [True, False, None],
                "d": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3")]),
                "i": pa.array([1, None, 3], pa.int8()),
                "date": pa.array([datetime.date(1970, 1, 2), None, None]),
                "time": pa.array([datetime.time(0, 1), None, None]),
                "zoned": pa.array(
                    [datetime.datetime(1970, 1, 1, 12, tzinfo=datetime.UTC)] * 3, pa.timestamp("s", "UTC")
                ),
                "nan": [float("nan"), 1.0, 2.0],
                "y": [True, False, True],
            }
        ),
        tmp_path / "t.parquet",
    )
    source = opened(str(tmp_path / "t.parquet"), label="y")
    found, labels = rows(source)
    assert found[0] == [1.0, 1.25, 1.0, 86_400.0, 60.0, 43_200.0, None]
    assert found[1] == [0.0, None, None, None, None, 43_200.0, 1.0]
    assert labels == ["true", "false", "true"]


def test_folders_globs_and_lists(tmp_path: Path) -> None:
    for year, name in ((2001, "a"), (2002, "b")):
        folder = tmp_path / "all" / f"year={year}"
        folder.mkdir(parents=True)
        table = typed().select(["label", "size"] if year == 2001 else ["size", "label"])
        pq.write_table(table, folder / f"{name}.parquet")
    (tmp_path / "all" / "_SUCCESS").touch()
    (tmp_path / "all" / ".hidden").touch()
    whole = opened(str(tmp_path / "all"), label="label")
    assert whole.column_names == ("size", "year")
    found, _ = rows(whole)
    assert [row[1] for row in found] == [2001.0] * 3 + [2002.0] * 3
    assert [row[0] for row in found] == [1.5, None, -2000.0] * 2
    pattern = str(tmp_path / "all" / "*" / "*.parquet")
    listed = ",".join(str(tmp_path / "all" / f"year={y}" / f"{n}.parquet") for y, n in ((2001, "a"), (2002, "b")))
    assert [file.url for file in named_files(pattern)] == listed.split(",")
    assert rows(opened(pattern, label="label"))[0] == found
    assert [row[:1] for row in rows(opened(listed, label="label"))[0]] == [row[:1] for row in found]
    identity = whole.identity()
    pq.write_table(typed().select(["size", "label"]).slice(1), tmp_path / "all" / "year=2002" / "b.parquet")
    assert opened(str(tmp_path / "all"), label="label").identity() != identity


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    root = tmp_path / "all"
    for folder in (root / "year=2001", root / ".versions" / "3", tmp_path / "elsewhere" / "inner"):
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text("a,y\n1,0\n2,1\n")
    (root / "latest").symlink_to("year=2001")
    (root / "year=2001" / "up").symlink_to("..")
    (root / "year=2002").symlink_to(tmp_path / "elsewhere")
    (root / "year=2003").symlink_to(Path(".versions") / "3")
    (root / "nowhere").symlink_to("nothing")
    expected = [f"{root}/year=2001/a.csv", f"{root}/year=2002/inner/a.csv", f"{root}/year=2003/a.csv"]
    files = named_files(str(root))
    assert [file.url for file in files] == expected
    assert [file.partition for file in files] == [(("year", str(year)),) for year in (2001, 2002, 2003)]
    assert opened(str(root)).column_names == ("a", "year")
    for pattern in ("**/*.csv", "**", "y*/**/a.csv", "**/**/a.csv"):
        assert [file.url for file in named_files(f"{root}/{pattern}")] == expected
    assert [file.url for file in named_files(f"{root}/*/*.csv")] == [expected[0], expected[2]]
    assert [file.url for file in named_files(f"{root}/l*/*.csv")] == [f"{root}/latest/a.csv"]
    (root / "also").symlink_to(root / "year=2001" / "a.csv")  # links to files are files
    assert len(named_files(f"{root}/*")) == 1


@pytest.mark.parametrize("pattern", ["*/*.csv", "./*/*.csv", "y*/a.csv", "../[x]/*/a.csv", "**/a.csv", "file://"])
def test_columns_of_folders_however_a_glob_is_written(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "[x]" / "year=2001").mkdir(parents=True)
    (tmp_path / "[x]" / "year=2001" / "a.csv").write_text("a,y\n1,0\n2,1\n")
    monkeypatch.chdir(tmp_path / "[x]")
    pattern = f"file://{tmp_path}/*/*/*.csv" if pattern == "file://" else pattern.replace("[x]", "*")
    (file,) = named_files(pattern)
    assert file.partition == (("year", "2001"),)
    assert Path(file.url).samefile(tmp_path / "[x]" / "year=2001" / "a.csv")
    assert file.url == "year=2001/a.csv" or pattern.startswith(("..", "file"))


def refused(path: Path | str, **more: Any) -> str:
    with pytest.raises(InputError) as error:
        rows(opened(str(path), **{"label": "label", **more}))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.slow
def test_what_is_wrong_is_said_with_file_row_and_column(tmp_path: Path) -> None:
    text = tmp_path / "t.csv"
    text.write_text("a,b,label\n1,2,x\n1,2\n")
    assert refused(text) == f"{text}: line 3: found 2 cells, expected 3"
    text.write_text("a,b,label\n" + "1,2,x\n" * 70_000 + "1,oops,y\n")
    assert refused(text) == (
        f"{text}: line 70002, column 'b': found 'oops', expected a number; if its cells are words, train with "
        "--category b; if this one stands for nothing, train with --missing '?,N/A,NA,NULL,NaN,nan,null,oops'"
    )
    text.write_text("a,b,label\n1,inf,x\n")
    assert "line 2, column 'b': found inf, expected a finite number" in refused(text)
    text.write_text("a,b,label\n1,2,x\n1,2,\n")
    assert refused(text) == f"{text}: line 3, column 'label': found an empty cell, expected a label"
    (tmp_path / "more").mkdir()
    pq.write_table(typed(), tmp_path / "more" / "a.parquet")
    pq.write_table(typed().drop_columns(["size"]), tmp_path / "more" / "b.parquet")
    assert f"{tmp_path}/more/b.parquet: found no column 'size', expected it as in {tmp_path}/more/a.parquet" in refused(
        tmp_path / "more"
    )
    (tmp_path / "more" / "c.csv").write_text(CSV)
    assert "c.csv: found a file of format csv, expected parquet as" in refused(tmp_path / "more")
    pq.write_table(pa.table({"l": [[1]], "label": ["x"]}), tmp_path / "l.parquet")
    assert "column 'l': found values of type list<element: int64>, expected numbers, words, dates or times" in refused(
        tmp_path / "l.parquet"
    )
    assert "found no file of such a name" in refused(tmp_path / "*.nothing")
    (tmp_path / "empty").mkdir()
    assert "found no data file in this folder" in refused(tmp_path / "empty")
    only = typed().select(["name", "label"])
    pq.write_table(only, tmp_path / "n.parquet")
    assert "found no column 'nme' (--id), expected one of name, label" in refused(
        tmp_path / "n.parquet", request=TableRequest(id="nme")
    )
    assert "(the label): found words, expected numbers for --above 3" in refused(
        tmp_path / "n.parquet", request=TableRequest(above=3)
    )
    (tmp_path / "bad.arrow").write_bytes(b"ARROW1\0\0" + b"x" * 50)
    assert "bad.arrow: not an Arrow file, or a truncated one" in refused(tmp_path / "bad.arrow")


def test_a_file_may_lack_columns_that_are_left_out(tmp_path: Path) -> None:
    """But not the column that rows are split by, whether it is a feature or not."""
    pq.write_table(typed(), tmp_path / "a.parquet")
    pq.write_table(typed().drop_columns(["size"]), tmp_path / "b.parquet")
    plan = {"size": ColumnPlan("size", NUMBER, "drop")}
    found, _ = rows(opened(str(tmp_path), label="label", request=TableRequest(plan=plan)))
    assert found == [*EXPECTED, *([name, None, *others] for name, _, *others in EXPECTED)]
    for request in (TableRequest(plan=plan, split_column="size"), TableRequest(drop=("size",), split_column="size")):
        assert "b.parquet: found no column 'size', expected it as in" in refused(tmp_path, request=request)


def test_labels_by_a_rule(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3], "delay": [14, 15, 16]}), tmp_path / "t.parquet")
    source = opened(str(tmp_path / "t.parquet"), label="delay", request=TableRequest(above=15))
    assert rows(source)[1] == [0.0, 0.0, 1.0]
    assert TableRequest.from_json(source.request.as_json()) == source.request


def test_a_label_that_nobody_named_is_none_where_it_is_left_out_or_not_needed(tmp_path: Path) -> None:
    (tmp_path / "bare.csv").write_text("1.5,2\n2.5,3\n3.5,4\n")
    bare = str(tmp_path / "bare.csv")
    assert opened(bare).plan.label == "1"
    assert opened(bare, require_label=False).plan.label is None
    assert len(opened(bare, require_label=False).column_plans) == 2
    (tmp_path / "named.csv").write_text("a,label,b\n1,2,3\n2,3,4\n")
    named, dropped = str(tmp_path / "named.csv"), TableRequest(drop=("label",))
    source = opened(named, request=dropped, require_label=False)
    assert (source.plan.label, [column.name for column in source.column_plans]) == (None, ["a", "b"])
    with pytest.raises(InputError, match="'label' is the label, and is to be left out"):
        opened(named, label="label", request=dropped)


def test_wide_tables_have_columns_beside_their_numbers(tmp_path: Path) -> None:
    names = [f"c{j}" for j in range(1100)]
    lines = [",".join([f"{j * k % 7}" for j in range(1100)]) + f", r{k},{k % 2}" for k in range(6)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join([*names, "id", "y"]), *lines]) + "\n")
    source = opened(str(path), label="y", request=TableRequest(split_column="c3", id="id"))
    assert source.plan.columns == 1100
    (block,) = [block for fragment in source.fragments() for block in source.read(fragment)]
    assert block.split_values is not None
    assert block.split_values[0].tolist() == [3 * k % 7 for k in range(6)]
    assert block.ids is not None
    assert block.ids.to_pylist() == [f" r{k}" for k in range(6)]


@pytest.mark.parametrize("block", [8, 1 << 20])
def test_ids_are_as_they_stand_however_a_file_is_cut(block: int, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,a,y\n x1,1,0\n x2, ?,1\n")
    source = opened(str(tmp_path / "t.csv"), request=TableRequest(id="id"), sizes=Sizes(block, block))
    blocks = [rows for fragment in source.fragments() for rows in source.read(fragment) if rows.X.shape[0]]
    assert [name for rows in blocks if rows.ids is not None for name in rows.ids.to_pylist()] == [" x1", " x2"]


def test_a_column_of_folder_and_file_is_that_of_the_file(tmp_path: Path) -> None:
    for g in (0, 1):
        (tmp_path / f"g={g}").mkdir()
        (tmp_path / f"g={g}" / "a.csv").write_text(f"a,g,y\n1,7{g},1\n2,8{g},0\n")
    source = opened(str(tmp_path))
    assert source.column_names == ("a", "g")
    assert rows(source)[0] == [[1.0, 70.0], [2.0, 80.0], [1.0, 71.0], [2.0, 81.0]]


def test_files_without_names_have_the_same_width(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2,0\n3,4,1\n")
    (tmp_path / "b.csv").write_text("1,2,9,0\n3,4,9,1\n")
    with pytest.raises(InputError, match=r"b\.csv: found 4 columns without names, expected 3 as in .*a\.csv"):
        opened(str(tmp_path), label=-1)


def test_large_numbers_are_different_words(tmp_path: Path) -> None:
    pq.write_table(pa.table({"c": [1e19, 2e19], "y": [0, 1]}), tmp_path / "t.parquet")
    found, _ = rows(opened(str(tmp_path / "t.parquet"), request=TableRequest(categories=("c",))))
    assert len({cell for (cell,) in found}) == 2


def test_further_files_have_the_label_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,class,label\n1,2,x,0\n3,4,y,1\n")
    (tmp_path / "b.csv").write_text("class,label,b,a\nz,1,6,5\n")
    request = ReadRequest(table=TableRequest(drop=("class",)))
    first = opened(str(tmp_path / "a.csv"), request=request.table)
    later = open_source(str(tmp_path / "b.csv"), request=request.like(first.plan))
    assert rows(later) == ([[5.0, 6.0]], [1.0])
    (tmp_path / "c.csv").write_text("7,8,9,1\n")  # no header: which column is which?
    with pytest.raises(InputError, match="no label column 'label'; the file has no header"):
        open_source(str(tmp_path / "c.csv"), request=request.like(first.plan))


def test_a_label_by_its_place_has_its_name_in_further_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,price\n1,2,3.5\n3,4,4.5\n")
    (tmp_path / "b.csv").write_text("a,b,price,when\n5,6,7.5,2001\n")
    (tmp_path / "c.csv").write_text("5,6,7.5\n")
    request = ReadRequest(label="-1")
    first = open_source(str(tmp_path / "a.csv"), request=request)
    for name in ("b.csv", "c.csv"):
        later = open_source(str(tmp_path / name), request=request.like(first.plan))
        assert rows(later) == ([[5.0, 6.0]], [7.5])


def test_a_name_of_the_label_that_is_a_number_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,1\n1,2,3.5\n3,4,4.5\n")
    (tmp_path / "b.csv").write_text("a,b,when\n5,6,7.5\n")
    request = ReadRequest(label="-1", csv=CsvFormat(header=True))
    first = open_source(str(tmp_path / "a.csv"), request=request)
    with pytest.raises(InputError, match="no label column '1'"):
        open_source(str(tmp_path / "b.csv"), request=request.like(first.plan))
