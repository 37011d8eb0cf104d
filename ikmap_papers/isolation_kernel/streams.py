"""Runs on a stream: each learner's accuracy and seconds, and how they came about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.report.rendering import Cell
from pipeline.report.text import count
from pipeline.reproduce.form import Form, Made, Outcome, Row, link, table
from pipeline.reproduce.paper import Entry, Request
from pipeline.reproduce.text import MARKS, measured, number, seconds


class Streams(Form):
    """``streams`` in ``experiments.toml`` lists options of ``flows.online``; with ``psi``, each runs once for each."""

    def entries(self, request: Request) -> Iterator[Entry]:
        """Yield the runs of each data set."""
        about = self.experiment.about
        label = self.experiment.label.replace(" ", "")
        changed = "".join(f"-{name}-{value}" for name, value in request.stream.items())
        for dataset in request.datasets:
            for given in about["streams"]:
                part = given.get("partitioner", "default")
                key, options = f"{dataset}/{label}-{part}{changed}", {**given, **request.stream}
                if "psi" not in about:
                    yield Entry(key, dataset, part, "online", options)
                for psi in about.get("psi", ()):
                    yield Entry(f"{key}-psi-{psi}", dataset, f"psi={psi}", "online", {**options, "psi": psi})

    def rows(self, made: Made) -> list[Row]:
        """One for each learner, with its curve and the share of its prediction function."""
        return [row for entry in made.entries for row in _rows(entry, made.outcome(entry))]

    def html(self, rows: Sequence[Row]) -> str:
        """A line for each learner of each run."""
        head = ("data set", "run", "learner", "accuracy", "seconds", "of these: map, predict, learn", "support")
        cells: list[list[str | Cell]] = []
        for row in rows:
            if row["accuracy"] is None:
                mark = MARKS[row["status"]]
                cells.append([row["dataset"], row["part"], row["message"], mark, "", "", ""])
                continue
            parts = ", ".join(seconds(value) for value in row["parts"].values())
            stopped = " (stopped early)" if row["stopped_early"] else ""
            cells.append([
                row["dataset"], link(row, row["part"]), row["learner"] + stopped,
                number(row["accuracy"]), seconds(row["seconds"]), parts, count(row["n_support"]),
            ])  # fmt: skip
        return table(head, cells, "Runs on a stream", texts=3)

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
        """A line for each learner of each run."""
        cells: list[Sequence[str]] = [
            (row["dataset"], row["part"], row["learner"], measured(row), seconds(row.get("seconds")),
             number(row.get("share"), ".1f"), number(row.get("n_support"), ",d"))
            for row in rows
        ]  # fmt: skip
        return ("data set", "part", "learner", "accuracy", "seconds", "share of f, %", "support"), cells


def _rows(entry: Entry, outcome: Outcome) -> list[Row]:
    dataset, part = entry.dataset, entry.system
    if outcome.metrics is None:
        return [{"dataset": dataset, "part": part, "learner": "", "accuracy": None, **outcome.told()}]
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
            **outcome.told(),
        })  # fmt: skip
    return rows
