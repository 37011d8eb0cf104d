"""What methods are checked on, and how what they give is compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ikmap.methods.learner import Learner
from ikmap.model import Model, from_parts
from ikmap.seeds import generator
from ikmap.tasks import TASKS, LabelRequest, Task

N, D, SEED = 90, 4, 7
"""Sizes and seed of the rows that methods are checked on."""


class CheckFailed(AssertionError):
    """A method does not do what all methods have to; the message says which one, what was found and expected."""


@dataclass(frozen=True)
class Check:
    """One thing that a method has to do."""

    method: str
    title: str
    run: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.method}-{self.title.replace(' ', '_')}"


def rows_to_check(dense: bool = True, n: int = N) -> Any:
    """Rows with values of zero and above, as some kernels ask for, and more zeros where they are sparse."""
    rng = generator(SEED, int(dense))
    values = rng.random((n, D)).round(3)
    values[rng.random((n, D)) < 0.3] = 0.0
    return values if dense else sp.csr_array(values)


def tasks_of(one: Learner) -> Iterator[tuple[str, Task]]:
    """Tasks that the learner serves, as different labels make them."""
    for name in sorted(one.tasks):
        if name not in TASKS:
            raise CheckFailed(f"{one.name}: tasks has {name!r}, expected some of {', '.join(TASKS)}")
        kind = TASKS[name]
        for title, labels in _labels().items():
            try:
                _, found = kind.read(labels, labels.size)
                yield f"{name}, {title}", kind.find([found], LabelRequest())
            except ValueError:
                continue  # labels that this task does not take


def _labels() -> dict[str, np.ndarray]:
    X = rows_to_check()
    return {
        "two labels": (X.sum(axis=1) > 1.2).astype(float),
        "three labels": np.digitize(X.sum(axis=1), [1.0, 1.5]).astype(float),
        "numbers": X.sum(axis=1) + 0.25,
    }


def targets_of(task: Task) -> np.ndarray:
    """Targets of the rows, by labels that the task knows."""
    for labels in _labels().values():
        codec = task.codec
        y = codec.encode(labels, labels.size)
        if not codec.unknown(y).any() and (not codec.classes or np.unique(y).size == len(codec.classes)):
            return y
    raise CheckFailed(f"found no targets of the task {task.name}")


def same(found: Any, expected: Any, what: str) -> None:
    """Refuse values that are not those expected, to the last bit."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        raise CheckFailed(f"{what}: found the shape {found.shape}, expected {expected.shape}")
    if not np.array_equal(found, expected, equal_nan=found.dtype.kind == "f"):
        place = tuple(map(int, np.argwhere(found != expected)[0]))
        raise CheckFailed(f"{what}: found {found[place]} at {place}, expected {expected[place]}")


def true(holds: object, what: str) -> None:
    """Refuse what does not hold, in these words."""
    if not holds:
        raise CheckFailed(what)


def json_values(values: Any, what: str) -> None:
    """Refuse values that JSON has not."""
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckFailed(f"{what}: found {error}, expected JSON values") from None


def round_trip(model: Any) -> Any:
    """The model as a store gives it back."""
    true(isinstance(model, Model), f"found a model that is {type(model).__name__}, expected an ikmap.model.Model")
    arrays, metadata = model.arrays(), model.metadata()
    for name, array in arrays.items():
        true(array.dtype.kind in "biuf", f"array {name!r} of the model: found {array.dtype}, expected numbers")
    json_values(metadata, "metadata of the model")
    again = from_parts(json.loads(json.dumps(metadata)), {name: array.copy() for name, array in arrays.items()})
    true(again.content_hash == model.content_hash, "the model that a store gives back has another content hash")
    return again


def searching(one: Any) -> Any:
    """Options with which there is something to choose, if there is anything."""
    options = one.Options()
    for name, spec in one.Options.specs().items():
        try:
            spec.check("auto")
        except ValueError:
            continue
        if one.search(options.replace(**{name: "auto"}), N) is not None:
            return options.replace(**{name: "auto"})
    return options


def small_value(one: Any, options: Any) -> Any:
    """A small value for what is chosen or given for a method; None where there is nothing."""
    search = one.search(searching(one), N)
    if search is not None:
        return search.values[min(2, len(search.values) - 1)]
    return one.given(options)
