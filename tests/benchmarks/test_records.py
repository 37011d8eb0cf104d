"""Records of measured figures: what a page shows of them, and how they become and come from text."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.records import WRITTEN, Record, Table, load, of_markdown, rendered, save

TEXT = """### Title

What was measured.

| work | ours | ratio |
|---|---|---|
| a, psi 16 | 2.81 us/row (1.8..3.04) | **5.93** |
| b \\| c | 1.29e+03 MiB | - |

- A note with 1,234 rows.

Measured on: A processor, 2 cores, L1d 48K, 24 GiB; Linux; numpy 1; 2026-11-25.
"""


def record() -> Record:
    return of_markdown(TEXT, command="python -m benchmarks ogd", date="2026-11-25", commit="abc", origin=WRITTEN)


def test_a_table_is_read_and_shown_as_it_was(tmp_path: Path) -> None:
    found = record()
    assert found.about == "What was measured."
    assert found.tables == [
        Table(
            ["work", "ours", "ratio"],
            [["a, psi 16", "2.81 us/row (1.8..3.04)", "**5.93**"], ["b | c", "1.29e+03 MiB", "-"]],
        )
    ]
    assert found.notes == ["A note with 1,234 rows."]
    assert found.shown().splitlines()[:4] == TEXT.splitlines()[4:8]
    assert found.source() == "*`python -m benchmarks ogd`, 2026-11-25, commit abc, A processor, 2 cores, 24 GiB*"
    assert {2.81, 3.04, 5.93, 1290.0, 1234.0} <= set(found.numbers())
    save("ogd", found, tmp_path)
    assert load("ogd", tmp_path) == found


def test_a_page_shows_the_columns_and_rows_that_it_asks_for(tmp_path: Path) -> None:
    save("ogd", record(), tmp_path)
    text = "a\n\n<!-- begin ogd; columns: work | ratio; rows: psi \\d+ -->\nold\n<!-- end ogd -->\nb\n"
    once = rendered(text, tmp_path)
    assert "| work | ratio |\n|---|---|\n| a, psi 16 | **5.93** |\n\n*`python" in once
    assert "old" not in once
    assert once.startswith("a\n\n<!-- begin ogd; columns: work | ratio; rows: psi \\d+ -->\n\n")
    assert once.endswith("<!-- end ogd -->\nb\n")
    assert rendered(once, tmp_path) == once


@pytest.mark.parametrize(
    ("asked", "why"),
    [("no", "no.json"), ("ogd; columns: wrok", "wrok"), ("ogd; rows: usps", "usps"), ("ogd; order: a", "order")],
)
def test_a_page_that_asks_for_what_is_not_there_is_refused(asked: str, why: str, tmp_path: Path) -> None:
    save("ogd", record(), tmp_path)
    name = asked.partition(";")[0]
    with pytest.raises(ValueError, match=why):
        rendered(f"<!-- begin {asked} -->\n<!-- end {name} -->\n", tmp_path)
