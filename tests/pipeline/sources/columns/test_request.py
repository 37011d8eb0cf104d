"""What is asked of a table, as a record of a run."""

from __future__ import annotations

from pipeline.sources.columns.request import TableRequest


def test_a_request_comes_back_from_its_record() -> None:
    request = TableRequest(drop=("a",), missing=("x",), split_column="group", above=1.5)
    record = {"drop": ["a"], "missing": ["x"], "above": 1.5, "kept": "group"}  # as older runs have it
    assert request.as_json() == record
    assert list(request.as_json()) == list(record)
    assert TableRequest.from_json(record) == request
    assert TableRequest().as_json() == {}


def test_the_empty_cell_is_always_missing() -> None:
    assert TableRequest(missing=("x",)).missing_cells == {"", "x"}
