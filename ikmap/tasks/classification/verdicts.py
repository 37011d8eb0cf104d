"""Tell how good classifiers are.

Find those that are no better than a constant, miss a class, or give poor probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ikmap.json_values import JsonObject, Label, labels_of, mapping_of, number_of
from ikmap.tasks.verdict import (
    BASELINE,
    CALIBRATION,
    FEW,
    NOTHING,
    UNFOUND,
    Verdict,
    Z,
    auc_by_chance,
    highest_share,
    in_percent,
    interval_of_auc,
    interval_of_share,
    perfect,
)

HARDLY = 0.1
"""Share of the rows of a class below which the class is hardly ever found."""
SHOWN = 5
"""Largest number of missed classes that are named."""
RARE = 0.1
"""Share of the test rows below which one of two classes is rare, so that accuracy says little."""
FLAWLESS_ROWS = 100
"""Number of test rows of other classes than the most frequent one from which on it is suspect to be right on all."""
POOR = 0.02
"""Calibration error beyond chance above which probabilities are poor: two percentage points."""


def class_verdicts(name: str, learner: JsonObject, metrics: JsonObject) -> list[Verdict]:
    """Return the verdicts on one learner.

    Parameters
    ----------
    name : str
        Name of the learner.
    learner, metrics : mapping
        ``learners.NAME`` of ``metrics.json``, and all of ``metrics.json``.
    """
    counts = np.array(learner.get("confusion", []), dtype=np.float64)
    labels = labels_of(learner.get("labels"))
    if counts.ndim != 2 or len(labels) != len(counts) or not counts.sum():
        return []
    constant = _no_better(name, learner, counts, labels, metrics)
    learned = constant is None or constant.kind not in (NOTHING, FEW)
    verdicts = (
        constant,
        _unfound(name, counts, labels, metrics) if learned else None,
        None if metrics.get("online") else _flawless(name, counts),
        _uncalibrated(name, learner, metrics),
    )
    return [verdict for verdict in verdicts if verdict is not None]


def quality_of_classes(learner: JsonObject, metrics: JsonObject) -> str:
    """Return how good a classifier is: by ranks if one of two classes is rare, else by the share that is right."""
    counts = np.array(learner.get("confusion", []), dtype=np.float64)
    labels = labels_of(learner.get("labels"))
    if counts.ndim != 2 or len(labels) != len(counts) or not counts.sum():
        return ""
    there, rows = counts.sum(axis=1), float(counts.sum())
    area = number_of(learner.get("roc_auc"))
    if len(labels) == 2 and area is not None and 0 < there.min() < RARE * rows:
        own = int(there.argmin())
        low, high = interval_of_auc(area, there[own], rows - there[own])
        precision = number_of(learner.get("average_precision"))
        text = f"has ROC AUC {area:.3f} (95% interval {low:.3f} to {high:.3f}; by chance 0.5)"
        if own == 1 and precision is not None:  # it is that of the second class
            text += f" and average precision {precision:.3f} (by chance {there[1] / rows:.3g})"
        return f"{text} on {{rows}}; {in_percent(there[own] / rows)} of them are of class {labels[own]}"
    share, usual = float(np.diag(counts).sum() / rows), _usual(counts, metrics)
    low, high = interval_of_share(share, rows)
    return (
        f"is right on {in_percent(share)} of {{rows}} (95% interval {in_percent(low)} to {in_percent(high)}), always "
        f"answering {labels[usual]} would be on {in_percent(there[usual] / rows)}"
    )


def _usual(counts: np.ndarray, metrics: JsonObject) -> int:
    """Return the most frequent class of the training rows; if they are not known, of the test rows."""
    in_training = mapping_of(metrics.get("data")).get("class_counts_train")
    known = isinstance(in_training, list) and len(in_training) == len(counts)
    return int(np.argmax(np.array(in_training) if known else counts.sum(axis=1)))


def _no_better(
    name: str, learner: JsonObject, counts: np.ndarray, labels: Sequence[Label], metrics: JsonObject
) -> Verdict | None:
    """Compare a learner with the constant that always answers the most frequent class of the training rows."""
    there, hits, usual = counts.sum(axis=1), np.diag(counts), _usual(counts, metrics)
    # McNemar's test compares the rows on which only one of the two is right.
    only_own, only_usual = hits.sum() - hits[usual], there[usual] - hits[usual]
    rows, present = counts.sum(), there[there > 0]
    if hits.sum() == rows or only_own - only_usual > Z * math.sqrt(only_own + only_usual):
        return None
    by_chance = only_own > only_usual
    comparison = (
        f"{name} is right on {in_percent(hits.sum() / rows)} of {rows:,.0f} rows, "
        f"{'not certainly' if by_chance else 'no'} better than always answering {labels[usual]} "
        f"({in_percent(there[usual] / rows)})"
    )
    area, chance = number_of(learner.get("roc_auc")), [auc_by_chance(own, rows - own) for own in present if own < rows]
    ranks = area is not None and bool(chance) and area > np.mean(chance)
    recall = hits[there > 0] / present
    deviation = math.sqrt((recall * (1 - recall) / present).sum()) / recall.size
    finds = recall.mean() > 1 / recall.size + Z * deviation
    if not (ranks or finds) and by_chance:
        return Verdict(FEW, f"{comparison}: these rows do not tell whether it has learned anything", name)
    if not (ranks or finds):
        return Verdict(NOTHING, f"{comparison}: it has learned nothing from these columns", name)
    if _trades_accuracy(name, metrics):
        return None
    mean = f"its mean recall of {recall.mean():.1%} is better than chance"
    though = f"it ranks rows better than chance (ROC AUC {area:.3f})" if ranks else mean
    return Verdict(BASELINE, f"{comparison}, though {though}: {_instead(name, len(counts), metrics)}", name)


def _trades_accuracy(name: str, metrics: JsonObject) -> bool:
    """Return whether the user traded accuracy for finding rare classes."""
    params = mapping_of(metrics.get("params"))
    balanced = mapping_of(mapping_of(params.get("methods")).get(name)).get("class_weight") == "balanced"
    return balanced or bool(params.get("threshold_for")) or params.get("select_by") == "balanced_accuracy"


def _unfound(name: str, counts: np.ndarray, labels: Sequence[Label], metrics: JsonObject) -> Verdict | None:
    """Warn of the classes of which hardly any row is found, and certainly not half of them."""
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


def _flawless(name: str, counts: np.ndarray) -> Verdict | None:
    """Warn if all rows are predicted right, of which many are not of the most frequent class."""
    there, rows = counts.sum(axis=1), counts.sum()
    if np.diag(counts).sum() < rows or rows - there.max() < FLAWLESS_ROWS:
        return None
    return perfect(name, f"is right on all {rows:,.0f} test rows")


def _uncalibrated(name: str, learner: JsonObject, metrics: JsonObject) -> Verdict | None:
    """Compare the calibration error with that of probabilities that are right."""
    error, chance = number_of(learner.get("calibration_error")), number_of(learner.get("calibration_chance"))
    if error is None or chance is None:
        return None
    if error < 2 * chance or error - chance < POOR:
        return None
    how = mapping_of(metrics.get("params")).get("calibration")
    if metrics.get("online"):
        give = ""
    elif how in ("platt", "isotonic"):
        other = "isotonic" if how == "platt" else "platt"
        give = f": the test rows differ from the training rows, or give --calibration {other}"
    else:
        give = ": give --calibration isotonic, or platt where rows are few"
    return Verdict(
        CALIBRATION,
        f"the probabilities of {name} are off by {error:.1%} on average (right ones would be by {chance:.1%}){give}",
        name,
    )


def _instead(name: str, classes: int, metrics: JsonObject) -> str:
    """Return advice to use the first option that makes rare classes count more and that the run does not have yet."""
    params = mapping_of(metrics.get("params"))
    own, words = mapping_of(mapping_of(params.get("methods")).get(name)), ""
    if classes == 2 and not metrics.get("online") and not params.get("threshold_for"):
        words = "--threshold-for balanced"
    elif own.get("class_weight") == "none":
        words = "--class-weight balanced"
    elif metrics.get("selection") and params.get("select_by") != "balanced_accuracy":
        words = "--select-by balanced_accuracy"
    return f"give {words}, or another --learner" if words else "give another --learner"
