"""Runs the cases of a benchmark one by one, keeps what is finished, and writes JSON and Markdown."""

from __future__ import annotations

import ast
import json
import shutil
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import NAMES, REPORTS, environment
from benchmarks.harness import PLACES, ROOT, Case, Options, Row, as_json, compare
from benchmarks.markdown import markdown
from benchmarks.records import FOLDER, WRITTEN, of_markdown, save


def show_list() -> None:
    """Print the names and what each is about."""
    for name in NAMES:
        print(f"{name:12} {about(name)}")


def about(name: str) -> str:
    """Return what a benchmark is about, from its source: to import all of them takes seconds."""
    source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ABOUT":
            return str(ast.literal_eval(node.value))
    raise LookupError(f"benchmarks.{name} has no ABOUT")


def run(name: str, options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Measure one benchmark; cases that the folder holds, measured with the same options, are kept.

    Returns
    -------
    int
        Number of cases that failed; their errors stand in the table.
    """
    module = import_module(f"benchmarks.{name}")
    folder.mkdir(parents=True, exist_ok=True)
    if hasattr(module, "run"):  # has no table of rows
        return int(module.run(options, folder, unset=unset, fresh=fresh))
    path = folder / f"{name}.json"
    settings = {key: value for key, value in as_json(options).items() if key not in PLACES}
    report: dict[str, Any] = {"benchmark": name, "options": settings, "cases": {}}
    if path.exists() and not fresh:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["options"] == settings:
            report["cases"] = {key: case for key, case in kept["cases"].items() if "error" not in case}
    report["machine"] = environment.machine(options.threads, unset)
    failed = 0
    for case in module.cases(options):
        if case.name not in report["cases"]:
            report["cases"][case.name] = measured = _measure(name, case, options)
            failed += "error" in measured
            # In one step, so that the command can be stopped at any moment and given again.
            path.with_suffix(".partial").write_text(json.dumps(report, indent=1), encoding="utf-8")
            path.with_suffix(".partial").replace(path)
        for line in markdown(rows_of(report["cases"][case.name])).splitlines()[2:]:
            print(line, flush=True)
        if "error" in report["cases"][case.name]:
            print(f"{case.name}: {report['cases'][case.name]['error']}", flush=True)
    path.with_suffix(".md").write_text(table(report), encoding="utf-8")
    return failed


def _measure(name: str, case: Case, options: Options) -> dict[str, Any]:
    begin = time.perf_counter()
    try:
        rows = case.rows() if case.rows is not None else compare(name, case, options)
    except Exception as error:  # one case must not take the others with it
        traceback.print_exc()
        return {"rows": [], "error": f"{type(error).__name__}: {error}"}
    return {"rows": [asdict(row) for row in rows], "seconds": round(time.perf_counter() - begin, 2)}


def rows_of(case: dict[str, Any]) -> list[Row]:
    """The rows of a case, from JSON."""
    return [Row(**row) for row in case["rows"]]


def table(report: dict[str, Any]) -> str:
    """The Markdown of one benchmark: title, table, machine."""
    module = import_module(f"benchmarks.{report['benchmark']}")
    rows = [row for case in report["cases"].values() for row in rows_of(case)]
    errors = [f"- {name}: failed, {case['error']}" for name, case in report["cases"].items() if "error" in case]
    text = [f"### {module.TITLE}", "", f"{module.ABOUT[0].upper()}{module.ABOUT[1:]}.", "", markdown(rows)]
    return "\n".join([*text, *errors, "", f"Measured on: {environment.describe(report['machine'])}", ""])


def record(folder: Path, names: Sequence[str] = (), docs: Path = ROOT / "docs") -> list[str]:
    """Make the records of the results in the folder, and copy their pictures beside the pages.

    Parameters
    ----------
    names : sequence of str
        Of the benchmarks; empty: all that the folder holds.

    Returns
    -------
    list of str
        Names of the records that were written.
    """
    written = []
    for name in (report for benchmark in names or NAMES for report in REPORTS.get(benchmark, (benchmark,))):
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        report = json.loads(path.read_text(encoding="utf-8"))
        machine = report["machine"]
        found = of_markdown(
            path.with_suffix(".md").read_text(encoding="utf-8"),
            command=command_of(report["benchmark"], report["options"]),
            date=machine["date"],
            commit=machine.get("commit", ""),
            origin=WRITTEN,
        )
        save(name, found, docs / FOLDER.name)
        written.append(name)
        if (picture := path.with_suffix(".svg")).exists():
            shutil.copyfile(picture, docs / picture.name)
    return written


def command_of(name: str, options: dict[str, Any]) -> str:
    """Return the command that measures a benchmark with these options, without where the data lie."""
    usual = as_json(Options())
    given = {key: value for key, value in options.items() if value != usual[key] and key not in PLACES}
    return " ".join(["python -m benchmarks", name, *(_words(key, value) for key, value in given.items())])


def _words(key: str, value: Any) -> str:
    if value is True:
        return f"--{key}"
    return f"--{key} {','.join(value) if isinstance(value, list) else f'{value:.15g}'}"
