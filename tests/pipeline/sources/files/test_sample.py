"""Samples: whole lines from all over a file, taken once for each state of it."""

from __future__ import annotations

from pathlib import Path

from ikmap.tables import CATEGORY, NUMBER
from pipeline.sources.columns.cells import are_times
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.files.file import find_file
from pipeline.sources.files.sample import STRETCH_BYTES, STRETCHES, stretches
from tests.support.calls import counted
from tests.support.opening import opened


def taken(path: Path, text: bytes, behind: int = 0) -> list[tuple[int, bytes]]:
    path.write_bytes(text)
    return list(stretches(find_file(str(path)), behind))


def test_stretches_are_whole_lines_and_reach_to_the_end(tmp_path: Path) -> None:
    text = b"".join(b"%09d\n" % k for k in range(100_000)) + b"the last"
    parts = taken(tmp_path / "t.csv", text, 1000)
    assert len(parts) == STRETCHES
    for start, part in parts:
        assert text[start:].startswith(part)
        assert text[start - 1 : start] == b"\n"
        assert part.endswith((b"\n", b"the last"))
        assert STRETCH_BYTES - 20 < len(part) <= STRETCH_BYTES
    parts = taken(tmp_path / "short.csv", text[-1000:], 500)
    assert {part[-8:] for _, part in parts} == {b"the last"}


def test_a_stretch_in_the_middle_of_a_line_is_none(tmp_path: Path) -> None:
    line = b"x" * (STRETCH_BYTES + 10)
    assert taken(tmp_path / "t.csv", line) == []
    assert taken(tmp_path / "u.csv", b"a\n" + line, 2) == []
    assert taken(tmp_path / "v.csv", b"a\nb\n", 4) == []


def test_the_last_line_of_json_lines_tells_of_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = "".join(f'{{"a": {k % 7}, "pad": "{"x" * 40}", "label": {k % 2}}}\n' for k in range(18_000))
    path.write_text(rows + '{"a": 1, "late": 2, "label": 1}')
    assert [column.name for column in opened(str(path)).column_plans] == ["a", "pad", "late"]


def test_a_sample_is_taken_once_for_each_state_of_a_file(tmp_path: Path) -> None:
    path, request = tmp_path / "t.csv", TableRequest(split_column="group", drop=("group",))
    path.write_text("a,group,label\n" + "0.5,x,1\n" * 100)
    with counted(stretches) as openings:
        assert [column.kind for column in opened(str(path), request=request).column_plans] == [NUMBER]
        assert openings.number == 1
        path.write_text("a,group,label\n" + "abc,x,1\n" * 100)  # as many bytes
        assert [column.kind for column in opened(str(path), request=request).column_plans] == [CATEGORY]
    assert openings.number == 2


def test_dates_are_looked_for_where_there_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,label\n" + "".join(f"{k},{k}.5,w{k},1\n" for k in range(30)))
    with counted(are_times, note=lambda of: len(of["words"])) as columns:
        assert [column.kind for column in opened(str(path)).column_plans] == [NUMBER, NUMBER, CATEGORY]
    assert columns.notes == [30]
