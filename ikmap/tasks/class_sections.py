"""What a report shows of classifiers: their errors, the rows that are predicted worst, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ikmap.tasks.importance_sections import importance_sections
from ikmap.tasks.sections import Confusion, Lines, Section, Table, Text

SHOWN = 10
"""Of the rows that are predicted worst."""
EVEN = "as said"
"""The line on which probabilities come true as often as they say."""


def sections(metrics: Mapping[str, Any]) -> Sequence[Section]:
    """All of them; any part of the metrics may be missing."""
    data, learners = metrics.get("data"), metrics.get("learners")
    classes = _listed(data.get("classes")) if isinstance(data, Mapping) else []
    known = {
        str(name): about
        for name, about in (learners.items() if isinstance(learners, Mapping) else ())
        if isinstance(about, Mapping)
    }
    errors: list[Any] = [
        Confusion(name, _listed(about.get("labels")) or classes, about["confusion"])
        for name, about in known.items()
        if "confusion" in about
    ]
    found = [Section("errors", "Errors", errors)] if errors else []
    if ranked := _ranking(known):
        found.append(Section("ranking", "Ranking and probabilities", ranked))
    found += importance_sections(metrics, {"accuracy": "accuracy", "roc_auc": "ROC AUC"})
    if worst := _worst(known, data.get("id") if isinstance(data, Mapping) else None):
        found.append(Section("worst", "Rows predicted worst", worst))
    return found


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _ranking(known: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """ROC curves, precision over recall and calibration."""
    of_class: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, about in known.items():
        curves = about.get("curves")
        for label, curve in curves.items() if isinstance(curves, Mapping) else ():
            if isinstance(curve, Mapping):
                of_class.setdefault(str(label), {})[name] = curve
    parts: list[Any] = []
    for label, of in of_class.items():
        roc = {name: points for name, curve in of.items() if (points := _points(curve.get("roc")))}
        if roc:
            parts.append(
                Lines(
                    f"ROC curve of {label}",
                    "share of the other rows that are taken for it",
                    f"share of the rows of {label} that are found",
                    roc,
                    "From the highest score down: the further to the upper left, the better a learner ranks.",
                )
            )
        recalled = {name: points for name, curve in of.items() if (points := _points(curve.get("precision_recall")))}
        if recalled:
            parts.append(
                Lines(
                    f"Precision and recall of {label}",
                    f"share of the rows of {label} that are found (recall)",
                    "share of those found that are right (precision)",
                    recalled,
                )
            )
    said = {name: points for name, about in known.items() if (points := _points(about.get("calibration_curve")))}
    if said:
        parts.append(
            Lines(
                "Calibration",
                "probability that is said",
                "share that comes true",
                {**said, EVEN: [(0.0, 0.0), (1.0, 1.0)]},
                "By bins of width 1/15. Above the straight line a learner says too little, below it too much."
                + "".join(_off_by(name, known[name]) for name in said),
            )
        )
    return parts


def _off_by(name: str, about: Mapping[str, Any]) -> str:
    """How large the calibration error is, and how large it would be by chance."""
    error, chance = about.get("calibration_error"), about.get("calibration_chance")
    if not isinstance(error, int | float):
        return ""
    perfect = f"; perfect probabilities would have {chance:.4f} on so many rows" if isinstance(chance, float) else ""
    return f" {name}: calibration error {error:.4f}{perfect}."


def _points(value: Any) -> list[tuple[float, float]]:
    """The first two numbers of each entry."""
    rows = [row for row in _listed(value) if isinstance(row, list | tuple) and len(row) >= 2]
    return [(row[0], row[1]) for row in rows if all(isinstance(x, int | float) for x in row[:2])]


def _worst(known: Mapping[str, Mapping[str, Any]], column: Any) -> list[Any]:
    """A table for each learner, and what it shows; `column` has the ids of the rows."""
    tables, sure = [], False
    for name, about in known.items():
        rows = [row for row in _listed(about.get("worst"))[:SHOWN] if isinstance(row, Mapping)]
        if rows:
            probable = about.get("log_loss") is not None
            sure |= probable
            named = any("id" in row for row in rows)
            head = (
                *((str(column or "id"),) if named else ()),
                *("row", "true class", "predicted", "probability of its class" if probable else "distance"),
            )
            values = [
                (
                    *((str(row.get("id", "")),) if named else ()),
                    *(str(row.get(key)) for key in ("row", "true", "predicted")),
                    _off(row.get("off"), probable),
                )
                for row in rows
            ]
            tables.append(Table(f"By {name}", head, values))
    if not tables:
        return []
    text = "Rows on which a learner is most surely wrong, counted from 0 as they stand in their file. "
    text += "Often their label is wrong, or something that a column should say is not in the table."
    if not sure:
        text += " The distance is that of the decision value from being right."
    return [Text(text), *tables]


def _off(value: Any, probable: bool) -> Any:
    if not isinstance(value, int | float):
        return ""
    return float(f"{1 - value if probable else value:.3g}")
