"""The forms of the experiments of the GMM paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from ikmap_papers.gmm import pictures
from ikmap_papers.gmm.hashed_form import Hashed
from ikmap_papers.gmm.linearised_form import Linearised
from pipeline.record_types import Record, RecordView
from pipeline.report.rendering import Cell
from pipeline.report.text import MISSING
from pipeline.reproduce.form import Form, Made, Outcome, Row, table
from pipeline.reproduce.paper import Entry, Experiment, Paper, Request
from pipeline.reproduce.text import MARKS, difference, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD = (
    "data set", "system", "best on test", "spread", "printed", "difference", "at", "chosen by cross-validation",
    "at", "converged",
)  # fmt: skip
PROTOCOL = (
    "Best on test: for every shuffle of the rows into two halves the best accuracy on the test half over the whole "
    "grid of C and the kernel's parameters, which is what the paper reports; it is chosen on test rows and is no "
    "estimate of what a user would get. That stands beside it: what 3-fold cross-validation on the training half "
    "chooses, of {looked_at} and C = 2^-10, 2^-8, ..., 2^10. C of the whole grid is 2^-10, 2^-9, ..., 2^15. Both grids "
    "are widened, to 2^-25 or to 2^24, as long as the best is at their end. Both are means over the "
    "shuffles, with the standard deviation. No rows are scaled, no classes balanced. Converged: the share of all "
    "SVMs that reached their tolerance within 100 steps for each row (at least 100,000). Printed numbers of one data "
    "set have one tolerance, {within}; ✓: within it, bold: outside."
)
LOOKED_AT = "every fourth value of a parameter"
LOOKED_AT_IN_NOISE = (
    "all values of a parameter (two parameters are combined at some values of each, and at that p of the whole grid "
    "which cross-validation on the training half chooses for pGMM)"
)


class BestOnTest(Form):
    """A table of systems by the protocol of the paper; ``of`` in ``experiments.toml`` names the table of a picture."""

    def __init__(self, paper: Paper, experiment: Experiment) -> None:
        super().__init__(paper, experiment)
        kind, _, name = experiment.about.get("of", experiment.label).partition(" ")
        self.of: RecordView = paper.find(kind, name).about

    def entries(self, request: Request) -> Iterator[Entry]:
        """Yield the runs of each data set: with all its columns, without those that are the class, with noise."""
        repeats = request.readings.get("repeats", 10)
        systems = [name for name in self.experiment.systems if request.systems is None or name in request.systems]
        for dataset in request.datasets:
            ways: list[tuple[str, Record]] = [("", {})]
            if dropped := self.of.get("leak", {}).get(dataset):
                ways.append(("without its leak", {"drop": list(dropped)}))
            if noise := self.of.get("noise"):
                ways = [(f"noise {level}", {"noise": level, "rows": self.of["rows"]}) for level in noise]
            for way, more in ways:
                for name in systems:
                    options = {**self._options(name), **more, "parts": min(repeats, self.of.get("repeats", repeats))}
                    key = "-".join([name, *way.split()])
                    yield Entry(f"{dataset}/{key}", dataset, f"{name}|{way}", "study", options)

    def _options(self, name: str) -> Record:
        system = self.paper.systems[name].options
        about: RecordView = self.paper.about
        tuned = system["tuned"]
        grid = about["grids" if len(tuned) < 2 else "pairs"]
        options = {"kernel": system["kernel"], "grid": {parameter: list(grid[parameter]) for parameter in tuned}}
        if len(tuned) > 1:
            options["first"] = {"kernel": "pgmm", "grid": {"p": list(about["grids"]["p"])}}
        if len(tuned) > 1 or self.of.get("noise"):
            options["cv_each"] = 1
        if "most_C" in system:
            options["most_C"] = system["most_C"]
        if tuned == ["gamma"]:
            options["eigenvalues"] = [0.05, 0.5, 1.5, 2.0]
        return options

    def rows(self, made: Made) -> list[Row]:
        """One for each run."""
        return [self._row(entry, made.outcome(entry)) for entry in made.entries]

    def _row(self, entry: Entry, outcome: Outcome) -> Row:
        name, _, way = entry.system.partition("|")
        row: Row = {
            "dataset": entry.dataset, "way": way, "system": name, "title": self.paper.systems[name].title,
            "shown": not way, "accuracy": None, "spread": None, "cv": None, "cv_spread": None, "chosen": "",
            "cv_chosen": "", "shuffles": 0, "converged": None, "Cs": [], "by_C": [], "converged_by_C": [],
            "least_eigenvalue": {}, "published_accuracy": None if way else self._printed(entry.dataset, name),
            "difference": None, "within": None, "tolerance": None, **outcome.told(),
        }  # fmt: skip
        if outcome.metrics is None:
            return row
        parts = outcome.metrics["parts"][: entry.options["parts"]]
        best = np.array([part["accuracy"] for part in parts])
        honest = np.array([part["cv"]["accuracy"] for part in parts])
        Cs = sorted(set.intersection(*(set(part["Cs"]) for part in parts)))
        row |= {
            "accuracy": round(float(best.mean()), 4), "spread": round(float(best.std()), 4), "shuffles": len(parts),
            "cv": round(float(honest.mean()), 4), "cv_spread": round(float(honest.std()), 4),
            "chosen": _told([part["chosen"] for part in parts], [part["C"] for part in parts]),
            "cv_chosen": _told([part["cv"]["chosen"] for part in parts], [part["cv"]["C"] for part in parts]),
            "converged": round(float(np.mean([np.mean(part["converged"]) for part in parts])), 4), "Cs": Cs,
            "converged_by_C": _by_C(Cs, [(part["Cs"], part["converged"]) for part in parts]),
            "by_C": _by_C(Cs, [(part["Cs"], np.max(part["grid"]["accuracy"], axis=0)) for part in parts]),
            "least_eigenvalue": next((part["least_eigenvalue"] for part in parts if part["least_eigenvalue"]), {}),
        }  # fmt: skip
        if row["published_accuracy"] is not None:
            row["difference"] = round(row["accuracy"] - row["published_accuracy"], 4)
            row["tolerance"] = self.of["within"][entry.dataset]
            row["within"] = abs(row["difference"]) <= row["tolerance"]
        return row

    def _printed(self, dataset: str, system: str) -> float | None:
        name = self.of.get("printed", {}).get(dataset)
        printed = self.paper.published["table1"].get(name, {}).get(system)
        return None if printed is None else float(printed)

    def html(self, rows: Sequence[Row]) -> str:
        """A line for each system, and what the protocol is."""
        near = ", ".join(f"{dataset} {points} points" for dataset, points in self.of.get("within", {}).items())
        looked_at = LOOKED_AT_IN_NOISE if self.of.get("noise") else LOOKED_AT
        protocol = PROTOCOL.format(looked_at=looked_at, within=near or "of which there are none here")
        cells: list[list[str | Cell]] = []
        for row in rows:
            apart = f"{difference(row, self.paper.measure)}{' ✓' if row['within'] else ''}"
            converged = MISSING if row["converged"] is None else f"{100 * row['converged']:.1f} %"
            cells.append([
                named(row), row["title"], _measured(row, "accuracy"), number(row["spread"], ".2f"),
                number(row["published_accuracy"], ".2f"), Cell(apart, strong=row["within"] is False),
                row["chosen"] or MISSING, f"{number(row['cv'], '.2f')} ± {number(row['cv_spread'], '.2f')}",
                row["cv_chosen"] or MISSING, converged,
            ])  # fmt: skip
        return table(HEAD, cells, self.experiment.title, texts=2, notes=[protocol, *self._notes(rows)])

    def _notes(self, rows: Sequence[Row]) -> Iterator[str]:
        for row in rows:
            if row["least_eigenvalue"]:
                values = ", ".join(f"{value:.2g} at γ = {gamma}" for gamma, value in row["least_eigenvalue"].items())
                yield (
                    f"{named(row)}, {row['title']}: smallest eigenvalue of the training rows' kernel, relative to the "
                    f"largest: {values}. Where it is negative the kernel is none, and the SVM is at a stationary point."
                )
        for dataset, columns in self.of.get("leak", {}).items():
            yield (
                f"{dataset}: columns {columns[0]} to {columns[-1]} are the class, one-hot. The printed numbers are "
                "with them, and so are ours beside them; nobody should use them for anything else."
            )
        for row in rows:
            if row["system"].startswith("linear") and row["by_C"]:
                pairs = ", ".join(
                    f"{C:g}: {value:.2f}{'' if done == 1 else '*'}"
                    for C, value, done in zip(row["Cs"], row["by_C"], row["converged_by_C"], strict=True)
                )
                yield f"{named(row)}, {row['title']}, accuracy by C (*: not all converged): {pairs}."

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]] | None:
        """A line for each system."""
        cells: list[Sequence[str]] = [
            (named(row), row["title"], row["chosen"], _measured(row, "accuracy"), number(row["spread"], ".2f"),
             number(row["published_accuracy"], ".2f"), difference(row, self.paper.measure),
             number(row["cv"], ".2f"), number(row["cv_spread"], ".2f"), str(row["shuffles"]))
            for row in rows
        ]  # fmt: skip
        head = (
            "data set", "system", "at", "best on test", "spread", "printed", "difference", "cross-validated",
            "its spread", "shuffles",
        )  # fmt: skip
        return head, cells


def named(row: Row) -> str:
    """Data set, and in which way it is used."""
    return f"{row['dataset']}, {row['way']}" if row["way"] else str(row["dataset"])


def _measured(row: Row, key: str) -> str:
    return number(row[key], ".2f") if row["status"] == "finished" else MARKS[row["status"]]


def _by_C(Cs: Sequence[float], curves: Sequence[tuple[Iterable[float], Iterable[float]]]) -> list[float]:
    """Return the mean at each C over what shuffles have found at theirs."""
    each = [dict(zip(*curve, strict=True)) for curve in curves]
    return [round(float(np.mean([curve[C] for curve in each])), 4) for C in Cs]


def _told(chosen: Sequence[Mapping[str, float]], Cs: Sequence[float]) -> str:
    """The median of each parameter and of C over the shuffles."""
    medians = {name: float(np.median([values[name] for values in chosen])) for name in chosen[0]}
    parts = [*(f"{name} {value:g}" for name, value in medians.items()), f"C {float(np.median(Cs)):g}"]
    return ", ".join(parts)


class Quoted(Form):
    """Table 3: nothing of it is computed."""

    def rows(self, made: Made) -> list[Row]:  # noqa: ARG002
        """One for each system."""
        return [{"system": name, **values} for name, values in self.paper.published["table3"].items()]

    def html(self, rows: Sequence[Row]) -> str:
        """Return the table as it is printed."""
        sets = [name for name in rows[0] if name not in ("system", "group")]
        cells = [[row["system"], str(row["group"]), *(number(row[name], ".2f") for name in sets)] for row in rows]
        notes = [
            "All numbers are printed ones, errors in per cent: 1, as Larochelle and others reported; 2, this paper; 3, "
            "boosted trees as Li reported. None of these data sets is here, so none is ours."
        ]
        return table(("system", "group", *sets), cells, self.experiment.title, texts=1, notes=notes)

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
        """Return the table as it is printed."""
        sets = [name for name in rows[0] if name not in ("system", "group")]
        return ("system", "group", *sets), [
            (row["system"], str(row["group"]), *(number(row[name], ".2f") for name in sets)) for row in rows
        ]


class Pictured(BestOnTest):
    """Figures 1 to 4: the runs of a table, drawn."""

    def html(self, rows: Sequence[Row]) -> str:
        """The pictures say it all."""
        text = {
            "1": "The trees that the paper's lower panel shows are printed in no table.",
            "3": "Curves: the 57 data sets of the printed Table 1. Lines: the data sets that are here, by our numbers.",
            "4": "The trees and deep networks of the paper's panels are printed in no table.",
        }.get(self.experiment.name)
        return table((), [], self.experiment.title, notes=[text]) if text and rows else ""

    def printed_out(self, rows: Sequence[Row]) -> None:
        """Print nothing: the table has it."""

    def figures(self, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
        """Yield the pictures."""
        name = self.experiment.name
        there = [row for row in rows if row["accuracy"] is not None]
        if name == "2":
            for way, group in groupby(there, key=named):
                yield f"figure2-{way.replace(', ', '-').replace(' ', '-')}", pictures.against_C(way, list(group))
        elif name == "3":
            yield "figure3", pictures.reductions(self.paper.published["table1"], there)
        else:
            systems = self.experiment.systems
            yield f"figure{name}", pictures.noise(self.paper.published["table2"], there, systems, self.paper.systems)


FORMS: dict[str, type[Form]] = {
    "table 1": BestOnTest,
    "table 2": BestOnTest,
    "table 3": Quoted,
    "figure 1": Pictured,
    "figure 2": Pictured,
    "figure 3": Pictured,
    "figure 4": Pictured,
    "figure 5": Hashed,
    "figure 6": Hashed,
    "figure 7": Hashed,
    "section linearised": Linearised,
}
"""Forms by label."""
