"""Find classifiers that are no better than a constant, miss a class, or give poor probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ikmap.tasks.verdict import BASELINE, CALIBRATION, NOTHING, UNFOUND, Verdict, Z, auc_by_chance, highest_share

HARDLY = 0.1
"""A class of whose rows so few are found is hardly ever found."""
SHOWN = 5
"""So many such classes are named."""
POOR = 0.02
"""Probabilities that are further off than this, beyond what chance explains, are poor: two percentage points."""


def class_verdicts(name: str, figures: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[Verdict]:
    """Return the verdicts on one learner.

    Parameters
    ----------
    figures, metrics : mapping
        ``learners.NAME`` of ``metrics.json``, and all of it.
    """
    counts, labels = np.array(figures.get("confusion", []), dtype=np.float64), figures.get("labels", [])
    if counts.ndim != 2 or len(labels) != len(counts) or not counts.sum():
        return []
    constant = _no_better(name, figures, counts, labels, metrics)
    learned = constant is None or constant.kind != NOTHING
    found = (
        constant,
        _unfound(name, counts, labels, metrics) if learned else None,
        _uncalibrated(name, figures, metrics),
    )
    return [verdict for verdict in found if verdict is not None]


def _no_better(
    name: str, figures: Mapping[str, Any], counts: np.ndarray, labels: Sequence[Any], metrics: Mapping[str, Any]
) -> Verdict | None:
    """Compare a learner with the constant that always answers the most frequent class of the training rows."""
    in_training: Any = _part(metrics, "data").get("class_counts_train")
    there, hits = counts.sum(axis=1), np.diag(counts)
    known = isinstance(in_training, list) and len(in_training) == len(counts)
    usual = int(np.argmax(in_training if known else there))
    # As in McNemar's test: rows that only one of the two has right.
    only_own, only_usual = hits.sum() - hits[usual], there[usual] - hits[usual]
    if only_own - only_usual > Z * math.sqrt(only_own + only_usual):
        return None
    rows, present = counts.sum(), there[there > 0]
    what = (
        f"{name} is right on {hits.sum() / rows:.1%} of {rows:,.0f} rows, no better than always answering "
        f"{labels[usual]} ({there[usual] / rows:.1%})"
    )
    area, chance = figures.get("roc_auc"), [auc_by_chance(own, rows - own) for own in present if own < rows]
    ranks = isinstance(area, int | float) and bool(chance) and area > np.mean(chance)
    recall = hits[there > 0] / present
    deviation = math.sqrt((recall * (1 - recall) / present).sum()) / recall.size
    finds = recall.mean() > 1 / recall.size + Z * deviation
    if not (ranks or finds):
        return Verdict(NOTHING, f"{what}: it has learned nothing from these columns", name)
    if _trades_accuracy(name, metrics):
        return None
    mean = f"its mean recall of {recall.mean():.1%} is better than chance"
    though = f"it ranks rows better than chance (ROC AUC {area:.3f})" if ranks else mean
    return Verdict(BASELINE, f"{what}, though {though}: {_instead(name, len(counts), metrics)}", name)


def _trades_accuracy(name: str, metrics: Mapping[str, Any]) -> bool:
    """Return whether the run was asked to have rare classes found at the cost of accuracy."""
    params = _part(metrics, "params")
    balanced = _part(_part(params, "methods"), name).get("class_weight") == "balanced"
    return balanced or bool(params.get("threshold_for")) or params.get("select_by") == "balanced_accuracy"


def _unfound(name: str, counts: np.ndarray, labels: Sequence[Any], metrics: Mapping[str, Any]) -> Verdict | None:
    """Name the classes of which hardly any row is found, and certainly not half of them."""
    missed = [
        f"{hits:,} of {rows:,} rows of class {label}"
        for label, hits, rows in zip(
            labels, np.diag(counts).astype(int).tolist(), counts.sum(axis=1).astype(int).tolist(), strict=True
        )
        if rows and hits < HARDLY * rows and highest_share(hits, rows) < 0.5
    ]
    if not missed:
        return None
    rest = f" and of {len(missed) - SHOWN} classes more as few" if len(missed) > SHOWN else ""
    return Verdict(
        UNFOUND, f"{name} finds {', '.join(missed[:SHOWN])}{rest}: {_instead(name, len(counts), metrics)}", name
    )


def _uncalibrated(name: str, figures: Mapping[str, Any], metrics: Mapping[str, Any]) -> Verdict | None:
    """Compare the calibration error with that of probabilities that are right."""
    error, chance = figures.get("calibration_error"), figures.get("calibration_chance")
    if not isinstance(error, int | float) or not isinstance(chance, int | float):
        return None
    if error < 2 * chance or error - chance < POOR:
        return None
    asked = _part(metrics, "params").get("calibration")
    if metrics.get("online"):
        give = ""
    elif asked in ("platt", "isotonic"):
        other = "isotonic" if asked == "platt" else "platt"
        give = f": the test rows differ from the training rows, or give --calibration {other}"
    else:
        give = ": give --calibration isotonic, or platt where rows are few"
    return Verdict(
        CALIBRATION,
        f"the probabilities of {name} are off by {error:.1%} on average (right ones would be by {chance:.1%}){give}",
        name,
    )


def _instead(name: str, classes: int, metrics: Mapping[str, Any]) -> str:
    """Return what to type so that rare classes count for more: the first that the run can have and has not."""
    params = _part(metrics, "params")
    own, words = _part(_part(params, "methods"), name), ""
    if classes == 2 and not metrics.get("online") and not params.get("threshold_for"):
        words = "--threshold-for balanced"
    elif own.get("class_weight") == "none":
        words = "--class-weight balanced"
    elif metrics.get("selection") and params.get("select_by") != "balanced_accuracy":
        words = "--select-by balanced_accuracy"
    return f"give {words}, or another --learner" if words else "give another --learner"


def _part(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = of.get(key)
    return value if isinstance(value, Mapping) else {}
