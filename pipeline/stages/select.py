"""Select: choose psi and C for each learner by 5-fold cross-validation on a sample of the training rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ikmap.methods import SharesWork, Sweepable, capability, value_of
from ikmap.methods.search import Edge, Value, edges_of, refined, size_of
from ikmap.methods.search import Search as Space
from ikmap.model_selection import FOLDS, values_of_C
from ikmap.racing import ODDS
from pipeline.params import Params
from pipeline.record_types import Record, RecordView
from pipeline.rows.prepared import PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.stage import Context, Stage
from pipeline.stages.fit_parts import is_in_parts
from pipeline.stages.select_cells import cell_learners, cell_values, groups_of, score_cells
from pipeline.stages.select_costs import Costs
from pipeline.stages.select_learner import SearchedLearner, listed
from pipeline.stages.select_rows import (
    criteria_in_use,
    rows_to_search,
    score_rows,
    search_criterion,
    searches_of_rows,
    unpacked_rows,
)
from pipeline.stages.select_sweeps import found_by_sweeps, limit_of, refuse_criterion, sweep_cells, sweeping_learners
from pipeline.stages.sweep_stored import forget, prepare
from pipeline.storage.store import Store

ROUNDS = ((0,), (1, 2), (3, 4))
"""Folds of each round of a race; after each, what will not win any more is left out. One fold says much; then two at a
time, so that there is work for two workers and more."""
CELLS, SWEEP = "cells", "one sweep"
SCORES: dict[str, Callable[..., Record]] = {CELLS: score_cells, SWEEP: sweep_cells}
"""What scores a unit, by its kind; others are named after a learner on rows."""


def searches(params: Params) -> list[str]:
    """Names of what cross-validation is to choose, such as "psi", "C", "gamma" and "lambda": the map's comes first."""
    searched = params.searches_width(params.cv_rows)
    of_map = params.search_of_map(params.cv_rows) if searched else None
    of_rows = searches_of_rows(params, params.cv_rows).values()
    C = ["C"] if any(params.searches_C(name) for name in params.learners) else []
    found = [search.parameter for search in (of_map, *of_rows) if search is not None]
    return list(dict.fromkeys([*found[:1], *C, *found[1:]] if of_map else [*C, *found]))


def select(context: Context) -> Record:
    """Choose psi, C or both for each learner.

    Returns
    -------
    dict
        psi (values tried), FIGURE (of each learner, by psi; the key of the task's figure, such as accuracy), chosen
        (for each learner the psi of its best FIGURE; ties go to the smaller), rows, folds. Where C is searched too: C
        (values tried), FIGURE_by_C (of each learner that has a C, by psi, then by C, as far as every fold tried them),
        chosen_C (ties go to the smaller psi, then to the smaller C); FIGURE is then that of the best C. tuned: the
        same of each learner on rows. swept: of each learner that sweeps, what its sweep found.
        search: how it was searched. folds_tried (of each learner, by psi): how many folds its FIGURE is of; race: what
        was left out after which folds, and why. budget: where there was one, what came of it.
    """
    params = context.params
    rows = PreparedRows(context.store, "train")
    refuse_criterion(params, rows.preparation.task)
    n, used = rows.n_rows, min(rows.n_rows, params.cv_rows)
    wanted = searches(params)
    if used < n:
        verb = "is" if len(wanted) == 1 else "are"
        context.events.message(f"{' and '.join(wanted)} {verb} chosen on {used:,} of {n:,} training rows (--cv-rows)")
    search = HyperparameterSearch(Stage(context, "select", None, used), used, rows)
    search.run()
    found = search.stage.finish(rows=used, folds=FOLDS, search=params.search, **search.found())
    if search.swept:
        forget(context.store)
    return found


@dataclass(frozen=True)
class Trial:
    """What one task scores: a fold, and for each value the learners with the number of C to try at each.

    Of a sweep, over all values, there are the learner's name, and C where that is to be chosen. Races are counted: a
    map that is put together from several has one after the other.
    """

    kind: str
    fold: int
    wanted: dict[Any, dict[str, int]]
    race: int = 0
    limit: Value = 0

    @property
    def work(self) -> list[tuple[float, float]]:
        """For :class:`Costs`."""
        sizes = [size_of(value) if self.kind == CELLS else 1.0 for value in self.wanted]
        return [(size, 1.0 + sum(of.values())) for size, of in zip(sizes, self.wanted.values(), strict=True)]

    def task(self, store: Store, params: Params, n_rows: int) -> Task:
        """The task, under a name that says what it scores."""
        if self.kind == CELLS:
            again = f"race-{self.race}-" if self.race else ""
            name = f"{again}fold-{self.fold}-values-{'-'.join(map(_exact, self.wanted))}"
            return Task(name, (CELLS, store, params, self.fold, self.wanted, n_rows))
        if self.kind == SWEEP:
            ((learner, C),) = self.wanted
            name = f"sweep-{learner}" if C is None else f"sweep-{learner}-C-{C:g}"
            return Task(name, (SWEEP, store, params, learner, C, self.limit, n_rows))
        name = f"{self.kind}-{'-'.join(map(_words, self.wanted))}-fold-{self.fold}"
        return Task(name, ("rows", store, params, self.kind, list(self.wanted), self.fold, n_rows))


def _words(value: Any) -> str:
    return "_".join(f"{number:g}" for number in (value if isinstance(value, tuple) else (value,)))


def _exact(value: Value) -> str:
    return "_".join(map(str, value)) if isinstance(value, tuple) else str(value)


def score(what: str, *args: Any) -> Record:
    """Task: score some values on one fold, and count the processor seconds that it took."""
    began = time.process_time()
    record = SCORES.get(what, score_rows)(*args)
    return {**record, "cpu_seconds": round(time.process_time() - began, 3)}


class HyperparameterSearch:
    """A search under way: a :class:`~pipeline.running.stage.Watcher` of its stage.

    What is scored next depends only on what has been scored, not on workers or interruptions.
    """

    def __init__(self, stage: Stage, used: int, rows: PreparedRows) -> None:
        self.stage, self.used, self.task = stage, used, rows.preparation.task
        self.params = params = stage.context.params
        self.sample, task = rows.sample(params.seed), self.task
        self.fitting = rows_to_search(rows, params, used)
        psis, Cs = cell_values(params, self.sample, self.fitting), values_of_C(len(task.codec.classes))
        on_cells = cell_learners(params)
        has_C = {name for name in on_cells if params.searches_C(name)}
        sweeping = sweeping_learners(params)
        self.swept: dict[tuple[str, float | None], Record | None] = {
            (name, C): None for name in sweeping for C in (Cs if params.searches_C(name) else (None,))
        }
        self.limit = limit_of(params, self.sample, self.fitting) if self.swept else 0
        self.parameter = params.map_parameter if on_cells or self.swept else ""
        self.cells = {
            name: SearchedLearner(
                name, self.parameter, psis, search_criterion(params, task, name), Cs if name in has_C else ()
            )
            for name in on_cells
        }
        of_rows = searches_of_rows(params, self.fitting)
        self.rows = {
            name: SearchedLearner(name, search.parameter, list(search.values), search_criterion(params, task, name))
            for name, search in of_rows.items()
        }
        of_map = params.search_of_map(self.fitting, self.sample) if on_cells else None
        self.spaces: dict[str, Space | None] = {**dict.fromkeys(on_cells, of_map), **of_rows}
        self.entrants = {**self.cells, **self.rows}
        self.running = list(self.entrants.values())
        self.costs: dict[str, Costs] = {}
        self.units: dict[str, Trial] = {}
        self.later: list[Trial] = []
        self.before, self.reached, self.exceeded, self.races = 0.0, False, False, 0

    # What is done, and in which order.

    def run(self) -> None:
        """Score all candidates, except those that the race leaves out or that the budget has no time for."""
        race = self.params.search == "race"
        self._say_begin(race)
        self._race(race)
        while not self.reached and self._refine():
            self._race(race)
        self._say_budget()

    def _refine(self) -> bool:
        """Have the learners on cells go on with what the map proposes after what they have found."""
        params, entrants = self.params, list(self.cells.values())
        chosen = dict.fromkeys(entrant.chosen()[0] for entrant in entrants)
        asked = None
        if entrants:
            asked = refined(params.map, params.map_searched, list(chosen), self.fitting, self.races, self.sample)
        if asked is None:
            return False
        self.races, self.running = self.races + 1, entrants
        for entrant in entrants:
            entrant.go_on(asked.values)
        self._say(f"tries {len(asked.values)} {asked.parameter} ({listed(asked.values)}), from what is best so far on")
        return True

    def _race(self, race: bool) -> None:
        """One race over what the learners have left."""
        rounds = ROUNDS if race else (tuple(range(FOLDS)),)
        for number, these in enumerate(rounds):
            # Sweeps first: they are long, and no round waits for what they find.
            first = not number and not self.races
            if first and self.swept and is_in_parts(self.params, self.used):
                prepare(self.stage, self.limit, self.used)
            sweeps = [Trial(SWEEP, 0, {key: {key[0]: 1}}, limit=self.limit) for key in self.swept] if first else []
            units = [*sweeps, *(unit for fold in these for unit in self._units(fold))]
            tasks = [unit.task(self.stage.context.store, self.params, self.used) for unit in units]
            self.units = {task.name: unit for task, unit in zip(tasks, units, strict=True)}
            self.later = [unit for folds in rounds[number + 1 :] for fold in folds for unit in self._units(fold)]
            if len(self.stage.run(score, tasks, self)) < len(tasks):
                self.reached = True
                break
            if number + 1 < len(rounds):
                self._leave_out()
                if not self.running:
                    break

    def _units(self, fold: int) -> list[Trial]:
        """Tasks of one fold: small values first where nothing is known yet, else the long ones."""
        wanted: dict[Value, dict[str, int]] = {}
        units: list[tuple[int, Trial]] = []
        for entrant in self.running:
            name = entrant.name
            groups: dict[Any, list[Any]] = {}
            for value, n_Cs in entrant.left.items():
                if name in self.cells:
                    if fold not in entrant.scores.folds(value):  # by an earlier race
                        wanted.setdefault(value, {})[name] = n_Cs
                else:
                    sharing = capability(self.params.learner(name, value), SharesWork)
                    shared = None if sharing is None else sharing.sharing()
                    key = ("alone", value) if shared is None else ("shared", shared)
                    groups.setdefault(key, []).append(value)
            for values in groups.values():
                unit = Trial(name, fold, {value: {name: 1} for value in values})
                units.append((entrant.values.index(values[0]), unit))
        psis = sorted(wanted)
        for group in groups_of(psis, fold, self.params):
            unit = Trial(CELLS, fold, {psi: wanted[psi] for psi in group}, self.races)
            units.append((min(next(iter(self.cells.values())).values.index(psi) for psi in group), unit))
        units.sort(key=lambda ranked: ranked[0] if fold == 0 else -ranked[0])
        return [unit for _, unit in units]

    def _leave_out(self) -> None:
        for entrant in self.running:
            entrant.leave_out(FOLDS)
            at = entrant.rounds[-1]
            left = f"{len(at['left'])} of {entrant.entered} {entrant.parameter} left for {entrant.name}"
            self._say(f"after {at['folds']} of {FOLDS} folds {left} ({listed(at['left'])})")
        self.running = [entrant for entrant in self.running if not entrant.decided]

    # As a watcher of the stage.

    def done(self, task: Task, record: Record, skipped: bool) -> Record:
        """Take in a task; how the search stands, and how long it will go on."""
        unit = self.units[task.name]
        for name, value, path in record["scores"]:
            rows = [unpacked_rows(text, record["held_out"]) for text in path]
            at = tuple(value) if isinstance(value, list) else value
            self.entrants[name].scores.add(at, unit.fold, rows)
        if unit.kind == SWEEP:
            self.swept[next(iter(unit.wanted))] = record["swept"]
        self.costs.setdefault(unit.kind, Costs()).add(unit.work, record["seconds"])
        del self.units[task.name]
        if skipped:
            self.before = max(self.before, record["at"])
        else:
            record["at"] = round(self.spent, 3)
        said: Record = {"note": self._note(unit)}
        seconds = self._seconds_left()
        return said if seconds is None else {**said, "left": seconds}

    def enough(self) -> bool:
        """Whether the budget is spent, and something has been scored for every learner."""
        budget = self.params.budget
        if budget is None or self.spent < budget:
            return False
        known = all(entrant.tried for entrant in self.entrants.values()) and all(self.swept.values())
        self.exceeded |= not known
        return known

    @property
    def spent(self) -> float:
        """Seconds of the search so far; those of processes before this one up to the last task that they finished."""
        return self.before + self.stage.context.elapsed - self.stage.began

    # What is said.

    def _say(self, text: str) -> None:
        self.stage.context.events.message(f"select: {text}")

    def _say_begin(self, race: bool) -> None:
        for name in dict.fromkeys(name for name, _ in self.swept):
            to_try = [C for other, C in self.swept if other == name and C is not None]
            each = f", for each C of {listed(to_try)}," if to_try else ""
            rows = f"{self.used:,} rows, 1 of {FOLDS} held out"
            self._say(f"sweeps {self.parameter} up to {self.limit:g}{each} for {name} on {rows}")
        if not self.entrants:
            return
        parts = []
        for entrant in self.entrants.values():
            Cs = f" and C {listed(entrant.Cs)}" if entrant.Cs else ""
            figure = entrant.criterion.metric
            by = "" if figure == self.task.kind.presenter.metric else f" by {figure.name}"
            parts.append(f"{entrant.parameter} {listed(entrant.values)}{Cs} for {entrant.name}{by}")
        how = "leaving out on the way what cannot win any more (--search full tries all)" if race else "all of it"
        limit = "" if self.params.budget is None else f", for at most {self.params.budget:g} s (--budget)"
        self._say(f"tries {'; '.join(parts)} on {self.used:,} rows in {FOLDS} folds, {how}{limit}")

    def _note(self, unit: Trial) -> str:
        if unit.kind == SWEEP:
            ((name, C),) = unit.wanted
            swept = self.swept[name, C] or {}
            at = "" if C is None else f" with C {C:g}"
            return f"{unit.kind} of {name}{at} done: {self.parameter} {swept['chosen']:g} is best"
        parameter = self.parameter if unit.kind == CELLS else self.entrants[unit.kind].parameter
        what = "" if unit.kind == CELLS else f" of {unit.kind}"
        best = "; ".join(entrant.standing() for entrant in self.entrants.values() if entrant.right)
        done = f"{parameter} {listed(list(unit.wanted))}{what} on fold {unit.fold + 1} of {FOLDS} done"
        return f"{done}; best so far {best}"

    def _seconds_left(self) -> float | None:
        """Of what is left of this round and, if nothing more is left out, of those after it; at most the budget."""
        left = [*self.units.values(), *self.later]
        of = [self.costs[unit.kind].seconds(unit.work) for unit in left if unit.kind in self.costs]
        known = [seconds for seconds in of if seconds is not None]
        if left and not known:
            return None
        total = sum(known) * len(left) / max(1, len(known))  # of kinds that nothing is known of: as long as the others
        seconds = max(total / self._workers(), max(known, default=0.0))
        return seconds if self.params.budget is None else min(seconds, max(0.0, self.params.budget - self.spent))

    def _workers(self) -> int:
        client = self.stage.context.client
        return 1 if client is None else max(1, len(client.scheduler_info(n_workers=-1)["workers"]))

    def _say_budget(self) -> None:
        budget, spent = self.params.budget, self.spent
        if budget is None or not self.reached:
            return
        parts = [
            f"{entrant.name} was chosen on {len(entrant.folds)} of {FOLDS} folds"
            + (f", without {entrant.parameter} {listed(self._untried(entrant))}" if self._untried(entrant) else "")
            for entrant in self.entrants.values()
            if not entrant.decided
        ]
        over = f", and more ({spent:.1f} s), as nothing was known before" if self.exceeded else ""
        self._say(f"--budget {budget:g} s is spent{over}: {'; '.join(parts)}")

    def _untried(self, entrant: SearchedLearner) -> Sequence[Any]:
        return [value for value in entrant.values if value not in entrant.tried]

    # What is found.

    def found(self) -> Record:
        """Everything but rows, folds and search of what :func:`select` returns."""
        criteria = {name: entrant.criterion for name, entrant in self.entrants.items()}
        found: Record = {
            "chosen": {},
            **criteria_in_use(self.params, criteria, self.task.kind.presenter.metric),
        }
        if self.cells:
            found |= self._found_on_cells()
        if self.swept:
            by_sweeps = found_by_sweeps(self.swept, self.task.kind.presenter.metric)
            for key in ("chosen", "chosen_C"):
                if together := {**found.get(key, {}), **by_sweeps[key]}:
                    by_sweeps[key] = together
            found |= {"parameter": self.parameter, **{key: of for key, of in by_sweeps.items() if of}}
        if self.rows:
            found["tuned"] = {name: self._found_on_rows(entrant) for name, entrant in self.rows.items()}
        if edges := self._edges(found):
            found["edges"] = {name: [asdict(edge) for edge in of] for name, of in edges.items()}
        if self.params.search == "race":
            rounds = {name: entrant.rounds for name, entrant in self.entrants.items() if entrant.rounds}
            found["race"] = {"odds": ODDS, "rounds": rounds}
        if self.params.budget is not None:
            found["budget"] = {
                "seconds": self.params.budget,
                "spent": round(self.spent, 3),
                "reached": self.reached,
                "folds": {name: len(entrant.folds) for name, entrant in self.entrants.items()},
                "not_tried": {name: self._untried(entrant) for name, entrant in self.entrants.items()},
            }
        return found

    def _edges(self, found: RecordView) -> dict[str, list[Edge]]:
        """Return what was chosen at the edge of what was tried, by learner."""
        params, edges = self.params, dict[str, list[Edge]]()
        for name, entrant in self.entrants.items():
            value, place = entrant.chosen()
            search = self.spaces[name]
            edges[name] = edges_of(search, entrant.tried, value) if search else []
            if entrant.Cs:
                edges[name] += edges_of(Space("C", "C", entrant.Cs), entrant.Cs, entrant.Cs[place])
        sweeping = capability(params.map, Sweepable) if self.swept else None
        for name, swept in found.get("swept", {}).items() if sweeping is not None and sweeping.endless else ():
            value, values = swept["chosen"], swept["values"]
            if swept["tried"] > 1 and value in (values[0], values[-1]):
                largest = value == values[-1]
                edges[name] = [Edge(swept["parameter"], value, largest, value * 2 if largest else value / 2)]
        alike = {name: edges.get(params.compared_as(name), edges.get(name)) for name in params.learners}
        return {name: of for name, of in alike.items() if of}

    def _found_on_cells(self) -> Record:
        params, entrants = self.params, self.cells.values()
        psis = [psi for psi in next(iter(entrants)).values if any(psi in entrant.tried for entrant in entrants)]
        by_C = {entrant.name: [entrant.figures(psi) for psi in psis] for entrant in entrants}
        best = {entrant.name: entrant.chosen() for entrant in entrants}
        given = None if params.map_searched else value_of(params.map, params.map_searched)
        of = {name: psi if given is None else given for name, (psi, _) in best.items()}
        same = {name: params.compared_as(name) for name in params.learners}
        found: Record = {
            "parameter": self.parameter,
            self.parameter: psis,
            **_by_figure(entrants, lambda entrant: [entrant.best_of(by_psi) for by_psi in by_C[entrant.name]]),
            "folds_tried": {e.name: [len(e.scores.folds(psi)) for psi in psis] for e in entrants},
            "chosen": {name: of[known] for name, known in same.items() if known in of},
        }
        if with_C := [entrant for entrant in entrants if entrant.Cs]:
            found |= {
                "C": list(with_C[0].Cs),
                **_by_figure(with_C, lambda entrant: by_C[entrant.name], "_by_C"),
                "chosen_C": {entrant.name: entrant.Cs[best[entrant.name][1]] for entrant in with_C},
            }
        return found

    def _found_on_rows(self, entrant: SearchedLearner) -> Record:
        return {
            "parameter": entrant.parameter,
            "values": entrant.tried,
            entrant.criterion.metric.key: [entrant.figures(value)[0] for value in entrant.tried],
            "folds_tried": [len(entrant.scores.folds(value)) for value in entrant.tried],
            "chosen": entrant.chosen()[0],
        }


def _by_figure(
    entrants: Iterable[SearchedLearner], found: Callable[[SearchedLearner], Any], suffix: str = ""
) -> Record:
    """Return what was found of each learner, by the key of the figure that its search went by."""
    by: Record = {}
    for entrant in entrants:
        by.setdefault(f"{entrant.criterion.metric.key}{suffix}", {})[entrant.name] = found(entrant)
    return by
