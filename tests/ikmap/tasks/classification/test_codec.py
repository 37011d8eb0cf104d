"""Classification as a task: which labels are classes, their numbers, and how many there may be."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ikmap.tasks import CLASSIFICATION, LabelRequest, Task
from ikmap.tasks.capabilities import census_of, counted, missing_in, unseen_labels
from ikmap.tasks.classification.codec import ClassCodec


def find(*parts: Any, **request: Any) -> Task:
    read = [CLASSIFICATION.read(np.asarray(part), len(part))[1] for part in parts]
    return CLASSIFICATION.find([json.loads(json.dumps(part)) for part in read], LabelRequest(**request))


def test_labels_of_all_parts_are_the_classes() -> None:
    task = find([2.0, 0.0], [], [7.0, 2.0, 2.0])
    assert task.codec.classes == [0, 2, 7]
    assert task.codec.encode(np.array([7.0, 3.0, 0.0]), 3).tolist() == [2, -1, 0]
    assert task.codec.unknown(np.array([2, -1, 0])).tolist() == [False, True, False]
    assert task.codec.encode(None, 2).tolist() == [-1, -1]
    assert find(["b", "a"], [3.0]).codec.classes == [3, "a", "b"]
    assert unseen_labels(task, [CLASSIFICATION.read(np.array([1.0, 2.0, 5.0]), 3)[1]]) == [1, 5]
    assert CLASSIFICATION.from_json(json.loads(json.dumps(task.codec.as_json()))) == task


@pytest.mark.parametrize(
    "labels", [[3.0, 0.0, 3.0, 5.0], [2.5, 0.5, 2.5, 5.0], [-1.0, 1.0, -1.0], [1e9, 5.0, 5.0], [0.0, 1.0, 0.5]]
)
def test_rows_by_label(labels: list[float]) -> None:
    """Whether they are small whole numbers or any others."""
    codes, part = CLASSIFICATION.read(np.array(labels), len(labels))
    assert [part["labels"][k] for k in codes] == labels  # type: ignore[index]
    assert part["labels"] == sorted(set(labels))
    assert part["label_counts"] == [labels.count(label) for label in sorted(set(labels))]


def test_the_number_of_classes() -> None:
    """Up to a thousand; up to twenty, if some are no whole numbers and the task was not said."""
    many = np.arange(1000.0)
    assert len(find(many).codec.classes) == len(find(many[:600], many[400:]).codec.classes) == 1000
    for parts in ([np.arange(1001.0)], [many, many + 1]):
        with pytest.raises(ValueError, match=r"^found (more than 1000|1001) different labels.*expected classes"):
            find(*parts)
    halves = np.arange(21) / 2
    assert len(find(halves[:20]).codec.classes) == 20
    with pytest.raises(ValueError, match=r"^found 21 different labels such as 0\.5, expected classes"):
        find(halves)
    assert len(find(halves, word="multiclass").codec.classes) == 21
    assert len(find(np.arange(21.0)).codec.classes) == 21
    assert find([1.0, 0.0], word="binary", source="--task").codec.classes == [0, 1]
    with pytest.raises(ValueError, match=r"^--task: found 3 classes, expected two$"):
        find(np.arange(3.0), word="binary", source="--task")
    with pytest.raises(ValueError, match=r"^found one class only \(4\), expected at least two$"):
        find([4.0, 4.0])


def test_too_many_words_are_no_numbers_to_predict() -> None:
    """Advice for numbers that are too many says only what can work."""
    words = [f"a{k}" for k in range(1001)]
    for parts in ([words], [words[:600], words[600:]], [np.arange(900.0), words[:600]]):
        with pytest.raises(ValueError, match=r"^found .*different labels.*, expected classes; --label names another"):
            find(*parts)
    for numbers in ([np.arange(1001.0)], [np.arange(600.0), np.arange(500.0, 1001.0)]):
        with pytest.raises(ValueError, match=r", expected classes; --task regression --learner ridge predicts them"):
            find(*numbers)
    with pytest.raises(ValueError, match=r"as numbers \(--task multiclass takes each number for a class\)$"):
        find(np.arange(21) / 2)


def test_labels_that_count_as_two_classes() -> None:
    task = find(np.arange(5.0), two_class=[[1, 3], [0]])
    assert task.codec.classes == [-1, 1]
    assert task.codec.encode(np.arange(5.0), 5).tolist() == [0, 1, -1, 1, -1]


def test_what_labels_may_be_is_said_in_short() -> None:
    assert CLASSIFICATION.of([1, "b"]).codec.summary.expected == "1, 'b'"
    ten = ", ".join(str(k) for k in range(10))
    assert CLASSIFICATION.of(list(range(10))).codec.summary.expected == ten
    assert CLASSIFICATION.of(list(range(11))).codec.summary.expected == f"{ten}, ..."


def test_rows_of_each_class_are_counted() -> None:
    task = CLASSIFICATION.of(["a", "b", "c"])
    parts = [census_of(task, np.array(targets, dtype=np.int32)) for targets in ([0, 0, 2], [], [2, 0])]
    assert counted(task, parts) == {"class_counts_train": [3, 0, 2]}
    with pytest.raises(ValueError, match="found training rows of one class only, expected at least two"):
        counted(task, [parts[1], census_of(task, np.array([1, 1], dtype=np.int32))])
    assert missing_in(task, np.array([0, 2])) == "class 'b'"
    assert missing_in(task, np.array([0, 2, 1])) == ""


@pytest.mark.parametrize("classes", [2, 3, 32, 33])
def test_outputs_that_words_are_encoded_by(classes: int) -> None:
    """One of two classes, else one for each, if there are few."""
    codec = ClassCodec(list(range(classes)))
    names, _ = codec.encoding_outputs()
    assert len(names) == {2: 1, 33: 0}.get(classes, classes)
    targets = np.array([1, 0, 1, classes - 1])
    expected = targets[:, None] == (np.array([1]) if classes == 2 else np.arange(classes))
    np.testing.assert_array_equal(codec.encoding_targets(targets), expected)
