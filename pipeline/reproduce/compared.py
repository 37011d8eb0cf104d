"""Tables of systems on data sets: our number beside the printed one, for each way to read the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from pipeline.record_types import Record, RecordView
from pipeline.report.rendering import Cell
from pipeline.report.scores import confusion_of, majority_baseline
from pipeline.report.text import MISSING
from pipeline.reproduce.form import link
from pipeline.reproduce.paper import WITHIN, Entry, Experiment, Form, Made, Outcome, Paper, Request, Row, System, shown
from pipeline.reproduce.rendering import render
from pipeline.reproduce.text import difference, how, measured, number, seconds

PARTS = {"build": "partition", "map": "cells", "train": "train:", "test": "evaluate:"}
"""Parts of a batch run's time, and the stages that they are."""


class Compared(Form):
    """A table of systems; ``seconds`` in ``experiments.toml`` are the parts of the time that its printed ones count."""

    def entries(self, request: Request) -> Iterator[Entry]:
        """Yield for each data set the runs to compare, then those that read the paper otherwise in one point."""
        paper = self.paper
        names = [name for name in self.experiment.systems if request.systems is None or name in request.systems]
        for dataset in request.datasets:
            for name in names:
                yield main_entry(paper, dataset, paper.systems[name], request.readings)
            for name in names:
                yield from _otherwise(paper, dataset, paper.systems[name], request.readings)

    def printed(self, dataset: str, system: str) -> tuple[object, object]:
        """Return the number that the paper prints, or its mark for a missing number, and its seconds."""
        tables = self.paper.published
        value = tables.get(f"table{self.experiment.name}", {}).get(dataset, {}).get(system)
        return (value[0], value[1]) if isinstance(value, list) else (value, None)

    def rows(self, made: Made) -> list[Row]:
        """One for each run."""
        return [self._row(entry, made.outcome(entry), made.readings) for entry in made.entries]

    def _row(self, entry: Entry, outcome: Outcome, chosen: RecordView) -> Row:
        system, key = self.paper.systems[entry.system], self.paper.measure.key
        was, was_seconds = self.printed(entry.dataset, entry.system)
        of_run: Row = {key: None, "seconds": None, "parts": {}, "chosen": "", "larger_class": None}
        if outcome.metrics is not None:
            of_run = batch_result(outcome.metrics, self.experiment.about.get("seconds", tuple(PARTS)), key)
        ours = of_run[key]
        apart = ours - was if ours is not None and isinstance(was, int | float) else None
        return {
            "dataset": entry.dataset,
            "system": entry.system,
            "title": system.title,
            "reading": readings_of(self.paper, entry, chosen),
            "shown": entry.reading is None,
            "other": dict([entry.reading] if entry.reading else []),
            **of_run,
            f"published_{key}": was,
            "published_seconds": was_seconds,
            "difference": None if apart is None else round(apart, 6),
            "within": None if apart is None else abs(apart) <= WITHIN,
            "tolerance": WITHIN,
            **outcome.told(),
            "message": remark(of_run, outcome),
        }

    def html(self, rows: Sequence[Row]) -> str:
        """Return a table for each data set: the systems, and below them the other readings."""
        grouped = {dataset: list(group) for dataset, group in groupby(rows, key=lambda row: row["dataset"])}
        counted = ", ".join(self.experiment.about.get("seconds", PARTS))
        datasets = [self._dataset(dataset, group) for dataset, group in grouped.items()]
        return render("compared.html", datasets=datasets, what=self.paper.measure.what, counted=counted)

    def _dataset(self, dataset: str, rows: Sequence[Row]) -> Record:
        share = next((row["larger_class"] for row in rows if row["larger_class"]), None)
        return {
            "name": dataset,
            "larger_class": None if share is None else number(share),
            "shown": [self._cells(row, row["title"]) for row in rows if row["shown"]],
            "otherwise": [self._cells(row, f"{row['title']}, {how(row)}") for row in rows if not row["shown"]],
            "notes": [
                f"{row['title']}{', ' * bool(how(row))}{how(row)}: {row['message']}" for row in rows if row["message"]
            ],
        }

    def _cells(self, row: Row, title: str) -> list[str | Cell]:
        measure = self.paper.measure
        apart = f"{difference(row, measure)}{' ✓' if row['within'] else ''}"
        parts = ", ".join(seconds(value) for value in row["parts"].values()) or MISSING
        return [
            link(row, title),
            measured(row, measure),
            number(row[f"published_{measure.key}"], measure.printed),
            Cell(apart, strong=row["within"] is False),
            row["chosen"] or MISSING,
            seconds(row["seconds"]),
            seconds(row["published_seconds"]),
            parts,
        ]

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
        """A line for each run."""
        measure = self.paper.measure
        cells: list[Sequence[str]] = [
            (row["dataset"], row["title"], how(row), measured(row, measure),
             number(row[f"published_{measure.key}"], measure.printed), difference(row, measure),
             seconds(row["seconds"]))
            for row in rows
        ]  # fmt: skip
        return ("data set", "system", "read otherwise", "ours", "printed", "difference", "seconds"), cells


def main_entry(paper: Paper, dataset: str, system: System, chosen: RecordView) -> Entry:
    """The run whose result is held against the printed one."""
    options, parts = dict(system.options), [system.name]
    factors: dict[str, float] = {}
    for reading in paper.readings.values():
        value = shown(reading, chosen)
        if system.name in reading.systems and reading.values[value]:
            options |= {name: given for name, given in reading.values[value].items() if name != "times"}
            factors |= reading.values[value].get("times", {})
            parts.append(f"{reading.name}-{value}")
    for name, factor in factors.items():  # whatever another reading has made of the option
        options[name] *= factor
    return Entry(f"{dataset}/{'-'.join(parts)}", dataset, system.name, "batch", options)


def _otherwise(paper: Paper, dataset: str, system: System, chosen: RecordView) -> Iterator[Entry]:
    """Yield the runs that read the paper otherwise in one point."""
    for reading in paper.readings.values():
        if system.name not in reading.systems or chosen.get(reading.name, "all") != "all":
            continue
        for value in list(reading.values)[1:]:
            main = main_entry(paper, dataset, system, {**chosen, reading.name: value})
            yield Entry(main.key, dataset, system.name, "batch", main.options, (reading.name, value))


def remark(of_run: Row, outcome: Outcome) -> str:
    """Return the remark on a run; empty if there is none."""
    if of_run.get("gap") is not None:
        return f"not converged, duality gap {of_run['gap']:.2g}"
    return outcome.message


def batch_result(metrics: RecordView, counted: Sequence[str], measure: str = "accuracy") -> Row:
    """Return the measure of a run with one learner, its seconds and its choice.

    Parameters
    ----------
    counted : sequence of str
        The parts that make up the seconds.
    measure : str
        What the learner is measured by, as ``metrics.json`` calls it.
    """
    ((name, learner),) = metrics["learners"].items()
    busy = {stage["name"]: sum(worker["seconds_busy"] for worker in stage["workers"]) for stage in metrics["stages"]}
    parts = {part: round(busy.get(stage + name * stage.endswith(":"), 0.0), 4) for part, stage in PARTS.items()}
    larger = None
    if "confusion" in learner:
        larger = majority_baseline(metrics["data"], confusion_of(learner, metrics["data"]["classes"]))
    return {
        measure: learner[measure],
        "seconds": round(sum(parts[part] for part in counted), 4),
        "parts": parts,
        "selection_seconds": round(busy.get("select", 0.0), 4),
        "chosen": choice(metrics, name),
        "larger_class": larger,
        "gap": None if learner.get("converged", True) else learner["duality_gap"],
    }


def choice(metrics: RecordView, name: str) -> str:
    """Return the words for the value that cross-validation has chosen for a learner."""
    selection = metrics["selection"] or {}
    if name in selection.get("tuned", {}):
        tuned = selection["tuned"][name]
        return f"{tuned['parameter']} {tuned['chosen']:g}"
    return (
        f"{selection.get('parameter', 'psi')} {selection['chosen'][name]}"
        if name in selection.get("chosen", {})
        else ""
    )


def readings_of(paper: Paper, entry: Entry, chosen: RecordView) -> dict[str, str]:
    """Return the value of each reading that concerns a run."""
    values = {r.name: shown(r, chosen) for r in paper.readings.values() if entry.system in r.systems}
    return values | dict([entry.reading] if entry.reading else [])


def form_of(paper: Paper, experiment: Experiment) -> Form:
    """Return the form of an experiment of a paper.

    Raises
    ------
    LookupError
        The paper has to say (:meth:`~pipeline.reproduce.paper.Paper.form`), and does not.
    """
    form: type[Form] | None = paper.form(experiment)
    if form is not None:
        return form(paper, experiment)
    if experiment.kind != "table" or not experiment.systems:
        raise LookupError(f"{paper.name}: {experiment.label} has no form; {type(paper).__name__}.form must give one")
    return Compared(paper, experiment)
