"""Novelty as a task: what labels mean, and figures that add up."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from ikmap.json_values import Json
from ikmap.tasks import NOVELTY, LabelRequest, Task, criterion_of, task_from, task_named
from ikmap.tasks.capabilities import counted, learned_rows, settled, stored_targets
from ikmap.tasks.novelty.codec import NoveltyCodec
from ikmap.tasks.novelty.presenter import MOST_ROWS
from ikmap.tasks.score_histogram import bins_of, quantile_bin, upper_edge
from ikmap.tasks.scoring import accumulate, state_from, total
from ikmap.tasks.sections import Table
from tests.naive.novelty import areas
from tests.support.narrow import items, number, present


def found(labels: list[Any], **asked: Any) -> tuple[Task, NoveltyCodec, np.ndarray]:
    y = np.array(labels, dtype=object if isinstance(labels[0], str) else float)
    stored, about = NOVELTY.read(y, y.size)
    task = NOVELTY.find([about], LabelRequest("novelty", **asked))
    codec = task.codec
    assert isinstance(codec, NoveltyCodec)
    targets = codec.targets(stored, about)
    assert np.array_equal(targets, codec.encode(y, y.size))
    assert np.array_equal(settled(task).codec.targets(*stored_targets(task, targets)), targets)
    assert task_from(json.loads(json.dumps(task.as_json()))) == task
    return task, codec, targets


def test_what_labels_mean() -> None:
    assert task_named("novelty") is NOVELTY
    assert not NOVELTY.labels.needed
    task, codec, targets = found([1.0, 2.0, 1.0, 1.0])
    assert (codec.anomaly, targets.tolist(), learned_rows(task, targets)) == (2, [0, 1, 0, 0], None)
    assert codec.summary.notes == (
        ["labels are used for evaluation only: rows with label 2, the fewest (1), count as anomalies; --inliers names "
         "the normal ones"]
    )  # fmt: skip
    # Of several that are as rare, the last; a label that is new is none of the rarest.
    assert found(["a", "a", "c", "b"])[1].anomaly == "c"
    assert task.codec.encode(np.array([7.0, 2.0]), 2).tolist() == [0, 1]
    task, codec, targets = found([11.0, 3.0, 11.0, 4.0], inliers=("11",))
    assert (codec.normal, targets.tolist()) == ([11], [0, 1, 0, 1])
    assert np.array_equal(present(learned_rows(task, targets)), [True, False, True, False])
    assert task.codec.encode(np.array([7.0]), 1).tolist() == [1]  # a label that is new is not a normal one
    task, codec, targets = found([5.0, 5.0])
    assert (codec.anomaly, targets.tolist()) == (None, [-1, -1])
    assert codec.summary.notes == ["all rows have the label 5, which evaluates nothing"]


def test_rows_without_labels() -> None:
    stored, about = NOVELTY.read(None, 3)
    task = NOVELTY.find([about], LabelRequest("novelty"))
    assert task.codec.targets(stored, about).tolist() == task.codec.encode(None, 3).tolist() == [-1, -1, -1]
    assert (task.codec.summary.notes, counted(task, [0, 0])) == ([], {"anomalies_train": None})
    assert settled(task) == task


@pytest.mark.parametrize(
    ("labels", "inliers", "said"),
    [
        (None, ("11",), "--inliers: found no labels, expected a column of labels; --label names it"),
        ([1.0, 2.0], ("11",), "--inliers 11: found no row with that label, expected some of 1, 2"),
    ],
)
def test_inliers_that_are_not_there(labels: Any, inliers: tuple[str, ...], said: str) -> None:
    _, about = NOVELTY.read(None if labels is None else np.array(labels), 2)
    with pytest.raises(ValueError, match=f"^{said}$"):
        NOVELTY.find([about], LabelRequest("novelty", "", None, inliers))


def test_labels_that_are_numbers() -> None:
    with pytest.raises(ValueError, match=r"^found more than 1000 different labels, .*--label names another column"):
        NOVELTY.read(np.arange(1001.0), 1001)


def test_tallies_add_up_and_are_what_they_say() -> None:
    rng = np.random.default_rng(0)
    n = 500
    decision = np.round(rng.normal(-1.0, 1.0, size=(n, 1)), 2)  # with ties
    target = rng.integers(-1, 2, size=n).astype(np.int32)
    decision[target == 1] += 0.7
    task = NOVELTY.of(None, 2, [])
    numbers = rng.permutation(n)
    whole = accumulate(task, target, decision, numbers)
    for cuts in ([100], [1, 2, 400]):
        pieces = [
            accumulate(task, target[rows], decision[rows], numbers[rows]).as_json()
            for rows in np.split(np.arange(n), cuts)
        ]
        assert total(task, pieces).as_json() == whole.as_json()
        assert total(task, pieces[::-1]).as_json() == whole.as_json()
    figures = whole.metrics()
    assert figures["alert_rate"] == (decision > 0).mean()
    known = target >= 0
    exact = roc_auc_score(target[known], decision[known, 0])
    assert areas(decision[target == 0, 0], decision[target == 1, 0]) == pytest.approx(exact, rel=1e-12)
    assert abs(number(figures["roc_auc"]) - exact) <= number(figures["roc_auc_error"]) + 1e-12
    assert number(figures["roc_auc_error"]) < 0.01
    assert figures["average_precision"] == pytest.approx(
        average_precision_score(target[known], decision[known, 0]), abs=0.005
    )
    best = sorted(range(n), key=lambda k: (-decision[k, 0], numbers[k]))[:MOST_ROWS]
    assert [(row["row"], row["score"]) for row in items(figures["most_novel"])] == [
        (numbers[k], decision[k, 0]) for k in best
    ]
    none = accumulate(task, np.full(3, -1), np.zeros((3, 1))).metrics()
    assert (none["alert_rate"], none["roc_auc"], none["average_precision"]) == (0.0, None, None)
    assert state_from(task, None).metrics()["alert_rate"] is None


def test_rows_above_the_threshold_are_alerts() -> None:
    """However little above; not those at it."""
    task = found([1.0, 2.0, 1.0])[0]
    decision = np.array([[-0.5], [0.0], [1e-9], [0.7], [3.0]])
    criterion = criterion_of(task)
    assert criterion.metric.key == "alert_rate"
    assert criterion.row_scores(np.zeros(5, dtype=np.int32), decision[:, 0]).tolist() == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert task.decisions.predict(decision).tolist() == [0, 0, 1, 1, 1]
    values = task.decisions.values(decision)
    assert values["alert"].tolist() == [False, False, True, True, True]
    assert values["score"].tolist() == decision[:, 0].tolist()
    assert accumulate(task, np.zeros(5, dtype=np.int32), decision).metrics()["alert_rate"] == 0.6


def test_bins_are_narrow_and_ascend() -> None:
    values = np.sort(np.concatenate([np.random.default_rng(1).normal(size=300), [0.0, -0.0, 1e-300, -1e-300, 1.0]]))
    bins = bins_of(values, 10)
    assert (np.diff(bins) >= 0).all()
    assert bins_of(np.array([-0.0]), 10) == bins_of(np.array([0.0]), 10)
    for value, place in zip(values, bins, strict=True):
        edge = upper_edge(place, 10)
        assert value <= edge
        assert bins_of(np.array([edge]), 10)[0] == place
        assert abs(edge - value) <= abs(value) * 2**-9 + 5e-324 or value == 0.0
        assert bins_of(np.array([np.nextafter(edge, np.inf)]), 10)[0] != place or edge == 0.0
    assert quantile_bin(np.array([3, 5, 9]), np.array([90, 6, 4]), 0.05) == 5
    assert quantile_bin(np.array([3, 5, 9]), np.array([90, 6, 4]), 0.1) == 3
    assert quantile_bin(np.array([7]), np.array([4]), 0.05) == 7


def test_the_report_has_the_most_novel_rows_of_each_learner() -> None:
    rows = [{"row": 7, "score": 0.5}, {"row": 2, "score": 0.25}]
    (section,) = NOVELTY.presenter.sections({"learners": {"idk": {"most_novel": rows}, "norma": {"most_novel": []}}})
    _, table = section.parts
    assert isinstance(table, Table)
    assert (table.title, table.head) == ("By idk", ("row", "score above the threshold"))
    assert [tuple(line) for line in table.rows] == [(7, 0.5), (2, 0.25)]
    named: dict[str, Json] = {"learners": {"idk": {"most_novel": [{**rows[0], "id": "x"}]}}, "data": {"id": "key"}}
    _, table = NOVELTY.presenter.sections(named)[0].parts
    assert isinstance(table, Table)
    assert (table.head[0], table.rows[0][0]) == ("key", "x")
    empty: tuple[dict[str, Json], ...] = (
        {},
        {"learners": None},
        {"learners": {"idk": {"most_novel": []}}},
        {"learners": {"idk": 3}},
    )
    for nothing in empty:
        assert not NOVELTY.presenter.sections(nothing)


def test_an_empty_label_of_a_labelled_column_is_none() -> None:
    for asked in ({}, {"inliers": ("1",)}):
        codec = found([1.0, 2.0, 1.0], **asked)[1]
        assert codec.encode(np.array([np.nan, 2.0, 1.0, np.nan]), 4).tolist() == [-1, 1, 0, -1]
    codec = found(["a", "a", "b"])[1]
    assert codec.encode(np.array(["", "b", "a"], dtype=object), 3).tolist() == [-1, 1, 0]
