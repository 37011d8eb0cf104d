"""Figures that learners recorded as they learned: a small curve for each title that they declare."""

from __future__ import annotations

from collections.abc import Sequence

from ikmap.methods import LEARNERS, StreamLearner
from ikmap.tasks.sections import Lines
from pipeline.report.fields import Metrics, get_list, get_mapping, get_points, learners_of
from pipeline.report.rendering import render
from pipeline.report.sections import lines_figure
from pipeline.report.stream import is_stream


def traces_section(metrics: Metrics) -> str:
    """A picture for each title, with the lines of each learner that has it; nothing where none has.

    Where a learner has several of one title, such as a share and what it is to be, the later ones have their names.
    """
    found: dict[str, dict[str, Sequence[tuple[float, float]]]] = {}
    for learner, about in learners_of(metrics).items():
        rows = get_list(get_mapping(about, "curve"), "rows")
        for name, values in get_mapping(about, "traces").items():
            if points := get_points({"rows": rows, "values": values}, "rows", "values"):
                lines = found.setdefault(_title(learner, name), {})
                lines[f"{learner}: {name}" if learner in lines else learner] = points
    x_label = "rows of the stream" if is_stream(metrics) else "training rows seen"
    figures = [
        lines_figure(f"trace-{i}", Lines(title, x_label, _short(title), lines))
        for i, (title, lines) in enumerate(found.items())
    ]
    if not figures:
        return ""
    return render("parts.html", key="traces", title="As they learned", kind="pair", parts=figures)


def _short(title: str) -> str:
    """What stands along the axis: the title up to what explains it."""
    return title.split(" (")[0].split(",")[0].lower()


def _title(learner: str, name: str) -> str:
    """As the learner declares it, where it is known here."""
    known = LEARNERS.get(learner)
    return known.traced.get(name, name) if known is not None and issubclass(known, StreamLearner) else name
