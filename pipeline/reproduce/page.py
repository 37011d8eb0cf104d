"""The page of a reproduction: for every table and figure, ours beside what was printed."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pipeline.report.markup import pairs, scroll, section
from pipeline.report.page import document, write_whole
from pipeline.report.text import MISSING, count, duration, esc, nbytes, plural, setting
from pipeline.reproduce.text import MARKS, accuracy, difference, how, number, seconds

Row = Mapping[str, Any]


def write_page(results: Mapping[str, Any], path: Path) -> None:
    """Write the page; the pictures that it shows lie beside it, and are within it.

    Parameters
    ----------
    results : mapping
        The contents of ``results.json``.
    path : Path
    """
    body = "\n".join((_head(results), *(_experiment(e, path.parent) for e in results["experiments"]), _tail(results)))
    write_whole(path, document("Isolation Kernel paper, reproduced", body, "<p>Made from results.json.</p>"))


def _head(results: Mapping[str, Any]) -> str:
    compared = [
        row
        for experiment in results["experiments"]
        if experiment["kind"] == "table" and experiment["name"] not in ("3", "4")
        for row in experiment["rows"]
        if row["shown"] and row["difference"] is not None
    ]
    within = sum(row["within"] for row in compared)
    run = results["run"]
    machine = run["machine"]
    lead = (
        f"<b>{within} of {plural(len(compared), 'accuracy', 'accuracies')}</b> compared lie as near to the printed one "
        "as they should: within 0.02, AdaRaker within 0.04."
        if compared
        else "No accuracy here has a printed one to compare with."
    )
    skipped = "".join(f"<li>{esc(reason)}</li>" for reason in results["skipped"].values())
    return (
        f"<header><h1>Reproduced: {esc(results['paper'])}</h1>"
        f'<p class="when">{esc(machine["processor"])}, {plural(machine["cores"], "core")}, '
        f"{nbytes(machine['memory_bytes'])}, {esc(machine['system'])}; {duration(run['seconds'])} for this command, "
        f'runs that were there already not counted</p><p class="lead-in">{lead}</p></header>'
    ) + (section("skipped", "Not there, skipped", f"<ul>{skipped}</ul>") if skipped else "")


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
    return (
        section(
            "readings",
            "What the paper leaves open",
            '<p class="note">Shown against the printed numbers is the reading in bold; the others were run one at a '
            "time.</p>" + pairs(readings),
        )
        + section("machine", "How it was made", pairs(about))
        + section("again", "Run it again", f'<pre class="copy" tabindex="0"><code>{esc(run["command"])}</code></pre>')
    )


def _experiment(experiment: Mapping[str, Any], folder: Path) -> str:
    rows, label = experiment["rows"], f"{experiment['kind']} {experiment['name']}"
    kind = {
        "table 3": _ranges,
        "table 4": _sizes,
        "section 8.1.1": _shares,
        "figure 5": _growing,
        "figure 3": _streams,
        "figure 4": _streams,
    }.get(label, _compared if experiment["kind"] == "table" else None)
    pictures = "".join(_picture(folder / name, label) for name in experiment["pictures"])
    body = kind(rows, experiment) if kind is not None and rows else ""
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


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], name: str, texts: int = 1) -> str:
    """A table of cells that are HTML; the first `texts` columns are to the left."""
    top = "".join(f'<th scope="col"{_text(i < texts)}>{title}</th>' for i, title in enumerate(head))
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>'
        + "".join(f"<td{_text(i < texts)}>{cell}</td>" for i, cell in enumerate(row[1:], start=1))
        + "</tr>"
        for row in rows
    )
    return scroll(f'<table class="compared"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>', name)


def _text(left: bool) -> str:
    return ' class="text"' if left else ""


def _compared(rows: Sequence[Row], experiment: Mapping[str, Any]) -> str:
    """Tables 5 to 8: for each data set the systems, and below them the other readings."""
    parts = []
    for dataset, found in groupby(rows, key=lambda row: row["dataset"]):
        listed = list(found)
        head = ("system", "ours", "printed", "difference", "chosen", "seconds", "printed", "build, map, train, test")
        parts.append(f"<h3>{esc(dataset)}</h3>")
        if (share := next((row["larger_class"] for row in listed if row["larger_class"]), None)) is not None:
            parts.append(
                f'<p class="note">Of the test rows {number(share)} are of the class that most training rows have.</p>'
            )
        parts.append(_table(head, [_row(row, row["title"]) for row in listed if row["shown"]], dataset))
        other = [row for row in listed if not row["shown"]]
        if other:
            lines = [_row(row, f"{row['title']}, {how(row)}") for row in other]
            parts.append("<details open><summary>read otherwise</summary>")
            parts.append(_table(head, lines, f"{dataset}, read otherwise") + "</details>")
        notes = [
            f"{row['title']}{', ' * bool(how(row))}{how(row)}: {row['message']}" for row in listed if row["message"]
        ]
        parts += [f'<p class="note">{esc(note)}.</p>' for note in notes]
    counted = ", ".join(experiment["counted"])
    parts.append(
        '<p class="note">Ours: accuracy on the test set, seconds of the tasks on one worker, less cross-validation. '
        f"Seconds are those of {counted}, as printed; printed seconds are those of the authors' machine. Chosen: by "
        "5-fold cross-validation on at most 20,000 training rows, of which SVMs with a kernel see 4,000.</p>"
    )
    return "".join(parts)


def _row(row: Row, title: str) -> list[str]:
    apart = difference(row)
    if row["within"] is not None:
        apart = f"{apart} ✓" if row["within"] else f"<b>{apart}</b>"
    parts = ", ".join(seconds(value) for value in row["parts"].values()) or MISSING
    return [
        _link(row, title),
        esc(accuracy(row)),
        esc(number(row["published_accuracy"], ".2f")),
        apart,
        esc(row["chosen"] or MISSING),
        esc(seconds(row["seconds"])),
        esc(seconds(row["published_seconds"])),
        esc(parts),
    ]


def _link(row: Row, text: str) -> str:
    """A text that leads to the report of the run, where there is one."""
    return esc(text) if row["report"] is None else f'<a href="{esc(row["report"])}">{esc(text)}</a>'


def _ranges(rows: Sequence[Row], experiment: Mapping[str, Any]) -> str:  # noqa: ARG001
    head = ("parameter", "printed", "ours", "")
    cells = (
        [esc(row["parameter"]), esc(_numbers(row["published"])), esc(_numbers(row["ours"])),
         "the same" if row["same"] else "<b>another</b>"]
        for row in rows
    )  # fmt: skip
    return _table(head, cells, "Search ranges", texts=4).replace('class="compared"', 'class="compared wrapped"')


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _sizes(rows: Sequence[Row], experiment: Mapping[str, Any]) -> str:  # noqa: ARG001
    head = ("data set", "", "training rows", "test rows", "columns", "not zero, %", "sparse")
    cells: list[list[str]] = []
    notes = ""
    for row in rows:
        for who in ("published", "ours"):
            size = row[who]
            if size is None:
                text = "failed" if who == "ours" else "not in the paper"
                notes += f'<p class="note">{esc(row["dataset"])}: {esc(row["message"])}.</p>' if who == "ours" else ""
                cells.append([esc(row["dataset"]), who.replace("published", "printed"), text, "", "", "", ""])
                continue
            cells.append([
                esc(row["dataset"]), who.replace("published", "printed"), count(size["n_train"]), count(size["n_test"]),
                count(size["n_columns"]), f"{size['nnz_percent']:g}", "yes" if size["sparse"] else "no",
            ])  # fmt: skip
    return _table(head, cells, "Data sets", texts=2) + notes


def _streams(rows: Sequence[Row], experiment: Mapping[str, Any]) -> str:  # noqa: ARG001
    head = ("data set", "run", "learner", "accuracy", "seconds", "of these: map, predict, learn", "support")
    cells = []
    for row in rows:
        if row["accuracy"] is None:
            cells.append([esc(row["dataset"]), esc(row["part"]), esc(row["message"]), MARKS[row["status"]], "", "", ""])
            continue
        parts = ", ".join(seconds(value) for value in row["parts"].values())
        stopped = " (stopped early)" if row["stopped_early"] else ""
        cells.append([
            esc(row["dataset"]), _link(row, row["part"]), esc(row["learner"] + stopped),
            number(row["accuracy"]), esc(seconds(row["seconds"])), esc(parts), count(row["n_support"]),
        ])  # fmt: skip
    return _table(head, cells, "Runs on a stream", texts=3)


def _shares(rows: Sequence[Row], experiment: Mapping[str, Any]) -> str:
    head = ("data set", "learner", "share of f, %", "printed", "seconds", "printed", "support", "printed")
    cells = []
    for row in rows:
        if row["accuracy"] is None:
            cells.append([esc(row["dataset"]), esc(row["message"]), *[MARKS[row["status"]]], *[""] * 5])
            continue
        dual = row["learner"] == "ogd-dual"
        was = experiment["published"].get(row["dataset"])
        cells.append([
            esc(row["dataset"]), _link(row, row["learner"]), number(row["share"], ".1f"),
            number(was and was["share"][dual], "g"),
            esc(seconds(row["seconds"])), esc(seconds(was and was["seconds"][dual])),
            count(row["n_support"]), count(was and was["n_support"]),
        ])  # fmt: skip
    note = (
        '<p class="note">f, the prediction function, is evaluated twice for each row: to predict it, and to learn from '
        "it. The first was measured, the second is counted with the same time. Seconds: mapping, predicting and "
        "learning on the stream.</p>"
    )
    return _table(head, cells, "Share of the prediction function", texts=2) + note


def _growing(rows: Sequence[Row], experiment: Mapping[str, Any]) -> str:  # noqa: ARG001
    head = ("data set", "system", "size", "accuracy", "seconds")
    names = {"t": "IK_i-OGD, t", "b": "NOGD, b"}
    cells = (
        [esc(row["dataset"]), names[row["parameter"]], count(row["size"]),
         accuracy(row), esc(seconds(row["seconds"]))]
        for row in rows
    )  # fmt: skip
    return _table(head, cells, "Growing t and b", texts=2)
