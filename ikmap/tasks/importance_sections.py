"""What a report shows of which columns matter, and how; of any task that ranks learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ikmap.tasks.sections import Lines, Section, Table, Text

SHOWN = 15
"""Columns."""
WEIGHT: Mapping[str, Any] = {
    "description": "Of each column of the data, the most important first: by how much the figures get worse when its "
    "values are shuffled among the test rows (mean of three times), and the standard deviation of the last of them.",
    "type": "array",
    "items": {"type": "object", "required": ["column", "deviation"]},
}
DEPENDENCE: Mapping[str, Any] = {
    "description": "Of the columns that matter most: values, and what the learner says on average when all rows have "
    "that value.",
    "type": "array",
    "items": {"type": "object", "required": ["column", "kind", "values", "responses"]},
}
TOLD: Mapping[str, Mapping[str, Any]] = {
    "importance": WEIGHT,
    "importance_rows": {
        "description": "Test rows by which importance was measured.",
        "type": "integer",
        "minimum": 0,
    },
    "partial_dependence": DEPENDENCE,
}


def importance_sections(metrics: Mapping[str, Any], words: Mapping[str, str]) -> Sequence[Section]:
    """One section where any learner has importances; `words` names the figures by which columns are weighed."""
    learners = metrics.get("learners")
    parts: list[Any] = []
    rows = 0
    for name, about in learners.items() if isinstance(learners, Mapping) else ():
        if isinstance(about, Mapping) and isinstance(about.get("importance"), list) and about["importance"]:
            rows = about.get("importance_rows") or rows
            parts += [_table(str(name), about["importance"], words), *_dependence(str(name), about)]
    if not parts:
        return ()
    said = Text(
        "By how much the figures get worse when the values of one column are shuffled among the test rows"
        + (f" ({rows:,} of them)" if isinstance(rows, int) and rows else "")
        + ", three times: what a learner would lose without knowing that column. Columns that say the same share what "
        "they are worth. The curves show what a learner says on average if all rows had the same value there."
    )
    return [Section("importance", "What matters", [said, *parts])]


def _table(name: str, found: Sequence[Any], words: Mapping[str, str]) -> Table:
    keys = [key for key in words if any(isinstance(one, Mapping) and key in one for one in found)]
    rows = [
        [str(one.get("column")), *(_short(one.get(key)) for key in keys)]
        for one in found[:SHOWN]
        if isinstance(one, Mapping)
    ]
    left = len(found) - SHOWN
    title = f"To {name}" + (f", the first {SHOWN} of {len(found)} columns" if left > 0 else "")
    return Table(title, ("column", *(f"{words[key]} lost" for key in keys)), rows)


def _dependence(name: str, about: Mapping[str, Any]) -> list[Any]:
    parts: list[Any] = []
    for one in about.get("partial_dependence") or ():
        if not isinstance(one, Mapping) or not isinstance(one.get("responses"), Mapping):
            continue
        column, values, responses = str(one.get("column")), one.get("values") or [], one["responses"]
        title = f"{name}: by {column}"
        if all(isinstance(value, int | float) for value in values) and len(values) > 1:
            lines = {str(key): list(zip(values, of, strict=False)) for key, of in responses.items()}
            parts.append(Lines(title, column, "what is said, on average", lines))
        elif values:
            rows = [[str(value), *(_short(of[k]) for of in responses.values())] for k, value in enumerate(values)]
            parts.append(Table(title, (column, *map(str, responses)), rows))
    return parts


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, int | float) else ""
