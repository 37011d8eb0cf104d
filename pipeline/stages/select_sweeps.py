"""Search by a sweep: one pass tries all values of the map's option for a learner, and one fold scores them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

import numpy as np

from ikmap.learners.rows import Block
from ikmap.methods import LEARNERS, FollowsSplits, Sample, Swept, Training, capability
from ikmap.methods.method import Number
from ikmap.methods.values import Value, sweepable
from ikmap.rows import nbytes_of
from ikmap.tasks import Metric, Task, criteria_of, criterion_of
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import Record, TrialRecord
from pipeline.resolve import worded
from pipeline.rows.row_weights import weight_rule
from pipeline.stages.fit_parts import is_in_parts, refuse_too_large
from pipeline.stages.select_rows import cv_folds, cv_sample, swept_fold
from pipeline.stages.sweep_stored import stored_sweep
from pipeline.storage.store import Store

POINTS = 200
"""Number of values of a sweep, about, that are kept for the picture; the choice is among all."""


def sweeping_learners(params: Params) -> tuple[str, ...]:
    """Return the learners of the run for which a sweep chooses the map's option."""
    if not params.on_cells:
        return ()
    return tuple(name for name in params.learners if LEARNERS[name].about.on == "cells" and sweeps(params, name))


def sweeps(params: Params, name: str) -> bool:
    """Return whether a learner on cells sweeps, to choose its map's option."""
    return (
        sweepable(params.map, params.map_searched) is not None
        and capability(params.of(name), FollowsSplits) is not None
    )


def refuse_criterion(params: Params, task: Task) -> None:
    """Refuse a criterion that the task does not have, or that a sweep cannot use.

    Raises
    ------
    InputError
    """
    requested = params.select_by
    main, known = task.kind.presenter.metric, [criterion.metric.key for criterion in criteria_of(task.kind)]
    if requested in ("auto", main.key):
        return
    if requested not in known:
        raise InputError(f"--select-by {requested}: found --task {task.name}, expected one of {', '.join(known)}")
    if sweeping := sweeping_learners(params):
        raise InputError(
            f"--select-by {requested}: found learners that sweep ({', '.join(sweeping)}), which go by {main.name}; "
            "give the map's option a value"
        )


def limit_of(params: Params, sample: Sample, n_rows: int) -> Value:
    """Return the last value of a sweep over `n_rows` rows of a sample."""
    search = params.search_of_map(n_rows, sample)
    assert search is not None
    return search.values[-1]


def sweep_cells(store: Store, params: Params, name: str, C: float | None, limit: Value, n_rows: int) -> TrialRecord:
    """Task: let a learner sweep; it is scored on the rows that one fold holds out, and learns from those of the fold.

    Parameters
    ----------
    C : float or None
        A value of C to try; None: the given one, or the learner has no C.
    limit : int or float
        Last value of the sweep (:func:`limit_of`).
    """
    bytes_read = 0
    if is_in_parts(params, n_rows):
        training, held_out, splits = stored_sweep(store, params, n_rows)
    else:
        task, X, y, w = cv_sample(store, params, n_rows)
        fit, left_out = swept_fold(cv_folds(store, params, n_rows), params)
        inside, outside = X[fit], X[left_out]
        refuse_too_large(params, limit, inside, task)
        sweeping = sweepable(params.map, params.map_searched)
        assert sweeping is not None
        assert not isinstance(limit, tuple)
        sample = Sample(inside.shape[0], inside.shape[1], None, inside.__getitem__, params.seed)
        sets, splits = sweeping.events(limit, sample, [inside, outside])
        weight = weight_rule(task)(y[fit], None if w is None else w[fit])
        training = Training(Block(sets[0], y[fit], weight), task.codec.classes, params.seed, task=task)
        held_out, bytes_read = Block(sets[1], y[left_out]), nbytes_of(X)
    learner = capability(params.learner(name, C=C), FollowsSplits)
    assert learner is not None
    curve = learner.sweep(training, held_out, splits)
    assert training.task is not None
    with worded():
        best = best_of_sweep(curve, training.task, held_out.y.size, name)
    swept = {"parameter": params.map_parameter, **best}
    return {"bytes_read": int(bytes_read), "held_out": int(held_out.y.size), "scores": [], "swept": swept}


def best_of_sweep(curve: Iterable[Swept], task: Task, n_rows: int, name: str) -> Record:
    """Return the value with the largest total (of equals the smallest), the number of values, and points of a picture.

    Raises
    ------
    InputError
        There is no value, they do not ascend, or a score is not a number.
    """
    values: list[Number] = []
    totals: list[float] = []
    likelihoods: list[float | None] = []
    for value, total, likelihood in curve:
        number = int(value) if isinstance(value, int | np.integer) else float(value)
        if not values or number > values[-1]:
            values.append(number)
            totals.append(float(total))
            likelihoods.append(likelihood)
        elif number == values[-1]:  # of several splits at one value, all count
            totals[-1], likelihoods[-1] = float(total), likelihood
        else:
            raise InputError(
                f"--learner {name}: its sweep has the value {number:g} after {values[-1]:g}, expected values that "
                "ascend; upgrade the packages of the learner and of --partitioner, or give another --learner"
            )
    if not values:
        raise InputError(
            f"--learner {name}: no cell has split in its sweep, expected one at least: are all rows the same? Give the "
            "map's option a value, or another --partitioner"
        )
    if np.isnan(totals).any():  # of which the first would be taken for the best
        raise InputError(
            f"--learner {name}: its sweep has a score that is not a number; give the map's option a value, or "
            "another --learner"
        )
    criterion, best = criterion_of(task), int(np.argmax(totals))  # the first of equals
    # The k-th split comes at a value that grows with k: points that are even for the logarithm of both.
    ends = np.unique(np.geomspace(1, len(values), POINTS).astype(np.int64)) - 1
    kept = sorted({*ends.tolist(), best, len(values) - 1})
    kept_likelihoods = [likelihood for k in kept if (likelihood := likelihoods[k]) is not None]
    return {
        **({"log_likelihood": kept_likelihoods} if len(kept_likelihoods) == len(kept) else {}),
        "values": [values[k] for k in kept],
        criterion.metric.key: [float(criterion.score(totals[k], n_rows)) for k in kept],
        "tried": len(values),
        "chosen": values[best],
    }


class SweepsResult(TypedDict):
    """The choice of all sweeps, by learner: the best sweep, the value of the map, and C where it was searched."""

    swept: dict[str, Record]
    chosen: dict[str, Value]
    chosen_C: dict[str, float]


def chosen_by_sweeps(swept: Mapping[tuple[str, float | None], Record | None], metric: Metric) -> SweepsResult:
    """Return, for each learner, the sweep with the best value of the metric; of equals, the one with the smallest C.

    Returns
    -------
    dict
        ``swept``: by learner, as :func:`best_of_sweep` returns it, and where its C was searched the best value of the
        metric at each C; ``chosen``: values of the map; ``chosen_C``.
    """
    sign = 1 if metric.higher_is_better else -1
    chosen: SweepsResult = {"swept": {}, "chosen": {}, "chosen_C": {}}
    for name in dict.fromkeys(name for name, _ in swept):
        by_C = {C: record for (other, C), record in swept.items() if other == name and record}
        metric_by_C = {C: record[metric.key][record["values"].index(record["chosen"])] for C, record in by_C.items()}
        best_C = max(metric_by_C, key=lambda C: sign * metric_by_C[C])  # the first of equals
        chosen["swept"][name] = dict(by_C[best_C])
        chosen["chosen"][name] = by_C[best_C]["chosen"]
        if best_C is not None:
            chosen["chosen_C"][name] = best_C
            chosen["swept"][name][f"{metric.key}_by_C"] = {f"{C:g}": value for C, value in metric_by_C.items()}
    return chosen
