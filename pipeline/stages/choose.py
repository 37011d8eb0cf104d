"""Choose: race candidates on folds of a sample of the training rows, for the model of all of them."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from ikmap.auto.candidates import STACKING, Candidate, candidates
from ikmap.auto.race import Choice, Entry, Race, Trial, sample_size
from ikmap.auto.trial import Decided, Fold, Searched, folds_at_random, run_trial
from ikmap.divisions import divisible_folds, weighing_folds
from ikmap.learners.rows import Block
from ikmap.methods import Training, fields_by_name
from ikmap.methods.fields import AUTO, with_options
from ikmap.tasks.capabilities import loops, missing_in
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import CandidateRecord, ChooseResult, LeaderboardEntry, TaskProgress, TaskRecord
from pipeline.resolve import flag
from pipeline.rows.folds import division_of, is_divided
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import DATA, SCALE, PreparedRows
from pipeline.rows.row_weights import weight_rule, weights_of
from pipeline.rows.split_rule import goes_by_time
from pipeline.running.compiling import words_of
from pipeline.running.dispatch import Task, run_tasks, worker_addresses
from pipeline.running.import_ahead import import_ahead
from pipeline.running.stage import Context, Stage
from pipeline.stages.scale import fit_scaling
from pipeline.stages.select_rows import cv_folds, cv_rows, cv_sample, packed_rows, unpacked_rows
from pipeline.storage.store import Store

TWO_CLASSES, MORE_CLASSES, NUMBERS = "log loss", "sum of the log losses of all classes", "squared error / 2"
"""Losses that candidates are compared by."""


def choose(context: Context, row_bytes: float, refusal: Callable[[Params], str]) -> ChooseResult:
    """Race the candidates; the trials that are done are kept, and a run that was interrupted goes on with them.

    Parameters
    ----------
    row_bytes : float
        Bytes of a row in memory, on average.
    refusal : callable
        Returns why a run with these parameters would not fit into memory; empty: it would.

    Raises
    ------
    InputError
        No candidate could be tried.
    """
    params = context.params
    rows = PreparedRows(context.store, "train")
    n, n_used = rows.n_rows, min(rows.n_rows, params.cv_rows)
    if params.cv_rows == Params.cv_rows:
        n_used = sample_size(n, row_bytes)
    stage = Stage(context, "choose", None, n_used)
    race = begin(stage, rows, n_used)
    limit = f"for at most {race.budget:g} s with the model (--budget)"
    names = ", ".join(own.name for own in race.candidates)
    context.events.message(f"choose: tries {names} on {n_used:,} of {n:,} training rows, {limit}")
    # The weights of sums need SciPy's optimiser, which takes .2 s to import: the first trials hide it.
    import_ahead("scipy.optimize")
    while trials := race.next_round():
        # Those that take longest begin first: else one of them may go on alone in the end.
        ordered = sorted(trials, key=race.expected, reverse=True)
        # An earlier version may have begun the run with another number of rows: its trials are no use then.
        tasks = [Task(f"{own.name}.{n_used}", (context.store, params, own, n_used)) for own in ordered]
        records = dict(zip((own.name for own in ordered), stage.run(try_candidate, tasks, Progress(race)), strict=True))
        race.add_round([(own, _result(records[own.name])) for own in trials])
    try:
        choice = race.choice(lambda one: refusal(params.decided(one.learner, one.partitioner, one.options, one.scale)))
    except ValueError as error:
        raise InputError(f"{error}; name a --learner, or give a larger --budget") from None
    result = _as_result(race, choice, n_used)
    for line in leaderboard_lines(result):
        context.events.message(line)
    return stage.finish(result, [SCALE] if scaled(stage, rows, choice.scale) else [])


def scaled(stage: Stage, rows: PreparedRows, scale: str) -> bool:
    """Bring the columns to the scale of the model that was chosen; return whether they have one that the race chose."""
    store, preparation = stage.context.store, rows.preparation
    if scale == "none" or stage.context.params.scale != "none":
        return False
    if preparation.scale != scale:  # else an earlier process has done it
        fit_scaling(stage, preparation)
        note_scale(store, scale)
    return True


def note_scale(store: Store, scale: str) -> None:
    """Note the scale of the model that was chosen in the description of the rows, which an ingest made again has not.

    The ranges of the columns, an output of the stage "choose", are there.
    """
    description = store.need(DATA)
    preparation = Preparation.from_json(description["preparation"])
    if scale not in ("none", preparation.scale):
        prepared = {"preparation": replace(preparation, scale=scale).as_json()}
        store.set_attributes(DATA, {**description, **prepared})


class SampleRecord(TaskRecord):
    """The record of a task that draws the sample of a race; never written to disk.

    Attributes
    ----------
    y : ndarray, shape (n,)
        Targets.
    weight : ndarray of float64, shape (n,), or None
        Weights that the data give the rows.
    folds : list of (ndarray, ndarray)
        For each fold, the rows of the sample to learn from, and those held out.
    """

    y: np.ndarray
    weight: np.ndarray | None
    folds: list[Fold]


def begin(stage: Stage, rows: PreparedRows, n_used: int) -> Race:
    """Return the race of a run, before its first round."""
    params, preparation, client = stage.context.params, rows.preparation, stage.context.client
    # On a worker: which rows are in the sample is found out by compiled loops, which this process would have to load.
    draw = Task("sample", (stage.context.store, params, n_used))
    ((_, sample),) = run_tasks(client, stage.key, draw_sample, [draw])
    classes = preparation.task.codec.classes
    if n_used == rows.n_rows and (missing := missing_in(preparation.task, sample["y"])):
        instead = "give --split-by stratified, or another --seed or split"
        if len(classes) > 2 and not any(isinstance(label, str) for label in classes):
            instead = f"{instead}, or --task regression, which predicts labels as numbers"
        raise InputError(f"found no training row of {missing}; {instead}")
    return Race(
        _candidates(preparation),
        sample["y"],
        len(classes),
        sample["folds"],
        rows.n_rows,
        preparation.n_columns,
        params.budget,
        max(1, len(worker_addresses(client))),
        sample["weight"],
        in_time=goes_by_time(params.split_by),
    )


def draw_sample(store: Store, params: Params, n_rows: int) -> SampleRecord:
    """Task: return the targets, the weights and the folds of the rows by which candidates are compared."""
    train = PreparedRows(store, "train")
    y, weight = train.targets_of(cv_rows(train, params, n_rows))
    return {"rows": n_rows, "y": y, "weight": weight, "folds": folds_of_race(store, params, n_rows, y, weight)}


def folds_of_race(store: Store, params: Params, n_used: int, y: np.ndarray, weight: np.ndarray | None) -> list[Fold]:
    """Return the folds of a race: those of cross-validation if rows are divided by their keys, else any.

    A fold is left out if there are others where all rows that it learns from weigh 0, or have one time alone: of these
    boosting can hold out none.
    """
    if not is_divided(params):
        return folds_at_random(y, params.seed)
    folds, train = cv_folds(store, params, n_used), PreparedRows(store, "train")
    folds = weighing_folds(folds, weight) or folds
    keys = division_of(train, cv_rows(train, params, n_used), params).keys
    return divisible_folds(folds, keys) or folds


class Progress:
    """A watcher of the trials of a race: it tells what is best so far, and never ends a round."""

    def __init__(self, race: Race) -> None:
        self._race = race
        self.left = max(0.0, race.budget - race.spent)

    @cached_property
    def best(self) -> str:
        """Text that names the best candidate before the round; to weigh sums would keep a core from trials."""
        best = self._race.best_alone()
        return f"; best so far {best.name}, loss {best.loss:.5g}" if best else ""

    def done(self, task: Task, record: CandidateRecord, skipped: bool) -> TaskProgress:  # noqa: ARG002
        """Return what progress shows of a trial that is done."""
        note = f"{task.name} {'failed' if 'failed' in record else 'done'}{self.best}"
        return {"note": note, "left": self.left}

    def enough(self) -> bool:
        """Return False: a round is not ended early."""
        return False


def try_candidate(store: Store, params: Params, own: Trial, n_rows: int) -> CandidateRecord:
    """Task: let a candidate learn from the rows of a trial, and decide on those held out."""
    began = time.perf_counter()
    task, X, y, weight = cv_sample(store, params, n_rows)
    train = PreparedRows(store, "train")
    division = division_of(train, cv_rows(train, params, n_rows), params) if is_divided(params) else None
    weigh = weight_rule(task)

    def training_of(rows: np.ndarray) -> Training:
        block = Block(X[rows], y[rows], weigh(y[rows], weights_of(weight, rows)))
        own_division = None if division is None else division.some(rows)
        return Training(block, task.codec.classes, params.seed, division=own_division)

    folds = folds_of_race(store, params, n_rows, y, weight)
    fit, held_out = own.rows(folds[own.fold])
    training, outside = training_of(fit), training_of(held_out)
    record: CandidateRecord = {"rows": int(fit.size)}
    smallest = min(fit.size for fit, _ in folds)
    decided = run_trial(own.candidate, own.kind, training, outside, own.settings, smallest)
    if isinstance(decided, str):
        return {**record, "failed": with_options(decided, flag)}
    if isinstance(decided, Searched):
        return {
            **record,
            "losses": [[*settings, loss] for settings, loss in decided.losses.items()],
            "trial_seconds": round(time.perf_counter() - began, 6),
        }
    return {
        **record,
        "decisions": packed_rows(decided.decisions.ravel()),
        "shape": list(decided.decisions.shape),
        "fit_seconds": round(decided.fit_seconds, 6),
        "predict_seconds": round(decided.predict_seconds, 6),
        "trial_seconds": round(time.perf_counter() - began, 6),
        "rounds": decided.rounds,
    }


def _result(record: CandidateRecord) -> Decided | Searched | str:
    if "failed" in record:
        return record["failed"]
    if "losses" in record:
        losses = {(int(psi), C): loss for psi, C, loss in record["losses"]}
        return Searched(losses, record["trial_seconds"])
    shape = record["shape"]
    decisions = unpacked_rows(record["decisions"], shape[0] * shape[1]).reshape(shape)
    seconds = record["fit_seconds"], record["predict_seconds"], record["trial_seconds"]
    return Decided(decisions, *seconds, record["rounds"])


def _as_result(race: Race, choice: Choice, n_rows: int) -> ChooseResult:
    return {
        "learner": choice.learner,
        "partitioner": choice.partitioner,
        "scale": choice.scale,
        "options": {name: dict(options) for name, options in choice.options.items()},
        "name": choice.entry.name,
        "loss": NUMBERS if race.n_classes == 0 else TWO_CLASSES if race.n_classes == 2 else MORE_CLASSES,
        "rows": n_rows,
        "folds": race.n_done,
        "budget": race.budget,
        "spent": round(race.spent, 3),
        "by_budget": choice.by_budget,
        "leaderboard": [_as_entry(race, entry) for entry in race.leaderboard()],
    }


def _as_entry(race: Race, entry: Entry) -> LeaderboardEntry:
    def number(value: float) -> float | None:
        return None if math.isnan(value) else value

    return {
        "name": entry.name,
        "options": words_to_type(race.as_options(entry)) if entry.folds else "",
        "loss": number(entry.loss),
        "error": number(entry.error),
        "folds": entry.folds,
        "fit_seconds": number(entry.fit_seconds),
        "row_seconds": number(entry.row_seconds),
        "note": entry.note,
        "weights": dict(entry.weights),
    }


def words_of_race(preparation: Preparation) -> frozenset[str]:
    """Return the words of the loops that a race needs: those of its candidates, and of sums of them."""
    dense, task = preparation.dense, preparation.task
    models = [(STACKING, ""), *((own.learner, own.partitioner) for own in _candidates(preparation))]
    of_models = (Params.given(partitioner=of_map or AUTO, learners=(learner,)) for learner, of_map in models)
    words = (words_of(params, dense=dense, task=loops(task)) for params in of_models)
    # How many cells a map has is found out by the race, so cells may be of one byte each or of two.
    return frozenset({"narrow", "wide"}).union(*words)


def _candidates(preparation: Preparation) -> list[Candidate]:
    return candidates(classes=bool(preparation.task.codec.classes), dense=preparation.dense)


def words_to_type(choice: Choice) -> str:
    """Return what to type on a command line to get a model."""
    words = [*(["--partitioner", choice.partitioner] if choice.partitioner else []), "--learner", choice.learner]
    words += ["--scale", choice.scale] if choice.scale != "none" else []
    for name, options in choice.options.items():
        fields = fields_by_name(name)
        for key, value in options.items():
            if value != fields[key].recorded_default:
                words += fields[key].given_kind.written(flag(key), value)
    return shlex.join(words)


def leaderboard_lines(result: ChooseResult) -> list[str]:
    """Return the leaderboard as lines of a log."""
    lines = [f"choose: {result['loss']} on rows that were held out, the least first; seconds are those of all rows"]
    for entry in result["leaderboard"]:
        loss, error, seconds = entry["loss"], entry["error"], entry["fit_seconds"]
        if loss is None or error is None or seconds is None:
            lines.append(f"  {entry['name']}: {entry['note']}")
            continue
        note = f" ({entry['note']})" if entry["note"] else ""
        lines.append(f"  {loss:.5g} +- {1.96 * error:.2g}  {seconds:,.1f} s  {entry['name']}{note}: {entry['options']}")
    why = "the best that the budget has seconds for" if result["by_budget"] else "the best"
    lines.append(f"choose: {result['name']}, {why} of {len(result['leaderboard'])}")
    return lines
