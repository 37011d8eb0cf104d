"""What the runs gave, beside what was printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ikmap.learners.adaraker import SIGMAS
from ikmap.methods.adaraker import LAMBDAS
from ikmap.model_selection import PSIS
from pipeline.report.scores import confusion_of, majority_baseline
from pipeline.reproduce.paper import Entry, Experiment, Paper, shown
from pipeline.reproduce.pictures import draw

Row = dict[str, Any]
Status = Literal["finished", "stopped", "memory", "failed", "defect"]

PARTS = {"build": "partition", "map": "cells", "train": "train:", "test": "evaluate:"}
"""Parts of a batch run's time, and the stages that they are."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    status : {"finished", "stopped", "memory", "failed", "defect"}
        "stopped": at the time limit; "memory": it would need more than there is; "failed": the data or the machine is
        at fault; "defect": we are.
    command : str
        That does it again.
    metrics : mapping or None
        The contents of its ``metrics.json``.
    report : str or None
        Its report, seen from the page.
    message : str
        Why it did not finish; else what had to be done otherwise than asked.
    """

    status: Status
    command: str
    metrics: Mapping[str, Any] | None = None
    report: str | None = None
    message: str = ""


Find = Callable[[Entry], Outcome]


def collect(
    paper: Paper,
    experiments: Sequence[Experiment],
    entries: Mapping[str, Sequence[Entry]],
    found: Find,
    chosen: Mapping[str, str],
    sizes: Mapping[str, Any],
    folder: Path,
) -> dict[str, Any]:
    """The contents of ``results.json``, less what it says of the command; draws the pictures.

    Parameters
    ----------
    entries : mapping
        Runs by label of the experiment.
    found : callable
        How a run ended.
    chosen : mapping
        What was taken of each reading, or "all".
    sizes : mapping
        What the ingest of each data set has found, for Table 4.
    folder : Path
        Where pictures go.
    """
    shown_experiments = []
    for experiment in experiments:
        runs = entries[experiment.label]
        rows: list[Row] = []
        if experiment.label == "table 3":
            rows = ranges_rows(paper)
        elif experiment.label == "table 4":
            rows = [sizes_row(paper, name, size) for name, size in sizes.items()]
        elif experiment.kind == "table":
            rows = table_rows(paper, experiment, runs, found, chosen)
        elif experiment.label == "figure 5":
            rows = [growing_row(entry, found(entry)) for entry in runs]
        else:
            rows = [row for entry in runs for row in stream_rows(entry, found(entry))]
        shown_experiments.append({
            "kind": experiment.kind,
            "name": experiment.name,
            "title": experiment.title,
            "counted": experiment.about.get("seconds", []),
            "rows": rows,
            "published": paper.published.get("section8.1.1") if experiment.kind == "section" else None,
            "pictures": draw(experiment, rows, folder),
        })  # fmt: skip
    return {
        "schema_version": 1,
        "paper": "Isolation Kernel: The X Factor in Efficient and Effective Large Scale Online Kernel Learning",
        "readings": [
            {"name": r.name, "title": r.title, "why": r.why, "values": list(r.values), "shown": shown(r, chosen)}
            for r in paper.readings.values()
        ],
        "experiments": shown_experiments,
    }


def table_rows(
    paper: Paper, table: Experiment, entries: Sequence[Entry], found: Find, chosen: Mapping[str, str]
) -> list[Row]:
    """Rows of Tables 5 to 8: one for each run."""
    rows = []
    for entry in entries:
        outcome = found(entry)
        system = paper.systems[entry.system]
        accuracy, seconds = printed(paper, table.name, entry.dataset, entry.system)
        of_run: Row = {"accuracy": None, "seconds": None, "parts": {}, "chosen": "", "larger_class": None}
        if outcome.metrics is not None:
            of_run = batch_result(outcome.metrics, table.about["seconds"])
        ours = of_run["accuracy"]
        difference = ours - accuracy if ours is not None and isinstance(accuracy, int | float) else None
        rows.append({
            "dataset": entry.dataset,
            "system": entry.system,
            "title": system.title,
            "reading": readings_of(paper, entry, chosen),
            "shown": entry.reading is None,
            "other": dict([entry.reading] if entry.reading else []),
            **of_run,
            "published_accuracy": accuracy,
            "published_seconds": seconds,
            "difference": None if difference is None else round(difference, 6),
            "within": None if difference is None else abs(difference) <= system.within,
            "tolerance": system.within,
            **ending(outcome),
            "message": remark(of_run, outcome),
        })  # fmt: skip
    return rows


def remark(of_run: Row, outcome: Outcome) -> str:
    """What is to be said of a run, if there is something."""
    if of_run.get("gap") is not None:
        return f"not converged, duality gap {of_run['gap']:.2g}"
    return outcome.message


def ending(outcome: Outcome) -> Row:
    """How a run ended, as a row says it."""
    return {
        "status": outcome.status,
        "message": outcome.message,
        "report": outcome.report,
        "command": outcome.command,
    }


def printed(paper: Paper, table: str, dataset: str, system: str) -> tuple[Any, Any]:
    """Accuracy and seconds of the paper: numbers, its mark for what there is none of, or None."""
    cell = paper.published[f"table{table}"].get(dataset, {})
    if table == "6":
        seconds = f"{cell['cpu']:,} s; GPU: {cell['gpu']} s" if cell else None
        return paper.published["table5"].get(dataset, {}).get(system, [None])[0], seconds
    value = cell.get(system)
    return (value[0], value[1]) if isinstance(value, list) else (value, None)


def batch_result(metrics: Mapping[str, Any], counted: Sequence[str]) -> Row:
    """Accuracy, seconds and choice of a run with one learner.

    Parameters
    ----------
    counted : sequence of str
        The parts that make up the seconds.
    """
    ((name, learner),) = metrics["learners"].items()
    busy = {stage["name"]: sum(worker["seconds_busy"] for worker in stage["workers"]) for stage in metrics["stages"]}
    parts = {part: round(busy.get(stage + name * stage.endswith(":"), 0.0), 4) for part, stage in PARTS.items()}
    return {
        "accuracy": learner["accuracy"],
        "seconds": round(sum(parts[part] for part in counted), 4),
        "parts": parts,
        "selection_seconds": round(busy.get("select", 0.0), 4),
        "chosen": choice(metrics, name),
        "larger_class": majority_baseline(metrics["data"], confusion_of(learner, metrics["data"]["classes"])),
        "gap": None if learner.get("converged", True) else learner["duality_gap"],
    }


def choice(metrics: Mapping[str, Any], name: str) -> str:
    """What cross-validation has chosen for a learner, for people."""
    selection = metrics["selection"] or {}
    if name in selection.get("tuned", {}):
        tuned = selection["tuned"][name]
        return f"{tuned['parameter']} {tuned['chosen']:g}"
    return f"psi {selection['chosen'][name]}" if name in selection.get("chosen", {}) else ""


def readings_of(paper: Paper, entry: Entry, chosen: Mapping[str, str]) -> dict[str, str]:
    """How the paper was read in all that concerns a run."""
    values = {r.name: shown(r, chosen) for r in paper.readings.values() if entry.system in r.systems}
    return values | dict([entry.reading] if entry.reading else [])


def ranges_rows(paper: Paper) -> list[Row]:
    """Table 3: search ranges printed, and ours."""
    ours: dict[str, Sequence[float]] = {"psi": PSIS, "lambda": sorted(LAMBDAS), "sigma": sorted(SIGMAS)}
    return [
        {
            "parameter": name,
            "published": list(range_),
            "ours": list(ours[name]),
            "same": [float(value) for value in ours[name]] == [float(value) for value in range_],
        }
        for name, range_ in paper.published["table3"].items()
    ]


def sizes_row(paper: Paper, dataset: str, ingested: Mapping[str, Any] | str) -> Row:
    """Table 4: a data set as printed and as read, or why it could not be read."""
    row: Row = {"dataset": dataset, "published": paper.published["table4"].get(dataset), "ours": None, "message": ""}
    if isinstance(ingested, str):
        row["message"] = ingested
    else:
        n = ingested["rows_train"] + ingested["rows_test"]
        percent = 100 * ingested["nnz"] / (n * ingested["columns"])
        row["ours"] = {
            "n_train": ingested["rows_train"],
            "n_test": ingested["rows_test"],
            "n_columns": ingested["columns"],
            "nnz_percent": round(percent, 4),
            "sparse": percent < 1,
        }
    return row


def stream_rows(entry: Entry, outcome: Outcome) -> list[Row]:
    """A run on a stream: one row for each learner, with its curve and the share of its prediction function."""
    dataset, part = entry.dataset, entry.system
    if outcome.metrics is None:
        return [{"dataset": dataset, "part": part, "learner": "", "accuracy": None, **ending(outcome)}]
    rows = []
    for name, learner in outcome.metrics["learners"].items():
        # Each row's f is evaluated twice: to predict it and to learn from it. The second is counted like the first.
        f = learner["predict_seconds"] + min(learner["predict_seconds"], learner["train_seconds"])
        total = learner["map_seconds"] + learner["predict_seconds"] + learner["train_seconds"]
        rows.append({
            "dataset": dataset,
            "part": part,
            "learner": name,
            "psi": learner.get("psi", learner.get("value")),
            "accuracy": learner["accuracy"],
            "rows": learner["rows"],
            "seconds": round(total, 6),
            "parts": {key: learner[f"{key}_seconds"] for key in ("map", "predict", "train")},
            "share": round(100 * f / total, 3) if total else None,
            "n_support": learner["n_support"],
            "stopped_early": learner["stopped_early"],
            "curve": learner["curve"],
            **ending(outcome),
        })  # fmt: skip
    return rows


def growing_row(entry: Entry, outcome: Outcome) -> Row:
    """Figure 5: accuracy and seconds for one t or b."""
    of_run: Row = {"accuracy": None, "seconds": None}
    if outcome.metrics is not None:
        of_run = batch_result(outcome.metrics, list(PARTS))
    name, _, size = entry.system.partition("=")
    return {"dataset": entry.dataset, "parameter": name, "size": int(size), **of_run, **ending(outcome)}
