"""Checks of a presenter: its schemas, and the parts of a report that it makes of metrics, also if some are missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import cast

from ikmap.capability import capability
from ikmap.conformance import CheckFailed, described, json_values, member, true
from ikmap.json_values import Json, JsonObject
from ikmap.tasks.capabilities import Census
from ikmap.tasks.checks.common import Case, again, rows_of
from ikmap.tasks.checks.scores import metrics_of, state_of
from ikmap.tasks.criteria import criteria_of
from ikmap.tasks.metric import Metric
from ikmap.tasks.sections import Confusion, Lines, Section, Table, Text
from ikmap.tasks.task import MetricsSchema, Presenter, TaskKind
from ikmap.tasks.verdict import Verdict

TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list, tuple),
    "object": (Mapping,),
}
"""Python types of the values of each JSON type."""
UNITS = ("share", "number")
LEARNER = "checked"
"""Name of the learner whose metrics are presented."""


def check_presenter(kind: TaskKind) -> None:
    """Refuse a kind of task without a presenter, or one whose metric is not registered for the task."""
    with member(kind, "presenter"):
        presenter = kind.presenter
        true(isinstance(presenter, Presenter), f"found {presenter!r}, expected an object of a class of Presenter")
    with member(presenter, "metric"):
        true(isinstance(presenter.metric, Metric), f"found {presenter.metric!r}, expected an ikmap.tasks.Metric")
        known = [criterion.metric for criterion in criteria_of(kind)]
        keys = [metric.key for metric in known]
        key = presenter.metric.key
        true(
            key in keys,
            f"found {key!r}, expected the key of a registered metric of the task, a Criterion with {kind.name!r} in "
            f"its tasks ({', '.join(keys) or 'there is none'})",
        )
        true(presenter.metric == known[keys.index(key)], f"{key!r} is another Metric than that of the Criterion")
    with member(kind, "usual"):
        by = kind.usual.criterion
        true(not by or by in keys, f"criterion: found {by!r}, expected one of {', '.join(keys)}")


def check_schema(kind: TaskKind) -> None:
    """Refuse schemas that are not JSON Schemas."""
    with member(kind, "presenter"):
        presenter = kind.presenter
    with member(presenter, "schema"):
        schema = presenter.schema
        true(isinstance(schema, MetricsSchema), f"found {schema!r}, expected an ikmap.tasks.task.MetricsSchema")
        for group in ("labels", "rows", "learner"):
            fields = getattr(schema, group)
            true(isinstance(fields, Mapping), f"{group}: found {fields!r}, expected a mapping of schemas by field")
            for name, each in fields.items():
                true(isinstance(name, str), f"{group}: found the field {name!r}, expected a word")
                _check_schema(each, f"{group}, {name}")
                json_values(each, f"{group}, {name}")


def _check_schema(schema: object, subject: str) -> None:
    """Refuse a value that is not a JSON Schema, as far as its types, properties and items are concerned."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise CheckFailed(
            f"{subject}: found {schema!r}, expected a JSON Schema, an object such as {{'type': 'number'}}"
        )
    types = schema.get("type", [])
    for word in [types] if isinstance(types, str) else types:
        true(word in TYPES, f"{subject}: found the type {word!r}, expected one of {', '.join(TYPES)}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            _check_schema(schema[keyword], f"{subject}, {keyword}")
    properties = schema.get("properties", {})
    true(isinstance(properties, Mapping), f"{subject}, properties: found {properties!r}, expected an object")
    for name, each in properties.items():
        _check_schema(each, f"{subject}, {name}")
    for keyword in ("oneOf", "anyOf", "allOf"):
        for k, each in enumerate(schema.get(keyword, [])):
            _check_schema(each, f"{subject}, {keyword} {k}")


def check_value(value: Json, schema: JsonObject, subject: str) -> None:
    """Refuse a value of another type than its schema says, or items and properties of another type."""
    types = schema.get("type")
    words = [types] if isinstance(types, str) else [str(word) for word in cast("Sequence[str]", types or [])]
    kinds = tuple(kind for word in words for kind in TYPES[word])
    whole = isinstance(value, float) and value.is_integer() and "integer" in words
    fits = isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)
    true(not words or whole or fits, f"{subject}: found {value!r}, expected {' or '.join(words)} as the schema says")
    items, properties = schema.get("items"), schema.get("properties")
    if isinstance(value, list) and isinstance(items, Mapping):
        for k, item in enumerate(value):
            check_value(item, items, f"{subject}, item {k}")
    if isinstance(value, Mapping) and isinstance(properties, Mapping):
        for name, each in properties.items():
            if name in value and isinstance(each, Mapping):
                check_value(value[name], each, f"{subject}, {name}")


def metrics_to_present(case: Case) -> JsonObject:
    """Return `metrics.json` as far as the task fills it."""
    task, rows = case.task, rows_of(case)
    with member(task.codec, "summary"):
        data: dict[str, Json] = {"task": task.name, **task.codec.summary.fields}
    census = capability(task, Census)
    if census is not None:
        with member(census, "census"):
            count = census.census(rows.target)
        with member(census, "counted"):
            data |= census.counted([count])
    return again({"data": data, "learners": {LEARNER: metrics_of(state_of(rows))}})


def check_values(case: Case) -> None:
    """Refuse metrics of other types than their schemas say."""
    metrics = metrics_to_present(case)
    data, learners = cast("JsonObject", metrics["data"]), cast("Mapping[str, JsonObject]", metrics["learners"])
    presenter = case.task.kind.presenter
    with member(presenter, "schema"):
        schema = presenter.schema
        for group, values in (("labels", data), ("rows", data), ("learner", learners[LEARNER])):
            for name, each in getattr(schema, group).items():
                if name in values:
                    check_value(values[name], each, f"{group}, {name}")


def check_presented(case: Case) -> None:
    """Refuse a presenter that fails on metrics of which parts are missing, or makes something else than it has to."""
    full = metrics_to_present(case)
    learner = cast("Mapping[str, JsonObject]", full["learners"])[LEARNER]
    main: JsonObject = {key: value for key, value in learner.items() if key == case.task.kind.presenter.metric.key}
    data: JsonObject = {"task": case.task.name}
    presented: list[tuple[str, JsonObject, JsonObject]] = [
        ("all metrics", full, learner),
        ("the main metric alone", {"data": data, "learners": {LEARNER: main}}, main),
        ("a learner without metrics", {"data": data, "learners": {LEARNER: {}}}, {}),
        ("no metrics", {}, {}),
    ]
    for title, metrics, fields in presented:
        _check_presented(case.task.kind.presenter, metrics, fields, f"of {title}")


def _check_presented(presenter: Presenter, metrics: JsonObject, learner: JsonObject, subject: str) -> None:
    with _presenting(presenter, "summary", subject):
        for line in presenter.summary(learner):
            true(isinstance(line, tuple) and len(line) == 3, f"found {line!r}, expected name, value and unit")
            name, value, unit = line
            true(isinstance(name, str) and name, f"found the name {name!r}, expected words")
            true(unit in UNITS, f"{name}: found the unit {unit!r}, expected one of {', '.join(UNITS)}")
            json_values(value, name)
    with _presenting(presenter, "sentence", subject):
        sentence = presenter.sentence(learner)
        true(isinstance(sentence, str), f"found {sentence!r}, expected text")
    with _presenting(presenter, "verdicts", subject):
        for verdict in presenter.verdicts(LEARNER, learner, metrics):
            true(
                isinstance(verdict, Verdict),
                f"found a {type(verdict).__name__}, expected an ikmap.tasks.verdict.Verdict",
            )
            true("\n" not in verdict.message, f"found a message of several lines: {verdict.message!r}")
    with _presenting(presenter, "sections", subject):
        sections = list(presenter.sections(metrics))
        for section in sections:
            if not isinstance(section, Section):
                raise CheckFailed(f"found a {type(section).__name__}, expected an ikmap.tasks.sections.Section")
            true(section.key and section.title, f"found a section without key or title: {section.key!r}")
            for part in section.parts:
                _check_part(part, section.key)
        keys = [section.key for section in sections]
        true(len(set(keys)) == len(keys), f"found the keys {keys}, expected different ones")


@contextmanager
def _presenting(presenter: Presenter, name: str, subject: str) -> Iterator[None]:
    """Name the metrics that are presented in every fault of a member."""
    with member(presenter, name):
        try:
            yield
        except CheckFailed as error:
            raise CheckFailed(f"{error} ({subject})") from None
        except Exception as error:
            text = f"{type(presenter).__name__}.{name} raises {described(error)} ({subject})"
            raise CheckFailed(text, named=True) from error


def _check_part(part: object, key: str) -> None:
    if not isinstance(part, Text | Table | Lines | Confusion):
        raise CheckFailed(f"{key}: found a {type(part).__name__}, expected Text, Table, Lines or Confusion")
    json_values(asdict(part), f"{key}, a {type(part).__name__}")
    match part:
        case Table():
            widths = sorted({len(row) for row in part.rows} - {len(part.head)})
            true(
                not widths, f"{key}, {part.title}: found rows of {widths} cells under {len(part.head)} names of columns"
            )
        case Lines():
            points = [point for line in part.lines.values() for point in line]
            pairs = all(len(point) == 2 and all(map(math.isfinite, point)) for point in points)
            true(pairs, f"{key}, {part.title}: found points that are no pairs of finite numbers")
        case Confusion():
            n, counts = len(part.labels), part.counts
            square = isinstance(counts, list | tuple) and [len(cast("list[int]", row)) for row in counts] == [n] * n
            true(square, f"{key}: found a confusion matrix of another shape than ({n}, {n}), as of {n} labels")
