"""A race of candidates on folds of a sample: which trials come next, what is left out, and what is chosen in the end.

A race goes in rounds. First each candidate learns from a few rows of one fold, which tells how long it takes; then psi
and C of those on cells are chosen; then all learn from the rows of that fold, and of the others. What can no longer
win, alone or in a sum, is dropped, and what would take too long is left out. With seconds left, other settings of
boosting are tried. Sums of candidates cost nothing: their decisions are sums of decisions that are known.

The race depends on the results of trials alone, of which the seconds are a part: with the same results, as those that
an interrupted run has kept, it goes on in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapreplace
from itertools import combinations
from typing import Literal

import numpy as np

from ikmap.arrays import Floats, Int64s
from ikmap.auto.candidates import (
    BOOSTING,
    FOREST,
    LINEAR,
    STACKING,
    Candidate,
    Options,
    T,
    known_seconds,
    variants,
)
from ikmap.auto.trial import Decided, Fold, Searched
from ikmap.json_values import Json
from ikmap.learners.stacking.blend import Blend, BlendLoss, blend, counting, weights_of
from ikmap.methods.base_models import MOST_C, Settings, best_settings, enough_folds, loss_of, target_of
from ikmap.methods.boosting import Boosting
from ikmap.methods.forest import Forest
from ikmap.methods.stacking import PartWord, words_of
from ikmap.racing import Scores, survivors

PILOT_ROWS = 1000
"""Rows of the first round."""
SEARCH_ROWS = 10_000
"""Most rows by which psi and C are chosen."""
SAMPLE_BYTES, LEAST_SAMPLE = 256 << 20, 8000
"""Most bytes of the rows on which candidates are compared, as each trial holds them in memory; and how many rows these
are at least, however wide they are."""
ENOUGH = 400
"""Held-out rows, at least, by which candidates are dropped."""
LEAST_BUDGET = 30.0
"""Seconds of the budget that is given by default, at least."""
FIRST_SHARE, SEARCH_SHARE = 0.6, 0.2
"""Share of the budget within which each candidate is to be tried on one fold; and psi and C are to be chosen, where
more folds than one have too few rows for that."""
RACE_SHARE = 0.5
"""Share of the budget that the candidates may take, or, if no budget is given, the whole race. The rest is for the
model of all rows."""
LEAST_MODEL_SHARE, MODEL_TIMES, REFITS_SHARE = 0.1, 2.0, 0.3
"""Time that the trials of other settings leave for the model of all rows: this share of a given budget, or this many
times the seconds that the best model so far is expected to take if that is more, as the next best may take longer; and
enough for all refits, up to that share of the budget."""
MOST_REFITS = 5
"""Models of all rows, at most, whose mean each part of a sum is: more change little."""
ENOUGH_REFITS, REFITS_GAIN = 3, 0.01
"""A model of so many refits is preferred to one of fewer whose loss is less by no more than this share: on tables of
30,000 to 75,000 rows, three models in place of one lowered it by 0.5 to 15 %."""
MODEL_SHARE = 0.25
"""Share of the budget that a model of all rows may take in any case, also where trials took longer than expected."""
LEAST_SLOPE = 0.25
"""Seconds that a further row is expected to take, at least, as a share of the mean over rows."""
PILOT_SLOPE = 0.4
"""The same, before more than one number of rows is known: much of a pilot's time does not depend on rows."""
OVERRUN = 1.4
"""By how much a model may take longer than expected: not all of its work is shared out to all cores."""
TRIED_SHARE = 0.25
"""Share of a given budget within which all that runs is tried on all folds, also what can no longer win by itself: on
the first rows it is not sure what adds to a sum."""
LEAST_WEIGHT = 0.02
"""Weight in a sum at which a candidate that can no longer win is dropped."""
FOREST_SHARE = 0.2
"""Share of the budget that the trials of a forest may take for larger trees than psi was chosen for."""
MOST_PSI = 1 << 16
"""Most rows that a tree of a forest is grown on."""
FAR_BEHIND = 2.0
"""A candidate on cells whose loss after the pilot is so many times that of the best one is dropped."""
VARIANTS_AT_ONCE, MORE_VARIANTS_AT_ONCE = 2, 4
"""Variants that are tried in a round; more if a budget is given, as rounds take time of their own."""
MOST_BOOSTINGS = 4
"""Settings of boosting in a sum, at most."""
FEW_VARIANTS = 8
"""Variants that are tried where no budget is given."""
VARIANT_TIMES = 2.0
"""Seconds that a variant is expected to take, as a multiple of those of the best setting."""
SCREEN_ROWS = 2000
"""Number of held-out rows that is enough to see whether a variant is worth more folds."""

type Kind = Literal["pilot", "search", "fold"]


@dataclass(frozen=True)
class Trial:
    """A trial: a candidate learns from rows of a fold, all of them or some, and decides on those held out.

    Attributes
    ----------
    candidate : Candidate
    fold : int
    kind : {"pilot", "search", "fold"}
        Whether it learns from :data:`PILOT_ROWS` rows, to tell how long it takes; from :data:`SEARCH_ROWS` rows of
        the fold with several psi and C, to choose among them; or from all rows of the fold with these.
    settings : (int, float) or None
        psi and C, if they are known.
    """

    candidate: Candidate
    fold: int
    kind: Kind = "fold"
    settings: Settings | None = None

    @property
    def name(self) -> str:
        """Name that no other trial of the race has, nor one of an earlier version, whose folds held out other rows."""
        return f"{self.candidate.name.replace(' ', '-')}-{self.kind}.{self.fold}"

    def rows(self, fold: Fold) -> Fold:
        """Return the rows (fit, held out) of the trial among those of its fold."""
        most = {"pilot": PILOT_ROWS, "search": SEARCH_ROWS, "fold": None}[self.kind]
        return fold if most is None else (_spread(fold[0], most), _spread(fold[1], most))


def _spread(rows: np.ndarray, at_most: int) -> np.ndarray:
    return rows if rows.size <= at_most else rows[np.linspace(0, rows.size - 1, at_most).astype(np.int64)]


@dataclass(frozen=True)
class Entry:
    """A line of the leaderboard: a candidate, or a sum of some, and how well it did.

    Attributes
    ----------
    name : str
    parts : tuple of str
        Names of the candidates in it.
    loss : float
        Mean loss on the rows of the folds on which it was tried, from which it had not learned; nan if on none.
    error : float
        Standard error of the loss.
    folds : int
        Folds on which it was tried.
    fit_seconds : float
        Seconds that its model of all rows is expected to take.
    row_seconds : float
        Seconds to decide on a row.
    note : str
        Why it was left out, if it was.
    weights : mapping of str to float
        Weight of each candidate in a sum.
    refits : int
        Number of models of all rows that each part of a sum is the mean of.
    """

    name: str
    parts: tuple[str, ...]
    loss: float
    error: float
    folds: int
    fit_seconds: float
    row_seconds: float
    note: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    refits: int = 0


@dataclass(frozen=True)
class Choice:
    """The model that was chosen, as options of a run.

    Attributes
    ----------
    entry : Entry
    learner, partitioner, scale : str
        The partitioner is empty for a learner on rows.
    options : mapping of str to mapping
        Options of the methods, by their names.
    by_budget : bool
        True if the budget, and not the losses alone, decided.
    """

    entry: Entry
    learner: str
    partitioner: str
    scale: str
    options: Mapping[str, Options]
    by_budget: bool = False


def sample_size(n_rows: int, row_bytes: float) -> int:
    """Return on how many rows candidates are compared, of so many.

    They are more of very many, as larger models suit them, and fewer of wide ones.

    Parameters
    ----------
    n_rows : int
    row_bytes : float
        Bytes of a row in memory, on average.
    """
    most = max(LEAST_SAMPLE, int(SAMPLE_BYTES / max(1.0, row_bytes)))
    return min(n_rows, most, max(20_000, min(n_rows // 5, 100_000)))


def default_budget(n_rows: int) -> float:
    """Return the seconds that a choice and its model may take at most: about a minute for 100,000 rows.

    A small table needs far less than :data:`LEAST_BUDGET`, also on a slow machine: the losses decide, not the clock.
    """
    seconds = min(max(LEAST_BUDGET, n_rows / 350), 60 * math.sqrt(max(1.0, n_rows / 100_000)))
    return round(2 * seconds) / 2


class Race:
    """A race under way.

    Parameters
    ----------
    candidates : sequence of Candidate
    y : ndarray, shape (n,)
        Targets of the rows of the sample.
    n_classes : int
        Number of classes; 0 for numbers.
    folds : sequence of (ndarray, ndarray)
        For each fold, the rows to learn from and those held out.
    n_rows : int
        Number of all rows, of which the model is to be made.
    n_columns : int
    budget : float, optional
        Seconds for the race and the model. Default: those of :func:`default_budget`, and only
        :data:`FEW_VARIANTS` other settings of boosting are tried.
    n_workers : int
        Trials that run at the same time.
    sample_weight : ndarray of float64, shape (n,), optional
        Weights of the rows.
    in_time : bool
        True if folds follow each other in time.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        y: np.ndarray,
        n_classes: int,
        folds: Sequence[Fold],
        n_rows: int,
        n_columns: int,
        budget: float | None = None,
        n_workers: int = 1,
        sample_weight: Floats | None = None,
        *,
        in_time: bool = False,
    ) -> None:
        self.candidates, self.folds, self.n_rows = list(candidates), list(folds), n_rows
        self.n_columns, self.n_classes = n_columns, n_classes
        self.budget = default_budget(n_rows) if budget is None else budget
        self.n_workers, self.in_haste = n_workers, budget is None
        self.loss: BlendLoss = loss_of(n_classes)
        self.target, self.sample_weight, self.in_time = target_of(y, n_classes), sample_weight, in_time
        self.results: dict[str, dict[int, Decided]] = {}
        self.pilots: dict[str, Decided] = {}
        self.settings: dict[str, Settings] = {}
        self.searches: dict[str, float] = {}
        self._searched: dict[str, list[Mapping[Settings, float]]] = {}
        self.notes: dict[str, str] = {}
        self.refusals: dict[str, str] = {}
        self.smaller: Entry | None = None
        self.spent, self.left, self.limited = 0.0, math.inf, False
        self.once: set[str] = set()
        self._core, self._rounds = list(candidates), self._plan()
        self._blends: dict[tuple[int, *tuple[str, ...]], Blend] = {}

    # Which trials come next.

    def _plan(self) -> list[tuple[Kind, tuple[int, ...]]]:
        n = len(self.folds)
        smallest = min(fit.size for fit, _ in self.folds)
        rounds: list[tuple[Kind, tuple[int, ...]]] = [("pilot", (0,))] if smallest > 2 * PILOT_ROWS else []
        rounds += [("search", (k,)) for k in range(enough_folds([held_out.size for _, held_out in self.folds]))]
        rounds += [("fold", own) for own in ((0,), *(tuple(range(1, n))[i : i + 2] for i in range(0, n - 1, 2)))]
        return rounds

    def next_round(self) -> list[Trial]:
        """Return the trials of the next round; none at the end of the race."""
        while self._rounds:
            kind, folds = self._rounds.pop(0)
            trials = self._trials(kind, folds)
            if folds[0] == 0:
                trials = self._affordable(trials)
            elif kind == "fold" and (best := self._best_affordable(trials)):
                return best
            elif not self._affords(trials, RACE_SHARE if kind == "fold" else SEARCH_SHARE):
                self.limited = True
                self._rounds = [own for own in self._rounds if own[0] != kind]
                continue
            if trials:
                return trials
        return self._further()

    def _trials(self, kind: Kind, folds: Sequence[int]) -> list[Trial]:
        """Return the trials of a round. What has no psi and C to search for is tried on the first fold meanwhile."""
        trials: list[Trial] = []
        for fold in folds:
            for own in self._core:
                known = self.results.get(own.name, {})
                if own.name in self.notes or fold in known:
                    continue
                if kind == "fold":
                    if known.keys() >= set(range(folds[0])):
                        trials.append(Trial(own, fold, kind, self.settings.get(own.name)))
                elif kind == "pilot" or own.partitioner:
                    trials.append(Trial(own, fold, kind))
                elif fold == 0:
                    trials.append(Trial(own, fold, "fold"))
        return trials

    def _affords(self, trials: Sequence[Trial], share: float) -> bool:
        """Return whether a share of the budget has seconds enough for all of these trials."""
        return sum(map(self.expected, trials)) / self.n_workers <= self.budget * share - self.spent

    def _affordable(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return the trials on the first fold for which the budget has seconds enough, the quick ones first.

        One candidate at least is tried, whatever the budget is.
        """
        taken: list[Trial] = []
        for trial in sorted(trials, key=self.expected):
            if not taken or self._affords([*taken, trial], FIRST_SHARE):
                taken.append(trial)
            else:
                self.limited = True
                seconds = self.expected(trial)
                why = f"would take {seconds:.0f} s or more a fold" if seconds >= 1 else "no time was left for it"
                self.notes[trial.candidate.name] = f"not tried: {why}"
        return [trial for trial in trials if trial in taken]

    def _best_affordable(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return the trials of as many candidates as the budget has seconds for, two at least, without the worst ones.

        What is left out then runs no more. The linear model, to compare with, takes next to nothing.
        """
        names = list(dict.fromkeys(trial.candidate.name for trial in trials if trial.candidate.learner != LINEAR))
        names.sort(key=lambda name: float(self._losses(name, self.n_done).mean()))
        left = list(trials)
        while not self._affords(left, RACE_SHARE) and len(names) > 2:
            worst = names.pop()
            left = [trial for trial in left if trial.candidate.name != worst]
        if not self._affords(left, RACE_SHARE):
            return []
        for trial in trials:
            if trial not in left:
                self.limited = True
                self.notes[trial.candidate.name] = f"left out after {self.n_done} of {len(self.folds)} folds for time"
        return left

    def expected(self, trial: Trial) -> float:
        """Return the seconds that a trial is expected to take; 0 for those of which nothing is known."""
        name = trial.candidate.name
        known = list(self.results.get(name, {}).values())
        fit = self.folds[trial.fold][0].size
        psi = (self.settings[name][0],) if name in self.settings else ()
        least = known_seconds(trial.candidate, fit, self.n_columns, self.n_classes, *psi)
        if known:
            largest = max(self.folds[fold][0].size for fold in self.results[name])
            return max(own.fit_seconds + own.predict_seconds for own in known) * fit / largest
        if trial.kind == "search" and name in self.searches:
            return self.searches[name]
        if trial.kind == "pilot" or name not in self.pilots:
            return least
        pilot = self.pilots[name]
        seconds = pilot.seconds if trial.kind == "search" else pilot.fit_seconds + pilot.predict_seconds
        return max(least, seconds * (1 + PILOT_SLOPE * (fit / PILOT_ROWS - 1)))

    def add_round(self, decided: Sequence[tuple[Trial, Decided | Searched | str]]) -> None:
        """Take in the results of all trials of a round: what was decided or found, or why it could not be."""
        seconds: list[float] = []
        for trial, own in decided:
            name = trial.candidate.name
            if isinstance(own, str):
                self.notes[name] = f"failed: {own}"
                continue
            seconds.append(own.seconds)
            if isinstance(own, Searched):
                self._searched.setdefault(name, []).append(own.losses)
                self.searches[name] = max(own.seconds, self.searches.get(name, 0.0))
            elif trial.kind == "pilot":
                self.pilots[name] = own
            else:
                self.results.setdefault(name, {})[trial.fold] = own
        for name, tried in self._searched.items():
            self.settings[name] = self._for_fold(name, best_settings(tried))
        self.spent += _makespan(seconds, self.n_workers)
        if any(trial.kind == "fold" for trial, _ in decided):
            self._drop()
        elif any(trial.kind == "pilot" for trial, _ in decided):
            self._drop_far_behind([trial for trial, _ in decided])

    def _for_fold(self, name: str, settings: Settings) -> Settings:
        """Return psi and C for all rows of a fold, of which some chose them."""
        fit = min(fit.size for fit, _ in self.folds)
        grown = self._grown(name, settings, min(fit, SEARCH_ROWS), fit)
        if grown[0] < settings[0]:  # so many rows have no memory for more
            return grown
        own, sizes = self._by_name(name), (fit, self.n_columns, self.n_classes)
        most = FOREST_SHARE * self.budget * self.n_workers
        while grown[0] > settings[0] and len(self.folds) * known_seconds(own, *sizes, grown[0]) > most:
            grown, self.limited = (grown[0] // 2, grown[1] / 2), True
        return max(settings, grown)

    def _for_model(self, own: Candidate) -> Settings | None:
        """Return psi and C of the model of all rows, of which those of a fold are some."""
        settings = self.settings.get(own.name)
        if settings is None:
            return None
        return self._grown(own.name, settings, min(fit.size for fit, _ in self.folds), self.n_rows)

    def _grown(self, name: str, settings: Settings, n_before: int, n_rows: int) -> Settings:
        """Return psi and C for so many rows, from those for fewer.

        Where the largest psi was best, trees of a forest are grown on as large a share of the rows as before, up to
        :data:`MOST_PSI`: with more rows, finer cells pay, and their weights are shrunk less. Where so many rows would
        be drawn that a forest has no memory for them, its trees are grown on fewer, and weights are shrunk more.
        """
        psi, C = settings
        if self._by_name(name).partitioner != FOREST:
            return settings
        forest = Forest(t=T, psi=psi)
        times = min(MOST_PSI, forest.largest_psi(n_rows, self.n_columns)) / psi
        if forest.fits(n_rows, self.n_columns):
            if psi < max(tried for losses in self._searched[name] for tried, _ in losses):
                return settings
            times = max(1.0, min(n_rows / n_before, times))
        return max(1, int(psi * times)), float(f"{min(C * times, max(C, MOST_C)):.3g}")

    def _drop_far_behind(self, trials: Sequence[Trial]) -> None:
        """Leave out what is so far behind after the pilot that more rows will hardly help."""
        rows = trials[0].rows(self.folds[0])[1]
        losses = {
            name: self._weighed(self.loss.rows(own.decisions, self.target[rows]), rows).mean()
            for name, own in self.pilots.items()
        }
        if rows.size < ENOUGH or not losses:
            return
        least = min(losses.values())
        for name, loss in losses.items():
            if loss > FAR_BEHIND * least and self._by_name(name).partitioner:
                self.notes[name] = (
                    f"dropped after a pilot of {PILOT_ROWS:,} rows: loss {loss:.4g}, the best {least:.4g}"
                )

    def _drop(self) -> None:
        """Leave out what can no longer win, and adds nothing to a sum; the linear model stays, to compare with."""
        running = [own for own in self._core if own.name not in self.notes and own.name in self.results]
        done = self.n_done
        if done == len(self.folds) or len(running) < 2 or self._held_out(done).size < ENOUGH:
            return
        rest = [Trial(own, fold) for own in running for fold in range(done, len(self.folds))]
        if not self.in_haste and self._affords(rest, TRIED_SHARE):
            return
        scores = Scores()
        for i, own in enumerate(running):
            scores.add(i, 0, [-self._losses(own.name, done)])
        left = {i for i, _ in survivors(scores.on([0]), done, len(self.folds))}
        parts = [own.name for own in running if own.learner != LINEAR]
        weights = dict(zip(parts, self._weights(parts, done).tolist(), strict=True)) if parts else {}
        for i, own in enumerate(running):
            if i not in left and weights.get(own.name, 1.0) <= LEAST_WEIGHT:
                self.limited |= not self.in_haste  # with more seconds it would have been tried on all folds
                self.notes[own.name] = f"dropped after {done} of {len(self.folds)} folds: cannot win, adds nothing"

    # Other settings, if there is time.

    def _further(self) -> list[Trial]:
        """Return trials of variants of the best setting of boosting so far, if it matters and there is time.

        Variants are tried on a fold or two first; only those that are better there are tried on the others. If a budget
        is given, those that may be among the best few are, too, as sums are made of these; and once all variants of the
        best setting have been tried, those of the next best ones follow.
        """
        if (best := self.best_boosting()) is None:
            return []
        leader = self.leaderboard()[0] if self.in_haste else self._leader()
        if not any(self._by_name(part).learner == BOOSTING for part in leader.parts):
            return []
        left = self._until(leader) - self.spent
        if trials := self._go_on(left):
            return trials
        if self.in_haste and len(self._variants) >= FEW_VARIANTS:
            return []
        fit = self.folds[0][0].size
        fresh: list[Candidate] = []
        for near in self._best_boostings(self._n_pursued):
            fresh += variants(near, [*self.candidates, *fresh], fit, classes=self.n_classes > 0)
        fresh = fresh[: VARIANTS_AT_ONCE if self.in_haste else MORE_VARIANTS_AT_ONCE]
        seconds = VARIANT_TIMES * self.expected(Trial(best, 0)) * self._n_screened / self.n_workers
        if seconds * min(len(fresh), VARIANTS_AT_ONCE) > left:
            self.limited = True
            return []
        if seconds:
            fresh = fresh[: max(VARIANTS_AT_ONCE, int(left / seconds))]
        self.candidates += fresh
        return [Trial(own, fold) for fold in range(self._n_screened) for own in fresh]

    def _leader(self) -> Entry:
        """Return a quick estimate of the best sum so far: all parts that have some weight are in it.

        To find out which of them can be left out would take as long as a trial or two.
        """
        parts = [own.name for own in self._summands(MOST_BOOSTINGS)]
        weights = dict(zip(parts, self._weights(parts, self.n_done).tolist(), strict=True))
        weights = {name: weight for name, weight in weights.items() if weight > LEAST_WEIGHT}
        return Entry("", tuple(weights), math.nan, math.nan, self.n_done, math.nan, math.nan, weights=weights)

    @property
    def _n_pursued(self) -> int:
        """Number of the best settings of boosting that are to be bettered: all in a sum if a budget is given."""
        return 1 if self.in_haste else MOST_BOOSTINGS

    def _go_on(self, left: float) -> list[Trial]:
        """Return trials, on the other folds, of variants that were better on the first ones than one of the best."""
        trials: list[Trial] = []
        pursued = self._best_boostings(self._n_pursued)
        bar = pursued[-1] if len(pursued) == self._n_pursued else None
        for own in self._variants:
            known = len(self.results.get(own.name, ()))
            if own.name in self.notes or not 0 < known < self.n_done:
                continue
            place = f"after {known} of {self.n_done} folds"
            rest = [Trial(own, fold) for fold in range(known, self.n_done)]
            if bar is not None and self._losses(own.name, known).mean() >= self._losses(bar.name, known).mean():
                self.notes[own.name] = f"dropped {place}: no better than {bar.name}"
            elif sum(map(self.expected, [*trials, *rest])) / self.n_workers > left:
                self.limited = True
                self.notes[own.name] = f"left out {place} for time"
            else:
                trials += rest
        return trials

    @property
    def _variants(self) -> list[Candidate]:
        """The other settings of boosting that have been tried."""
        return self.candidates[len(self._core) :]

    @property
    def _n_screened(self) -> int:
        """Number of folds on which a variant is tried first: so many that enough rows are held out."""
        rows = np.cumsum([held_out.size for _, held_out in self.folds[: self.n_done]])
        return min(self.n_done, int(np.searchsorted(rows, SCREEN_ROWS)) + 1)

    def _until(self, best: Entry) -> float:
        """Return the seconds after which no other settings are tried, so that there is time for the model."""
        if self.in_haste:
            return self.budget * RACE_SHARE
        once = self._seconds(best.parts)
        refits = min(self._seconds(best.parts, MOST_REFITS), REFITS_SHARE * self.budget)
        return self.budget - max(LEAST_MODEL_SHARE * self.budget, MODEL_TIMES * once, refits)

    def best_boosting(self) -> Candidate | None:
        """Return the setting of boosting with the least loss on all folds."""
        return next(iter(self._best_boostings(1)), None)

    def _best_boostings(self, most: int) -> list[Candidate]:
        """Return so many settings of boosting at most, those with the least losses on all folds, the best first."""
        tried = [own for own in self.candidates if own.learner == BOOSTING and self._complete(own.name)]
        return sorted(tried, key=lambda own: float(self._losses(own.name, self.n_done).mean()))[:most]

    # What has been found.

    def _by_name(self, name: str) -> Candidate:
        return next(own for own in self.candidates if own.name == name)

    @property
    def n_done(self) -> int:
        """Number of folds on which all that runs has been tried, but for variants."""
        running = [own.name for own in self._core if own.name in self.results and own.name not in self.notes]
        return min((len(self.results[name]) for name in running), default=0)

    def _complete(self, name: str) -> bool:
        return name not in self.notes and len(self.results.get(name, ())) >= self.n_done > 0

    def _held_out(self, n_folds: int) -> np.ndarray:
        """Return the rows that the first folds hold out, one fold after the other."""
        return np.concatenate([held_out for _, held_out in self.folds[:n_folds]])

    def _decisions(self, name: str, n_folds: int) -> Floats:
        return np.concatenate([self.results[name][k].decisions for k in range(n_folds)])

    def _losses(self, name: str, n_folds: int) -> Floats:
        rows = self._held_out(n_folds)
        return self._weighed(self.loss.rows(self._decisions(name, n_folds), self.target[rows]), rows)

    def _weighed(self, losses: Floats, rows: np.ndarray) -> Floats:
        """Return losses times the weights of the rows, whose mean is that of weighted rows."""
        weight = None if self.sample_weight is None else counting(self.sample_weight[rows])
        if weight is None:
            return losses
        weighed: Floats = losses * (weight / weight.mean())
        return weighed

    def _weights(self, names: Sequence[str], n_folds: int) -> Floats:
        """Return the weights >= 0 of all these candidates in a sum: few folds do not tell what adds a little."""
        rows = self._held_out(n_folds)
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        target = self.loss.softened(self.target[rows], weight)
        constant = self.loss.constant(target, weight)
        return weights_of([self._decisions(name, n_folds) for name in names], target, constant, self.loss, weight)

    def _blend(self, names: Sequence[str]) -> Blend:
        """Return the sum of the decisions of some candidates on all folds; once found, it is known: results stay."""
        n_folds = self.n_done
        if (known := self._blends.get((n_folds, *names))) is not None:
            return known
        rows, decisions = self._held_out(n_folds), [self._decisions(name, n_folds) for name in names]
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        in_time = self.in_time and n_folds > 1
        parts = self._parts(n_folds)
        found = blend(decisions, self.target[rows], parts, self.loss, in_time=in_time, sample_weight=weight)
        self._blends[n_folds, *names] = found
        return found

    def _parts(self, n_folds: int) -> Int64s:
        """Return the parts that rows are divided into to weigh sums: folds, or thirds of the only one."""
        if n_folds == 1:
            return np.arange(self.folds[0][1].size) % 3
        return np.repeat(np.arange(n_folds), [held_out.size for _, held_out in self.folds[:n_folds]])

    def _fit_seconds(self, name: str, n_rows: float) -> float:
        """Return the seconds that learning from so many rows is expected to take, on one core."""
        known = self.results[name]
        rows = float(np.mean([self.folds[k][0].size for k in known]))
        seconds = float(np.mean([own.fit_seconds for own in known.values()]))
        if name in self.pilots and n_rows > rows:
            slope = (seconds - self.pilots[name].fit_seconds) / (rows - PILOT_ROWS)
            seconds += max(slope, LEAST_SLOPE * seconds / rows) * (n_rows - rows)
        else:
            seconds *= n_rows / rows
        return seconds * self._times_rounds(name, n_rows / rows)

    def _times_rounds(self, name: str, times_rows: float) -> float:
        """Return how many times as many rounds boosting is expected to make with so many times the rows.

        Held-out rows end them later where there are more to learn from: about with the root of their number.
        """
        own = self._by_name(name)
        if own.learner != BOOSTING or times_rows <= 1:
            return 1.0
        most = Boosting.of_record(own.options)[0].rounds
        made = float(np.mean([known.rounds for known in self.results[name].values()]))
        return max(1.0, min(math.sqrt(times_rows), most / max(1.0, made)))

    def _seconds(self, names: Sequence[str], refits: int = 1) -> float:
        """Return the seconds that so many models of all rows of each of these candidates are expected to take."""
        return _makespan([self._fit_seconds(name, self.n_rows) for name in names] * refits, self.n_workers)

    def _row_seconds(self, name: str) -> float:
        known = self.results[name]
        return sum(own.predict_seconds for own in known.values()) / sum(self.folds[k][1].size for k in known)

    def leaderboard(self) -> list[Entry]:
        """Return what has been tried: the least loss first, then what was dropped, then what could not be tried."""
        made = self._mean(), self._sum(self._summands(MOST_BOOSTINGS)), self.smaller
        sums = {own.name: own for own in made if own is not None}
        entries = [*sums.values(), *map(self._entry, self.candidates)]
        entries = [replace(own, note=self.refusals.get(own.name, own.note)) for own in entries]
        n = self.n_done
        return sorted(entries, key=lambda entry: (entry.folds == 0, entry.note != "", entry.folds < n, entry.loss))

    def best_alone(self) -> Entry | None:
        """Return the candidate with the least loss on all folds so far, or None; sums are not looked at."""
        tried = [self._entry(own) for own in self.candidates if self._complete(own.name)]
        return min(tried, key=lambda own: own.loss, default=None)

    def _entry(self, own: Candidate) -> Entry:
        known, note = self.results.get(own.name, {}), self.notes.get(own.name, "")
        folds = next(k for k in range(len(known) + 1) if k not in known)  # it may have failed on one before the last
        if not folds:
            return Entry(own.name, (own.name,), math.nan, math.nan, 0, math.nan, math.nan, note)
        n = min(folds, self.n_done) if not note else folds
        losses = self._losses(own.name, n)
        if self.in_time and n > 1:
            losses = losses[self.folds[0][1].size :]  # sums, which are compared with it, have none there
        return Entry(
            own.name,
            (own.name,),
            float(losses.mean()),
            _standard_error(losses),
            folds,
            self._fit_seconds(own.name, self.n_rows) / self.n_workers,
            self._row_seconds(own.name),
            note,
        )

    def _refitted(self, entry: Entry) -> Entry:
        """Return a sum each part of which is the mean of several models of all rows, as many as there is time for."""
        most = self._most_refits(entry)
        refits = next((own for own in range(most, 1, -1) if self._seconds(entry.parts, own) <= self.left), 1)
        row_seconds = refits * sum(map(self._row_seconds, entry.parts))
        seconds = self._seconds(entry.parts, refits)
        return replace(entry, fit_seconds=seconds, row_seconds=row_seconds, refits=refits)

    def _summands(self, most: int) -> list[Candidate]:
        """Return what sums are made of: so many settings of boosting, the best ones, and candidates on cells."""
        on_cells = [own for own in self.candidates if own.partitioner and self._complete(own.name)]
        return [*self._best_boostings(most), *on_cells]

    def _are_alike(self, entry: Entry) -> bool:
        """Return whether models of all rows would be alike whatever their seeds.

        Linear ones are; and in order of time those of boosting, which hold out the last rows.
        """
        in_time = self.in_time and any(self._by_name(name).learner == BOOSTING for name in entry.parts)
        return in_time or entry.name == LINEAR

    def _most_refits(self, entry: Entry) -> int:
        """Return the most models of each part that there is sense in, and memory for."""
        return 1 if self._are_alike(entry) or entry.name in self.once else MOST_REFITS

    def _worth(self, entry: Entry) -> float:
        """Return the loss of a model, as if one of few refits had the loss of several, unless these would be alike."""
        enough = entry.refits >= ENOUGH_REFITS or self._are_alike(entry)
        return entry.loss * (1.0 if enough else 1.0 + REFITS_GAIN)

    def _mean(self) -> Entry | None:
        """Return the mean of several models of all rows of the best candidate, if there is time for it.

        Each of them depends by chance on its seed, their mean less. Its loss is not known; that of one model, which it
        has here, is not below it.
        """
        best = min(map(self._entry, self._summands(MOST_BOOSTINGS)), key=lambda own: own.loss, default=None)
        if best is None:
            return None
        several = self._refitted(replace(best, name=f"mean of {best.name}", weights={best.name: 1.0}))
        return several if several.refits > 1 else None

    def _smaller_sum(self, refits: int) -> Entry | None:
        """Return the best sum of one setting of boosting and cells, or fewer, with time for so many refits."""
        parts = self._summands(1)
        fewer = [some for size in range(2, len(parts) + 1) for some in combinations(parts, size)]
        affordable = [some for some in fewer if self._seconds([own.name for own in some], refits) <= self.left]
        return min(filter(None, map(self._sum, affordable)), key=self._worth, default=None)

    def _sum(self, parts: Sequence[Candidate]) -> Entry | None:
        """Return the sum of some candidates, without those that add nothing; None if one alone is left.

        There is none either where a single row was held out so far, as no other row can decide its weights.
        """
        n = self.n_done
        if len(parts) < 2 or np.ptp(self._parts(n)) == 0:
            return None
        blended, rows = self._blend([own.name for own in parts]), self._held_out(n)
        weights = {own.name: weight for own, weight in zip(parts, blended.weights.tolist(), strict=True) if weight > 0}
        if len(weights) < 2:
            return None
        known = np.isfinite(blended.decisions).all(axis=1)  # all rows but, in order of time, those of the first fold
        losses = self._weighed(self.loss.rows(blended.decisions[known], self.target[rows[known]]), rows[known])
        loss, error = float(losses.mean()), _standard_error(losses)
        name = f"sum of {' and '.join(weights)}"
        return self._refitted(Entry(name, tuple(weights), loss, error, n, math.nan, math.nan, weights=weights))

    def choice(self, refusal: Callable[[Choice], str] = lambda _: "") -> Choice:
        """Return the choice: the least loss among what the budget has seconds for; if for nothing, the quickest.

        Parameters
        ----------
        refusal : callable
            Returns why a model cannot be made of all rows, as they would not fit into memory; empty: it can.

        Raises
        ------
        ValueError
            No candidate could be tried.
        """
        self.left = max(self.budget - self.spent, MODEL_SHARE * self.budget) / OVERRUN
        board = [entry for entry in self.leaderboard() if entry.folds and not entry.note]
        refusals = {entry.name: refusal(self.as_options(entry)) for entry in board}
        # What does not fit into memory several times may fit once.
        self.once = {entry.name for entry in board if refusals[entry.name] and entry.refits > 1}
        if self.once:
            board = [entry for entry in self.leaderboard() if entry.folds and not entry.note]
            refusals = {entry.name: refusal(self.as_options(entry)) for entry in board}
        if any(not why for why in refusals.values()):  # else the run says why the best one does not fit
            self.refusals = {name: why for name, why in refusals.items() if why}
            board = [entry for entry in board if entry.name not in self.refusals]
        if not board:
            raise ValueError(f"no model could be tried: {'; '.join(f'{k}: {v}' for k, v in self.notes.items())}")
        best = board[0]
        fits = best.fit_seconds <= self.left
        enough = fits and (best.refits >= ENOUGH_REFITS or self._are_alike(best))
        if best.weights and not enough and best.name not in self.once:
            self.smaller = self._smaller_sum(ENOUGH_REFITS if fits else 1)
            if self.smaller is not None and not (why := refusal(self.as_options(self.smaller))):
                board = sorted([*board, self.smaller], key=lambda entry: entry.loss)
            elif self.smaller is not None:
                self.refusals[self.smaller.name] = why
        affordable = [entry for entry in board if entry.fit_seconds <= self.left]
        entry = min(affordable, key=self._worth) if affordable else min(board, key=lambda own: own.fit_seconds)
        few = self._seconds(entry.parts, self._most_refits(entry)) > self.left
        return replace(self.as_options(entry), by_budget=self.limited or few or entry is not board[0])

    def as_options(self, entry: Entry) -> Choice:
        """Return an entry of the leaderboard as options of a run."""
        parts = [self._by_name(name) for name in entry.parts]
        scale = next((own.scale for own in parts if own.scale != "none"), "none")
        if entry.weights:
            # The only setting of boosting is that of the sum; each of several is told by itself.
            several = sum(own.learner == BOOSTING for own in parts) > 1
            words = [
                PartWord(
                    own.part,
                    self._for_model(own),
                    own.options if several and not own.partitioner else {},
                    float(f"{entry.weights[own.name]:.4g}"),
                )
                for own in parts
            ]
            options: dict[str, Json] = {"base_models": words_of(words), "refits": entry.refits}
            for own, word in zip(parts, words, strict=True):
                if not word.options:
                    options.update(own.options)
            return Choice(entry, STACKING, "", scale, {STACKING: options})
        (own,) = parts
        if not own.partitioner:
            return Choice(entry, own.learner, "", scale, {own.learner: own.options})
        settings = self._for_model(own)
        assert settings is not None
        psi, C = settings
        of_map: dict[str, Json] = {"t": T, "psi": psi, **own.options}
        return Choice(entry, own.learner, own.partitioner, scale, {own.partitioner: of_map, own.learner: {"C": C}})


def _makespan(seconds: Sequence[float], n_workers: int) -> float:
    """Return when the last of some trials is done, where each worker takes the longest one that is left."""
    free = [0.0] * n_workers
    for own in sorted(seconds, reverse=True):
        heapreplace(free, free[0] + own)
    return max(free)


def _standard_error(losses: Floats) -> float:
    return float(losses.std() / math.sqrt(losses.size))
