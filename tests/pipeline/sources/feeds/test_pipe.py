"""Rows on a pipe that stays open: each is given as soon as it is there, whatever quotes stand in its cells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import pytest

from pipeline.sources import CsvFormat, ReadRequest
from pipeline.sources.feeds.pipe import PipeFeed
from tests.support.narrow import present


@pytest.fixture(autouse=True)
def _short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.sources.feeds.pipe.TICK_SECONDS", 0.005)


@contextmanager
def arriving(text: str, delimiter: str | None = None) -> Iterator[PipeFeed]:
    """Yield a feed of text that has come through a pipe into which more may be written."""
    reading, writing = os.pipe()
    try:
        os.write(writing, text.encode())
        yield PipeFeed("csv", ReadRequest(label="y", csv=CsvFormat(delimiter=delimiter)), 2, reading)
    finally:
        os.close(reading)
        os.close(writing)


def labels_there(feed: PipeFeed) -> list[str]:
    """Return the labels of the rows that are given before the pipe is closed."""
    arrivals = [item for item in islice(feed.arrivals({}), 9) if item is not None]
    return [label for item in arrivals for label in present(item.y)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
@pytest.mark.parametrize(
    "labels",
    [
        ['27"', "lamp", "chair"],
        ["lamp", "chair", '27"', "sofa"],
        ["lamp", "chair", '27"', '27"', 'behind-another?"delimiter', "sofa"],
    ],
)
def test_a_quote_within_a_cell_holds_back_no_row(labels: list[str], delimiter: str) -> None:
    labels = [label.replace("?", "," if delimiter == ";" else ";") for label in labels]
    lines = [f"y{delimiter}a", *(f"{label}{delimiter}{row}" for row, label in enumerate(labels)), ""]
    for given in (delimiter,) if delimiter == " " else (delimiter, None):
        with arriving("\n".join(lines), given) as feed:
            assert labels_there(feed) == labels


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_quoted_cell_ends_with_its_quotes(mark: str) -> None:
    """A row with line ends in a cell is given as one, and not before all of it is there."""
    text = mark + '"y",a\n"one\nor ""two""",1\n3",2\n"four,\n""",3\n"five\n'
    with arriving(text) as feed:
        assert labels_there(feed) == ['one\nor "two"', '3"', 'four,\n"']
