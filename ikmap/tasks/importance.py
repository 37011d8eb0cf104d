"""Importance of columns to a learner: the metrics that measure it, and the section of a report on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ikmap.json_values import (
    Json,
    JsonObject,
    learners_of,
    list_of,
    mapping_of,
    number_of,
    objects_of,
    real_number,
)
from ikmap.tasks.sections import Cell, Lines, Part, Section, Table, Text
from ikmap.tasks.task import Task

if TYPE_CHECKING:
    import numpy as np

MOST_RESPONSES = 4
"""Largest number of classes whose probabilities are shown."""
SHOWN = 15
"""Number of columns that are shown."""
WEIGHT: JsonObject = {
    "description": "Of each column of the data, the most important first: by how much the figures get worse when its "
    "values are shuffled among the test rows (mean of three times; null: it has no value on these rows), and the "
    "standard deviation of the last of them.",
    "type": "array",
    "items": {"type": "object", "required": ["column", "deviation"]},
}
DEPENDENCE: JsonObject = {
    "description": "Of the columns that matter most: values, and what the learner says on average when all rows have "
    "that value.",
    "type": "array",
    "items": {"type": "object", "required": ["column", "kind", "values", "responses"]},
}
IMPORTANCE: Mapping[str, JsonObject] = {
    "importance": WEIGHT,
    "importance_rows": {
        "description": "Test rows by which importance was measured.",
        "type": "integer",
        "minimum": 0,
    },
    "partial_dependence": DEPENDENCE,
}


def importance_metrics(task: Task) -> tuple[str, ...]:
    """Return the metrics by which the importance of columns is measured; the last decides their order."""
    return ("accuracy", "roc_auc") if task.codec.classes else (task.kind.presenter.metric.key,)


def responses(task: Task, decision: np.ndarray) -> dict[str, np.ndarray]:
    """Return the responses of a learner to each row, by names for people.

    For classes they are probabilities, if there are any, or decisions: of the second of two classes, or of the first
    few of more. For other tasks they are predictions.
    """
    labels = task.codec.classes
    if not labels:
        single = decision.shape[1] == 1
        return {"prediction": decision[:, 0] if single else task.decisions.predict(decision)}
    probability = task.decisions.probabilities(decision)
    word, values = ("decision for", decision) if probability is None else ("probability of", probability)
    if len(labels) == 2:
        return {f"{word} {labels[1]}": values[:, -1]}
    return {f"{word} {label}": values[:, k] for k, label in enumerate(labels[:MOST_RESPONSES])}


def importance_sections(metrics: JsonObject, words: Mapping[str, str]) -> Sequence[Section]:
    """Return a section if any learner has importances; `words` names the metrics by which they are measured."""
    parts: list[Part] = []
    rows: Json = 0
    for name, learner in learners_of(metrics).items():
        columns = list_of(learner.get("importance"))
        if columns:
            rows = learner.get("importance_rows") or rows
            parts += [*_without_value(name, columns, words), _table(name, columns, words), *_dependence(name, learner)]
    if not parts:
        return ()
    text = Text(
        "By how much the figures get worse when the values of one column are shuffled among the test rows"
        + (f" ({rows:,} of them)" if isinstance(rows, int) and rows else "")
        + ", three times: what a learner would lose without knowing that column. Columns that say the same share what "
        "they are worth. The curves show what a learner says on average if all rows had the same value there."
    )
    return [Section("importance", "What matters", [text, *parts])]


def _without_value(name: str, columns: Sequence[Json], words: Mapping[str, str]) -> list[Part]:
    """Return a sentence on each metric that was to be measured and has no value."""
    keys = [key for key in words if all(column.get(key, "") is None for column in objects_of(columns))]
    return [Text(f"{name}: on these rows, {words[key]} has no value, and tells nothing of columns.") for key in keys]


def _table(name: str, columns: Sequence[Json], words: Mapping[str, str]) -> Table:
    keys = [key for key in words if any(number_of(column.get(key)) is not None for column in objects_of(columns))]
    rows = [
        [str(column.get("column")), *(_short(column.get(key)) for key in keys)]
        for column in objects_of(columns[:SHOWN])
    ]
    left = len(columns) - SHOWN
    title = f"To {name}" + (f", the first {SHOWN} of {len(columns)} columns" if left > 0 else "")
    return Table(title, ("column", *(f"{words[key]} lost" for key in keys)), rows)


def _dependence(name: str, learner: JsonObject) -> list[Part]:
    parts: list[Part] = []
    for curve in objects_of(learner.get("partial_dependence")):
        if not isinstance(curve.get("responses"), Mapping):
            continue
        column, values = str(curve.get("column")), list_of(curve.get("values"))
        lines = {str(key): list_of(means) for key, means in mapping_of(curve["responses"]).items()}
        title = f"{name}: by {column}"
        numbers = [number for value in values if (number := number_of(value)) is not None]
        if len(numbers) == len(values) > 1:
            points = {key: list(zip(numbers, map(real_number, means), strict=False)) for key, means in lines.items()}
            parts.append(Lines(title, column, "what is said, on average", points))
        elif values:
            rows = [[str(value), *(_short(means[k]) for means in lines.values())] for k, value in enumerate(values)]
            parts.append(Table(title, (column, *lines), rows))
    return parts


def _short(value: Json) -> Cell:
    return float(f"{value:.4g}") if isinstance(value, int | float) else ""
