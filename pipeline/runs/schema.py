"""The JSON Schema of ``metrics.json``: the fields of every run, and those that methods, runners and tasks declare.

``metrics.schema.json`` beside this file has the former. ``python -m pipeline.runs.schema`` prints all, with the methods
of the packages that are installed; ``docs/metrics.schema.json`` is what it prints without any.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from importlib.resources import files

from ikmap.methods import LEARNERS, fields_of, methods
from ikmap.methods.fields import with_options
from ikmap.tasks import DEFAULT, TASKS, TaskKind, criteria_of
from ikmap.tasks.scoring import metrics_schema as metrics_of_task
from pipeline.record_types import Record, RecordView
from pipeline.resolve import flag
from pipeline.training.train import RUNNERS

type Schema = Record


def metrics_schema() -> Schema:
    """Return the schema of ``metrics.json``, for all methods and tasks that are known here.

    Raises
    ------
    ValueError
        Two of them declare a field differently.
    """
    schema: Schema = json.loads((files("pipeline.runs") / "metrics.schema.json").read_text(encoding="utf-8"))
    parts, tasks = schema["$defs"], TASKS.values()
    _add(parts["params"], _options())
    of_data = {task.name: {**task.presenter.schema.labels, **task.presenter.schema.rows} for task in tasks}
    always = sorted(parts["data"]["properties"])
    _add(parts["data"], together(of_data.items()))
    declared = [(name, one.about.metrics_schema) for name, one in LEARNERS.items()]
    told = [*declared, *((kind.__name__, runner.told) for kind, runner in RUNNERS.items())]
    # What comes first for one task may be one more figure of another.
    first = {task.presenter.metric.key for task in tasks}
    more = {task.name: {key: of for key, of in metrics_of_task(task).items() if key not in first} for task in tasks}
    told += [(task.name, {task.presenter.metric.key: _of_test(task)} | more[task.name]) for task in tasks]
    _add(parts["learner"], together(told))
    _add_figures(parts, tasks)
    schema["allOf"] = [_of_task(task, [*always, *of_data[task.name]]) for task in tasks]
    return schema


def together(declared: Iterable[tuple[str, RecordView]]) -> Schema:
    """Return the fields of all who declare some, by their names.

    Raises
    ------
    ValueError
        Two of them declare a field differently.
    """
    found: Schema = {}
    first: dict[str, str] = {}
    for who, fields in declared:
        for name, schema in fields.items():
            if found.setdefault(name, schema) != schema:
                raise ValueError(f"{who} and {first[name]} declare the field {name!r} of metrics.json differently")
            first.setdefault(name, who)
    return found


def _add(part: Schema, fields: RecordView) -> None:
    part["properties"] = {**fields, **part["properties"]}


def _options() -> Schema:
    """Of an option: one value where the methods that have it agree, else a value by method."""
    kinds: dict[str, list[Schema]] = {}
    helps: dict[str, set[str]] = {}
    for one in methods().values():
        for name, field in fields_of(one).items():
            helps.setdefault(name, set()).add(with_options(field.doc, flag))
            here = [field.given_kind.schema] + [{"type": "null"}] * (field.recorded_default is None)
            kinds.setdefault(name, []).extend(schema for schema in here if schema not in kinds.get(name, []))
    return {
        name: {
            **({"description": next(iter(helps[name]))} if len(helps[name]) == 1 else {}),
            "anyOf": [*of, {"type": "object", "additionalProperties": {"anyOf": of}}],
        }
        for name, of in kinds.items()
    }


def _of_test(task: TaskKind) -> Schema:
    return {
        "description": "On the test rows, or those of a stream; null where none was predicted.",
        "oneOf": [{"type": "null"}, task.presenter.metric.schema],
    }


def _add_figures(parts: Schema, tasks: Iterable[TaskKind]) -> None:
    """Add what a task's figure is called wherever it stands under its own name: searches, sweeps and curves."""
    selection = parts["selection"]["properties"]
    swept = selection["swept"]["additionalProperties"]["properties"]
    for task in tasks:
        for figure in (one.metric for one in criteria_of(task)):
            key, unit = figure.key, figure.schema
            values = {"type": "array", "items": unit, "minItems": 1}
            selection[key] = {
                "description": "By learner on cells: cross-validated at each value of the map's parameter, with the "
                "best C where it is searched.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": values,
            }
            selection[f"{key}_by_C"] = {
                "description": "By learner, by value of the map's parameter: cross-validated, at each C, as far as "
                "every fold tried them.",
                "type": "object",
                "additionalProperties": {"type": "array", "items": values, "minItems": 1},
            }
            selection["tuned"]["additionalProperties"]["properties"][key] = values
            if figure == task.presenter.metric:
                swept[key] = values
                swept[f"{key}_by_C"] = {
                    "description": "By C, where it was searched: the best of a sweep with each.",
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": unit,
                }
                parts["curve"]["properties"][key] = {"type": "array", "items": unit}


def _of_task(task: TaskKind, of_data: list[str]) -> Schema:
    """What holds for runs of one task: the fields of `data`, and its figure. Data without `task` are of the first."""
    named: Schema = {"properties": {"task": {"const": task.name}}}
    there: Schema = {}
    if task.name != DEFAULT:
        named, there = {**named, "required": ["task"]}, {"required": ["data"]}
    key = task.presenter.metric.key
    learner = {"required": [key], "properties": {"curve": {"required": [key]}}}
    return {
        "if": {"properties": {"data": named}, **there},
        "then": {
            "properties": {
                "data": {"propertyNames": {"enum": of_data}, "required": list(task.presenter.schema.labels)},
                "learners": {"additionalProperties": learner},
            }
        },
    }


def main() -> int:
    """Print it."""
    json.dump(metrics_schema(), sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
