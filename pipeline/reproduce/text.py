"""Results in words and numbers: the line when a run ends, and what stands in tables."""

from __future__ import annotations

from pipeline.record_types import RecordView
from pipeline.report.text import MISSING, duration
from pipeline.reproduce.paper import Measure, Outcome

MARKS = {"stopped": "stopped", "memory": "-ME-", "failed": "failed", "defect": "failed"}
"""Words in place of a number, for a run that has none."""

ACCURACY = Measure()


def one_line(key: str, outcome: Outcome, seconds: float, measure: Measure = ACCURACY) -> str:
    """Return the line for a run that has ended."""
    if outcome.metrics is None:
        return f"{key}: {outcome.message}"
    values = [number(learner[measure.key], measure.form) for learner in outcome.metrics["learners"].values()]
    return f"{key}: {measure.key} {', '.join(values)}, {seconds:.0f} s"


def number(value: object, form: str = ".4f") -> str:
    """A number, or a mark in its place."""
    return MISSING if value is None else format(value, form) if isinstance(value, int | float) else str(value)


def seconds(value: object) -> str:
    """Seconds printed or measured, or a mark in their place."""
    return duration(value) if isinstance(value, int | float) else MISSING if value is None else str(value)


def difference(row: RecordView, measure: Measure = ACCURACY) -> str:
    """Ours less printed, with its sign."""
    return MISSING if row["difference"] is None else format(row["difference"], f"+{measure.form}")


def measured(row: RecordView, measure: Measure = ACCURACY) -> str:
    """Return the measured number of a run, or the mark of how it ended."""
    return number(row[measure.key], measure.form) if row["status"] == "finished" else MARKS[row["status"]]


def how(row: RecordView) -> str:
    """Return the readings in which a row differs from the one that is held against the printed number."""
    return "" if row["shown"] else ", ".join(f"{k}: {v}" for k, v in row["other"].items())
