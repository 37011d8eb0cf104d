"""The JSON Schema of ``metrics.json``: the fields of every run, and those that methods, runners and tasks declare.

``metrics.schema.json`` beside this file has the fields of every run. ``python -m pipeline.runs.schema`` prints all,
with the methods of the packages that are installed; ``docs/metrics.schema.json`` is its output without any packages.
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
        Two methods or tasks declare a field differently.
    """
    schema: Schema = json.loads((files("pipeline.runs") / "metrics.schema.json").read_text(encoding="utf-8"))
    definitions, tasks = schema["$defs"], TASKS.values()
    _add(definitions["params"], _options())
    of_data = {task.name: {**task.presenter.schema.labels, **task.presenter.schema.rows} for task in tasks}
    common = sorted(definitions["data"]["properties"])
    _add(definitions["data"], together(of_data.items()))
    declared = [(name, learner.about.metrics_schema) for name, learner in LEARNERS.items()]
    schemas = [*declared, *((kind.__name__, runner.metrics_schema) for kind, runner in RUNNERS.items())]
    # The main metric of one task may be a further metric of another.
    main_metrics = {task.presenter.metric.key for task in tasks}
    further_metrics = {
        task.name: {
            key: metric_schema for key, metric_schema in metrics_of_task(task).items() if key not in main_metrics
        }
        for task in tasks
    }
    schemas += [(task.name, {task.presenter.metric.key: _of_test(task)} | further_metrics[task.name]) for task in tasks]
    _add(definitions["learner"], together(schemas))
    _add_metrics(definitions, tasks)
    schema["allOf"] = [_of_task(task, [*common, *of_data[task.name]]) for task in tasks]
    return schema


def together(declared: Iterable[tuple[str, RecordView]]) -> Schema:
    """Return all declared fields, by their names.

    Raises
    ------
    ValueError
        Two methods or tasks declare a field differently.
    """
    by_name: Schema = {}
    declared_by: dict[str, str] = {}
    for declarer, fields in declared:
        for name, schema in fields.items():
            if by_name.setdefault(name, schema) != schema:
                raise ValueError(
                    f"{declarer} and {declared_by[name]} declare the field {name!r} of metrics.json differently"
                )
            declared_by.setdefault(name, declarer)
    return by_name


def _add(part: Schema, fields: RecordView) -> None:
    part["properties"] = {**fields, **part["properties"]}


def _options() -> Schema:
    """Return the schema of each option: one value where the methods that have it agree, else a value by method."""
    kinds: dict[str, list[Schema]] = {}
    helps: dict[str, set[str]] = {}
    for method in methods().values():
        for name, field in fields_of(method).items():
            helps.setdefault(name, set()).add(with_options(field.doc, flag))
            field_schemas = [field.given_kind.schema] + [{"type": "null"}] * (field.recorded_default is None)
            kinds.setdefault(name, []).extend(schema for schema in field_schemas if schema not in kinds.get(name, []))
    return {
        name: {
            **({"description": next(iter(helps[name]))} if len(helps[name]) == 1 else {}),
            "anyOf": [
                *schemas,
                {"type": "object", "additionalProperties": {"anyOf": schemas}},
            ],
        }
        for name, schemas in kinds.items()
    }


def _of_test(task: TaskKind) -> Schema:
    return {
        "description": "On the test rows, or those of a stream; null where none was predicted.",
        "oneOf": [{"type": "null"}, task.presenter.metric.schema],
    }


def _add_metrics(parts: Schema, tasks: Iterable[TaskKind]) -> None:
    """Add the metrics of tasks wherever they stand under their own names: searches, sweeps and curves."""
    selection = parts["selection"]["properties"]
    swept = selection["swept"]["additionalProperties"]["properties"]
    for task in tasks:
        for metric in (criterion.metric for criterion in criteria_of(task)):
            key, value_schema = metric.key, metric.schema
            values = {"type": "array", "items": value_schema, "minItems": 1}
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
            if metric == task.presenter.metric:
                swept[key] = values
                swept[f"{key}_by_C"] = {
                    "description": "By C, where it was searched: the best of a sweep with each.",
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": value_schema,
                }
                parts["curve"]["properties"][key] = {"type": "array", "items": value_schema}


def _of_task(task: TaskKind, of_data: list[str]) -> Schema:
    """Return the schema of runs of a task: the fields of `data`, and its metric. Data without `task` have the first."""
    with_name: Schema = {"properties": {"task": {"const": task.name}}}
    required: Schema = {}
    if task.name != DEFAULT:
        with_name, required = {**with_name, "required": ["task"]}, {"required": ["data"]}
    key = task.presenter.metric.key
    learner = {"required": [key], "properties": {"curve": {"required": [key]}}}
    return {
        "if": {"properties": {"data": with_name}, **required},
        "then": {
            "properties": {
                "data": {"propertyNames": {"enum": of_data}, "required": list(task.presenter.schema.labels)},
                "learners": {"additionalProperties": learner},
            }
        },
    }


def main() -> int:
    """Print the schema."""
    json.dump(metrics_schema(), sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
