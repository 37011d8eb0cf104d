"""The page of a reproduction: for every table and figure, ours beside what was printed."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from statistics import mode
from typing import Any

from pipeline.report.markup import pairs, section
from pipeline.report.page import document, write_whole
from pipeline.report.text import duration, esc, nbytes, plural, setting
from pipeline.reproduce.paper import Paper


def write_page(paper: Paper, results: Mapping[str, Any], path: Path) -> None:
    """Write the page; the pictures that it shows lie beside it, and are within it.

    Parameters
    ----------
    paper : Paper
        That was reproduced: its forms show the experiments.
    results : mapping
        The contents of ``results.json``.
    path : Path
    """
    shown = (_experiment(paper, experiment, path.parent) for experiment in results["experiments"])
    body = "\n".join((_head(paper, results), *shown, _tail(results)))
    write_whole(path, document(f"{paper.short}, reproduced", body, "<p>Made from results.json.</p>"))


def _head(paper: Paper, results: Mapping[str, Any]) -> str:
    compared = [
        row
        for experiment in results["experiments"]
        for row in experiment["rows"]
        if row.get("shown") and row["difference"] is not None
    ]
    within = sum(row["within"] for row in compared)
    run = results["run"]
    machine = run["machine"]
    measure = paper.measure
    lead = (
        f"<b>{within} of {plural(len(compared), measure.key, measure.many)}</b> compared lie as near to the printed "
        f"one as they should: {esc(_tolerances(paper))}."
        if compared
        else f"No {measure.key} here has a printed one to compare with."
    )
    skipped = "".join(f"<li>{esc(reason)}</li>" for reason in results["skipped"].values())
    return (
        f"<header><h1>Reproduced: {esc(results['paper'])}</h1>"
        f'<p class="when">{esc(machine["processor"])}, {plural(machine["cores"], "core")}, '
        f"{nbytes(machine['memory_bytes'])}, {esc(machine['system'])}; {duration(run['seconds'])} for this command, "
        f'runs that were there already not counted</p><p class="lead-in">{lead}</p></header>'
    ) + (section("skipped", "Not there, skipped", f"<ul>{skipped}</ul>") if skipped else "")


def _tolerances(paper: Paper) -> str:
    """How near is near: what holds for most systems, and for which it does not."""
    usual = mode(system.within for system in paper.systems.values())
    others = [f", {s.title} within {s.within:g}" for s in paper.systems.values() if s.within != usual]
    return f"within {usual:g}{''.join(others)}"


def _tail(results: Mapping[str, Any]) -> str:
    run = results["run"]
    readings = [
        (esc(r["title"]), f"<b>{esc(r['shown'])}</b> of {esc(', '.join(r['values']))}: {esc(r['why'])}.")
        for r in results["readings"]
    ]
    about = [
        ("seed", str(run["seed"])),
        ("cluster", esc(setting(run["cluster"]))),
        ("time limit of a run", duration(run["limit_seconds"])),
        *((esc(name), esc(number)) for name, number in run["versions"].items()),
    ]
    left_open = (
        section(
            "readings",
            "What the paper leaves open",
            '<p class="note">Shown against the printed numbers is the reading in bold; the others were run one at a '
            "time.</p>" + pairs(readings),
        )
        if readings
        else ""
    )
    return (
        left_open
        + section("machine", "How it was made", pairs(about))
        + section("again", "Run it again", f'<pre class="copy" tabindex="0"><code>{esc(run["command"])}</code></pre>')
    )


def _experiment(paper: Paper, experiment: Mapping[str, Any], folder: Path) -> str:
    rows, label = experiment["rows"], f"{experiment['kind']} {experiment['name']}"
    form = paper.form(paper.find(experiment["kind"], experiment["name"]))
    pictures = "".join(_picture(folder / name, label) for name in experiment["pictures"])
    body = form.html(rows) if rows else ""
    if not body and not pictures:
        body = '<p class="note">Nothing of it is there.</p>'
    key = label.replace(" ", "-").replace(".", "-")
    return section(key, f"{esc(label.title())}: {esc(experiment['title'])}", pictures + body)


def _picture(path: Path, label: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    about = f"{label}: {path.stem.partition('-')[2] or 'drawn by us'}"
    return (
        f'<figure><img class="drawn" alt="{esc(about)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{esc(path.name)}, {esc(path.with_suffix('.png').name)}</figcaption></figure>"
    )
