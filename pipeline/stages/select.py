"""Select psi and C for each learner by cross-validation, usually 5-fold, on a sample of the training rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, cast

from ikmap.json_values import Json, JsonObject, MutableJsonObject, mapping_of
from ikmap.methods import SharesWork, Sweepable, capability, value_of
from ikmap.methods.search import Edge, edges_of, refined
from ikmap.methods.search import Search as Space
from ikmap.methods.values import Value, size_of
from ikmap.model_selection import values_of_C
from ikmap.racing import ODDS
from pipeline.params import Params
from pipeline.record_types import Record, SelectResult, TaskProgress, TrialRecord
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.split_rule import goes_by_time
from pipeline.running.dispatch import Task, worker_addresses
from pipeline.running.stage import Context, Stage
from pipeline.stages.fit_parts import is_in_parts
from pipeline.stages.select_cells import cell_learners, cell_values, groups_of, map_to_search, score_cells
from pipeline.stages.select_costs import Costs
from pipeline.stages.select_learner import SearchedLearner, listed
from pipeline.stages.select_rows import (
    criteria_in_use,
    score_rows,
    search_criterion,
    searches_of_rows,
    size_of_search,
    unpacked_rows,
)
from pipeline.stages.select_sweeps import chosen_by_sweeps, limit_of, refuse_criterion, sweep_cells, sweeping_learners
from pipeline.stages.sweep_stored import SWEPT, prepare
from pipeline.storage.store import Store

ROUNDS = ((0,), (1, 2), (3, 4))
"""Folds of each round of a race, after which candidates that can no longer win are dropped. One fold tells much; then
two at a time, so that there is work for two workers and more."""
CELLS, SWEEP = "cells", "one sweep"
SCORES: dict[str, Callable[..., TrialRecord]] = {CELLS: score_cells, SWEEP: sweep_cells}
"""Functions that score a trial, by its kind; other kinds are names of learners on rows."""
CHOSEN: tuple[Literal["chosen", "chosen_C"], ...] = ("chosen", "chosen_C")
"""Fields of a result that sweeps and cross-validation share."""


def searches(params: Params) -> list[str]:
    """Return the names of the values that cross-validation chooses, such as "psi", "C" and "gamma": the map's first."""
    searched = params.searches_map_value(params.cv_rows)
    of_map = params.search_of_map(params.cv_rows) if searched else None
    of_rows = searches_of_rows(params, params.cv_rows).values()
    C = ["C"] if any(params.searches_C(name) for name in params.learners) else []
    parameters = [search.parameter for search in (of_map, *of_rows) if search is not None]
    return list(dict.fromkeys([*parameters[:1], *C, *parameters[1:]] if of_map else [*C, *parameters]))


def select(context: Context) -> SelectResult:
    """Choose psi, C or both for each learner.

    Returns
    -------
    dict
        psi (values tried), METRIC (of each learner, by psi; the key of the task's metric, such as accuracy), chosen
        (for each learner the psi of its best METRIC; ties go to the smaller), rows, folds. Where C is searched too: C
        (values tried), METRIC_by_C (of each learner that has a C, by psi, then by C, as far as every fold tried them),
        chosen_C (ties go to the smaller psi, then to the smaller C); METRIC is then that of the best C. tuned: the
        same of each learner on rows. swept: the result of the sweep of each learner that sweeps.
        search: the kind of search. partitionings: how many of them the search went by, where not by all. folds_tried
        (of each learner, by psi): on how many folds its METRIC was measured; race: the candidates that were dropped
        after each round, and why. budget: if there was one, its result.
    """
    params = context.params
    rows = PreparedRows(context.store, "train")
    refuse_criterion(params, rows.preparation.task)
    n, n_used = rows.n_rows, min(rows.n_rows, params.cv_rows)
    wanted = searches(params)
    if n_used < n:
        verb = "is" if len(wanted) == 1 else "are"
        context.events.message(f"{' and '.join(wanted)} {verb} chosen on {n_used:,} of {n:,} training rows (--cv-rows)")
    search = HyperparameterSearch(Stage(context, "select", None, n_used), n_used, rows)
    search.run()
    chosen = {"rows": n_used, "folds": search.n_folds, "search": params.search, **search.result()}
    return search.stage.finish(cast("SelectResult", chosen), obsolete=SWEPT if search.swept else ())


@dataclass(frozen=True)
class Trial:
    """The work of one task: a fold, and for each value the learners with the number of C to try at each.

    A sweep, which tries all values, has the learner's name, and C where it is to be chosen. Races are counted: a map
    that is put together from several maps has one race after the other.
    """

    kind: str
    fold: int
    wanted: dict[Value, dict[str, int]]
    race: int = 0
    limit: Value = 0
    sweep: tuple[str, float | None] = ("", None)

    @property
    def work(self) -> list[tuple[float, float]]:
        """Value and amount of work at each, for :class:`Costs`."""
        if self.kind == SWEEP:
            return [(1.0, 2.0)]
        sizes = [size_of(value) if self.kind == CELLS else 1.0 for value in self.wanted]
        return [
            (size, 1.0 + sum(learners.values())) for size, learners in zip(sizes, self.wanted.values(), strict=True)
        ]

    def task(self, store: Store, params: Params, n_rows: int) -> Task:
        """Return the task, under a name that describes the trial."""
        if self.kind == CELLS:
            again = f"race-{self.race}-" if self.race else ""
            t = map_to_search(params).t
            again += f"t-{t}-" if t < params.map.t else ""
            name = f"{again}fold-{self.fold}-values-{'-'.join(map(_exact, self.wanted))}"
            return Task(name, (CELLS, store, params, self.fold, self.wanted, n_rows))
        if self.kind == SWEEP:
            learner, C = self.sweep
            name = f"sweep-{learner}" if C is None else f"sweep-{learner}-C-{C:g}"
            return Task(name, (SWEEP, store, params, learner, C, self.limit, n_rows))
        name = f"{self.kind}-{'-'.join(map(_words, self.wanted))}-fold-{self.fold}"
        return Task(name, ("rows", store, params, self.kind, list(self.wanted), self.fold, n_rows))


def _words(value: Value) -> str:
    return "_".join(f"{number:g}" for number in (value if isinstance(value, tuple) else (value,)))


def _exact(value: Value) -> str:
    return "_".join(map(str, value)) if isinstance(value, tuple) else str(value)


def score(kind: str, *args: object) -> TrialRecord:
    """Task: score some values on one fold, and count the processor seconds that it took."""
    began = time.process_time()
    scoring: Callable[..., TrialRecord] = SCORES.get(kind, score_rows)
    record = scoring(*args)
    return {**record, "cpu_seconds": round(time.process_time() - began, 3)}


class HyperparameterSearch:
    """A search under way: a :class:`~pipeline.running.stage.Watcher` of its stage.

    The next trials depend only on the scores so far, not on workers or interruptions.
    """

    def __init__(self, stage: Stage, n_rows: int, rows: PreparedRows) -> None:
        self.stage, self.n_rows, self.task = stage, n_rows, rows.preparation.task
        self.params = params = stage.context.params
        self.sample, task = rows.sample(params.seed), self.task
        self.n_folds, self.fitting = size_of_search(rows, params, n_rows)
        psis, Cs = cell_values(params, self.sample, self.fitting), values_of_C(len(task.codec.classes))
        on_cells = cell_learners(params)
        has_C = {name for name in on_cells if params.searches_C(name)}
        sweeping = sweeping_learners(params)
        self.swept: dict[tuple[str, float | None], Record | None] = {
            (name, C): None for name in sweeping for C in (Cs if params.searches_C(name) else (None,))
        }
        self.limit = limit_of(params, self.sample, self.fitting) if self.swept else 0
        self.t = map_to_search(params).t if on_cells else 0
        self.parameter = params.map_parameter if on_cells or self.swept else ""
        self.on_cells = {
            name: SearchedLearner(
                name, self.parameter, psis, search_criterion(params, task, name), Cs if name in has_C else ()
            )
            for name in on_cells
        }
        of_rows = searches_of_rows(params, self.fitting)
        self.on_rows = {
            name: SearchedLearner(name, search.parameter, list(search.values), search_criterion(params, task, name))
            for name, search in of_rows.items()
        }
        of_map = params.search_of_map(self.fitting, self.sample) if on_cells else None
        self.spaces: dict[str, Space | None] = {**dict.fromkeys(on_cells, of_map), **of_rows}
        self.learners = {**self.on_cells, **self.on_rows}
        self.running = list(self.learners.values())
        self.costs: dict[str, Costs] = {}
        self.trials: dict[str, Trial] = {}
        self.later: list[Trial] = []
        self.before, self.reached, self.exceeded, self.races = 0.0, False, False, 0

    # The order of trials.

    def run(self) -> None:
        """Score all candidates, except those that the race drops or that the budget has no time for."""
        race = self.params.search == "race"
        self._say_begin(race)
        self._race(race)
        while not self.reached and self._refine():
            self._race(race)
        self._say_budget()

    def _refine(self) -> bool:
        """Have the learners on cells go on with values that the map proposes after the best ones so far."""
        params, learners = self.params, list(self.on_cells.values())
        chosen = dict.fromkeys(learner.chosen()[0] for learner in learners)
        search = None
        if learners:
            search = refined(params.map, params.map_searched, list(chosen), self.fitting, self.races, self.sample)
        if search is None:
            return False
        self.races, self.running = self.races + 1, learners
        for learner in learners:
            learner.go_on(search.values)
        self._say(
            f"tries {len(search.values)} {search.parameter} ({listed(search.values)}), from what is best so far on"
        )
        return True

    def _race(self, race: bool) -> None:
        """Run one race over the values that the learners have left."""
        numbers = range(self.n_folds)
        rounds = [tuple(numbers)]
        if race:
            rounds = [some for folds in ROUNDS if (some := tuple(fold for fold in folds if fold in numbers))]
        for number, round_folds in enumerate(rounds):
            # Sweeps first: they are long, and no round waits for their results.
            first = not number and not self.races
            if first and self.swept and is_in_parts(self.params, self.n_rows):
                prepare(self.stage, self.limit, self.n_rows)
            sweeps = [Trial(SWEEP, 0, {}, limit=self.limit, sweep=key) for key in self.swept] if first else []
            trials = [*sweeps, *(trial for fold in round_folds for trial in self._trials(fold))]
            tasks = [trial.task(self.stage.context.store, self.params, self.n_rows) for trial in trials]
            self.trials = {task.name: trial for task, trial in zip(tasks, trials, strict=True)}
            self.later = [trial for folds in rounds[number + 1 :] for fold in folds for trial in self._trials(fold)]
            if len(self.stage.run(score, tasks, self)) < len(tasks):
                self.reached = True
                break
            if number + 1 < len(rounds):
                self._leave_out()
                if not self.running:
                    break

    def _trials(self, fold: int) -> list[Trial]:
        """Return the trials of one fold: small values first where no scores are known yet, else the long ones."""
        wanted: dict[Value, dict[str, int]] = {}
        trials: list[tuple[int, Trial]] = []
        for learner in self.running:
            name = learner.name
            groups: dict[Hashable, list[Value]] = {}
            for value, n_Cs in learner.left.items():
                if name in self.on_cells:
                    if fold not in learner.scores.folds(value):  # by an earlier race
                        wanted.setdefault(value, {})[name] = n_Cs
                else:
                    sharing = capability(self.params.learner(name, value), SharesWork)
                    shared = None if sharing is None else sharing.sharing()
                    key = ("alone", value) if shared is None else ("shared", shared)
                    groups.setdefault(key, []).append(value)
            for values in groups.values():
                trial = Trial(name, fold, {value: {name: 1} for value in values})
                trials.append((learner.values.index(values[0]), trial))
        psis = sorted(wanted)
        for group in groups_of(psis, fold, self.params):
            trial = Trial(CELLS, fold, {psi: wanted[psi] for psi in group}, self.races)
            trials.append((min(next(iter(self.on_cells.values())).values.index(psi) for psi in group), trial))
        trials.sort(key=lambda ranked: ranked[0] if fold == 0 else -ranked[0])
        return [trial for _, trial in trials]

    def _leave_out(self) -> None:
        for learner in self.running:
            learner.leave_out(self.n_folds)
            values, n_folds = list(learner.left), learner.rounds[-1]["folds"]
            left = f"{len(values)} of {learner.entered} {learner.parameter} left for {learner.name}"
            self._say(f"after {n_folds} of {self.n_folds} folds {left} ({listed(values)})")
        self.running = [learner for learner in self.running if not learner.decided]

    # As a watcher of the stage.

    def done(self, task: Task, record: TrialRecord, skipped: bool) -> TaskProgress:
        """Take in a task; return how the search stands, and how long it will go on."""
        trial = self.trials[task.name]
        for name, value, path in record["scores"]:
            rows = [unpacked_rows(text, record["held_out"]) for text in path]
            searched_value = tuple(value) if isinstance(value, list) else value
            self.learners[name].scores.add(searched_value, trial.fold, rows)
        if trial.kind == SWEEP:
            self.swept[trial.sweep] = record["swept"]
        self.costs.setdefault(trial.kind, Costs()).add(trial.work, record["seconds"])
        del self.trials[task.name]
        if skipped:
            self.before = max(self.before, record["at"])
        else:
            record["at"] = round(self.spent, 3)
        progress: TaskProgress = {"note": self._note(trial)}
        if (seconds := self._seconds_left()) is not None:
            progress["left"] = seconds
        return progress

    def enough(self) -> bool:
        """Return whether the budget is spent, and candidates of every learner can be compared on some fold."""
        budget = self.params.budget
        if budget is None or self.spent < budget:
            return False
        all_tried = all(learner.folds for learner in self.learners.values()) and all(self.swept.values())
        self.exceeded |= not all_tried
        return all_tried

    @property
    def spent(self) -> float:
        """Seconds of the search so far; earlier processes count up to the last task that they finished."""
        return self.before + self.stage.context.elapsed - self.stage.began

    # Messages.

    def _say(self, text: str) -> None:
        self.stage.context.events.message(f"select: {text}")

    def _say_begin(self, race: bool) -> None:
        for name in dict.fromkeys(name for name, _ in self.swept):
            to_try = [C for other, C in self.swept if other == name and C is not None]
            each = f", for each C of {listed(to_try)}," if to_try else ""
            held_out = "the latest ones" if goes_by_time(self.params.split_by) else f"1 of {self.n_folds}"
            rows = f"{self.n_rows:,} rows, {held_out} held out"
            self._say(f"sweeps {self.parameter} up to {self.limit:g}{each} for {name} on {rows}")
        if not self.learners:
            return
        if self.on_cells and self.t < self.params.map.t:
            partitionings = f"{self.t:,} of the {self.params.map.t:,} partitionings"
            self._say(f"compares candidates with {partitionings} (--search full: with all)")
        parts = []
        for learner in self.learners.values():
            Cs = f" and C {listed(learner.Cs)}" if learner.Cs else ""
            metric = learner.criterion.metric
            by = "" if metric == self.task.kind.presenter.metric else f" by {metric.name}"
            parts.append(f"{learner.parameter} {listed(learner.values)}{Cs} for {learner.name}{by}")
        how = "all of it"
        if race and self.n_folds > 1:
            how = "leaving out on the way what cannot win any more (--search full tries all)"
        limit = "" if self.params.budget is None else f", for at most {self.params.budget:g} s (--budget)"
        in_folds = f"in {self.n_folds} fold{'s' * (self.n_folds > 1)}"
        self._say(f"tries {'; '.join(parts)} on {self.n_rows:,} rows {in_folds}, {how}{limit}")

    def _note(self, trial: Trial) -> str:
        if trial.kind == SWEEP:
            name, C = trial.sweep
            swept = self.swept[name, C] or {}
            at = "" if C is None else f" with C {C:g}"
            return f"{trial.kind} of {name}{at} done: {self.parameter} {swept['chosen']:g} is best"
        parameter = self.parameter if trial.kind == CELLS else self.learners[trial.kind].parameter
        what = "" if trial.kind == CELLS else f" of {trial.kind}"
        best = "; ".join(learner.standing() for learner in self.learners.values() if learner.right)
        done = f"{parameter} {listed(list(trial.wanted))}{what} on fold {trial.fold + 1} of {self.n_folds} done"
        return f"{done}; best so far {best}"

    def _seconds_left(self) -> float | None:
        """Estimate the seconds of this round and of later ones, if nothing is dropped; at most the budget."""
        left = [*self.trials.values(), *self.later]
        estimates = [self.costs[trial.kind].seconds(trial.work) for trial in left if trial.kind in self.costs]
        known = [seconds for seconds in estimates if seconds is not None]
        if left and not known:
            return None
        total = sum(known) * len(left) / max(1, len(known))  # trials of unknown kinds take as long as the others
        seconds = max(total / self._workers(), max(known, default=0.0))
        return seconds if self.params.budget is None else min(seconds, max(0.0, self.params.budget - self.spent))

    def _workers(self) -> int:
        return max(1, len(worker_addresses(self.stage.context.client)))

    def _say_budget(self) -> None:
        budget, spent = self.params.budget, self.spent
        if budget is None or not self.reached:
            return
        parts = [
            f"{learner.name} was chosen on {len(learner.folds)} of {self.n_folds} folds"
            + (f", without {learner.parameter} {listed(self._untried(learner))}" if self._untried(learner) else "")
            for learner in self.learners.values()
            if not learner.decided
        ]
        over = f", and more ({spent:.1f} s), as nothing was known before" if self.exceeded else ""
        self._say(f"--budget {budget:g} s is spent{over}: {'; '.join(parts)}")

    def _untried(self, learner: SearchedLearner) -> list[Value]:
        return [value for value in learner.values if value not in learner.tried]

    # The result.

    def result(self) -> JsonObject:
        """Return the result of :func:`select` without rows, folds and search."""
        criteria = {name: learner.criterion for name, learner in self.learners.items()}
        result: MutableJsonObject = {"chosen": {}}
        result |= criteria_in_use(self.params, criteria, self.task.kind.presenter.metric)
        swept: dict[str, Record] = {}
        if self.on_cells:
            result |= self._result_on_cells()
        if self.swept:
            by_sweeps = chosen_by_sweeps(self.swept, self.task.kind.presenter.metric)
            swept = by_sweeps["swept"]
            result |= {"parameter": self.parameter, "swept": swept}
            for key in CHOSEN:
                if together := {**mapping_of(result.get(key)), **by_sweeps[key]}:
                    result[key] = together
        if self.on_rows:
            result["tuned"] = {name: self._result_on_rows(learner) for name, learner in self.on_rows.items()}
        if edges := self._edges(swept):
            result["edges"] = {name: [asdict(edge) for edge in learner_edges] for name, learner_edges in edges.items()}
        if self.params.search == "race":
            rounds = {name: learner.rounds for name, learner in self.learners.items() if learner.rounds}
            result["race"] = {"odds": ODDS, "rounds": rounds}
        if self.params.budget is not None:
            result["budget"] = {
                "seconds": self.params.budget,
                "spent": round(self.spent, 3),
                "reached": self.reached,
                "folds": {name: len(learner.folds) for name, learner in self.learners.items()},
                "not_tried": {name: self._untried(learner) for name, learner in self.learners.items()},
            }
        return result

    def _edges(self, swept: Mapping[str, Record]) -> dict[str, list[Edge]]:
        """Return the chosen values that are at the edge of the values tried, by learner."""
        params, edges = self.params, dict[str, list[Edge]]()
        for name, learner in self.learners.items():
            value, place = learner.chosen()
            search = self.spaces[name]
            edges[name] = edges_of(search, learner.tried, value) if search else []
            if learner.Cs:
                edges[name] += edges_of(Space("C", "C", learner.Cs), learner.Cs, learner.Cs[place])
        sweeping = capability(params.map, Sweepable) if self.swept else None
        for name, sweep in swept.items() if sweeping is not None and sweeping.endless else ():
            value, values = sweep["chosen"], sweep["values"]
            if sweep["tried"] > 1 and value in (values[0], values[-1]):
                largest = value == values[-1]
                edges[name] = [Edge(sweep["parameter"], value, largest, value * 2 if largest else value / 2)]
        alike = {name: edges.get(params.compared_as(name), edges.get(name)) for name in params.learners}
        return {name: learner_edges for name, learner_edges in alike.items() if learner_edges}

    def _result_on_cells(self) -> JsonObject:
        params, learners = self.params, self.on_cells.values()
        psis = [psi for psi in next(iter(learners)).values if any(psi in learner.tried for learner in learners)]
        by_C = {learner.name: [learner.metrics(psi) for psi in psis] for learner in learners}
        best = {learner.name: learner.chosen() for learner in learners}
        given = None if params.map_searched else value_of(params.map, params.map_searched)
        chosen = {name: psi if given is None else given for name, (psi, _) in best.items()}
        same = {name: params.compared_as(name) for name in params.learners}
        result: MutableJsonObject = {
            "parameter": self.parameter,
            self.parameter: psis,
            **({"partitionings": self.t} if self.t < params.map.t else {}),
            **_by_metric(learners, lambda learner: [learner.best_of(by_psi) for by_psi in by_C[learner.name]]),
            "folds_tried": {learner.name: [len(learner.scores.folds(psi)) for psi in psis] for learner in learners},
            "chosen": {name: chosen[compared] for name, compared in same.items() if compared in chosen},
        }
        if with_C := [learner for learner in learners if learner.Cs]:
            result |= {
                "C": list(with_C[0].Cs),
                **_by_metric(with_C, lambda learner: by_C[learner.name], "_by_C"),
                "chosen_C": {learner.name: learner.Cs[best[learner.name][1]] for learner in with_C},
            }
        return result

    def _result_on_rows(self, learner: SearchedLearner) -> JsonObject:
        return {
            "parameter": learner.parameter,
            "values": learner.tried,
            learner.criterion.metric.key: [learner.metrics(value)[0] for value in learner.tried],
            "folds_tried": [len(learner.scores.folds(value)) for value in learner.tried],
            "chosen": learner.chosen()[0],
        }


def _by_metric(
    learners: Iterable[SearchedLearner], value_of_learner: Callable[[SearchedLearner], Json], suffix: str = ""
) -> JsonObject:
    """Return a value of each learner, by the key of the metric that its search went by."""
    by_metric: dict[str, dict[str, Json]] = {}
    for learner in learners:
        by_metric.setdefault(f"{learner.criterion.metric.key}{suffix}", {})[learner.name] = value_of_learner(learner)
    return dict(by_metric)
