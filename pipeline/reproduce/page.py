"""The page of a reproduction: for every table and figure, ours beside what was printed."""

from __future__ import annotations

import base64
from pathlib import Path

from pipeline.record_types import Record, RecordView
from pipeline.report.page import write_whole
from pipeline.report.rendering import page_parts
from pipeline.report.text import duration, nbytes, plural, setting
from pipeline.reproduce.compared import form_of
from pipeline.reproduce.paper import WITHIN, Paper
from pipeline.reproduce.rendering import render


def write_page(paper: Paper, results: RecordView, path: Path) -> None:
    """Write the page; the pictures that it shows lie beside it, and are within it.

    Parameters
    ----------
    paper : Paper
        That was reproduced: its forms show the experiments.
    results : mapping
        The contents of ``results.json``.
    path : Path
    """
    run = results["run"]
    machine = run["machine"]
    differences = [
        (row["within"], row.get("tolerance", WITHIN))
        for experiment in results["experiments"]
        for row in experiment["rows"]
        if row.get("shown") and row["within"] is not None  # some printed numbers are shown without a target
    ]
    measure = paper.measure
    about = [
        ("seed", run["seed"]),
        ("cluster", setting(run["cluster"])),
        ("time limit of a run", duration(run["limit_seconds"])),
        *run["versions"].items(),
    ]
    html = render(
        "paper.html",
        title=f"{paper.short}, reproduced",
        paper=results["paper"],
        machine=f"{machine['processor']}, {plural(machine['cores'], 'core')}, {nbytes(machine['memory_bytes'])}, "
        f"{machine['system']}",
        seconds=duration(run["seconds"]),
        within=sum(within for within, _ in differences),
        compared=plural(len(differences), measure.key, measure.many) if differences else "",
        measure=measure.key,
        tolerances="within " + " or ".join(f"{tolerance:g}" for tolerance in sorted({near for _, near in differences})),
        skipped=list(results["skipped"].values()),
        experiments=[_experiment(paper, experiment, path.parent) for experiment in results["experiments"]],
        readings=results["readings"],
        about=about,
        command=run["command"],
        **page_parts(),
    )
    write_whole(path, html)


def _experiment(paper: Paper, experiment: RecordView, folder: Path) -> Record:
    """Return the values that the template of the page needs for an experiment."""
    rows, label = experiment["rows"], f"{experiment['kind']} {experiment['name']}"
    form = form_of(paper, paper.find(experiment["kind"], experiment["name"]))
    return {
        "key": label.replace(" ", "-").replace(".", "-"),
        "title": f"{label.title()}: {experiment['title']}",
        "pictures": [_picture(folder / name, label) for name in experiment["pictures"]],
        "html": form.html(rows) if rows else "",
    }


def _picture(path: Path, label: str) -> dict[str, str]:
    return {
        "data": base64.b64encode(path.read_bytes()).decode(),
        "about": f"{label}: {path.stem.partition('-')[2] or 'drawn by us'}",
        "name": f"{path.name}, {path.with_suffix('.png').name}",
    }
