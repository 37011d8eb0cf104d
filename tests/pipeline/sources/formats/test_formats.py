"""One small table in every format gives the same rows; and what each format refuses, in one line."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from flows.runs.look_first import refuse_missing
from ikmap.tables import CATEGORY, NUMBER, TIME, ColumnPlan
from pipeline.errors import InputError
from pipeline.sources import Sizes, Source
from pipeline.sources.columns.plan import WIDE
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.formats import OURS, sqlite
from pipeline.sources.named import data_files
from tests.pipeline.sources.test_sources_tables import EXPECTED, rows, typed
from tests.support.opening import opened

NAMES = ["size", "whole", "when", "day", "city", "open", "label"]
KINDS = [NUMBER, NUMBER, TIME, TIME, CATEGORY, NUMBER]
WHEN = datetime.datetime(2001, 1, 1, 0, 1)
DAY = datetime.date(2001, 5, 31)
CELLS: list[list[Any]] = [
    [1.5, 3, WHEN, DAY, "Köln", True, "yes"],
    [None, -4, None, DAY, "a;b", False, "no"],
    [-2000.0, None, WHEN, None, None, None, "yes"],
    [0.25, 2**52, WHEN, DAY, "it's", True, "no"],
]
WHEN_SECONDS, DAY_SECONDS = 978_307_260.0, 991_267_200.0
MEANT = [
    [1.5, 3.0, WHEN_SECONDS, DAY_SECONDS, "Köln", 1.0],
    [None, -4.0, None, DAY_SECONDS, "a;b", 0.0],
    [-2000.0, None, WHEN_SECONDS, None, None, None],
    [0.25, 2.0**52, WHEN_SECONDS, DAY_SECONDS, "it's", 1.0],
]
LABELS = ["yes", "no", "yes", "no"]


def table() -> pa.Table:
    columns: list[Any] = [list(column) for column in zip(*CELLS, strict=True)]
    types = [pa.float64(), pa.int64(), pa.timestamp("us"), pa.date32(), pa.string(), pa.bool_(), pa.string()]
    return pa.table([pa.array(*pair) for pair in zip(columns, types, strict=True)], names=NAMES)


def written(write: Callable[..., Any], *options: Any) -> bytes:
    out = io.BytesIO()
    write(table(), out, *options)
    return out.getvalue()


def ipc(make: Callable[..., Any]) -> bytes:
    out = io.BytesIO()
    with make(out, table().schema) as writer:
        writer.write_table(table(), max_chunksize=2)
    return out.getvalue()


def word(cell: Any, true: str = "true", false: str = "false") -> str | None:
    return None if cell is None else (true if cell else false) if isinstance(cell, bool) else str(cell)


def text(delimiter: str) -> bytes:
    lines = [delimiter.join(word(cell) or "" for cell in row) for row in CELLS]
    return "\n".join([delimiter.join(NAMES), *lines, ""]).encode()


def json_lines() -> bytes:
    """Missing cells are null, or are left out; there is a blank line, and no line end behind the last row."""
    records = [dict(zip(NAMES, row, strict=True)) for row in CELLS]
    records[2] = {name: cell for name, cell in records[2].items() if cell is not None}
    lines = [json.dumps(record, default=str, ensure_ascii=k % 2 == 0) for k, record in enumerate(records)]
    return "\n".join([lines[0], "", *lines[1:]]).encode()


def arff() -> bytes:
    types = ["real", "INTEGER", 'date "yyyy-MM-dd HH:mm:ss"', "DATE yyyy-MM-dd", "string", "numeric", "{yes, no}"]
    declared = [f"@attribute {name} {kind}" for name, kind in zip(NAMES, types, strict=True)]
    quoted = [[word(cell, "1", "0") for cell in row] for row in CELLS]
    lines = [
        ",".join(
            "?" if cell is None else '"it\'s"' if "'" in cell else f"'{cell}'" if " " in cell else cell for cell in row
        )
        for row in quoted
    ]
    return "\n".join(["% a comment", "@RELATION t", *declared, "@DATA", "% another", *lines, ""]).encode()


def database(of: list[list[Any]] | None = None, more: str = "") -> bytes:
    types = ["real", "integer", "datetime", "date", "text", "boolean", "varchar(3)"]
    with closing(sqlite3.connect(":memory:")) as connection:
        declared = ", ".join(f'"{name}" {kind}' for name, kind in zip(NAMES, types, strict=True))
        connection.execute(f"create table people ({declared})")
        cells = [[str(cell) if isinstance(cell, datetime.date) else cell for cell in row] for row in of or CELLS]
        connection.executemany("insert into people values (?, ?, ?, ?, ?, ?, ?)", cells)
        connection.executescript(more)
        connection.commit()
        return bytes(connection.serialize())


FILES: dict[str, Callable[[], bytes]] = {
    "t.csv": lambda: text(","),
    "t.csv.gz": lambda: gzip.compress(text(",")),
    "t.csv.zst": lambda: pa.compress(text(","), "zstd", asbytes=True),
    "t.tsv": lambda: text("\t"),
    "t.tsv.gz": lambda: gzip.compress(text("\t")),
    "t.txt": lambda: text("|").replace(b"a;b", b"a,b").replace(b"|", b";").replace(b"a,b", b'"a;b"'),
    "t.parquet": lambda: written(pq.write_table, 2),
    "t.arrow": lambda: ipc(pa.ipc.new_file),
    "t.feather": lambda: written(pa.feather.write_feather),
    "stream.arrow": lambda: ipc(pa.ipc.new_stream),
    "t.arrows": lambda: ipc(pa.ipc.new_stream),
    "t.orc": lambda: written(pa.orc.write_table),
    "t.jsonl": json_lines,
    "t.ndjson.gz": lambda: gzip.compress(json_lines()),
    "t.json.zst": lambda: pa.compress(json_lines(), "zstd", asbytes=True),
    "t.arff": arff,
    "t.arff.gz": lambda: gzip.compress(arff()),
    "t.sqlite": database,
    "t.db": database,
    "no-name-jsonl": json_lines,
    "no-name-orc": lambda: written(pa.orc.write_table),
    "no-name-sqlite": database,
    "no-name-stream": lambda: ipc(pa.ipc.new_stream),
}


def put(path: Path, content: bytes | str) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def refused(url: str, **more: Any) -> str:
    with pytest.raises(InputError) as error:
        rows(opened(url, **more))
    said = str(error.value)
    assert "\n" not in said
    assert said.startswith(url)
    return said.removeprefix(url).removeprefix(": ")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("small", [False, True])
def test_every_format_gives_the_same_rows(name: str, small: bool, tmp_path: Path) -> None:
    url = put(tmp_path / name, FILES[name]())
    sizes = Sizes(fragment=1, block=64) if small else None
    source = opened(url, label="label", sizes=sizes)
    if source.format == "csv":  # where true and false are words, unless the training data says that they are 1 and 0
        assert [plan.kind for plan in source.column_plans] == [*KINDS[:-1], CATEGORY]
        plans = [ColumnPlan(name, kind) for name, kind in zip(NAMES[:-1], KINDS, strict=True)]
        source = opened(url, label="label", sizes=sizes, columns=plans)
    assert [plan.kind for plan in source.column_plans] == KINDS
    assert rows(source) == (MEANT, LABELS)
    assert 1 <= source.least_rows() <= len(CELLS)
    assert rows(opened(url, label="label", columns=source.column_plans)) == (MEANT, LABELS)
    for fragment in source.fragments():
        blocks = list(source.read(fragment))
        skipped = [block.X.tobytes() for block in source.read(fragment, skip=1)]
        assert skipped == [block.X.tobytes() for block in blocks[1:]]


def test_every_table_of_ours_is_among_them() -> None:
    tables = {one.name for one in OURS if one.table}
    assert tables <= {next(one.name for one in OURS if one.has_name(name.partition(".gz")[0])) for name in FILES if
                      any(one.has_name(name) for one in OURS)}  # fmt: skip


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "stream.arrow", "t.orc", "t.jsonl", "t.sqlite", "t.csv"])
def test_booleans_are_labels_that_are_words(name: str, tmp_path: Path) -> None:
    url = put(tmp_path / name, FILES[name]())
    request = TableRequest(unlabelled=True)
    assert rows(opened(url, label="open", request=request))[1] == ["true", "false", "", "true"]


# JSON lines


def test_json_cells_of_another_type_further_down(tmp_path: Path) -> None:
    lines = f'{{"a": 1, "w": "{"x" * 1000}", "y": 0}}\n' * 2_000  # more than is looked at beforehand, in few rows
    path = tmp_path / "t.jsonl"
    sizes = Sizes(block=1 << 20)
    url = put(path, lines + '{"a": "2.5", "w": 7, "y": 1}\n{"a": true, "w": 1.50, "y": "1"}\n{"a": "NA", "w": false}\n')
    found, labels = rows(opened(url, label="y", sizes=sizes, request=TableRequest(unlabelled=True)))
    assert found[-3:] == [[2.5, "7"], [1.0, "1.50"], [None, "false"]]
    assert labels[-3:-1] == [1.0, 1.0]
    url = put(path, lines + '{"a": "much", "w": "x", "y": 1}\n')
    assert refused(url, label="y", sizes=sizes).startswith("line 2001, column 'a': found 'much', expected a number")
    url = put(path, lines + '{"a": {"b": 1}, "w": "x", "y": 1}\n')
    assert refused(url, label="y").startswith("line 2001, column 'a': found an object, expected a number")
    url = put(path, lines + '{"a": 1, "w": ["x"], "y": 1}\n')
    assert refused(url, label="y").startswith("line 2001, column 'w': found a list, expected a number, a word")
    url = put(path, lines + '{"a": 1, "w": "x", "y": "no"}\n')
    assert refused(url, label="y") == (
        "line 2001, column 'y': found 'no', expected a number as in the first rows (the label); if labels are words, "
        "train with --category y"
    )


def test_json_that_is_refused(tmp_path: Path) -> None:
    def said(content: str | bytes) -> str:
        return refused(put(tmp_path / "t.jsonl", content), label="y")

    assert said('[{"a": 1, "y": 2}]').startswith("line 1: found a list, expected an object in each line; make them")
    assert "jq -c" in said('[\n{"a": 1, "y": 2}\n]\n')
    assert "jq -c" in said('{\n  "a": 1,\n  "y": 2\n}\n')
    assert said('{"a": 1, "y": 2}\n{"a": 1, "a": 2}\n').startswith("line 2: not JSON: the key 'a' appears twice")
    assert said('{"a": 1, "y": 2}\n3\n') == "line 2: found a value, expected an object in each line"
    assert said('{"a": 1, "y": 2} {"a": 2}\n').startswith("line 1: not JSON: Extra data")
    assert said('{"a": [1], "y": 2}\n').startswith("column 'a': found values of type list<item: null>, expected numb")
    assert said('{"a": {"b": 2}, "y": 2}\n').startswith("column 'a': found values of type struct<>, expected numbers")
    assert said('{"a": 1e999, "y": 2}\n').endswith("column 'a': found inf, expected a finite number")
    assert said(b'{"a": "\xff", "y": 2}\n').startswith("line 1: ")
    assert said("[" * 100_000).startswith("line 1: found lists in lists")
    assert said("\n\n \n") == "found no rows, expected at least one"
    assert said('{"a": 1}\n').startswith("no label column")
    ok = '{"a": {"b": 2}, "c": 1, "y": 2}\n{"c": 2, "y": 3}\n'
    dropped = opened(put(tmp_path / "t.jsonl", ok), label="y", request=TableRequest(drop=("a",)))
    assert rows(dropped) == ([[1.0], [2.0]], [2.0, 3.0])


def test_text_with_digits_is_words_in_json_and_numbers_are_words_where_they_are_categories(tmp_path: Path) -> None:
    url = put(tmp_path / "t.jsonl", '\ufeff{"zip": "01234", "n": 7, "y": 1}\n{"zip": "99999", "n": 8, "y": 0}\n')
    assert rows(opened(url, label="y"))[0] == [["01234", 7.0], ["99999", 8.0]]
    found = rows(opened(url, label="y", request=TableRequest(categories=("n",))))[0]
    assert found == [["01234", "7"], ["99999", "8"]]
    source = opened(url, label="y", request=TableRequest(id="n"))
    (block,) = source.read(source.fragments()[0])
    assert block.ids is not None
    assert block.ids.to_pylist() == [7, 8]


def lines_of(source: Source) -> list[int]:
    return [
        block.line(row) for part in source.fragments() for block in source.read(part) for row in range(len(block.X))
    ]


@pytest.mark.parametrize("name", ["t.jsonl", "t.arff"])
def test_ranges_of_lines_give_the_same_rows_and_lines(name: str, tmp_path: Path) -> None:
    """Also where quotes stand alone in a line, which divide nothing here."""
    if name == "t.jsonl":
        body = [json.dumps({"a": k, "w": 'x"' if k % 3 else "y", "y": k % 2}) for k in range(500)]
        head = []
    else:
        body = [f"{k},{'x' if k % 3 else 'y'},{k % 2}" for k in range(500)]
        head = ["@relation r", "@attribute a numeric", "@attribute w string", "@attribute y {0,1}", "@data"]
    for k in range(0, 500, 7):
        body[k] += "\n" if name == "t.jsonl" else '\n% a comment with "one quote'
    url = put(tmp_path / name, "\n".join([*head, *body]))
    whole, cut = opened(url, label="y"), opened(url, label="y", sizes=Sizes(fragment=700, block=350))
    assert len(cut.fragments()) > 5
    assert rows(cut) == rows(whole)
    assert lines_of(cut) == lines_of(whole)
    assert lines_of(whole)[:3] == [len(head) + 1, len(head) + 3, len(head) + 4]


# ARFF

HEAD = "@relation r\n@attribute a numeric\n@attribute w {x,'y z'}\n@attribute class {0,1}\n@data\n"


def test_arff_that_is_refused(tmp_path: Path) -> None:
    def said(content: str | bytes) -> str:
        return refused(put(tmp_path / "t.arff", content))

    assert rows(opened(put(tmp_path / "t.arff", HEAD + "1,'y z',0\n?,x,1\n"))) == (
        [[1, "y z"], [None, "x"]],
        ["0", "1"],
    )
    assert said(HEAD + "1,x,0\n1,q,0\n") == (
        "line 7, column 'w': found 'q', expected one of the values that its @attribute line has"
    )
    assert said(HEAD + "1,x,0\nmuch,x,0\n").startswith("line 7, column 'a': found 'much', expected a number; if its ")
    assert said(HEAD + "1,x\n") == "line 6: found 2 cells, expected 3"
    assert said(HEAD + "{0 1, 1 x}\n").startswith("line 6: found a sparse row, expected a value for each attribute")
    assert said(HEAD + "1,'x,0\n").startswith('line 6: found "\'x", a quote that does not end where its cell does')
    assert said(HEAD) == "found no rows, expected at least one"
    assert said("@relation r\n@attribute a numeric\n").startswith("line 3: found no @data line")
    assert said("@relation r\n@attribute a relational\n@data\n").startswith("line 2: found an attribute of type 'rel")
    assert said("@relation r\nnonsense\n").startswith("line 2: found 'nonsense', expected @relation")
    assert said("@relation r\n@attribute abc\n@data\n").startswith("line 2: found '@attribute abc', expected @attribu")
    assert said("@relation r\n@attribute a\n@data\n").startswith("line 2: found '@attribute a', expected @attribute, a")
    assert said("@attribute a real\n@attribute a real\n@data\n1,2\n").startswith("column name 'a' appears twice")
    latin = put(tmp_path / "t.arff", (HEAD + "1,'y z',0\n").replace("y z", "é").encode("cp1252"))
    assert rows(opened(latin)) == ([[1.0, "é"]], ["0"])


# SQLite


def test_ranges_of_rows_with_gaps_in_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "GROUP_ROWS", 7)
    cells = [[float(k), k, None, None, "x", True, "yes"] for k in range(100)]
    url = put(
        tmp_path / "t.sqlite", database(cells, "delete from people where whole % 5 = 0 or whole between 20 and 60")
    )
    source = opened(url, label="label", sizes=Sizes(fragment=300, block=100))
    kept = [float(k) for k in range(100) if k % 5 and not 20 <= k <= 60]
    assert len(source.fragments()) > 3
    assert [row[0] for row in rows(source)[0]] == kept
    assert source.least_rows() == len(kept)
    assert lines_of(source) == list(range(1, len(kept) + 1))


def test_tables_without_row_numbers_views_and_names(tmp_path: Path) -> None:
    more = (
        "create table keyed (k text primary key, v real, y int) without rowid; insert into keyed values ('b', 2, 1);"
        "insert into keyed values ('a', 1, 0); create view half as select v, y from keyed where v > 1;"
        'create table "odd ""name" (rowid text, y int); insert into "odd ""name" values (\'z\', 1);'
    )
    url = put(tmp_path / "t.sqlite", database(more=more))
    said = refused(url, label="y")
    assert said == (
        f"found 3 tables, expected one of 'half', 'keyed', 'odd \"name', 'people'; name one behind a #: {url}#half"
    )
    assert rows(opened(f"{url}#keyed", label="y")) == ([["a", 1.0], ["b", 2.0]], [0.0, 1.0])
    assert rows(opened(f"{url}#half", label="y")) == ([[2.0]], [1.0])
    assert rows(opened(f'{url}#odd "name', label="y")) == ([["z"]], [1.0])
    assert rows(opened(f"{url}#people", label="label")) == (MEANT, LABELS)
    assert opened(f"{url}#people", label="label").said() == [f"{url}#people: read as SQLite, table 'people'"]
    assert refused(f"{url}#nobody").startswith("found no table 'nobody', expected one of 'half', ")
    csv = put(tmp_path / "t.csv", "a,y\n1,0\n")
    assert refused(f"{csv}#people") == "no such file"
    odd = put(tmp_path / "a#b.csv", "a,y\n1,0\n2,1\n")
    assert rows(opened(odd, label="y"))[1] == [0.0, 1.0]


@pytest.mark.slow
def test_sqlite_values_of_another_type(tmp_path: Path) -> None:
    def said(place: int, cell: Any) -> str:
        other = [list(row) for row in CELLS]
        other[2][place] = cell
        many = [list(CELLS[0]) for _ in range(12_000)]
        return refused(put(tmp_path / "t.sqlite", database([*many, *other])), label="label")

    assert said(0, "much").startswith("row 12003, column 'size': found 'much', expected a number; if its cells are wo")
    assert said(0, b"\0\1").startswith("row 12003, column 'size': found bytes (a blob), expected a number")
    assert said(4, b"\0\1").startswith("row 12003, column 'city': found bytes (a blob), expected a number, a word")
    blobs = put(tmp_path / "b.sqlite", database([[b"\0", *CELLS[0][1:]]]))
    assert refused(blobs, label="label").startswith("column 'size': found values of type binary, expected numbers, wor")


def test_sqlite_that_is_refused(tmp_path: Path) -> None:
    url = put(tmp_path / "t.sqlite", database())
    (tmp_path / "t.sqlite-wal").write_bytes(b"x")
    assert refused(url).startswith("found changes that are not in the file yet (t.sqlite-wal); close the program that")
    (tmp_path / "t.sqlite-wal").write_bytes(b"")
    assert rows(opened(url, label="label"))[1] == LABELS
    assert refused(put(tmp_path / "n.sqlite", b"no database")).startswith("not an SQLite file: it starts with b'no ")
    assert refused(put(tmp_path / "c.sqlite", database()[:5000])).startswith(
        "truncated: found 5,000 bytes, expected 8,192"
    )
    assert refused(put(tmp_path / "e.sqlite", database(more="delete from people"))) == (
        "found no rows in table 'people', expected at least one"
    )
    assert refused(put(tmp_path / "d.sqlite", database(more="drop table people"))) == (
        "found no tables, expected one of some"
    )
    view = put(tmp_path / "v.sqlite", database(more="create view v as select 1 as a, 2 as y; drop table people"))
    assert refused(view) == f"found no tables, expected one of 'v'; name one behind a #: {view}#v"
    assert rows(opened(f"{view}#v", label="y")) == ([[1.0]], [2.0])


def test_a_run_finds_the_file_of_a_table(tmp_path: Path) -> None:
    url = put(tmp_path / "t.sqlite", database())
    refuse_missing([f"{url}#people"])
    with pytest.raises(InputError, match=r"nothing\.sqlite#people: no such file"):
        refuse_missing([f"{tmp_path}/nothing.sqlite#people"])


@pytest.mark.parametrize("name", ["t.jsonl", "t.arff", "t.sqlite"])
def test_tables_of_very_many_numbers(name: str, tmp_path: Path) -> None:
    """They are planned by their count."""
    n = WIDE + 10
    names = [f"x{j}" for j in range(n)]
    cells = [[k + j / 4 for j in range(n)] for k in range(3)]
    if name == "t.jsonl":
        content = "".join(json.dumps({**dict(zip(names, row, strict=True)), "y": 1}) + "\n" for row in cells).encode()
    elif name == "t.arff":
        head = "".join(f"@attribute {name} numeric\n" for name in [*names, "y"])
        lines = "".join(",".join(map(str, row)) + ",1\n" for row in cells)
        content = f"@relation wide\n{head}@data\n{lines}".encode()
    else:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(f"create table wide ({', '.join(names)}, y)")
            marks = ",".join("?" * (n + 1))
            connection.executemany(f"insert into wide values ({marks})", [(*row, 1) for row in cells])
            connection.commit()
            content = bytes(connection.serialize())
    source = opened(put(tmp_path / name, content), label="y")
    assert source.plan.columns == n
    assert rows(source) == (cells, [1.0] * 3)


def write_sqlite(path: Path, columns: str, cells: list[tuple[Any, ...]]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"create table t ({columns})")
        connection.executemany(f"insert into t values ({','.join('?' * len(cells[0]))})", cells)
        connection.commit()


def test_numbers_in_columns_without_a_type_are_numbers_as_labels_too(tmp_path: Path) -> None:
    """As who copies a CSV file cell by cell has them."""
    cells = [(f"{k}", f" {k}.5", f"{k}.25") for k in range(5)]
    write_sqlite(tmp_path / "t.sqlite", "a, b, y", cells)
    source = opened(str(tmp_path / "t.sqlite"), label="y")
    assert not source.plan.text_labels
    assert rows(source) == ([[k, k + 0.5] for k in range(5)], [k + 0.25 for k in range(5)])
    write_sqlite(tmp_path / "m.sqlite", "a, b, y", [*cells, ("5", "6", "-999")])
    assert refused(str(tmp_path / "m.sqlite"), label="y", request=TableRequest(missing=("-999",))) == (
        "row 6, column 'y': found a missing value or a word of --missing, expected a label"
    )
    for name, columns, last in (("w", "a, b, y", "old"), ("d", "a, b, y text", "1")):  # words among them, or declared
        write_sqlite(tmp_path / f"{name}.sqlite", columns, [*cells, ("5", "6", last)])
        assert rows(opened(str(tmp_path / f"{name}.sqlite"), label="y"))[1] == [*(f"{k}.25" for k in range(5)), last]


# Rows of a block


@pytest.mark.parametrize("name", ["t.parquet", "groups.parquet", "t.arrow", "t.arrows", "t.orc", "t.sqlite"])
@pytest.mark.parametrize("length", [1, 2000])
def test_rows_of_long_texts_come_in_blocks_of_fewer(
    name: str, length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches may be so large that none is read only to look."""
    texts = [f"{k:02}" + "x" * length for k in range(60)]
    content = pa.table({"n": [float(k) for k in range(60)], "text": texts, "y": [k % 2 for k in range(60)]})
    path = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(content, path, row_group_size=7 if name.startswith("groups") else 60)
    elif name == "t.orc":
        pa.orc.write_table(content, path)
    elif name == "t.sqlite":
        write_sqlite(path, "n real, text text, y integer", [tuple(row.values()) for row in content.to_pylist()])
    else:
        make = pa.ipc.new_file if name == "t.arrow" else pa.ipc.new_stream
        with make(path, content.schema) as writer:
            writer.write_table(content, max_chunksize=7)

    def counts(*drop: str) -> list[int]:
        source = opened(str(path), label="y", request=TableRequest(drop=drop), sizes=Sizes(block=20_000))
        blocks = [list(source.read(fragment)) for fragment in source.fragments()]
        skipped = [list(source.read(fragment, skip=1)) for fragment in source.fragments()]
        assert [len(some) for some in skipped] == [len(some) - 1 for some in blocks]
        assert [row for some in blocks for block in some for row in block.X[:, 0].tolist()] == list(range(60))
        return [len(block.X) for some in blocks for block in some]

    assert (max(counts()) <= 12) == (length == 2000)
    assert counts("text") == [60]
    assert sum(counts()) == 60
    if length == 2000:
        monkeypatch.setattr("pipeline.sources.formats.typed.MOST_LOOKED_AT", 1)
        assert max(counts()) <= 12
        assert counts("text") == [60]


def test_blocks_of_numbers_and_of_words_that_come_again_are_as_large_as_ever(tmp_path: Path) -> None:
    content = pa.table({"n": [k / 7 for k in range(600)], "w": ["word" * 100] * 600, "y": [0, 1] * 300})
    for size in (1, 5, 600):
        pq.write_table(content, tmp_path / "t.parquet", row_group_size=size)
        source = opened(str(tmp_path / "t.parquet"), label="y", sizes=Sizes(block=24 * 100))
        drop = TableRequest(drop=("w",))
        numbers = opened(str(tmp_path / "t.parquet"), label="y", request=drop, sizes=Sizes(block=16 * 100))
        for of in (numbers, source) if size == 600 else (numbers,):
            assert [len(block.X) for block in of.read(of.fragments()[0])] == [120] * 5


# Hugging Face folders, and files of other programs


def test_a_folder_of_arrow_streams_beside_what_describes_them(tmp_path: Path) -> None:
    for k in range(2):
        put(tmp_path / f"data-{k:05}-of-00002.arrow", ipc(pa.ipc.new_stream))
    (tmp_path / "dataset_info.json").write_text("{}")
    (tmp_path / "state.json").write_text("{}")
    for name in ("cache-0123456789abcdef.arrow", "cache-01_00000_of_00002.arrow", "tmp0123", "tmp.arrow"):
        put(tmp_path / name, ipc(pa.ipc.new_stream))  # of map() and filter(): the same rows again
    assert data_files(["a/cache-1.arrow", "b/state.json", "b/data.arrow"]) == ["a/cache-1.arrow", "b/data.arrow"]
    assert rows(opened(str(tmp_path), label="label")) == (MEANT * 2, LABELS * 2)


def test_splits_are_not_one_table(tmp_path: Path) -> None:
    for split in ("train", "test"):
        folder = tmp_path / "saved" / split
        folder.mkdir(parents=True)
        put(folder / "data-00000-of-00001.arrow", ipc(pa.ipc.new_stream))
        (folder / "dataset_info.json").write_text("{}")
        (tmp_path / "hub" / "data").mkdir(parents=True, exist_ok=True)
        put(tmp_path / "hub" / "data" / f"{split}-00000-of-00001.parquet", FILES["t.parquet"]())
        (tmp_path / "plain" / split).mkdir(parents=True)
        put(tmp_path / "plain" / split / "a.jsonl", json_lines())
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    saved, hub, plain = (str(tmp_path / name) for name in ("saved", "hub", "plain"))
    assert refused(saved) == (
        f"found the splits test, train of a data set, expected rows of one; give {saved}/train and --test-input "
        f"{saved}/test"
    )
    assert refused(hub).endswith(f"give '{hub}/data/train-*' and --test-input '{hub}/data/test-*'")
    assert refused(plain).endswith(f"give {plain}/train and --test-input {plain}/test")
    for url in (f"{saved}/train", f"{hub}/data/train-*", f"{plain}/test"):
        assert rows(opened(url, label="label")) == (MEANT, LABELS)


def test_a_folder_of_any_table_format_leaves_other_files_alone(tmp_path: Path) -> None:
    for year in (2001, 2002):
        (tmp_path / f"year={year}").mkdir()
        put(tmp_path / f"year={year}" / "a.jsonl", json_lines())
    put(tmp_path / "README.md", "# rows")
    put(tmp_path / "weights.npy", b"\x93NUMPY")
    source = opened(str(tmp_path), label="label")
    assert [row[-1] for row in rows(source)[0]] == [2001.0] * 4 + [2002.0] * 4


def test_files_of_other_programs_are_refused_with_what_to_type(tmp_path: Path) -> None:
    said = refused(put(tmp_path / "t.duckdb", b"\0" * 100))
    assert said.startswith("found a .duckdb file by its name, expected CSV, Parquet, Arrow, ORC, JSON lines, ARFF, SQ")
    assert "duckdb FILE -c \"copy TABLE to 'TABLE.parquet'\"" in said
    assert "save it as CSV or Parquet" in refused(put(tmp_path / "t.xlsx", b"PK\x03\x04"))
    first = refused(put(tmp_path / "t.feather", b"FEA1" + b"\0" * 100))
    assert first.startswith("found Feather of version 1, which is read as a whole, expected version 2; write it so: ")
    dictionary = typed()
    with pa.ipc.new_stream(tmp_path / "coded.arrow", dictionary.schema) as writer:
        writer.write_table(dictionary, max_chunksize=2)
    assert rows(opened(str(tmp_path / "coded.arrow"), label="label")) == (EXPECTED, ["yes", "no", "yes"])


def test_json_ids_and_labels_are_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"id":18446744073709551615,"a":1,"y":0}\n{"id":18446744073709551614,"a":2.5,"y":1}\n')
    source = opened(str(path), label="y", request=TableRequest(id="id"))
    blocks = [block for fragment in source.fragments() for block in source.read(fragment)]
    ids = [name for block in blocks if block.ids is not None for name in block.ids.to_pylist()]
    assert ids == ["18446744073709551615", "18446744073709551614"]


def labels_of(source: Source) -> list[Any]:
    return [label for f in source.fragments() for block in source.read(f) if block.y is not None for label in block.y]


def test_json_labels_further_down_may_be_zero_and_one_for_false_and_true(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    one = f"1.{'0' * 300}"
    pair = f'{{"a":{one},"y":true}}\n{{"a":{one},"y":false}}\n'
    before, after = pair * 8_500, pair * 1_500  # at a place that is not looked at beforehand
    path.write_text(before + '{"a":2,"y":1}\n' + after)
    source = opened(str(path), label="y")
    labels = labels_of(source)
    assert set(labels) == {"true", "false"}
    path.write_text(before + '{"a":2,"y":7}\n' + after)
    source = opened(str(path), label="y")
    with pytest.raises(InputError, match=r"line 17001, column 'y': found 7, expected true or false"):
        labels_of(source)
