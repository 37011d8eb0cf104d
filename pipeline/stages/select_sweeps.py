"""Search by a sweep: one pass tries all values of the map's option for a learner, and one fold scores them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ikmap.learners.rows import Block
from ikmap.methods import LEARNERS, FollowsSplits, Sample, Swept, Training, capability
from ikmap.methods.method import Number
from ikmap.methods.search import Value, sweepable
from ikmap.rows import nbytes_of
from ikmap.tasks import Metric, Task, criteria_of, criterion_of
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import Record
from pipeline.resolve import worded
from pipeline.rows.row_weights import weight_rule
from pipeline.stages.fit_parts import is_in_parts, refuse_too_large
from pipeline.stages.select_rows import cv_folds, cv_sample
from pipeline.stages.sweep_stored import stored_sweep
from pipeline.storage.store import Store

POINTS = 200
"""About so many values of a sweep are kept for the picture; the choice is among all."""


def sweeping_learners(params: Params) -> tuple[str, ...]:
    """Learners of the run for which a sweep chooses the map's option."""
    if not params.on_cells:
        return ()
    return tuple(name for name in params.learners if LEARNERS[name].about.on == "cells" and sweeps(params, name))


def sweeps(params: Params, name: str) -> bool:
    """Whether a learner on cells sweeps, to choose its map's option."""
    return (
        sweepable(params.map, params.map_searched) is not None
        and capability(params.of(name), FollowsSplits) is not None
    )


def refuse_criterion(params: Params, task: Task) -> None:
    """Refuse a criterion that the task has not, or that a sweep cannot go by.

    Raises
    ------
    InputError
    """
    by = params.select_by
    main, known = task.kind.presenter.metric, [one.metric.key for one in criteria_of(task.kind)]
    if by in ("auto", main.key):
        return
    if by not in known:
        raise InputError(f"--select-by {by}: found --task {task.name}, expected one of {', '.join(known)}")
    if sweeping := sweeping_learners(params):
        raise InputError(
            f"--select-by {by}: found learners that sweep ({', '.join(sweeping)}), which go by {main.name}; "
            "give the map's option a value"
        )


def limit_of(params: Params, sample: Sample, n_rows: int) -> Value:
    """Up to which value a sweep over so many rows of a sample goes."""
    search = params.search_of_map(n_rows, sample)
    assert search is not None
    return search.values[-1]


def sweep_cells(store: Store, params: Params, name: str, C: float | None, limit: Value, n_rows: int) -> Record:
    """Task: the sweep of one learner, which learns from all folds but the first and is scored on that.

    Parameters
    ----------
    C : float or None
        One of those to try; None: as it is given, or there is none.
    limit : int or float
        Of :func:`limit_of`.
    """
    read = 0
    if is_in_parts(params, n_rows):
        training, held_out, splits = stored_sweep(store, params, n_rows)
    else:
        task, X, y, w = cv_sample(store, params, n_rows)
        fit, left_out = cv_folds(store, params, n_rows)[0]
        inside, outside = X[fit], X[left_out]
        refuse_too_large(params, limit, inside, task)
        sweeping = sweepable(params.map, params.map_searched)
        assert sweeping is not None
        assert not isinstance(limit, tuple)
        sample = Sample(inside.shape[0], inside.shape[1], None, inside.__getitem__, params.seed)
        sets, splits = sweeping.events(limit, sample, [inside, outside])
        weight = weight_rule(task)(y[fit], None if w is None else w[fit])
        training = Training(Block(sets[0], y[fit], weight), task.codec.classes, params.seed, task=task)
        held_out, read = Block(sets[1], y[left_out]), nbytes_of(X)
    learner = capability(params.learner(name, C=C), FollowsSplits)
    assert learner is not None
    curve = learner.sweep(training, held_out, splits)
    assert training.task is not None
    with worded():
        found = best_of_sweep(curve, training.task, held_out.y.size, name)
    found = {"parameter": params.map_parameter, **found}
    return {"bytes_read": int(read), "held_out": int(held_out.y.size), "scores": [], "swept": found}


def best_of_sweep(curve: Iterable[Swept], task: Task, n_rows: int, name: str) -> dict[str, Any]:
    """The value with the largest total (of equals the smallest), how many there were, and points for a picture.

    Raises
    ------
    InputError
        There is no value, or they do not ascend.
    """
    values: list[Number] = []
    totals: list[float] = []
    likelihoods: list[float | None] = []
    for value, total, likelihood in curve:
        at = int(value) if isinstance(value, int | np.integer) else float(value)
        if not values or at > values[-1]:
            values.append(at)
            totals.append(float(total))
            likelihoods.append(likelihood)
        elif at == values[-1]:  # of several splits at one value, all count
            totals[-1], likelihoods[-1] = float(total), likelihood
        else:
            raise InputError(
                f"--learner {name}: its sweep has the value {at:g} after {values[-1]:g}, expected values that ascend; "
                "upgrade the packages of the learner and of --partitioner, or give another --learner"
            )
    if not values:
        raise InputError(
            f"--learner {name}: no cell has split in its sweep, expected one at least: are all rows the same? Give the "
            "map's option a value, or another --partitioner"
        )
    criterion, best = criterion_of(task), int(np.argmax(totals))  # the first of equals
    # The k-th split comes at a value that grows with k: points that are even for the logarithm of both.
    ends = np.unique(np.geomspace(1, len(values), POINTS).astype(np.int64)) - 1
    kept = sorted({*ends.tolist(), best, len(values) - 1})
    known = [likelihood for k in kept if (likelihood := likelihoods[k]) is not None]
    return {
        **({"log_likelihood": known} if len(known) == len(kept) else {}),
        "values": [values[k] for k in kept],
        criterion.metric.key: [float(criterion.score(totals[k], n_rows)) for k in kept],
        "tried": len(values),
        "chosen": values[best],
    }


def found_by_sweeps(swept: Mapping[tuple[str, float | None], Record | None], metric: Metric) -> Record:
    """What the sweeps have chosen, of learners and their C: of each learner the one with the best figure.

    Of equal ones, it is that with the smallest C.

    Returns
    -------
    dict
        ``swept``: by learner, as of :func:`best_of_sweep`, and where its C was searched the best figure at each;
        ``chosen``: values of the map; ``chosen_C``.
    """
    sign = 1 if metric.higher_is_better else -1
    found: Record = {"swept": {}, "chosen": {}, "chosen_C": {}}
    for name in dict.fromkeys(name for name, _ in swept):
        of = {C: record for (other, C), record in swept.items() if other == name and record}
        figures = {C: record[metric.key][record["values"].index(record["chosen"])] for C, record in of.items()}
        best = max(figures, key=lambda C: sign * figures[C])  # the first of equals
        found["swept"][name] = dict(of[best])
        found["chosen"][name] = of[best]["chosen"]
        if best is not None:
            found["chosen_C"][name] = best
            found["swept"][name][f"{metric.key}_by_C"] = {f"{C:g}": value for C, value in figures.items()}
    return found
