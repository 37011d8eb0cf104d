"""Tasks: classification says what it always said, and another task needs nothing of the pipeline's."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ikmap.methods import LEARNERS
from ikmap.racing import Candidate, Scored, standings, survivors
from ikmap.tasks import (
    CLASSIFICATION,
    METRICS,
    TASKS,
    LabelRequest,
    TaskKind,
    criterion_of,
    task_from,
    task_named,
    task_of,
    task_words,
)
from ikmap.tasks.capabilities import settled, stored_targets
from ikmap.tasks.scoring import accumulate, state_from, total
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.rows.preparation import Preparation
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch, run_identity
from pipeline.runs.metrics import Invocation
from pipeline.runs.new_data import open_data
from pipeline.runs.online import OnlineParams, run_online
from pipeline.runs.score import score
from pipeline.runs.score_output import Output
from pipeline.runs.trained import load_run
from pipeline.runs.trained_model import open_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.spec import Split
from pipeline.stages.select_rows import packed_rows, unpacked_rows
from pipeline.stages.task import requested_task
from pipeline.storage.durable import read_json
from pipeline.storage.rundir import RunDirectory
from tests import ROOT
from tests.plugins.number_task import KIND, ByCounts, Follows, Numbers, known
from tests.support.in_process import InProcess
from tests.support.metrics import check_metrics
from tests.support.one_process import Heard, forget, one_process

# --- no name of a task decides anything


def words_of_tasks() -> set[str]:
    return {word for task in TASKS.values() for word in (task.name, *task.words)}


def compared(text: str, words: set[str]) -> Iterator[int]:
    """Yield the lines on which a name of a task is compared with, matched, or looked up to decide something."""
    for node in ast.walk(ast.parse(text)):
        found: list[ast.AST] = []
        match node:
            case ast.Compare(left, _, others):
                found = [left, *others]
            case ast.MatchValue(value):
                found = [value]
            case ast.Dict(keys):
                found = [key for key in keys if key is not None]
            case ast.Subscript(_, index):
                found = [index]
            case ast.Call(ast.Attribute(_, "startswith" | "endswith" | "get"), args):
                found = list(args[:1])
        within = (inner for one in found for inner in ast.walk(one))
        if any(isinstance(inner, ast.Constant) and inner.value in words for inner in within):
            yield node.lineno  # type: ignore[attr-defined]


def test_the_search_for_names_of_tasks_finds_them() -> None:
    for text in (
        'task == "binary"', '"novelty" != x.task', 'x in ("a", "regression")', '{"classification": f}[name]',
        'match x:\n    case "multiclass":\n        pass', 'kinds["binary"]', 'x.startswith("binary")',
    ):  # fmt: skip
        assert list(compared(text, words_of_tasks())), text
    assert not list(compared('x = "binary"\ny == "other"', words_of_tasks()))


@pytest.mark.parametrize("folder", ["pipeline", "flows"])
def test_nothing_compares_the_name_of_a_task(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}" for path in files for line in compared(path.read_text(), words_of_tasks())
    ]
    assert found == []


# --- classification


def test_words_of_tasks() -> None:
    assert task_words() == ("binary", "multiclass", "regression", "novelty")
    for word in ("auto", "binary", "multiclass", "classification"):
        assert task_named(word) is CLASSIFICATION
    with pytest.raises(ValueError, match=r"^which is none of auto, binary, multiclass, regression, novelty$"):
        task_named("survival")
    assert task_of({}) is task_of({"data": None}) is task_of({"data": {"task": "of a plug-in"}}) is CLASSIFICATION


@pytest.mark.parametrize(
    ("labels", "asked", "expected"),
    [
        ([3.0, 1.0, 3.0], LabelRequest(), [1, 3]),
        ([0.5, 2.0], LabelRequest(), [0.5, 2]),
        (["b", "a"], LabelRequest("multiclass"), ["a", "b"]),
        ([7.0, 8.0, 9.0], LabelRequest("auto", "", [[7], [8, 9]]), [-1, 1]),
    ],
)
def test_classes_are_found_and_come_back(labels: list[Any], asked: LabelRequest, expected: list[Any]) -> None:
    kind: Any = object if isinstance(labels[0], str) else float
    y = np.array(labels, dtype=kind)
    stored, found = CLASSIFICATION.read(y, y.size)
    task = CLASSIFICATION.find([found], asked)
    codec = task.codec
    assert codec.classes == expected
    targets = codec.targets(stored, found)
    assert targets.dtype == np.int32
    assert np.array_equal(targets, codec.encode(y, y.size))
    assert not codec.unknown(targets).any()
    if asked.two_class is None:
        assert codec.decode(targets).tolist() == labels
    else:
        assert targets.tolist() == [1, 0, 0]
        again, about = stored_targets(task, targets)
        assert np.array_equal(settled(task).codec.targets(again, about), targets)
    assert task_from(task.as_json()) == task
    assert codec.encode(None, 2).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("labels", "word", "message"),
    [
        ([1.0, 1.0], "auto", r"^found one class only \(1\), expected at least two$"),
        ([1.0, 2.0, 3.0], "binary", "^--task binary: found 3 classes, expected two$"),
        (
            (np.arange(30) + 0.5).tolist(),
            "auto",
            r"found 30 different labels such as 0.5, expected classes; --task regression --learner ridge pred",
        ),
    ],
)
def test_labels_that_make_no_classes(labels: list[float], word: str, message: str) -> None:
    _, found = CLASSIFICATION.read(np.array(labels), len(labels))
    with pytest.raises(ValueError, match=message):
        CLASSIFICATION.find([found], LabelRequest(word, f"--task {word}"))


def test_too_many_labels() -> None:
    with pytest.raises(ValueError, match="found more than 1000 different labels, expected classes"):
        CLASSIFICATION.read(np.arange(1001.0), 1001)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_tallies_add_up(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    task = CLASSIFICATION.of(list("abcd"[:n_classes]))
    target = rng.integers(n_classes, size=200).astype(np.int32)
    decision = rng.normal(size=(200, task.decisions.outputs))
    predicted = task.decisions.predict(decision)
    assert predicted.dtype == np.int32
    whole: Any = accumulate(task, target, decision)
    parts = [accumulate(task, target[rows], decision[rows]) for rows in (slice(0, 3), slice(3, 120), slice(120, None))]
    sums: Any = total(task, [part.as_json() for part in parts])
    again: Any = state_from(task, whole.as_json())
    assert np.array_equal(sums.counts, whole.counts)
    assert np.array_equal(again.counts, whole.counts)
    figures = whole.metrics()
    expected = np.zeros((n_classes, n_classes), dtype=int)
    np.add.at(expected, (target, predicted), 1)
    assert figures["confusion"] == expected.tolist()
    assert figures["accuracy"] == float((target == predicted).mean())
    assert figures["labels"] == task.codec.classes
    assert state_from(task, None).metrics()["accuracy"] is None
    assert np.array_equal(criterion_of(task).row_scores(target, predicted), target == predicted)


def test_rows_of_some_classes_only_are_predicted_as_these() -> None:
    task = CLASSIFICATION.of(["a", "b", "c", "d"])
    small = criterion_of(task).among(np.array([3, 1, 3]))
    assert (small.task.codec.classes, small.targets.tolist()) == (["b", "d"], [1, 0, 1])
    assert small.widen(small.criterion.scored_values(np.array([[-1.0], [1.0]]))).tolist() == [1, 3]
    assert small.constant is None
    only = criterion_of(task).among(np.array([2, 2]))
    assert only.constant is not None
    assert only.widen(only.constant).tolist() == [2]


def test_a_preparation_of_a_run_from_before_there_were_tasks() -> None:
    old = {"n_columns": 2, "column_names": None, "dense": True, "classes": [1, 5], "two_class": None, "divide": 1.0,
           "scale": "none"}  # fmt: skip
    assert Preparation.from_json(old).task == CLASSIFICATION.of([1, 5])


def test_a_task_that_is_not_known_here() -> None:
    values = {
        **Preparation(2, None, True, CLASSIFICATION.of([1, 5])).as_json(),
        "task": {"name": "of a package"},
    }
    with pytest.raises(InputError, match=r"^task 'of a package' is not known on .*: install the package that has it"):
        Preparation.from_json(values)


def test_scores_of_rows_survive_a_record() -> None:
    rng = np.random.default_rng(0)
    for scores in (rng.random(77) < 0.3, -rng.random(77)):
        again = unpacked_rows(packed_rows(scores), 77)
        assert again.dtype == scores.dtype
        assert np.array_equal(again, scores)


def test_a_race_by_scores_that_are_no_yes_or_no() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(size=800)
    scores: dict[Candidate, Scored] = {(4, 0): -((noise + 3) ** 2), (8, 0): -(noise**2), (16, 0): -(noise**2) - 1e-4}
    behind = standings(scores)
    assert behind[8, 0].rows == 0
    assert behind[4, 0].apart == pytest.approx(((scores[4, 0] - scores[8, 0]) ** 2).sum())
    assert survivors(scores, 1, 5) == [(8, 0), (16, 0)]
    # By which unit the scores are measured is no matter.
    larger: dict[Candidate, Scored] = {candidate: 1e6 * np.asarray(rows, float) for candidate, rows in scores.items()}
    assert survivors(larger, 1, 5) == [(8, 0), (16, 0)]


# --- another task


@pytest.fixture
def numbers() -> Iterator[None]:
    with known():
        yield


def write_numbers(path: Path, n: int = 260, seed: int = 0) -> np.ndarray:
    """Rows of a table whose label is a smooth number of them; return the labels."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    y = 10 + 4 * X[:, 0] - 3 * X[:, 1] ** 2 + 0.05 * rng.normal(size=n)
    lines = [",".join(["a,b,c,y"])] + [",".join(f"{v:.9g}" for v in (*x, label)) for x, label in zip(X, y, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return np.array([float(f"{v:.9g}") for v in y])


def run(
    path: Path,
    file: Path,
    *,
    online: OnlineParams | None = None,
    call: Callable[..., Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """A run in this process, as :class:`tests.support.one_process.Command` does one by options."""
    forget()
    asked: dict[str, Any] = {
        "task": Numbers.name,
        "learners": ["follows"] if online else ["by-counts", "follows"],
        "t": 12,
    } | options
    params = Params.given(**asked)
    data = ResolvedDataset("numbers", str(file), None, label="y", split=Split(fraction=0.75))
    with closing(RunDirectory(path, run_identity(params.as_json(), data, []))) as held:
        context = Context(InProcess(), held, params, Heard())
        how = Invocation("test", "", {"kind": "local", "workers": 1, "threads": 1}, dask_report=False)
        more: dict[str, Any] = {} if call is None else {"call": call}
        if online:
            return run_online(context, data, how, online, **more)
        return run_batch(context, data, how, **more)


@pytest.mark.slow
@pytest.mark.usefixtures("numbers")
def test_a_task_of_its_own_runs_through(tmp_path: Path) -> None:
    y = write_numbers(tmp_path / "rows.csv")
    with one_process():
        metrics = run(tmp_path / "run", tmp_path / "rows.csv", psi="auto", cv_rows=150)
        check_metrics(tmp_path / "run")
        new = write_numbers(tmp_path / "new.csv", 90, seed=1)
        result = score_file(tmp_path, "by-counts")
    data = metrics["data"]
    assert data["task"] == "numbers"
    assert "classes" not in data
    assert "class_counts_train" not in data
    assert y.min() <= data["target_range"][0] < data["target_range"][1] <= y.max()
    selection = metrics["selection"]
    assert selection["rmse"].keys() == {"by-counts", "follows"}
    for name, of in selection["rmse"].items():
        best = min(of)
        assert (
            selection["chosen"][name] == selection["psi"][of.index(best)]
            or len(set(selection["folds_tried"][name])) > 1
        )
    for about in metrics["learners"].values():
        assert 0 < about["rmse"] < 0.6 * y.std()
        assert about["mae"] < about["rmse"]
        assert 0.6 < about["r2"] < 1
        assert "accuracy" not in about
    curve = metrics["learners"]["follows"]["curve"]
    assert curve["rmse"][-1] < curve["rmse"][0]
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["row", "prediction", "label"]
    assert table["label"].to_numpy().tolist() == new.tolist()
    off = table["prediction"].to_numpy() - new
    assert result["rmse"] == pytest.approx(np.sqrt((off**2).mean()), rel=1e-12)
    assert result["said"] == f"rmse {result['rmse']:.4f}"
    assert result["rows_labelled"] == 90
    page = (tmp_path / "run" / "report.html").read_text()
    assert "has a root of the mean squared error of <b>" in page
    assert "mean absolute error" in page
    assert "Errors &lt;of&gt; the learners." in page
    assert "Off by how much" in page
    assert "ccuracy" not in page
    loaded = load_run(tmp_path / "run", "by-counts")
    X = np.array([[float(v) for v in line.split(",")[:3]] for line in (tmp_path / "new.csv").read_text().split()[1:]])
    assert np.array_equal(loaded.predict(X), table["prediction"].to_numpy())
    assert loaded.classes_.size == 0


def score_file(folder: Path, learner: str) -> dict[str, Any]:
    forget()
    model = open_run(str(folder / "run"), learner)
    client: Any = InProcess()
    with Output(str(folder / "out.parquet")) as output:
        return score(client, model, open_data(model, str(folder / "new.csv")), output, Heard())


@pytest.mark.usefixtures("numbers")
def test_rows_without_labels_are_scored(tmp_path: Path) -> None:
    write_numbers(tmp_path / "rows.csv")
    with one_process():
        run(tmp_path / "run", tmp_path / "rows.csv", psi=8, learners=["by-counts"])
        lines = [line.rpartition(",")[0] for line in (tmp_path / "rows.csv").read_text().split()]
        (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
        result = score_file(tmp_path, "by-counts")
    assert (result["rmse"], result["said"], result["rows_labelled"]) == (None, None, 0)
    assert pq.read_table(tmp_path / "out.parquet").column_names == ["row", "prediction"]


class Stopped(Exception):
    pass


def stopping_after(stage: str) -> Callable[[str, Callable[[], Any]], Any]:
    """A call of stages that is at an end when this one is done."""

    def call(name: str, work: Callable[[], Any]) -> Any:
        if stage in done:
            raise Stopped
        done.append(name)
        return work()

    done: list[str] = []
    return call


def without_seconds(record: Any) -> Any:
    if isinstance(record, dict):
        return {key: without_seconds(value) for key, value in record.items() if not key.endswith("seconds")}
    return record


@pytest.mark.slow
@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("stage", ["ingest", "select", "cells", "train:follows"])
def test_a_task_of_its_own_is_resumed(tmp_path: Path, stage: str) -> None:
    write_numbers(tmp_path / "rows.csv")
    with one_process():
        whole = run(tmp_path / "whole", tmp_path / "rows.csv", cv_rows=100)
        with pytest.raises(Stopped):
            run(tmp_path / "run", tmp_path / "rows.csv", cv_rows=100, call=stopping_after(stage))
        again = run(tmp_path / "run", tmp_path / "rows.csv", cv_rows=100)
    assert without_seconds(again["learners"]) == without_seconds(whole["learners"])
    assert again["selection"] == whole["selection"]


@pytest.mark.usefixtures("numbers")
def test_a_stream_of_a_task_of_its_own(tmp_path: Path) -> None:
    y = write_numbers(tmp_path / "rows.csv")
    with one_process():
        metrics = run(tmp_path / "run", tmp_path / "rows.csv", online=OnlineParams(80, 9), psi=8, order="file")
        check_metrics(tmp_path / "run")
    about = metrics["learners"]["follows"]
    predicted = np.fromfile(tmp_path / "run" / "predictions" / "follows.float64")
    assert predicted.size == about["rows"] == 180
    assert about["rmse"] == pytest.approx(np.sqrt(((predicted - y[80:]) ** 2).mean()), rel=1e-9)
    assert about["curve"]["rmse"][-1] == pytest.approx(about["rmse"], abs=1e-6)
    assert "had a root of the mean squared error of <b>" in (tmp_path / "run" / "report.html").read_text()
    assert read_json(tmp_path / "run" / "metrics.json")["learners"]["follows"]["rmse"] == about["rmse"]


@pytest.mark.usefixtures("numbers")
def test_a_learner_that_does_not_serve_the_task(tmp_path: Path) -> None:
    data = ResolvedDataset("numbers", str(tmp_path / "rows.csv"), None)
    with pytest.raises(
        InputError, match=r"^--learner svm,ogd: do not learn numbers \(--task numbers\); expected --lea"
    ):
        requested_task(Params(task="numbers", learners=("svm", "ogd")), data)
    with pytest.raises(InputError, match=r"^--learner auto: found task numbers, which has no usual learner, expected"):
        Params(task="numbers")
    with pytest.raises(InputError, match=r"^--learner by-counts: does not learn classification \(--task binary\)"):
        requested_task(Params(task="binary", learners=("by-counts",)), data)
    # A data set's description says it too.
    assert requested_task(Params(learners=("follows",)), ResolvedDataset("a", "b", None, task="numbers")) is KIND
    with pytest.raises(
        InputError, match=r'^data set a is defined with task = "survival", which is none of auto, binary, multiclass'
    ):
        requested_task(Params(), ResolvedDataset("a", "b", None, task="survival"))


@pytest.mark.usefixtures("numbers")
def test_labels_that_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,y\n1,yes\n2,no\n")
    with one_process(), pytest.raises(InputError, match=r"rows.csv: found label 'yes', expected numbers"):
        run(tmp_path / "run", tmp_path / "rows.csv", psi=2)


def test_what_is_registered_is_what_it_says() -> None:
    for name, task in TASKS.items():
        assert task.name == name
        assert isinstance(task, TaskKind)
        metric = task.presenter.metric
        assert metric.name in metric.line(0.5)
        assert METRICS[metric.key].metric == metric
    assert all(learner.about.tasks <= TASKS.keys() for learner in LEARNERS.values())
    assert ByCounts.about.name not in LEARNERS
    assert Follows.about.name not in LEARNERS
