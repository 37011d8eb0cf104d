"""Train: one learner on the stored cells, by the solver that the size of the data calls for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ikmap.learners.certificate import sum_up
from ikmap.learners.class_descent import LANES
from ikmap.methods import LEARNERS, DualLearner
from pipeline.engine import Context, Record, Stage, Task
from pipeline.layout import choose_parts, choose_solver, packed_bytes
from pipeline.models import MODELS
from pipeline.prepared import PreparedRows
from pipeline.stages.partition import Fitted
from pipeline.stages.train_batch import merge_classes, solve_classes, solve_whole, solved_name, svm_params
from pipeline.stages.train_counts import train_by_counts
from pipeline.stages.train_distributed import PROBLEMS_AT_ONCE, solve_distributed
from pipeline.stages.train_online import PASS_STREAM, train_online
from pipeline.stages.train_rows import fit_rows

__all__ = ["CLASS_GROUPS", "MODELS", "PASS_STREAM", "svm_params", "train"]

CLASS_GROUPS = 16
"""One-vs-rest problems are solved in at most this many tasks."""
SHARING = 5
"""From so many classes on, problems that share their passes over the rows are worth more than tasks of their own."""


def train(
    context: Context, learner: str, fitted: Fitted | None, value: float | None = None, n_threads: int = 1
) -> dict[str, Any]:
    """Train a learner of :data:`~ikmap.methods.LEARNERS` on the cells of one model, or on the rows.

    Parameters
    ----------
    fitted : Fitted or None
        Of the cells; None for a learner on rows.
    value : float or None
        What was chosen or given for a learner on rows: psi, gamma or lambda.
    n_threads : int
        For those whose only task may use them.

    Returns
    -------
    dict
        psi of the cells, or parameter and value; content_hash of the learner's model, and what the learner has to say
        of itself.
    """
    if fitted is not None:
        of = fitted.as_result()
    else:
        of = {"parameter": LEARNERS[learner].parameter(context.params.of(learner)), "value": value}
    result = RUNNERS[LEARNERS[learner].runner](context, learner, fitted, value, n_threads, of)
    if not result.get("converged", True):
        context.events.message(
            f"{learner}: duality gap {result['duality_gap']:.2g} is above --tol {context.params.of(learner).tol:g}"
        )
    return result


def wants_all_workers(context: Context, learner: str, fitted: Fitted) -> bool:
    """Whether a learner's tasks go to every worker in rounds, so that another's would keep them all waiting."""
    n = PreparedRows(context.store, "train").n_rows
    if not isinstance(LEARNERS[learner], DualLearner):
        return False
    cells = packed_bytes(n, context.params.t, fitted.most_cells)
    return choose_solver(cells, context.params.of(learner).solver) == "distributed"


def _train_online(
    context: Context, learner: str, fitted: Fitted | None, value: float | None, n_threads: int, of: dict[str, Any]
) -> dict[str, Any]:
    rows = PreparedRows(context.store, "train")
    stage = Stage(context, f"train:{learner}", 1, rows.n_rows)
    checkpoint = str(context.run.task_record(stage.name, "checkpoint").with_suffix(".npz"))
    args = (context.store, context.params, learner, fitted, value, rows.preparation.task, checkpoint, n_threads)
    (record,) = stage.run(train_online, [Task("pass", args)])
    Path(checkpoint).unlink(missing_ok=True)
    return stage.finish(**of, content_hash=record["content_hash"], **record["learner"])


def _train_rows(
    context: Context, learner: str, fitted: Fitted | None, value: float | None, n_threads: int, of: dict[str, Any]
) -> dict[str, Any]:
    rows = PreparedRows(context.store, "train")
    stage = Stage(context, f"train:{learner}", 1, rows.n_rows)
    args = (context.store, context.params, learner, fitted, value, rows.preparation.task, n_threads)
    (record,) = stage.run(fit_rows, [Task("fit", args)])
    return stage.finish(**of, content_hash=record["content_hash"], **record["learner"])


def _train_batch(
    context: Context, learner: str, fitted: Fitted | None, _value: float | None, _threads: int, of: dict[str, Any]
) -> dict[str, Any]:
    assert fitted is not None
    store, params = context.store, context.params
    rows = PreparedRows(store, "train")
    classes, n = rows.preparation.task.classes, rows.n_rows
    cells_bytes = packed_bytes(n, params.t, fitted.most_cells)
    asked = params.of(learner)
    solver = choose_solver(cells_bytes, asked.solver)
    details: dict[str, Any] = {"solver": solver}
    k = rows.preparation.task.outputs
    most = CLASS_GROUPS
    if solver == "distributed":
        most = -(-k // PROBLEMS_AT_ONCE)
    elif solver == "memory" and k >= SHARING:
        most = min(most, -(-k // LANES))
    groups = [group.tolist() for group in np.array_split(np.arange(k), min(k, most))]
    if solver == "distributed":
        details["parts"] = choose_parts(n, cells_bytes, asked.parts)
        stage = Stage(context, f"train:{learner}", None, n)
        solved = solve_distributed(stage, learner, fitted, len(classes), groups, details["parts"])
    elif len(groups) == 1:
        stage = Stage(context, f"train:{learner}", 1, n)
        solved = stage.run(solve_whole, [Task("whole", (store, params, learner, fitted, classes, solver))])
    else:
        stage = Stage(context, f"train:{learner}", len(groups) + 1, n)
        tasks = [
            Task(f"classes-{i:03d}", (store, params, learner, fitted, len(classes), group, i, solver))
            for i, group in enumerate(groups)
        ]
        solved = stage.run(solve_classes, tasks)
    (record,) = solved if "content_hash" in solved[0] else _merge(stage, learner, classes, len(groups))
    details |= sum_up([task["certificate"] for task in solved])
    if solver == "distributed":
        details["rounds"] = details["iterations"]
    result = stage.finish(**of, content_hash=record["content_hash"], **details)
    if record is not solved[0]:
        store.delete(f"{MODELS}/{learner}-solved")  # only now: until here an interrupted run still needs them
    return result


def _merge(stage: Stage, learner: str, classes: list[Any], n_groups: int) -> list[Record]:
    """Make one model of the solutions of all groups."""
    names = [solved_name(learner, i) for i in range(n_groups)]
    return stage.run(
        merge_classes, [Task("merge", (stage.context.store, stage.context.params, learner, classes, names))]
    )


RUNNERS = {"stream": _train_online, "dual": _train_batch, "whole": _train_rows, "counts": train_by_counts}
"""How learners are trained, by what they say of themselves."""
