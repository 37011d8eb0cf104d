"""Checks of a kind of task and of its codec: labels become targets, and targets labels."""

from __future__ import annotations

import pickle

import numpy as np

from ikmap.capability import capability
from ikmap.conformance import CheckFailed, json_values, member, same, true
from ikmap.tasks.bad_label import BadLabel
from ikmap.tasks.capabilities import StoresOtherwise
from ikmap.tasks.checks.common import (
    CUTS,
    Case,
    N,
    again,
    cases_of,
    check_array,
    check_targets,
    find,
    label_sets,
    near,
    read,
    targets_of,
    unknown_rows,
)
from ikmap.tasks.task import Codec, Decisions, LabelRequest, LabelRules, LabelSummary, Scorer, Task, TaskKind, Usual


def check_members(kind: TaskKind) -> None:
    """Refuse a kind of task that lacks a member, or has one of another type."""
    with member(kind, "name"):
        true(isinstance(kind.name, str), f"found {kind.name!r}, expected a word")
        true(kind.name and kind.name == kind.name.lower(), f"found {kind.name!r}, expected a word in lower case")
    with member(kind, "words"):
        words = kind.words
        is_words = isinstance(words, tuple) and all(isinstance(word, str) for word in words)
        true(is_words, f"found {words!r}, expected a tuple of words")
    with member(kind, "labels"):
        true(isinstance(kind.labels, LabelRules), f"found {kind.labels!r}, expected an ikmap.tasks.task.LabelRules")
    with member(kind, "usual"):
        true(isinstance(kind.usual, Usual), f"found {kind.usual!r}, expected an ikmap.tasks.task.Usual")
    with member(kind, "__eq__"):
        copied = pickle.loads(pickle.dumps(kind))
        true(copied == kind and hash(copied) == hash(kind), "found a pickled kind of task that is not equal to it")


def check_label_sets(kind: TaskKind) -> None:
    """Refuse a kind of task that takes no labels, or refuses some by another error than a ValueError."""
    refusals = [_refusal(kind, labels) for labels in label_sets(kind).values() if read(kind, labels, N) is None]
    with member(kind, "read"):
        if len(refusals) == len(label_sets(kind)):
            raise CheckFailed(f"takes neither numbers nor words for labels; its last error: {refusals[-1]}")
    with member(kind, "find"):
        true(
            any(True for _ in cases_of(kind)),
            f"refuses the labels that read() takes, expected a task of some of: {', '.join(label_sets(kind))}",
        )


def _refusal(kind: TaskKind, labels: np.ndarray | None) -> str:
    """Return the message of the error by which a kind of task refuses labels."""
    with member(kind, "read"):
        try:
            kind.read(labels, N)
        except BadLabel as error:
            true(0 <= error.row < N, f"found a BadLabel of row {error.row}, expected one of the {N} rows")
            return str(error)
        except ValueError as error:
            return str(error)
        raise CheckFailed("takes labels that it has refused before")


def check_task_members(case: Case) -> None:
    """Refuse a task whose parts are of another type."""
    task = case.task
    with member(task.kind, "find"):
        true(isinstance(task.codec, Codec), f"codec: found a {type(task.codec).__name__}, expected a Codec")
        true(
            isinstance(task.decisions, Decisions), f"decisions: found a {type(task.decisions).__name__}, not Decisions"
        )
        true(isinstance(task.scorer, Scorer), f"scorer: found a {type(task.scorer).__name__}, expected a Scorer")
        true(isinstance(task.kind, TaskKind), f"kind: found a {type(task.kind).__name__}, expected a TaskKind")
    for part in (task.codec, task.decisions):
        with member(part, "dtype"):
            true(part.dtype in ("int32", "float64"), f"found {part.dtype!r}, expected 'int32' or 'float64'")


def check_record(case: Case) -> None:
    """Refuse a task that is another one after a store or a pickle gives it back."""
    task, kind = case.task, case.task.kind
    with member(task.codec, "as_json"):
        record = task.as_json()
        json_values(record, "record of the task")
        true(record["name"] == kind.name, f"found the name {record['name']!r}, expected that of the kind of task")
    targets = targets_of(case)
    with member(kind, "from_json"):
        _check_equal(kind.from_json(again(record)), case, targets, "the task that a store gives back")
    with member(task.codec, "as_json"):
        _check_equal(pickle.loads(pickle.dumps(task)), case, targets, "the task that a pickle gives back")


def _check_equal(other: object, case: Case, targets: np.ndarray, subject: str) -> None:
    if not isinstance(other, Task):
        raise CheckFailed(f"{subject}: found a {type(other).__name__}, expected an ikmap.tasks.Task")
    near(again(other.as_json()), again(case.task.as_json()), f"record of {subject}")
    same(other.codec.targets(case.stored, case.part), targets, f"targets in {subject}")


def check_parts(case: Case) -> None:
    """Refuse a kind of task that depends on where rows are cut into parts."""
    kind, request = case.task.kind, LabelRequest()
    whole = find(kind, [case.part], request)
    pieces = [slice(start, stop) for start, stop in zip((0, *CUTS, N), (*CUTS, N, N), strict=True)]
    parts, stored = [], []
    for rows in pieces:
        labels = None if case.labels is None else case.labels[rows]
        pair = read(kind, labels, rows.stop - rows.start)
        with member(kind, "read"):
            if pair is None:
                count = rows.stop - rows.start
                raise CheckFailed(f"refuses {count} of the rows that it takes together, expected stored values")
        stored.append(pair[0])
        parts.append(pair[1])
    of_parts = find(kind, parts, request)
    with member(kind, "find"):
        if whole is None:
            return  # the task was made of a wish
        if of_parts is None:
            raise CheckFailed("refuses labels in several parts, one without rows, that it takes in one part")
        near(again(of_parts.as_json()), again(whole.as_json()), "task of several parts")
    codec = of_parts.codec
    with member(codec, "targets"):
        pairs = zip(stored, parts, strict=True)
        targets = np.concatenate([codec.targets(values, part) for values, part in pairs])
        same(targets, codec.targets(case.stored, case.part), "targets of several parts, against those of one part")


def check_codec(case: Case) -> None:
    """Refuse a codec whose members contradict each other."""
    task, codec = case.task, case.task.codec
    targets = targets_of(case)
    unknown = unknown_rows(codec, targets)
    with member(codec, "encode"):
        encoded = codec.encode(case.labels, N)
        check_targets(codec, encoded, N)
        same(encoded, targets, "targets of labels as read, against those of targets()")
        without = codec.encode(None, 3)
        check_targets(codec, without, 3)
    with member(codec, "encode"):
        true(unknown_rows(codec, without).all(), "rows without labels have targets, expected rows that are unknown()")
    with member(codec, "classes"):
        classes = codec.classes
        true(isinstance(classes, list), f"found a {type(classes).__name__}, expected a list")
        json_values(classes, "classes")
        if classes:
            known = targets[~unknown]
            inside = ((known >= 0) & (known < len(classes))).all()
            true(inside, f"found targets beside 0 to {len(classes) - 1}, the numbers of the classes")
    with member(codec, "summary"):
        summary = codec.summary
        true(isinstance(summary, LabelSummary), f"found a {type(summary).__name__}, expected a LabelSummary")
        json_values(summary.fields, "fields")
        true(summary.expected, "expected: found no words, expected a description of valid labels")
    with member(task.kind, "presenter"):
        schema = task.kind.presenter.schema.labels
    with member(codec, "summary"):
        undescribed = sorted(summary.fields.keys() - schema.keys())
        true(not undescribed, f"found the fields {undescribed}, which schema.labels of the presenter does not describe")


def check_decode(case: Case) -> None:
    """Refuse a codec whose labels of targets have other targets."""
    codec = settled_codec(case)
    targets = targets_of(case)
    known = targets[~unknown_rows(case.task.codec, targets)]
    with member(codec, "decode"):
        labels = codec.decode(known)
        check_array(labels, known.size, "biufUO", "labels")
        if labels.dtype.kind == "b":
            return  # marks of rows, which are no labels
        encoded = codec.encode(labels.astype(object if labels.dtype.kind in "UO" else np.float64), known.size)
        if known.dtype.kind == "f":
            near(encoded.tolist(), known.tolist(), "targets of the labels of targets")
        else:
            same(encoded, known, "targets of the labels of targets")


def settled_codec(case: Case) -> Codec:
    """Return the codec of rows whose targets were stored."""
    codec = case.task.codec
    stores = capability(case.task, StoresOtherwise)
    if stores is None:
        return codec
    with member(stores, "settled"):
        settled = stores.settled()
        true(isinstance(settled, Codec), f"found a {type(settled).__name__}, expected a Codec")
        record = settled.as_json()
        json_values(record, "record of the settled codec")
    with member(case.task.kind, "from_json"):
        return case.task.kind.from_json(again(record)).codec


def check_stored_targets(case: Case) -> None:
    """Refuse a codec that makes other targets of the targets that a stream has stored."""
    targets, codec = targets_of(case), settled_codec(case)
    stores = capability(case.task, StoresOtherwise)
    if stores is None:
        with member(codec, "targets"):
            changed = (
                "targets of stored targets, for streams store targets and call targets() of them again (a codec whose "
                "targets() changes targets has to be StoresOtherwise, of ikmap.tasks.capabilities)"
            )
            same(codec.targets(targets, {}), targets, changed)
        return
    with member(stores, "stored"):
        values, part = stores.stored(targets)
        check_array(values, N, "biuf", "stored values")
        json_values(part, "labels of the part")
        restored = codec.targets(values, again(part))
        check_targets(codec, restored, N)
        same(restored, targets, "targets that the settled codec makes of stored values")
