"""The sum of models: equal to the weighted sum of its parts, and to its definition, model by model."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from ikmap.capability import capability
from ikmap.divisions import Division, TooFewKeys
from ikmap.learners.cells_model import CellsModel
from ikmap.learners.rows import Block
from ikmap.learners.stacking.blend import LogLoss, SquaredLoss
from ikmap.learners.stacking.stacking import Fit, Folds, added_up, at_once, out_of_fold, stack
from ikmap.methods import LearnsOutOfFold, Training
from ikmap.methods.base_models import BoostingPart, CellsPart
from ikmap.methods.boosting import Boosting
from ikmap.methods.iforest import IForest
from ikmap.methods.stacking import BaseModels, Stacking, words_of
from ikmap.model import from_parts
from ikmap.rows import Rows
from tests.naive import stacking as naive

N = 90


def training(n_classes: int) -> Training:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    signal = X[:, 0] + X[:, 1] * X[:, 2]
    y = np.digitize(signal, np.quantile(signal, np.linspace(0, 1, n_classes + 1)[1:-1])).astype(np.int32)
    return Training(Block(X, y if n_classes else signal + rng.normal(size=N) / 4), list(range(n_classes)), 0)


def parts(of: Training) -> list[Fit]:
    return [
        BoostingPart(of, Boosting(rounds=6, min_leaf=5, held_out=0.0)).fit,
        CellsPart(of, IForest(t=12, psi=16), 2.0).fit,
    ]


def targets(of: Training) -> np.ndarray:
    n_classes = len(of.classes)
    return np.equal.outer(of.y, np.arange(n_classes)).astype(float) if n_classes > 2 else of.y[:, None].astype(float)


def predictors(fit: Fit, X: Rows) -> naive.Fit:
    """Return a function from rows to learn from to a function from rows to decisions."""

    def learned(numbers: np.ndarray) -> naive.Predict:
        model = fit(numbers)
        return lambda rows: model.decision_function(X[rows])

    return learned


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_the_sum_is_that_of_the_definition(n_classes: int) -> None:
    of = training(n_classes)
    X, fits, target = of.rows, parts(of), targets(of)
    folds = Folds.at_random(of.y, 3, 0)
    loss = LogLoss() if n_classes else SquaredLoss()
    stacked = stack(fits, X, target, folds, loss, learner="stacking")
    slow = [predictors(fit, X) for fit in fits]
    fold = folds.of_row
    decisions = [naive.out_of_fold(fit, fold) for fit in slow]
    for fit, own in zip(fits, decisions, strict=True):
        np.testing.assert_array_equal(out_of_fold(fit, X, folds)[0], own)
    weights, crossed, constant = naive.blend(decisions, target, fold, bool(n_classes))
    np.testing.assert_allclose(stacked.blend.weights, weights, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(stacked.blend.decisions, crossed, rtol=1e-3, atol=1e-4)
    summed = naive.decide(slow, stacked.blend.weights, constant, fold, np.arange(N))
    np.testing.assert_allclose(stacked.model.decision_function(X), summed, rtol=1e-9, atol=1e-12)
    assert stacked.model.learner == "stacking"
    assert stacked.model.classes == of.classes


@pytest.mark.parametrize("n_classes", [0, 3])
def test_weights_of_cells_are_those_of_the_parts_scaled(n_classes: int) -> None:
    of = training(n_classes)
    boosting, cells = (fit(np.arange(N)) for fit in parts(of))
    constant = np.linspace(0.5, 1.0, max(1, n_classes))
    total = added_up([(0.7, boosting), (0.4, cells)], constant, "stacking")
    own = [model.decision_function(of.rows) - constant for model in (boosting, cells)]
    np.testing.assert_allclose(
        total.decision_function(of.rows), constant + 0.7 * own[0] + 0.4 * own[1], rtol=1e-12, atol=1e-12
    )
    # It is one linear model on the cells of both, and a store gives it back.
    codes = total.partitions.cells(of.rows)
    assert codes.n_partitions == boosting.partitions.n_partitions + 12
    weights = total.linear.coef[codes.columns()].sum(axis=1) + total.linear.intercept
    np.testing.assert_allclose(weights, total.decision_function(of.rows), rtol=1e-12, atol=1e-12)
    again = from_parts(total.metadata(), total.arrays())
    assert again.content_hash == total.content_hash


def test_a_part_that_is_left_out_leaves_no_cells() -> None:
    of = training(0)
    boosting, cells = parts(of)

    def useless(numbers: np.ndarray, refit: int = 0) -> CellsModel:
        rng = np.random.default_rng(numbers.sum())
        model = cells(numbers, refit)
        noise = rng.normal(size=model.linear.coef.shape)
        return added_up([(1.0, CellsModel(model.partitions, replace(model.linear, coef=noise)))], np.zeros(1), "noise")

    folds = Folds.at_random(of.y, 3, 0)
    stacked = stack([useless, boosting], of.rows, targets(of), folds, SquaredLoss(), learner="stacking")
    assert stacked.blend.weights[0] == 0
    alone = stack([boosting], of.rows, targets(of), folds, SquaredLoss(), learner="stacking")
    assert stacked.model.content_hash == alone.model.content_hash


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("given", [True, False])
def test_a_part_may_be_the_mean_of_models_of_all_rows(n_classes: int, given: bool) -> None:
    """They differ by their seeds, and the first has that of the run; weights are found by folds, or given."""
    of = training(n_classes)
    options = {"rounds": 6, "min_leaf": 5, "t": 12, "n_folds": 3}
    found, summary, before = Stacking(base_models="boosting,iforest:16:2", **options).fit_out_of_fold(of)
    weights = dict(zip(("boosting", "iforest"), before.weights.tolist(), strict=True))
    words = "boosting,iforest:16:2"
    if given:
        weights = {"boosting": 0.7, "iforest": 0.4}
        words = "boosting@0.7,iforest:16:2@0.4"
    learner = Stacking(base_models=words, refits=2, **options)
    model, told = learner.fit(of)
    cells, boosting = CellsPart(of, IForest(t=12, psi=16), 2.0), BoostingPart(of, Boosting(rounds=6, min_leaf=5))
    target, loss = targets(of), LogLoss() if n_classes else SquaredLoss()
    constant = loss.constant(loss.softened(target))
    expected = np.repeat(constant[None, :], N, axis=0)
    for name, part in (("boosting", boosting), ("iforest", cells)):
        first, second = (part.fit(np.arange(N), refit) for refit in range(2))
        assert first.content_hash == part.learn(of).content_hash != second.content_hash
        for own in (first, second):
            expected += weights[name] / 2 * (own.decision_function(of.rows) - constant)
    np.testing.assert_allclose(model.decision_function(of.rows), expected, rtol=1e-9, atol=1e-12)
    assert (capability(learner, LearnsOutOfFold) is None) == given
    parts_told = cast("dict[str, dict[str, float]]", told["base_models"])
    assert {name: part["weight"] for name, part in parts_told.items()} == weights
    if given:
        assert parts_told["iforest"] == {"psi": 16, "C": 2.0, "weight": 0.4}
        once = Stacking(base_models=words, **options).fit(of)[0]
        assert once.content_hash == replace(learner, refits=1).fit(of)[0].content_hash
    else:
        assert told == summary
        assert found.content_hash != model.content_hash


def test_psi_and_C_of_parts_with_weights_are_chosen_by_folds_if_they_are_not_given() -> None:
    of = training(2)
    chosen = Stacking(t=12, n_folds=3, base_models="iforest").fit_out_of_fold(of)[1]["base_models"]
    given = Stacking(t=12, n_folds=3, base_models="iforest@1").fit(of)[1]["base_models"]
    settings, again = (cast("Any", own)["iforest"] for own in (chosen, given))
    assert (settings["psi"], settings["C"]) == (again["psi"], again["C"])
    # With these, no folds are made: all rows may be of one group.
    alike = replace(of, division=Division(np.zeros(N), in_time=False))
    whole = Stacking(t=12, base_models="iforest:5000:1@1").fit(alike)[1]["base_models"]
    assert cast("Any", whole)["iforest"]["psi"] == N


@pytest.mark.parametrize(("psi", "expected"), [(50, {50}), ("auto", {8, 16})])
def test_psi_is_chosen_by_fewer_rows_than_a_fold_has(
    psi: Any, expected: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """psi and C are chosen by 40 of the 60 rows: a given psi may be larger than that, a chosen one not."""
    monkeypatch.setattr("ikmap.methods.stacking.MOST_ROWS", 40)
    monkeypatch.setattr("ikmap.methods.base_models.PSIS", (8, 16, 50))
    told = Stacking(t=12, psi=psi, n_folds=3, base_models="iforest").fit_out_of_fold(training(2))[1]["base_models"]
    assert cast("Any", told)["iforest"]["psi"] in expected


@pytest.mark.parametrize("n_classes", [0, 3])
def test_rows_of_a_fold_may_all_weigh_nothing(n_classes: int) -> None:
    of = training(n_classes)
    groups = (np.arange(N) % 5).astype(float)
    of = replace(
        of, block=of.block._replace(sample_weight=(groups > 0) * 2.0), division=Division(groups, in_time=False)
    )
    model, summary, out_of_fold = Stacking(rounds=6, t=12, n_folds=5, min_leaf=5).fit_out_of_fold(of)
    assert np.isfinite(model.decision_function(of.rows)).all()
    assert np.isfinite(out_of_fold.decisions).all()
    assert np.isfinite(cast("Any", summary)["loss_out_of_fold"])


def test_as_many_models_are_learned_at_the_same_time_as_there_is_room_for() -> None:
    X = np.zeros((1000, 8))
    assert at_once(X, 0, 4) == at_once(X, 300, 4) == 4
    assert at_once(np.zeros((60_000, 8)), 300, 4) == 2  # of 112 MB each
    assert at_once(np.zeros((500_000, 8)), 300, 4) == 1


@pytest.mark.parametrize("n_folds", [2, 5])
def test_each_fold_has_its_share_of_each_class(n_folds: int) -> None:
    y = np.repeat([0, 1, 2], [50, 23, 4])
    fold = Folds.at_random(y, n_folds, 3).of_row
    for k in range(3):
        counts = np.bincount(fold[y == k], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    assert not np.array_equal(fold, Folds.at_random(y, n_folds, 4).of_row)


def given_away(n_groups: int = 60, rows_each: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, classes and groups: a row tells its group, all rows of a group have one class, drawn at random."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(n_groups), rows_each)
    position = rng.normal(size=(n_groups, 2))
    X = position[group] + rng.normal(size=(group.size, 2)) / 100
    return X, rng.integers(0, 2, n_groups)[group].astype(np.int32), group.astype(float)


def test_groups_that_give_labels_away_are_seen_through() -> None:
    """Folds at random promise that classes are known nearly for sure; folds of groups say that nothing is known."""
    X, y, group = given_away()
    learner = Stacking(rounds=60, t=20, psi=256, min_leaf=3, n_folds=4)
    blind = Training(Block(X, y), [0, 1], 0)
    honest = replace(blind, division=Division(group, in_time=False))
    (_, promised, _), (model, summary, out_of_fold) = (learner.fit_out_of_fold(each) for each in (blind, honest))
    assert cast("float", promised["loss_out_of_fold"]) < 0.2
    new_X, new_y, _ = given_away()
    new_X, new_y = new_X + 10.0, 1 - new_y  # other groups
    truth = LogLoss().mean(model.decision_function(new_X), new_y[:, None].astype(float))
    assert cast("float", summary["loss_out_of_fold"]) > 0.68
    assert truth < 0.75
    assert out_of_fold.weights.max() < 0.2
    assert out_of_fold.folds == 4


def test_in_time_parts_and_weights_learn_from_earlier_rows() -> None:
    """The targets of later rows change no decision; each part is learned from all rows in the end."""
    rng = np.random.default_rng(0)
    X, time = rng.normal(size=(400, 3)), rng.permutation(400).astype(float)
    y = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=400) / 3
    learner = Stacking(rounds=20, t=20, psi=32, n_folds=4)
    training = Training(Block(X, y), [], 0, division=Division(time, in_time=True))
    model, _, before = learner.fit_out_of_fold(training)
    assert np.array_equal(np.isfinite(before.decisions[:, 0]), time >= 250)  # half of the rows, and the first fold
    assert before.rows_learned == 350
    assert model.partitions.n_partitions <= 20 + 20
    parts = [Boosting(rounds=20).fit(training)[0].content_hash]
    assert BoostingPart(training, Boosting(rounds=20)).fit(np.arange(400)).content_hash == parts[0]
    later = replace(training, block=Block(X, np.where(time >= 300, -3 * y, y)))
    # psi and C are chosen on the last folds: here, C is the same.
    chosen_C = [learner.fit_out_of_fold(each)[1]["base_models"]["iforest"]["C"] for each in (training, later)]  # type: ignore[index, call-overload]
    after = learner.fit_out_of_fold(later)[2]
    if chosen_C[0] == chosen_C[1]:
        assert np.array_equal(before.decisions[time < 300], after.decisions[time < 300], equal_nan=True)
    assert not np.allclose(before.decisions[time >= 350], after.decisions[time >= 350])


@pytest.mark.parametrize("n_classes", [0, 2])
def test_folds_before_which_no_row_weighs_anything_are_left_out_in_time(n_classes: int) -> None:
    """Rows of weight 0 are as good as absent: of five folds in time, the first has no other rows before it."""
    of, time = training(n_classes), np.arange(float(N))
    late = replace(of, block=of.block._replace(sample_weight=(time >= 0.5 * N) * 2.0), division=Division(time, True))
    out_of_fold = Stacking(rounds=6, t=12, n_folds=5, min_leaf=5).fit_out_of_fold(late)[2]
    assert out_of_fold.folds == 4
    last = replace(late, block=of.block._replace(sample_weight=(time >= 0.85 * N) * 2.0))
    with pytest.raises(TooFewKeys, match=r"^found 1 of 5 folds in time before which some row weighs more than 0"):
        Stacking(rounds=6, t=12, n_folds=5, min_leaf=5).fit(last)


def test_folds_before_which_there_is_one_time_are_left_out_where_boosting_holds_out_the_last() -> None:
    """The first of five folds in time learns from the first time alone, which more than half of the rows have."""
    of, time = training(2), np.r_[np.zeros(50), np.arange(1.0, 41.0)]
    late = replace(of, division=Division(time, in_time=True))
    words = {"boosting,iforest": 4, "iforest": 5, "boosting:held_out=0.0,iforest": 5}
    for base_models, n_folds in words.items():
        learner = Stacking(base_models=base_models, rounds=6, t=12, psi=8, n_folds=5, min_leaf=5)
        assert learner.fit_out_of_fold(late)[2].folds == n_folds
    three = replace(of, division=Division(np.repeat([0.0, 1.0, 2.0], N // 3), in_time=True))
    with pytest.raises(TooFewKeys, match=r"^found 1 of 3 folds in time before which there is more than one time"):
        Stacking(rounds=6, t=12, psi=8, min_leaf=5).fit(three)


def test_parts_with_psi_and_C_are_those_that_would_be_chosen() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    training = Training(Block(X, X[:, 0] + X[:, 1] ** 2), [], 0)
    chosen, summary, out_of_fold = Stacking(rounds=10, t=20, n_folds=3).fit_out_of_fold(training)
    settings = cast("dict[str, dict[str, float]]", summary["base_models"])["iforest"]
    given = Stacking(rounds=10, t=20, n_folds=3, base_models=f"boosting,iforest:{settings['psi']}:{settings['C']}")
    model, again, same_rows = given.fit_out_of_fold(training)
    assert model.content_hash == chosen.content_hash
    assert again == summary
    assert np.array_equal(same_rows.decisions, out_of_fold.decisions)
    other = Stacking(rounds=10, t=20, n_folds=3, base_models="boosting,iforest:5000:0.25").fit_out_of_fold(training)[1]
    assert cast("Any", other["base_models"])["iforest"]["psi"] == 200, "a fold has no more rows to learn from"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("boosting, anne:64:8.0", "boosting,anne:64:8"),
        (["iforest:256:0.03125", "boosting"], "iforest:256:0.03125,boosting"),
        ("forest:3:1e-7", "forest:3:1e-07"),
        ("anne, anne", "anne"),
        ("boosting, boosting:max_leaves=12:shrinkage=5e-2", "boosting,boosting:max_leaves=12:shrinkage=0.05"),
        ("boosting:l2=10,iforest", "boosting:l2=10.0,iforest"),
        ("boosting:shrinkage=.5: l2=1, boosting:l2=1:shrinkage=0.5", "boosting:l2=1.0:shrinkage=0.5"),
        ("boosting@.40, iforest:256:8@1.0", "boosting@0.4,iforest:256:8@1"),
        ("boosting:l2=1@2e-3,forest@0.25", "boosting:l2=1.0@0.002,forest@0.25"),
    ],
)
def test_base_models_are_words(given: Any, kept: str) -> None:
    kind = BaseModels()
    assert kind.check(given) == kept == kind.check(kept)
    assert all(re.search(str(kind.schema["pattern"]), text) for text in (kept, kept.replace(",", " , ")))
    assert words_of(Stacking(base_models=kept).parts.values()) == kept


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("boosting:4:1", "'boosting:4:1', expected options of boosting, each once, such as boosting:shrinkage=0.05"),
        ("boosting:l2=1:l2=2", "'boosting:l2=1:l2=2', expected options of boosting, each once"),
        ("boosting:psi=1", "'boosting:psi=1', expected options of boosting (psi is none)"),
        ("boosting:shrinkage=2", "'boosting:shrinkage=2', expected options of boosting (shrinkage: found 2"),
        ("boosting:shrinkage=x", "'boosting:shrinkage=x', expected options of boosting (shrinkage: found"),
        ("anne:64", "'anne:64', expected a psi and a C such as anne:256:8"),
        ("anne:x:1", "'anne:x:1', expected a psi and a C"),
        ("anne:0:1", "'anne:0:1', expected a psi >= 1 and a C > 0"),
        ("anne:4:inf", "'anne:4:inf', expected a psi >= 1 and a C > 0"),
        ("gcws:4:1", "'gcws'"),
        ("anne:4:1,anne", "'anne', expected anne once"),
        (7, "7, expected names with commas between"),
        ("boosting@0", "'boosting@0', expected a weight > 0 after @, such as boosting@0.4,forest:4096:8@0.6"),
        ("boosting@", "'boosting@', expected a weight > 0"),
        ("boosting@1@2", "'boosting@1@2', expected a weight > 0"),
        ("anne:4:1@inf", "'anne:4:1@inf', expected a weight > 0"),
        ("boosting@1,anne", "'boosting@1,anne', expected a weight of all parts or of none"),
        ("anne@1,anne@2", "'anne@2', expected anne once, with one psi, one C and one weight"),
    ],
)
def test_base_models_that_are_none(given: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=f"found {re.escape(fault)}"):
        BaseModels().check(given)


def test_few_groups_make_few_folds_and_one_none() -> None:
    X, y, group = given_away(3, 40)
    learner = Stacking(base_models="boosting", rounds=3, min_leaf=5)
    training = Training(Block(X, y), [0, 1], 0, division=Division(group, in_time=False))
    assert learner.fit_out_of_fold(training)[2].folds == 3
    with pytest.raises(TooFewKeys, match=r"^found 1 different groups among 120 rows"):
        learner.fit(replace(training, division=Division(np.zeros(120), in_time=False)))
    with pytest.raises(TooFewKeys, match=r"^found one time in the later of 120 rows"):
        learner.fit(replace(training, division=Division((group > 0).astype(float), in_time=True)))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("in_time", [False, True])
def test_a_class_may_be_absent_from_what_a_fold_learns_from(n_classes: int, in_time: bool) -> None:
    X, time = np.random.default_rng(0).normal(size=(210, 3)), np.arange(210)
    y = ((time >= 120) if n_classes == 2 else time // 70).astype(np.int32)
    division = Division((time if in_time else time // 70).astype(float), in_time)
    training = Training(Block(X, y), list(range(n_classes)), 0, division=division)
    learner = Stacking(rounds=3, t=10, psi=32, n_folds=3, min_leaf=2)
    model, summary, out_of_fold = learner.fit_out_of_fold(training)
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(cast("float", summary["loss_out_of_fold"]))
    # What was seen of one class only tells nothing of the others.
    assert out_of_fold.weights.max() < 0.1
