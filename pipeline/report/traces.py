"""Traces that learners recorded as they learned: a small curve for each title that they declare."""

from __future__ import annotations

from collections.abc import Sequence

from ikmap.methods import LEARNERS, StreamLearner
from ikmap.tasks.sections import Lines
from pipeline.report.fields import Metrics, get_list, get_mapping, get_points, learners_of
from pipeline.report.rendering import render
from pipeline.report.sections import lines_figure
from pipeline.report.stream import is_stream


def traces_section(metrics: Metrics) -> str:
    """Return a picture for each title, with the lines of each learner that has it; empty without traces.

    If a learner has several traces of one title, such as a share and its target, the later ones have their names.
    """
    lines_by_title: dict[str, dict[str, Sequence[tuple[float, float]]]] = {}
    for learner, record in learners_of(metrics).items():
        rows = get_list(get_mapping(record, "curve"), "rows")
        for name, values in get_mapping(record, "traces").items():
            if points := get_points({"rows": rows, "values": values}, "rows", "values"):
                lines = lines_by_title.setdefault(_title(learner, name), {})
                lines[f"{learner}: {name}" if learner in lines else learner] = points
    x_label = "rows of the stream" if is_stream(metrics) else "training rows seen"
    figures = [
        lines_figure(f"trace-{i}", Lines(title, x_label, _short(title), lines))
        for i, (title, lines) in enumerate(lines_by_title.items())
    ]
    if not figures:
        return ""
    return render("parts.html", key="traces", title="As they learned", kind="pair", parts=figures)


def _short(title: str) -> str:
    """Return the text along the axis: the title without its explanation."""
    return title.split(" (")[0].split(",")[0].lower()


def _title(learner: str, name: str) -> str:
    """Return the title that the learner declares for a trace, if the learner is known here."""
    known = LEARNERS.get(learner)
    return known.traced.get(name, name) if known is not None and issubclass(known, StreamLearner) else name
