"""What is asked of a table, as a record of a run."""

from __future__ import annotations

import shlex

from ikmap.methods.kinds import Names
from pipeline.sources.columns.request import TableRequest, as_typed


def test_a_request_comes_back_from_its_record() -> None:
    request = TableRequest(drop=("a",), missing=("x",), split_column="group", above=1.5)
    record = {"drop": ["a"], "missing": ["x"], "above": 1.5, "kept": "group"}  # as older runs have it
    assert request.as_json() == record
    assert list(request.as_json()) == list(record)
    assert TableRequest.from_json(record) == request
    assert TableRequest().as_json() == {}
    numbers = TableRequest(missing=("-9",), missing_as_numbers=True)
    assert TableRequest.from_json(numbers.as_json()) == numbers
    assert numbers.missing_numbers == (-9.0,)
    assert TableRequest.from_json({"missing": ["-9"]}).missing_numbers == ()  # of a run of an earlier version


def test_names_are_written_as_they_can_be_typed() -> None:
    assert as_typed("--drop", "a", "b") == "--drop a,b"
    assert as_typed("--drop", "-a", "unit price") == "'--drop=-a,unit price'"
    assert as_typed("--drop", "", " education") == """--drop '""," education"'"""
    names = ("Population, total", '5" pipe', "it's", '"', "a")
    flag, text = shlex.split(as_typed("--drop", *names))
    assert (flag, Names().parse(text)) == ("--drop", names)


def test_the_empty_cell_is_always_missing() -> None:
    assert TableRequest(missing=("x",)).missing_cells == {"", "x"}
