"""Label, the second step of ingest: find the task by the labels of all rows, and refuse what cannot be learned."""

from __future__ import annotations

from collections.abc import Callable

from ikmap.json_values import JsonObject
from ikmap.tasks import AUTO, LabelRequest, TaskKind
from ikmap.tasks import Task as LearningTask
from ikmap.tasks.by_labels import BY_LABELS
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import PartRecord
from pipeline.rows.prepared import refuse_unseen_labels
from pipeline.rows.row_weights import every_task, refuse_ignored_weights
from pipeline.running.stage import Context
from pipeline.sources.columns.checks import other_columns
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.read import StoredFile
from pipeline.stages.split import split_rule_of
from pipeline.stages.task import refuse_unsuited, requested_task, requested_word


def kind_of_task(params: Params, data: ResolvedDataset) -> TaskKind:
    """Return the kind of task that is asked for, before a row is read.

    Raises
    ------
    InputError
        There is no such kind, or a learner ignores the weights of rows in it.
    """
    kind = requested_task(params, data)
    refuse_weights(params, data, kind)
    return kind


def refuse_weights(params: Params, data: ResolvedDataset, kind: TaskKind) -> None:
    """Refuse learners that count every row once in a kind of task, where a column has weights of rows.

    Raises
    ------
    InputError
    """
    if kind.name == AUTO:
        refuse_ignored_weights(params, data.table.weight, every_task())
    else:
        refuse_ignored_weights(params.settled(kind), data.table.weight, [kind.name])


def label(context: Context, data: ResolvedDataset, train: StoredFile) -> LearningTask:
    """Return the task, by the labels of all training rows.

    Raises
    ------
    InputError
        There is nothing to learn from, or the options do not suit the task.
    """
    if train.rows == 0:
        raise InputError(f"{train.url}: found no rows, expected some to train on")
    if train.columns == 0:
        raise InputError(f"{train.url}: found no features in any row, expected some")
    params = context.params
    task = find_task(train.url, train.parts, data, params, context.events.message)
    refuse_weights(params, data, task.kind)
    refuse_unseen_labels(train.labels, task, train.url)
    split_rule = split_rule_of(params)
    if split_rule is not None:
        split_rule.refuse(task, data.inliers)
    return task


def refuse_unlike(train: StoredFile, test: StoredFile, task: LearningTask) -> None:
    """Refuse test rows that do not fit the training rows.

    Raises
    ------
    InputError
        There are none, or they have other columns, or labels that no training row has.
    """
    names, expected = test.source.column_names, train.source.column_names
    if names and expected and names != expected:
        raise InputError(other_columns(test.url, names, expected))
    if test.rows == 0:
        raise InputError(f"{test.url}: found no rows, expected some to test on")
    refuse_unseen_labels(test.labels, task, test.url)


def find_task(
    url: str,
    parts: list[PartRecord],
    data: ResolvedDataset,
    params: Params,
    say: Callable[[str], None],
    *,
    initial: bool = False,
) -> LearningTask:
    """Return the task, by the labels of all parts; where the labels alone decide it, say so.

    Parameters
    ----------
    initial : bool
        True if the parts are the initial rows of a stream, and not all rows to learn from.

    Raises
    ------
    InputError
        Nothing can be learned from the labels.
    """
    kind = requested_task(params, data)
    try:
        request = LabelRequest(*requested_word(params, data), data.two_class, data.inliers, initial)
        labels = [part["found"] for part in parts]
        task = kind.find(labels, request)
    except ValueError as error:
        raise InputError(f"{url}: {error}") from None
    if kind.name == AUTO:
        refuse_unsuited(params.settled(task.kind), task.kind, f"by the labels of {url}")
        say(BY_LABELS.reason(labels, task.kind))
    return task


def about_task(task: LearningTask) -> JsonObject:
    """Return the fields of ``data`` in ``metrics.json`` that describe a task."""
    return {"task": task.name, **task.codec.summary.fields}
