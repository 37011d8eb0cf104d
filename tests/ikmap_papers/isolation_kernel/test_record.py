"""A run of ``flows.reproduce`` becomes a record, of which pages of the documentation have tables."""

from __future__ import annotations

from benchmarks import page


def test_results_of_a_paper_become_a_record() -> None:
    results = {
        "name": "isolation-kernel",
        "run": {
            "command": "python -m flows.reproduce --table 3",
            "machine": {"processor": "A processor", "cores": 2, "memory_bytes": 24 << 30},
        },
        "experiments": [{"kind": "table", "name": "5", "title": "Accuracy", "rows": []}],
    }
    found = page.record_of(results, "2026-11-25")
    assert (found.command, found.date) == ("python -m flows.reproduce --table 3", "2026-11-25")
    assert found.machine == "A processor, 2 cores, 24 GiB"
    assert found.tables == []
