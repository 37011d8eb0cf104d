"""Records of CSV text end where the reader of cells ends them, wherever the text is cut."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.sources.files.records import NEWLINE, PLAIN, STATES, Quotes, read_record, record_ends
from pipeline.sources.formats.csv_text import records
from tests.naive.readers import csv_record_ends

texts = st.lists(st.sampled_from(['"', '""', "a", ",", ";", "\n", "\r\n"])).map(lambda parts: "".join(parts).encode())


def buffered(text: bytes) -> io.BufferedReader:
    stream: io.BufferedReader = io.BufferedReader(io.BytesIO(text))
    return stream


@given(delimiter=st.sampled_from(",;"), text=texts)
def test_line_ends_outside_of_quoted_cells_end_records(delimiter: str, text: bytes) -> None:
    def rows(text: bytes) -> list[list[str]]:
        return [row for _, row in records(text, "a.csv", delimiter, 1)]

    ends = record_ends(text, Quotes(delimiter)).tolist()
    assert ends == csv_record_ends(text, delimiter)
    found = [rows(text[start:stop]) for start, stop in pairwise([0, *ends, len(text)])]
    assert all(len(rows_of_piece) <= 1 for rows_of_piece in found)
    assert [row for rows_of_piece in found for row in rows_of_piece] == rows(text)


@given(text=texts, cuts=st.lists(st.integers(0, 60)))
@example(text=b'"a""\nb",c\n"', cuts=[3, 4])
def test_states_lead_from_piece_to_piece(text: bytes, cuts: list[int]) -> None:
    """A piece is followed from each of three states, of which the right one is known when all in front of it is."""
    quotes, state, before = Quotes(",;"), PLAIN, NEWLINE
    ends: list[int] = []
    for start, stop in pairwise([0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]):
        piece = text[start:stop]
        ends += (record_ends(piece, quotes, before, state) + start).tolist()
        behind = quotes.after_each(np.frombuffer(piece, dtype=np.uint8), before, STATES)
        state = behind[state]
        before = piece[-1] if piece else before
    assert ends == record_ends(text, quotes).tolist() == csv_record_ends(text, ",;")
    assert state == quotes.after(text)


@given(text=texts, size=st.integers(0, 40))
def test_a_record_is_read_to_its_end(text: bytes, size: int) -> None:
    """It is the first that ends behind some bytes, which may stop within it, or within its quotes."""
    stream = buffered(text)
    chunk = stream.read(size)
    ends = [end for end in csv_record_ends(text) if end >= max(len(chunk), 1)]
    expected = ends[0] if ends else len(text)
    assert read_record(stream, chunk, quotes=Quotes(","), limit=1000) == text[:expected]


def test_without_quotes_every_line_is_a_record() -> None:
    assert record_ends(b'"a\nb"\n', None).tolist() == [3, 6]
    assert record_ends(b'"a\nb"\n', Quotes(",")).tolist() == [6]
    assert read_record(buffered(b'"a\nb"\n'), quotes=None, limit=10) == b'"a\n'
