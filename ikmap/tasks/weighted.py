"""Metrics of rows with sample weights, as exact sums over the rows, so that they add up over shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ikmap.json_values import Json, JsonObject, learners_of, list_of, mapping_of
from ikmap.tasks.capabilities import WeightedScorer, capability
from ikmap.tasks.criteria import criterion_of
from ikmap.tasks.sections import Section, Table, Text
from ikmap.tasks.task import Task

if TYPE_CHECKING:
    import numpy as np

WEIGHT, SCORE = "weight", "score"
TITLES = {
    "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "log_loss": "log loss", "brier": "Brier score",
    "r2": "R2", "rmse": "root of the mean squared error", "mae": "mean absolute error",
}  # fmt: skip


def weighted_sums(task: Task, target: np.ndarray, decision: np.ndarray, weight: np.ndarray) -> dict[str, Json]:
    """Return the exact weighted sums of some rows for a record; :func:`weighted_metrics` adds them up."""
    from ikmap.tasks.exact_sums import ExactSum

    scorer = capability(task, WeightedScorer)
    if scorer is None:
        criterion = criterion_of(task)
        terms = {SCORE: criterion.row_scores(target, criterion.scored_values(decision))}
    else:
        terms = scorer.weighted_terms(target, decision)
    sums = {WEIGHT: weight, **{key: weight * values for key, values in terms.items()}}
    return {key: ExactSum.of(values).as_json() for key, values in sums.items()}


def weighted_metrics(task: Task, records: Sequence[JsonObject]) -> dict[str, float | None]:
    """Return the weighted metrics of all rows; the main metric is None where the weights sum up to 0."""
    from ikmap.tasks.exact_sums import ExactSum

    parts = [{key: ExactSum.from_json(list_of(value)) for key, value in record.items()} for record in records]
    sums = {key: float(sum((part[key] for part in parts), ExactSum())) for key in parts[0]}
    main = task.kind.presenter.metric.key
    if not sums[WEIGHT]:
        return {main: None}
    scorer = capability(task, WeightedScorer)
    if scorer is not None:
        return scorer.weighted_metrics(sums)
    return {main: criterion_of(task).score(sums[SCORE], sums[WEIGHT])}


def weighted_sections(metrics: JsonObject) -> Sequence[Section]:
    """Return the sections of a report on weighted metrics; parts of the metrics may be missing."""
    column = mapping_of(metrics.get("data")).get("weight")
    known = {
        name: weighted
        for name, learner in learners_of(metrics).items()
        if isinstance(weighted := learner.get("weighted"), Mapping)
    }
    if column is None or not known:
        return []
    keys = [key for key in TITLES if any(isinstance(values.get(key), int | float) for values in known.values())]
    rows = [(name, *("" if values.get(key) is None else values[key] for key in keys)) for name, values in known.items()]
    text = (
        f"Rows count by column {column}: in learning, in cross-validation and in the figures below. All other figures "
        "of this report count each row once."
    )
    table = Table("", ("learner", *(TITLES[key] for key in keys)), rows)
    return [Section("weighted", "Weighted figures", [Text(text), table])]
