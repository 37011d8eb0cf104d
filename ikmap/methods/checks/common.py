"""Rows and tasks on which methods are checked, and comparisons of their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import getattr_static

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ikmap.methods.composed import Composed
from ikmap.methods.fields import fields_of
from ikmap.methods.learner import Learner
from ikmap.methods.method import Method
from ikmap.methods.registry import missing_members
from ikmap.methods.sample import Sample
from ikmap.methods.search import at_value, search_of
from ikmap.model import Model, from_parts
from ikmap.rows import Rows
from ikmap.seeds import generator
from ikmap.tasks import TASKS, LabelRequest, Task

N, D, SEED = 90, 4, 7
"""Sizes and seed of the rows that methods are checked on."""


class CheckFailed(AssertionError):
    """A failed check of a method: one line with class and member, and with what was found and expected.

    Parameters
    ----------
    text : str
    named : bool
        True if the line names class and member.
    """

    def __init__(self, text: str, named: bool = False) -> None:
        super().__init__(text)
        self.named = named


@dataclass(frozen=True)
class Check:
    """A check of a method."""

    method: str
    title: str
    run: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.method}-{self.title.replace(' ', '_')}"


@contextmanager
def member(owner: object, name: str) -> Iterator[None]:
    """Turn every error in the ``with`` block into :class:`CheckFailed` with the name of a class and of its member."""
    kind = owner if isinstance(owner, type) else type(owner)
    try:
        getattr_static(owner, name)
    except AttributeError:
        raise CheckFailed(f"{kind.__name__} lacks the member {name}", named=True) from None
    try:
        yield
    except CheckFailed as error:
        raise error if error.named else CheckFailed(f"{kind.__name__}.{name}: {error}", named=True) from None
    except Exception as error:
        text = (str(error).splitlines() or [""])[0]
        raise CheckFailed(f"{kind.__name__}.{name} raises {type(error).__name__}: {text}", named=True) from error


def rows_to_check(dense: bool = True, n: int = N) -> Rows:
    """Return rows with values >= 0, as some kernels require, with many zeros."""
    rng = generator(SEED, int(dense))
    values = rng.random((n, D)).round(3)
    values[rng.random((n, D)) < 0.3] = 0.0
    return values if dense else sp.csr_array(values)


def sample_of(X: Rows, seed: int = SEED) -> Sample:
    """Return the sample of the rows for a map."""
    return Sample(X.shape[0], X.shape[1], None, X.__getitem__, seed)


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
    for labels in _labels().values():
        codec = task.codec
        y = codec.encode(labels, labels.size)
        if not codec.unknown(y).any() and (not codec.classes or np.unique(y).size == len(codec.classes)):
            return y
    raise CheckFailed(f"found no targets of the task {task.name}")


def same(found: object, expected: object, what: str) -> None:
    """Raise :class:`CheckFailed` unless values have the same bits as the expected ones."""
    left, right = np.asarray(found), np.asarray(expected)
    if left.shape != right.shape:
        raise CheckFailed(f"{what}: found the shape {left.shape}, expected {right.shape}")
    if not np.array_equal(left, right, equal_nan=left.dtype.kind == "f"):
        place = tuple(map(int, np.argwhere(left != right)[0]))
        raise CheckFailed(f"{what}: found {left[place]} at {place}, expected {right[place]}")


def true(condition: object, message: str) -> None:
    """Raise :class:`CheckFailed` with a message unless a condition holds."""
    if not condition:
        raise CheckFailed(message)


def json_values(values: object, what: str) -> None:
    """Raise :class:`CheckFailed` unless values are JSON values."""
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckFailed(f"{what}: found {error}, expected JSON values") from None


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
