"""The race of candidates, with results that are made up: which trials come, what is dropped, summed and chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ikmap.auto.candidates import BOOSTING, LINEAR, STACKING, Candidate, T, variants
from ikmap.auto.race import (
    ENOUGH_REFITS,
    FEW_VARIANTS,
    MOST_BOOSTINGS,
    MOST_PSI,
    MOST_REFITS,
    OVERRUN,
    REFITS_GAIN,
    Choice,
    Race,
    Trial,
    default_budget,
    sample_size,
)
from ikmap.auto.trial import Decided, Searched
from ikmap.methods.forest import Forest
from ikmap.methods.stacking import Stacking

CANDIDATES = [Candidate(LINEAR, LINEAR), Candidate("iforest", "ridge", "iforest"), Candidate(BOOSTING, BOOSTING)]
NOISE = {LINEAR: 3.0, "iforest": 0.6, BOOSTING: 0.5}
Outcome = Decided | Searched | str
Rounds = list[list[tuple[str, str, int]]]


def race_of(n: int = 1500, budget: float | None = None, n_folds: int = 3, n_workers: int = 1) -> Race:
    """A race on n rows, whose targets are numbers."""
    y = np.random.default_rng(0).normal(size=n)
    parts = np.array_split(np.arange(n), n_folds)
    folds = [(np.setdiff1d(np.arange(n), held_out), held_out) for held_out in parts]
    return Race(CANDIDATES, y, 0, folds, n, 3, budget, n_workers)


def outcome_of(race: Race, trial: Trial, noise: Mapping[str, float] = NOISE, seconds: float = 0.01) -> Outcome:
    """Decisions that are off by noise of their own, more or less by candidate."""
    if trial.kind == "search":
        return Searched({(16, 1.0): 2.0, (64, 0.5): 1.0}, seconds)
    _, held_out = trial.rows(race.folds[trial.fold])
    name = trial.candidate.name
    # A linear model errs where boosting does, but more, and so adds nothing.
    random = np.random.default_rng([*map(ord, name if name != LINEAR else BOOSTING), trial.fold])
    off = random.normal(size=held_out.size) * noise.get(name, 0.7)
    return Decided((race.target[held_out].reshape(-1) + off)[:, None], seconds, 0.0, seconds)


def play(race: Race, outcome: Callable[[Race, Trial], Outcome] = outcome_of) -> Rounds:
    """Go through a race; return the trials of each round: candidate, kind and fold."""
    rounds: Rounds = []
    while trials := race.next_round():
        race.add_round([(own, outcome(race, own)) for own in trials])
        rounds.append([(own.candidate.name, own.kind, own.fold) for own in trials])
    return rounds


def test_rounds_go_from_one_fold_to_all_and_drop_what_cannot_win() -> None:
    race = race_of()
    rounds = play(race)
    # What has nothing to search for is tried meanwhile; the linear model stays, to compare with.
    assert rounds[0] == [(LINEAR, "fold", 0), ("iforest", "search", 0), (BOOSTING, "fold", 0)]
    assert [kind for later in rounds[1:-1] for _, kind, _ in later].count("search") == 1
    of_folds = [own for later in rounds for own in later if own[1] == "fold" and " " not in own[0]]
    assert sorted(of_folds) == sorted((name, "fold", k) for name in (LINEAR, "iforest", BOOSTING) for k in range(3))
    assert race.notes == {}
    assert race.settings["iforest"] == (64, 0.5)
    # Without a budget a few variants of boosting follow, on all folds.
    fresh = {name for later in rounds for name, _, _ in later} - {own.name for own in CANDIDATES}
    assert len(fresh) == FEW_VARIANTS
    assert all(name.startswith("boosting ") for name in fresh)


@pytest.mark.parametrize(("n", "screened"), [(12_000, 1), (4500, 2), (1500, 3)])
def test_variants_go_on_only_if_they_are_better_on_the_first_folds(n: int, screened: int) -> None:
    race = race_of(n, n_folds=3)
    better = "boosting shrinkage=0.05"
    play(race, lambda race, own: outcome_of(race, own, {**NOISE, better: 0.4}))
    assert race.best_boosting() == race._by_name(better)
    tried = {own.name: len(race.results[own.name]) for own in race.candidates if " " in own.name}
    assert tried.pop(better) == 3
    assert len(tried) == FEW_VARIANTS - 1
    assert set(tried.values()) == {screened}
    for name in tried:
        why = f"dropped after {screened} of 3 folds: no better than boosting"
        assert race.notes.get(name, "").startswith(why) == (screened < 3)
        assert screened == 3 or name not in race.choice().entry.parts


def test_a_better_variant_for_whose_other_folds_there_is_no_time_is_left_out() -> None:
    race = race_of(12_000, budget=60.0)

    def outcome(race: Race, own: Trial) -> Outcome:
        variant = " " in own.candidate.name
        return outcome_of(race, own, {**NOISE, own.candidate.name: 0.4} if variant else NOISE, 20.0 if variant else 0.1)

    play(race, outcome)
    notes = [race.notes[own.name] for own in race.candidates if " " in own.name]
    assert notes
    assert set(notes) == {"left out after 1 of 3 folds for time"}
    assert race.choice().by_budget


def test_with_a_budget_the_best_few_settings_go_on_and_settings_near_them_are_tried() -> None:
    race = race_of(12_000, budget=1000.0)
    play(race)
    settings = [own.options for own in race.candidates if own.learner == BOOSTING]
    assert all(settings.count(own) == 1 for own in settings)
    assert max(map(len, settings)) >= 2
    complete = [own.name for own in race.candidates if own.learner == BOOSTING and len(race.results[own.name]) == 3]
    assert len(complete) >= MOST_BOOSTINGS
    assert len(complete) < len(settings)
    assert sum(name.startswith(BOOSTING) for name in race.leaderboard()[0].parts) == MOST_BOOSTINGS


def test_twice_as_many_leaves_are_tried_where_many_are_best() -> None:
    def leaves(own: int, n_rows: int) -> set[object]:
        best = Candidate(BOOSTING, BOOSTING, options={"max_leaves": own})
        return {near.options["max_leaves"] for near in variants(best, [best], n_rows, classes=True)}

    assert 254 in leaves(127, 20_000)
    assert 254 not in leaves(127, 5000)
    assert 62 not in leaves(31, 20_000)


def no_variants(race: Race, own: Trial) -> Outcome:
    """Return the outcome of a trial where no other setting of boosting can learn."""
    return "out of memory" if " " in own.candidate.name else outcome_of(race, own)


def test_a_sum_wins_where_errors_are_independent() -> None:
    race = race_of()
    play(race, no_variants)
    board = race.leaderboard()
    losses = [entry.loss for entry in board if not entry.note]
    assert all(one <= other for one, other in pairwise(losses))
    assert board[0].weights.keys() == {BOOSTING, "iforest"}
    assert board[0].weights[BOOSTING] > board[0].weights["iforest"] > 0
    # Two numbers of variance .25 and .36 are best weighed by the inverse, and leave a variance of .15.
    assert board[0].loss == pytest.approx(0.25 * 0.36 / 0.61 / 2, rel=0.2)
    assert next(entry.name for entry in reversed(board) if not entry.note) == LINEAR
    choice = race.choice()
    assert (choice.learner, choice.partitioner, choice.by_budget) == (STACKING, "", False)
    # Each part learns from all rows, several times.
    weights = {name: f"{weight:.4g}" for name, weight in board[0].weights.items()}
    words = f"boosting@{weights[BOOSTING]},iforest:64:0.5@{weights['iforest']}"
    assert choice.options[STACKING] == {"base_models": words, "refits": MOST_REFITS}


@pytest.mark.parametrize(("times", "refits"), [(100.0, MOST_REFITS), (2.5, 2), (1.5, 0)])
def test_where_one_candidate_wins_the_mean_of_as_many_models_is_taken_as_there_is_time_for(
    times: float, refits: int
) -> None:
    race = race_of()
    noise = {LINEAR: 6.0, "iforest": 5.0, BOOSTING: 0.3}
    play(race, lambda race, own: no_variants(race, own) if " " in own.candidate.name else outcome_of(race, own, noise))
    race.budget = race.spent + times * race._seconds([BOOSTING]) * OVERRUN
    choice, best = race.choice(), race.leaderboard()[0]
    assert best.parts == (BOOSTING,)
    assert best.loss == next(entry.loss for entry in race.leaderboard() if entry.name == BOOSTING)
    assert choice.by_budget == (refits < MOST_REFITS)
    if refits:
        assert choice.options == {STACKING: {"base_models": "boosting@1", "refits": refits}}
    else:
        assert (choice.learner, choice.options) == (BOOSTING, {BOOSTING: {}})


def test_several_models_of_fewer_parts_are_preferred_to_one_that_is_hardly_better() -> None:
    race = race_of()
    play(race)
    best = race.leaderboard()[0]
    seconds = {ENOUGH_REFITS - 1: 1.0, ENOUGH_REFITS: 1.0 + 0.99 * REFITS_GAIN, 0: 1.0}
    ways = [replace(best, loss=loss, refits=refits) for refits, loss in seconds.items()]
    assert min(ways, key=race._worth).refits == ENOUGH_REFITS
    assert min(ways[0], replace(ways[1], loss=1.0 + 1.01 * REFITS_GAIN), key=race._worth) == ways[0]


@pytest.mark.parametrize(("rounds", "times"), [(100, 2.0), (800, 1.25), (1000, 1.0)])
def test_boosting_of_more_rows_makes_more_rounds_as_long_as_it_may(rounds: int, times: float) -> None:
    race = race_of()
    race.results[BOOSTING] = {0: Decided(np.zeros((500, 1)), 1.0, 0.0, 1.0, rounds)}
    assert race._fit_seconds(BOOSTING, 4000) == 4 * times
    race.results["iforest"] = race.results[BOOSTING]
    assert race._fit_seconds("iforest", 4000) == 4
    assert race._fit_seconds(BOOSTING, 500) == 0.5


def test_several_settings_of_boosting_are_in_one_sum() -> None:
    race = race_of()
    play(race)
    (best, *_), choice = race.leaderboard(), race.choice()
    assert sum(name.startswith(BOOSTING) for name in best.parts) == MOST_BOOSTINGS
    # Numbers of variance .25, three times .49, and .36.
    assert best.loss == pytest.approx(1 / (1 / 0.25 + 3 / 0.49 + 1 / 0.36) / 2, rel=0.2)
    parts = Stacking(base_models=str(choice.options[STACKING]["base_models"])).parts.values()
    by_name = [race._by_name(name) for name in best.parts]
    assert [dict(part.options) for part in parts if not part.settings] == [own.options for own in by_name[:-1]]
    assert choice.options[STACKING].keys() == {"base_models", "refits"}


def test_a_sum_of_one_setting_of_boosting_is_taken_where_there_is_no_time_for_several() -> None:
    race = race_of()
    play(race)
    best = race.leaderboard()[0]
    race.budget = race.spent + 0.9 * race._seconds(best.parts) * OVERRUN
    chosen = race.choice()
    assert chosen.by_budget
    assert chosen.entry.parts == (BOOSTING, "iforest")
    assert best.loss < chosen.entry.loss < min(entry.loss for entry in race.leaderboard() if len(entry.parts) == 1)


def test_one_candidate_is_chosen_with_its_settings_where_nothing_adds_to_it() -> None:
    race = race_of()
    play(race, lambda race, own: outcome_of(race, own, {"iforest": 0.01, LINEAR: 5.0, BOOSTING: 5.0}))
    race.budget = race.spent + 1.5 * race._seconds(["iforest"]) * OVERRUN  # once, that is
    choice = race.choice()
    assert (choice.learner, choice.partitioner) == ("ridge", "iforest")
    assert choice.options["iforest"]["psi"] == 64
    assert choice.options["ridge"] == {"C": 0.5}


def test_many_rows_are_tried_on_few_first() -> None:
    race = race_of(4500)
    rounds = play(race)
    assert rounds[0] == [(name, "pilot", 0) for name in (LINEAR, "iforest", BOOSTING)]
    assert race.pilots.keys() == NOISE.keys()
    pilot = Trial(CANDIDATES[0], 0, "pilot")
    assert [rows.size for rows in pilot.rows(race.folds[0])] == [1000, 1000]


@pytest.mark.parametrize(
    ("losses", "budget", "n_rows", "of_fold", "of_model"),
    [
        ({(1024, 1.0): 2.0, (4096, 4.0): 1.0}, None, 30_000, (8192, 8.0), (12_288, 12.0)),
        ({(1024, 1.0): 2.0, (4096, 4.0): 1.0}, None, 90_000, (8192, 8.0), (36_864, 36.0)),
        ({(1024, 1.0): 2.0, (4096, 4.0): 1.0}, None, 10**7, (8192, 8.0), (1 << 16, 64.0)),
        ({(1024, 1.0): 2.0, (4096, 400.0): 1.0}, None, 30_000, (8192, 512.0), (12_288, 512.0)),
        ({(1024, 1.0): 1.0, (4096, 4.0): 2.0}, None, 90_000, (1024, 1.0), (1024, 1.0)),
        ({(1024, 1.0): 2.0, (4096, 4.0): 1.0}, 0.1, 90_000, (4096, 4.0), (18_432, 18.0)),
    ],
)
def test_trees_of_a_forest_are_grown_on_more_rows_where_there_are_more(
    losses: dict[tuple[int, float], float],
    budget: float | None,
    n_rows: int,
    of_fold: tuple[int, float],
    of_model: tuple[int, float],
) -> None:
    """On a half of the rows psi is chosen; a fold has 20,000 to learn from, and the model all."""
    n = 30_000
    y, parts = np.random.default_rng(0).normal(size=n), np.array_split(np.arange(n), 3)
    folds = [(np.setdiff1d(np.arange(n), held_out), held_out) for held_out in parts]
    forest = Candidate("forest", "ridge", "forest")
    race = Race([Candidate(LINEAR, LINEAR), forest], y, 0, folds, n_rows, 3, budget)
    tried: dict[str, set[object]] = {}

    def outcome(race: Race, own: Trial) -> Outcome:
        tried.setdefault(f"{own.candidate.name} {own.kind}", set()).add(own.settings)
        return Searched(losses, 0.001) if own.kind == "search" else outcome_of(race, own, seconds=0.001)

    play(race, outcome)
    assert tried["forest fold"] == {of_fold}
    psi, C = of_model
    choice = race.as_options(race._entry(forest))
    assert (choice.options["forest"]["psi"], choice.options["ridge"]["C"]) == (psi, C)


@pytest.mark.parametrize(("budget", "psi"), [(None, 8192), (0.1, 4096)])
def test_a_budget_that_makes_the_trees_of_a_forest_smaller_is_said_to_decide(budget: float | None, psi: int) -> None:
    n, forest = 30_000, Candidate("forest", "ridge", "forest")
    folds = [(np.arange(20_000), np.arange(20_000, n))]
    race = Race([forest], np.zeros(n), 0, folds, n, 3, budget)
    race._searched["forest"] = [{(1024, 1.0): 2.0, (4096, 4.0): 1.0}]
    assert race._for_fold("forest", (4096, 4.0))[0] == psi
    assert race.limited == (budget is not None)
    race.n_columns = 60_000  # bins of all rows of a fold have no memory
    assert race._for_fold("forest", (4096, 4.0))[0] < 4096


def test_larger_trees_still_fit_into_the_memory_of_a_forest() -> None:
    """A forest draws only as many of two million rows of a thousand columns as have bins of 1 GiB."""
    folds, forest = [(np.arange(20_000), np.arange(20_000, 30_000))], Candidate("forest", "ridge", "forest")
    race = Race([forest], np.zeros(30_000), 0, folds, 2_000_000, 1000)
    race._searched["forest"] = [{(4096, 4.0): 1.0}]
    race.settings["forest"] = (4096, 4.0)
    assert race._for_model(forest) == (4096, 4.0)
    race.n_columns = 100
    psi, _ = race._for_model(forest) or (0, 0.0)
    assert psi == MOST_PSI


@pytest.mark.parametrize(
    ("searched", "settings", "n_columns", "psi"),
    [
        ({(4096, 4.0): 1.0}, (32_768, 32.0), 1000, 3471),
        # A smaller psi than the largest one was best, and is still too large.
        ({(1024, 1.0): 1.0, (4096, 4.0): 2.0}, (1024, 1.0), 10_000, 356),
    ],
)
def test_trees_that_all_rows_have_no_memory_for_are_grown_on_fewer(
    searched: dict[tuple[int, float], float], settings: tuple[int, float], n_columns: int, psi: int
) -> None:
    """A fold of few rows has memory for trees of any number of them."""
    folds, forest = [(np.arange(20_000), np.arange(20_000, 30_000))], Candidate("forest", "ridge", "forest")
    n_rows = 2_000_000
    race = Race([forest], np.zeros(30_000), 0, folds, n_rows, n_columns)
    race._searched["forest"], race.settings["forest"] = [searched], settings
    assert not Forest(t=T, psi=settings[0]).fits(n_rows, n_columns)
    assert Forest(t=T, psi=psi).fits(n_rows, n_columns)
    psi_of_model, C_of_model = race._for_model(forest) or (0, 0.0)
    assert psi_of_model == psi
    assert C_of_model == pytest.approx(settings[1] * psi / settings[0], rel=0.002)


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "size"),
    [
        *((15_000, 10, 15_000), (60_000, 10, 20_000), (200_000, 10, 40_000), (10**7, 10, 100_000)),
        *((10**6, 300, 100_000), (400_000, 2000, 16_777), (400_000, 10**6, 8000), (6000, 10**6, 6000)),
    ],
)
def test_candidates_are_compared_on_fewer_rows_where_they_are_wide(n_rows: int, n_columns: int, size: int) -> None:
    assert sample_size(n_rows, 8.0 * n_columns) == size


@pytest.mark.parametrize("seconds", [0.01, 20.0])
def test_where_a_second_search_takes_too_long_the_budget_decides(seconds: float) -> None:
    """psi and C are those of one fold then."""
    race = race_of(budget=60.0)

    def outcome(race: Race, own: Trial) -> Outcome:
        return outcome_of(race, own, seconds=seconds if own.kind == "search" else 0.01)

    rounds = play(race, outcome)
    assert [kind for own in rounds for _, kind, _ in own].count("search") == (2 if seconds < 1 else 1)
    assert race.choice().by_budget == (seconds > 1)


def test_with_a_budget_sums_are_looked_at_only_in_the_end() -> None:
    """To find out which parts can be left out, after each round, had taken longer than the trials."""
    race = race_of(12_000, budget=1000.0)
    assert len(play(race)) > 10
    assert not race._blends


@pytest.mark.parametrize(("budget", "n_tried"), [(None, 1), (1000.0, 3), (2.0, 1)])
def test_with_a_budget_all_is_tried_on_all_folds_where_that_takes_little(budget: float | None, n_tried: int) -> None:
    """The cells err where boosting does, but more."""
    race = race_of(12_000, budget)

    def outcome(race: Race, own: Trial) -> Outcome:
        if " " in own.candidate.name:
            return "out of memory"
        if own.candidate.name == "iforest" and own.kind != "search":
            return outcome_of(race, replace(own, candidate=race._by_name(LINEAR)), {LINEAR: 0.65}, 0.05)
        return outcome_of(race, own, seconds=0.05)

    play(race, outcome)
    assert len(race.results["iforest"]) == n_tried
    assert ("iforest" in race.notes) == (n_tried == 1)
    # Without a budget the losses alone decide what is dropped.
    assert race.choice().by_budget == (budget == 2.0)


def test_a_candidate_that_fails_is_left_out_and_told() -> None:
    race = race_of()
    play(race, lambda race, own: "no such luck" if own.candidate.name == BOOSTING else outcome_of(race, own))
    assert race.notes[BOOSTING] == "failed: no such luck"
    (entry,) = (entry for entry in race.leaderboard() if entry.name == BOOSTING)
    assert (entry.folds, entry.note) == (0, "failed: no such luck")
    assert BOOSTING not in race.choice().entry.parts


def test_a_race_that_everybody_fails_has_no_choice() -> None:
    race = race_of()
    play(race, lambda *_: "no")
    with pytest.raises(ValueError, match=r"no model could be tried: .*failed: no"):
        race.choice()


def test_the_seconds_given_by_default_grow_with_the_rows_and_are_never_few() -> None:
    rows = (100, 10_000, 14_000, 21_000, 100_000, 400_000)
    assert [default_budget(n) for n in rows] == [30.0, 30.0, 40.0, 60.0, 60.0, 120.0]


def test_what_takes_too_long_is_not_tried_and_the_budget_is_named() -> None:
    """A pilot of 5 s foretells more for more rows than a race of 10 s has."""

    def outcome(race: Race, own: Trial) -> Outcome:
        return outcome_of(race, own, seconds=5.0 if own.candidate.name == BOOSTING else 0.001)

    race = race_of(4500, budget=10.0, n_workers=2)
    rounds = play(race, outcome)
    assert all(name != BOOSTING for later in rounds[1:] for name, _, _ in later)
    assert race.notes[BOOSTING].startswith("not tried: would take")
    assert race.choice().by_budget


def test_a_budget_of_nothing_still_ends_with_a_model() -> None:
    race = race_of(budget=1e-6)
    rounds = play(race)
    assert rounds
    choice = race.choice()
    assert choice.by_budget
    assert choice.entry.folds >= 1


def test_a_single_row_that_is_held_out_makes_no_sum() -> None:
    race = race_of(3)
    while len(race.results) < len(CANDIDATES):
        race.add_round([(own, outcome_of(race, own)) for own in race.next_round()])
    assert race.n_done == 1
    assert len(race.choice().entry.parts) == 1


def test_a_race_that_took_too_long_leaves_seconds_for_a_quick_model() -> None:
    """The best model is made if it takes a small share of the budget, also where trials took more than all of it."""
    race = race_of(budget=10.0)
    play(race)
    race.spent = 2 * race.budget
    best = race.choice()
    assert best.entry.fit_seconds < 1
    assert best.entry == next(entry for entry in race.leaderboard() if not entry.note)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_race_depends_on_results_alone(n_workers: int) -> None:
    """The order in which a round's results come in, and how many trials run at the same time, changes nothing."""

    def shuffled(trials: Sequence[Trial], race: Race) -> list[tuple[Trial, Outcome]]:
        return [(own, outcome_of(race, own)) for own in reversed(trials)]

    race, other = race_of(budget=1000.0), race_of(budget=1000.0, n_workers=n_workers)
    rounds = play(race)
    again: Rounds = []
    while trials := other.next_round():
        other.add_round(shuffled(trials, other))
        again.append([(own.candidate.name, own.kind, own.fold) for own in trials])
    assert rounds == again
    assert race.choice().options == other.choice().options
    assert [(entry.name, entry.loss) for entry in race.leaderboard()] == [
        (entry.name, entry.loss) for entry in other.leaderboard()
    ]


def test_what_does_not_fit_into_memory_five_times_is_learned_once() -> None:
    race = race_of()
    play(race)
    best = race.leaderboard()[0]

    def refusal(one: Choice) -> str:
        return "too large" if one.entry.name == best.name and one.options[STACKING]["refits"] != 1 else ""

    choice = race.choice(refusal)
    assert (choice.entry.name, choice.options[STACKING]["refits"]) == (best.name, 1)
    assert not choice.by_budget
    # What fits several times is still learned so.
    assert next(entry.refits for entry in race.leaderboard() if entry.name == "mean of boosting") == MOST_REFITS
    # Where no sum fits, one candidate is taken.
    other = race_of()
    play(other)
    assert other.choice(lambda one: "too large" if one.learner == STACKING else "").learner == BOOSTING


def test_a_smaller_sum_has_to_fit_into_memory_too() -> None:
    race = race_of()
    play(race)
    best = race.leaderboard()[0]
    race.budget = race.spent + 0.9 * race._seconds(best.parts) * OVERRUN
    choice = race.choice(lambda one: "too large" if one.entry.parts == (BOOSTING, "iforest") else "")
    assert race.smaller is not None
    assert race.smaller.parts == (BOOSTING, "iforest")
    assert choice.entry.parts == (BOOSTING,)
    assert next(entry.note for entry in race.leaderboard() if entry.name == race.smaller.name) == "too large"


def test_a_linear_model_that_wins_is_taken_as_it_cannot_be_learned_several_times() -> None:
    race = race_of()
    play(race, lambda race, own: no_variants(race, own) if " " in own.candidate.name else outcome_of(race, own))
    board = {entry.name: entry for entry in race.leaderboard()}
    several = board["mean of boosting"]
    linear = replace(board[LINEAR], loss=0.999 * several.loss)
    assert min(several, linear, key=race._worth) is linear
    assert race._most_refits(linear) == 1


def test_a_candidate_that_fails_on_one_fold_of_two_is_told() -> None:
    race = race_of()

    def outcome(race: Race, own: Trial) -> Outcome:
        failing = own.candidate.name == "iforest" and own.fold == 1 and own.kind == "fold"
        return "no memory" if failing else outcome_of(race, own)

    play(race, outcome)
    assert set(race.results["iforest"]) == {0, 2}
    (entry,) = [own for own in race.leaderboard() if own.name == "iforest"]
    assert (entry.folds, entry.note) == (1, "failed: no memory")
    assert "iforest" not in race.choice().entry.parts


def test_in_order_of_time_all_are_compared_on_the_rows_that_sums_are_made_for() -> None:
    race = race_of()
    race.in_time = True
    play(race)
    first = race.folds[0][1].size
    for own in (LINEAR, BOOSTING):
        assert race._entry(race._by_name(own)).loss == pytest.approx(race._losses(own, 3)[first:].mean())
    # A sum with boosting has one model of all rows for each part, however much time there is.
    choice = race.choice()
    assert (len(choice.entry.parts) > 1, choice.entry.refits, choice.by_budget) == (True, 1, False)
    assert choice.entry == race.leaderboard()[0]
    assert race.smaller is None


@pytest.mark.parametrize(("in_time", "refits"), [(True, 0), (False, MOST_REFITS)])
def test_in_order_of_time_boosting_is_learned_once(in_time: bool, refits: int) -> None:
    """It holds out the last rows, whatever its seed: a model that is a little worse does not win by that."""
    race = race_of()
    race.in_time = in_time
    noise = {LINEAR: 0.3 * (1 + REFITS_GAIN / 4), "iforest": 5.0, BOOSTING: 0.3}
    play(race, lambda race, own: no_variants(race, own) if " " in own.candidate.name else outcome_of(race, own, noise))
    choice = race.choice()
    assert choice.entry.parts == (BOOSTING,)
    assert choice.entry.refits == refits
    assert not choice.by_budget


@pytest.mark.parametrize(
    ("seconds", "n_workers", "spent"), [([], 2, 0.0), ([3.0, 1.0, 2.0], 1, 6.0), ([1.0, 2.0, 2.0, 2.0], 2, 4.0)]
)
def test_a_round_takes_as_long_as_the_worker_that_is_done_last(
    seconds: list[float], n_workers: int, spent: float
) -> None:
    race = race_of(n_workers=n_workers)
    trials = [Trial(race.candidates[0], fold) for fold in range(len(seconds))]
    held_out = [np.zeros((fold[1].size, 1)) for fold in race.folds] * 2
    race.add_round(
        [
            (own, Decided(held_out[k], each, 0.0, each))
            for k, (own, each) in enumerate(zip(trials, seconds, strict=True))
        ]
    )
    assert race.spent == spent
