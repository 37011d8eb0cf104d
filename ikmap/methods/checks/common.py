"""Rows and tasks on which methods are checked, and comparisons of their results."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ikmap.conformance import CheckFailed, json_values, member, true
from ikmap.methods.composed import Composed
from ikmap.methods.fields import fields_of
from ikmap.methods.learner import Learner
from ikmap.methods.map import Map
from ikmap.methods.method import Method
from ikmap.methods.registry import missing_members
from ikmap.methods.sample import Sample
from ikmap.methods.search import search_of
from ikmap.methods.values import at_value
from ikmap.model import Model, from_parts
from ikmap.rows import Rows
from ikmap.seeds import generator
from ikmap.tasks import CLASSIFICATION, TASKS, LabelRequest, Task

N, D, SEED = 90, 4, 7
"""Sizes and seed of the rows that methods are checked on."""


def rows_to_check(dense: bool = True, n: int = N) -> Rows:
    """Return rows with values >= 0, as some kernels require, with many zeros."""
    rng = generator(SEED, int(dense))
    values = rng.random((n, D)).round(3)
    values[rng.random((n, D)) < 0.3] = 0.0
    return values if dense else sp.csr_array(values)


def sample_of(method: Method, X: Rows, seed: int = SEED) -> Sample:
    """Return the sample of the rows as a method sees it: with two classes, or without labels for most maps."""
    y = (generator(seed, N).random(X.shape[0]) + X.sum(axis=1) > 0.5 + 0.35 * D).astype(np.int32)
    task = CLASSIFICATION.of([0, 1])
    sample = Sample(X.shape[0], X.shape[1], task, X.__getitem__, seed, targets=y.__getitem__)
    return sample.seen_by(method.description) if isinstance(method, Map) else sample


def tasks_of(learner: Learner) -> Iterator[tuple[str, Task]]:
    """Yield tasks of different labels that the learner serves, with their titles."""
    for name in sorted(learner.about.tasks):
        if name not in TASKS:
            where = f"{type(learner).__name__}.about"
            raise CheckFailed(f"{where}: tasks has {name!r}, expected some of {', '.join(TASKS)}", named=True)
        kind = TASKS[name]
        for title, labels in _labels().items():
            try:
                _, stored = kind.read(labels, labels.size)
                yield f"{name}, {title}", kind.find([stored], LabelRequest())
            except ValueError:
                continue  # this task does not take the labels


def _labels() -> dict[str, NDArray[np.float64]]:
    X = rows_to_check()
    return {
        "two labels": (X.sum(axis=1) > 1.2).astype(float),
        "three labels": np.digitize(X.sum(axis=1), [1.0, 1.5]).astype(float),
        "numbers": X.sum(axis=1) + 0.25,
    }


def targets_of(task: Task) -> NDArray[np.generic]:
    """Return targets of the rows, from labels that the task knows."""
    codec = task.codec
    with member(codec, "encode"):
        for labels in _labels().values():
            y = codec.encode(labels, labels.size)
            if not codec.unknown(y).any() and (not codec.classes or np.unique(y).size == len(codec.classes)):
                return y
        raise CheckFailed(f"found no targets of the task {task.name}, expected those of the labels it was made of")


def round_trip[M](model: M) -> M:
    """Return the model as a store gives it back."""
    if not isinstance(model, Model):
        raise CheckFailed(f"found a model that is {type(model).__name__}, expected an ikmap.model.Model")
    with member(model, "arrays"):
        arrays = model.arrays()
        for name, array in arrays.items():
            true(array.dtype.kind in "biuf", f"array {name!r}: found {array.dtype}, expected numbers")
    with member(model, "metadata"):
        metadata = model.metadata()
        json_values(metadata, "metadata of the model")
    with member(model, "content_hash"):
        again = from_parts(json.loads(json.dumps(metadata)), {name: array.copy() for name, array in arrays.items()})
        true(again.content_hash == model.content_hash, "the model that a store gives back has another content hash")
    assert isinstance(again, type(model))
    return again


def configured_for_checks[M: Method](subject: type[M] | M) -> tuple[M, frozenset[str]]:
    """Return an object of a class with its defaults, or a given object, and the paths of searched fields.

    Raises
    ------
    CheckFailed
        The class lacks members, or no object can be made of it.
    """
    if isinstance(subject, type):
        missing = missing_members(subject)
        if missing:
            raise CheckFailed(f"{subject.__name__} lacks the member {', '.join(missing)}", named=True)
        with member(subject, "of_record"):
            method, _ = subject.of_record({})
    else:
        method = subject
    with member(method, "search_space"):
        return method, _searched(method)


def _searched(method: Method) -> frozenset[str]:
    by_default = searchable(method, by_default=True)
    tried = [by_default, *(frozenset({path}) for path in sorted(searchable(method)))]
    return next((paths for paths in tried if paths and search_of(method, paths, N) is not None), frozenset())


def searchable(method: Method, by_default: bool = False) -> frozenset[str]:
    """Return the paths of fields that can be searched, or that are searched by default."""
    if isinstance(method, Composed):
        return frozenset(
            f"{name}.{path}" for name, part in method.named_parts() for path in searchable(part, by_default)
        )
    paths: set[str] = set()
    for name, field in fields_of(type(method)).items():
        value = getattr(method, name)
        if field.nested is not None and isinstance(value, Method):
            paths |= {f"{name}.{path}" for path in searchable(value, by_default)}
        elif field.searched is not None and name != "C" and (field.searched.by_default or not by_default):
            paths.add(name)
    return frozenset(paths)


def with_small_values[M: Method](method: M, searched: frozenset[str]) -> M:
    """Return the method with small values of the searched fields."""
    search = search_of(method, searched, N) if searched else None
    return method if search is None else at_value(method, searched, search.values[min(2, len(search.values) - 1)])
