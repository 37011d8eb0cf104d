"""Which columns matter to a learner, and how: what is measured, and what a report shows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ikmap.tasks.json_values import (
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
    "values are shuffled among the test rows (mean of three times), and the standard deviation of the last of them.",
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
    """Return what a learner says of each row, by names for people.

    Of classes these are probabilities, where there are any, or decisions: with two classes those of the second, with
    more those of the first few. Else they are predictions.
    """
    labels = task.codec.classes
    if not labels:
        return {"prediction": decision[:, 0]}
    probability = task.decisions.probabilities(decision)
    word, values = ("decision for", decision) if probability is None else ("probability of", probability)
    if len(labels) == 2:
        return {f"{word} {labels[1]}": values[:, -1]}
    return {f"{word} {label}": values[:, k] for k, label in enumerate(labels[:MOST_RESPONSES])}


def importance_sections(metrics: JsonObject, words: Mapping[str, str]) -> Sequence[Section]:
    """Return a section if any learner has importances; `words` names the metrics by which they are measured."""
    parts: list[Part] = []
    rows: Json = 0
    for name, about in learners_of(metrics).items():
        columns = list_of(about.get("importance"))
        if columns:
            rows = about.get("importance_rows") or rows
            parts += [_table(name, columns, words), *_dependence(name, about)]
    if not parts:
        return ()
    text = Text(
        "By how much the figures get worse when the values of one column are shuffled among the test rows"
        + (f" ({rows:,} of them)" if isinstance(rows, int) and rows else "")
        + ", three times: what a learner would lose without knowing that column. Columns that say the same share what "
        "they are worth. The curves show what a learner says on average if all rows had the same value there."
    )
    return [Section("importance", "What matters", [text, *parts])]


def _table(name: str, columns: Sequence[Json], words: Mapping[str, str]) -> Table:
    keys = [key for key in words if any(key in one for one in objects_of(columns))]
    rows = [[str(one.get("column")), *(_short(one.get(key)) for key in keys)] for one in objects_of(columns[:SHOWN])]
    left = len(columns) - SHOWN
    title = f"To {name}" + (f", the first {SHOWN} of {len(columns)} columns" if left > 0 else "")
    return Table(title, ("column", *(f"{words[key]} lost" for key in keys)), rows)


def _dependence(name: str, about: JsonObject) -> list[Part]:
    parts: list[Part] = []
    for one in objects_of(about.get("partial_dependence")):
        if not isinstance(one.get("responses"), Mapping):
            continue
        column, values = str(one.get("column")), list_of(one.get("values"))
        lines = {str(key): list_of(said) for key, said in mapping_of(one["responses"]).items()}
        title = f"{name}: by {column}"
        numbers = [number for value in values if (number := number_of(value)) is not None]
        if len(numbers) == len(values) > 1:
            points = {key: list(zip(numbers, map(real_number, said), strict=False)) for key, said in lines.items()}
            parts.append(Lines(title, column, "what is said, on average", points))
        elif values:
            rows = [[str(value), *(_short(said[k]) for said in lines.values())] for k, value in enumerate(values)]
            parts.append(Table(title, (column, *lines), rows))
    return parts


def _short(value: Json) -> Cell:
    return float(f"{value:.4g}") if isinstance(value, int | float) else ""
