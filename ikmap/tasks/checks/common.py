"""The labels and decisions that tasks and metrics are checked on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ikmap.conformance import CheckFailed, json_values, member, same, true
from ikmap.json_values import Json, JsonObject
from ikmap.seeds import generator
from ikmap.tasks.task import Codec, LabelRequest, PartLabels, Task, TaskKind

N, SEED = 90, 7
"""Number of rows that tasks are checked on, and seed of their labels."""
CUTS = (1, 40)
"""Numbers of the rows at which rows are cut into shards."""
NEAR = 1e-9
"""Largest relative difference between sums of float64 numbers in different orders."""


@dataclass(frozen=True, eq=False)
class Case:
    """Labels that a kind of task takes, and the task that they make.

    Attributes
    ----------
    title : str
    labels : ndarray or None
        Labels as read, shape (N,), or None for rows without labels.
    stored : ndarray, shape (N,)
    part : mapping
        The labels that the stored values stand for.
    task : Task
    """

    title: str
    labels: np.ndarray | None
    stored: np.ndarray
    part: PartLabels
    task: Task


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows that learners are scored on, in a task.

    Attributes
    ----------
    task : Task
    target : ndarray, shape (n,)
    decision : ndarray of float64, shape (n, outputs)
    """

    task: Task
    target: np.ndarray
    decision: np.ndarray

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.target.size

    def shards(self) -> list[slice]:
        """Return where rows are cut into shards."""
        return [slice(start, stop) for start, stop in zip((0, *CUTS), (*CUTS, self.n), strict=True)]


def label_sets(kind: TaskKind) -> dict[str, np.ndarray | None]:
    """Return small sets of labels by title: numbers and words with repeats, different numbers, and if the task does
    without labels, none.
    """
    rng = generator(SEED)
    codes = np.concatenate([np.arange(5), rng.integers(0, 5, N - 5)])
    sets: dict[str, np.ndarray | None] = {
        "two numbers": (codes % 2).astype(np.float64),
        "three numbers": (codes % 3).astype(np.float64),
        "five numbers": codes + 1.0,
        "numbers that all differ": 1.0 + rng.random(N).round(6) + np.arange(N),
        "words": np.array(["bad", "fair", "good"], dtype=object)[codes % 3],
    }
    with member(kind, "labels"):
        return sets if kind.labels.needed else {**sets, "no labels": None}


def requests_of(kind: TaskKind, labels: np.ndarray | None) -> Iterator[tuple[str, LabelRequest]]:
    """Yield the wishes that a user may have on some labels, each with words for the title of a check."""
    yield "", LabelRequest()
    if labels is not None and np.unique(labels).size == 3:
        first, *others = (label if isinstance(label, str) else int(label) for label in np.unique(labels).tolist())
        yield ", two of them as one class", LabelRequest(two_class=([first], others))
        if kind.labels.inliers:
            yield ", one of them normal", LabelRequest(inliers=[str(first)])


def read(kind: TaskKind, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels] | None:
    """Return the stored values of labels and their part as a store gives it back, or None if the task refuses them."""
    with member(kind, "read"):
        try:
            pair = kind.read(labels, n)
        except ValueError:
            return None
        true(isinstance(pair, tuple) and len(pair) == 2, f"found a {type(pair).__name__}, expected a pair")
        stored, part = pair
        check_array(stored, n, "biuf", "stored values")
        json_values(part, "labels of the part")
        return stored, again(part)


def find(kind: TaskKind, parts: Sequence[PartLabels], request: LabelRequest) -> Task | None:
    """Return the task that the labels of some parts make, or None if the kind of task refuses them."""
    with member(kind, "find"):
        try:
            task = kind.find(parts, request)
        except ValueError:
            return None
        true(isinstance(task, Task), f"found a {type(task).__name__}, expected an ikmap.tasks.Task")
        return task


def cases_of(kind: TaskKind) -> Iterator[Case]:
    """Yield the label sets that a kind of task takes.

    Raises
    ------
    CheckFailed
        A member fails, other than by the ValueError for labels that it does not take.
    """
    for title, labels in label_sets(kind).items():
        pair = read(kind, labels, N)
        if pair is None:
            continue
        for words, request in requests_of(kind, labels):
            task = find(kind, [pair[1]], request)
            if task is not None:
                yield Case(f"{title}{words}", labels, *pair, task)


def targets_of(case: Case) -> np.ndarray:
    """Return the targets of all rows of a case."""
    codec = case.task.codec
    with member(codec, "targets"):
        targets = codec.targets(case.stored, case.part)
        check_targets(codec, targets, N)
        return targets


def unknown_rows(codec: Codec, targets: np.ndarray) -> np.ndarray:
    """Return the mask of the rows without a target."""
    with member(codec, "unknown"):
        mask = codec.unknown(targets)
        check_array(mask, targets.size, "b", "mask")
        return mask


def rows_of(case: Case) -> Rows:
    """Return the rows of a case that are scored, and decisions on them."""
    targets = targets_of(case)
    known = ~unknown_rows(case.task.codec, targets)
    if not known.any() and not case.task.kind.labels.needed:
        known = np.ones(N, dtype=bool)  # rows without labels are scored too
    with member(case.task.codec, "unknown"):
        true(known.sum() > CUTS[-1], f"found {int((~known).sum())} of {N} rows without a target, expected targets")
    return Rows(case.task, targets[known], decisions_for(case.task, targets[known]))


def decisions_for(task: Task, targets: np.ndarray) -> np.ndarray:
    """Return decisions that are more often right than wrong if targets are numbers or two classes."""
    decisions = task.decisions
    with member(decisions, "outputs"):
        outputs = decisions.outputs
        true(isinstance(outputs, int) and outputs >= 1, f"found {outputs!r}, expected a whole number of at least 1")
    decision = generator(SEED, outputs).normal(size=(targets.size, outputs))
    if targets.dtype.kind == "f":
        decision[:, 0] = targets + 0.3 * targets.std() * decision[:, 0]
    elif outputs == 1:
        decision[:, 0] += targets - 0.5
    return decision


def check_targets(codec: Codec, targets: object, n: int) -> None:
    """Refuse targets that are not an array of the type of the codec, one for each row."""
    check_array(targets, n, "iufb", "targets")
    found = np.asarray(targets).dtype
    true(found == np.dtype(codec.dtype), f"targets: found {found}, expected {codec.dtype} as dtype says")


def check_array(values: object, n: int, kinds: str, subject: str) -> None:
    """Refuse values that are not an array of shape (n,) of some kinds of types, the letters of `dtype.kind`."""
    if not isinstance(values, np.ndarray):
        raise CheckFailed(f"{subject}: found a {type(values).__name__}, expected an array")
    true(values.shape == (n,), f"{subject}: found the shape {values.shape}, expected ({n},)")
    names = {"b": "bool", "iuf": "numbers", "biuf": "numbers", "iufb": "numbers", "bf": "bool or float64"}
    expected = names.get(kinds, f"one of the kinds {', '.join(kinds)}")
    true(values.dtype.kind in kinds, f"{subject}: found {values.dtype}, expected {expected}")


def check_finite(values: np.ndarray, subject: str) -> None:
    """Refuse numbers that are not finite."""
    true(np.isfinite(np.asarray(values, dtype=np.float64)).all(), f"{subject}: found numbers that are not finite")


def check_by_row(values: np.ndarray, some: np.ndarray, rows: slice, subject: str) -> None:
    """Refuse values of some rows that depend on the rows beside them."""
    same(some, values[rows], f"{subject} of rows {rows.start} to {rows.stop - 1} alone, against those among all rows")


def again(values: object) -> JsonObject:
    """Return an object as a record gives it back."""
    return cast("JsonObject", json.loads(json.dumps(values)))


def again_json(values: Json) -> Json:
    """Return a JSON value as a record gives it back."""
    return cast("Json", json.loads(json.dumps(values)))


def near(values: object, expected: object, subject: str) -> None:
    """Refuse JSON values other than those expected; numbers may differ as sums in another order do."""
    if isinstance(expected, Mapping) and isinstance(values, Mapping):
        true(values.keys() == expected.keys(), f"{subject}: found {sorted(values)}, expected {sorted(expected)}")
        for key, value in expected.items():
            near(values[key], value, f"{subject}, {key}")
    elif isinstance(expected, list | tuple) and isinstance(values, list | tuple):
        true(len(values) == len(expected), f"{subject}: found {len(values)} items, expected {len(expected)}")
        for k, (value, other) in enumerate(zip(values, expected, strict=True)):
            near(value, other, f"{subject}, item {k}")
    elif isinstance(expected, float) and isinstance(values, int | float):
        close = math.isclose(values, expected, rel_tol=NEAR, abs_tol=NEAR)
        true(close, f"{subject}: found {values}, expected {expected}")
    else:
        true(values == expected, f"{subject}: found {_short(values)}, expected {_short(expected)}")


def _short(values: object) -> str:
    text = repr(values)
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclass(frozen=True)
class SoftProbabilities:
    """A calibration whose probabilities are those of a logistic model with the decisions as log odds."""

    has_probabilities: bool = True
    threshold: float = 0.0

    def probabilities(self, decision: np.ndarray) -> np.ndarray:
        """Return the probability of each class, shape (n, classes)."""
        if decision.shape[1] == 1:
            second = 1 / (1 + np.exp(-decision[:, 0]))
            return np.column_stack([1 - second, second])
        powers = np.exp(decision - decision.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
