"""The contents of ``results.json``: the results of the runs beside the printed numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pipeline.record_types import Record, RecordView
from pipeline.reproduce.compared import form_of
from pipeline.reproduce.drawing import save
from pipeline.reproduce.paper import Entry, Experiment, Made, Outcome, Paper, shown


def collect(
    paper: Paper,
    experiments: Sequence[Experiment],
    entries: Mapping[str, Sequence[Entry]],
    outcomes: Callable[[Entry], Outcome],
    chosen: RecordView,
    sizes: RecordView,
    folder: Path,
) -> Record:
    """The contents of ``results.json``, less what it says of the command; draws the pictures.

    Parameters
    ----------
    entries : mapping
        Runs by label of the experiment.
    outcomes : callable
        How a run ended.
    chosen : mapping
        Values of the paper's options: what was taken of each reading, or "all".
    sizes : mapping
        What the ingest of each data set has found, for forms that are `sized`.
    folder : Path
        Where pictures go.
    """
    made_of = []
    for experiment in experiments:
        form = form_of(paper, experiment)
        rows = form.rows(Made(entries[experiment.label], outcomes, chosen, sizes))
        made_of.append({
            "kind": experiment.kind,
            "name": experiment.name,
            "title": experiment.title,
            "counted": experiment.about.get("seconds", []),
            "rows": rows,
            "published": form.published,
            "pictures": [save(figure, folder, name) for name, figure in form.figures(rows)],
        })  # fmt: skip
    return {
        "schema_version": 1,
        "paper": paper.title,
        "name": paper.name,
        "source": paper.source,
        "measure": paper.measure.key,
        "readings": [
            {"name": r.name, "title": r.title, "why": r.why, "values": list(r.values), "shown": shown(r, chosen)}
            for r in paper.readings.values()
        ],
        "experiments": made_of,
    }
