"""``python -m benchmarks.page``: write the tables of ``docs/measured`` into the pages; nothing is measured.

``python -m benchmarks.page --results RUN_DIR --name NAME`` first makes the record NAME of a run of ``flows.reproduce``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.records import ROOT, WRITTEN, Record, Table, commit, save, write_pages


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    result.add_argument("--results", metavar="RUN_DIR", help="run directory of flows.reproduce, to make a record of")
    result.add_argument("--name", help="name of that record")
    return result


def record_of(results: dict[str, Any], date: str) -> Record:
    """Return the record of what ``results.json`` has: the tables that the command prints."""
    from pipeline.reproduce.compared import form_of
    from pipeline.reproduce.registry import PAPERS

    paper = PAPERS[results["name"]]
    tables, titles = [], []
    for experiment in results["experiments"]:
        form = form_of(paper, paper.find(experiment["kind"], experiment["name"]))
        lines = form.printed_out(experiment["rows"])
        if lines is not None and experiment["rows"]:
            head, rows = lines
            where = f"{experiment['kind']} {experiment['name']}"
            tables.append(Table(["of", *map(str, head)], [[where, *map(str, row)] for row in rows]))
            titles.append(f"{where}: {experiment['title']}")
    run = results["run"]
    machine = run["machine"]
    about = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB"
    return Record(run["command"], date, commit(), about, WRITTEN, "; ".join(titles), tables)


def main(arguments: list[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    if (asked.results is None) != (asked.name is None):
        parser().error("--results and --name go together")
    if asked.results is not None:
        path = Path(asked.results) / "results.json"
        if not path.exists():
            parser().error(f"{path} is not there")
        results = json.loads(path.read_text(encoding="utf-8"))
        save(asked.name, record_of(results, day_of(path)))
    try:
        for page in write_pages():
            print(f"wrote {page.relative_to(ROOT)}")
    except ValueError as error:
        print(f"benchmarks.page: {error}", file=sys.stderr)
        return 2
    return 0


def day_of(path: Path) -> str:
    """Return the day on which a file was written."""
    return time.strftime("%Y-%m-%d", time.localtime(path.stat().st_mtime))


if __name__ == "__main__":
    sys.exit(main())
