"""The search for psi and C: the race against its definition, a budget, interruptions, and what is said on the way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from cluster import connect
from flows.options.batch import BatchOptions
from ikmap.methods import LearnerAbout
from ikmap.methods.ogd import OGD
from ikmap.racing import Value
from pipeline.monitoring.events import QuietProgress
from pipeline.monitoring.progress_log import LogProgress
from pipeline.params import Params
from pipeline.record_types import SelectResult, TaskRecord
from pipeline.rows.prepared import PreparedRows
from pipeline.running import stage as engine
from pipeline.running.dispatch import Task
from pipeline.running.measured import measured
from pipeline.running.stage import Context, Stage
from pipeline.runs.batch import say_chosen
from pipeline.stages.select import HyperparameterSearch, select
from pipeline.stages.select_cells import MOST_PARTITIONINGS, map_to_search
from tests import ROOT
from tests.naive import racing as naive
from tests.plugins import registered
from tests.support.in_process import InProcess
from tests.support.narrow import entries
from tests.support.params_for import params_for
from tests.support.runs import context, points, store_rows

pytestmark = pytest.mark.slow

ASKED: dict[str, Any] = {"t": 7, "C": "auto", "learners": ("svm", "ogd")}
PARAMS = params_for(**ASKED)
ROWS = 400
SCHEMA = json.loads((ROOT / "docs" / "metrics.schema.json").read_text())


class Heard(QuietProgress):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.tasks: list[dict[str, Any]] = []

    def message(self, text: str) -> None:
        self.lines.append(text)

    def task_done(self, name: str, record: Any) -> None:
        assert name == "select"
        self.tasks.append(dict(record))


class Clock:
    """Stands still, but for what tasks are said to take."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def ready(path: Path, params: Params = PARAMS, classes: int = 2) -> Context:
    ctx = context(path, params)
    ctx.events, ctx.clock, ctx._started = Heard(), Clock(), 0.0
    if not (path / "store.zarr" / "data").exists():
        store_rows(ctx.store, *points(ROWS, classes=classes), part_rows=150)
    return ctx


def changed(**changes: Any) -> Params:
    return params_for(**{**ASKED, **changes})


class Slow(InProcess):
    """A client whose tasks take so long each by the clock of a run, which is killed once so many are reported."""

    def __init__(self, clock: Clock, heard: Heard, seconds: float, kill_after: int) -> None:
        super().__init__()
        self.clock, self.heard, self.seconds, self.kill_after = clock, heard, seconds, kill_after

    def submit(self, func: Callable[..., Any], *args: Any, **more: Any) -> Any:
        future = super().submit(func, *args, **more)
        if func is measured:
            future.instead = self._slowly
        return future

    def _slowly(self, call: Callable[[], Any]) -> Any:
        record = call()
        if len(self.heard.tasks) >= self.kill_after:
            raise KeyboardInterrupt
        self.clock.now += self.seconds
        return {**record, "seconds": self.seconds}


def seconds_each(ctx: Context, seconds: float, kill_after: int = 1000) -> None:
    """Let each task take so long by the clock of a run, which may be killed after some."""
    ctx.client = Slow(cast("Clock", ctx.clock), cast("Heard", ctx.events), seconds, kill_after)


def lasting(found: SelectResult) -> dict[str, Any]:
    """Without seconds."""
    return {**found, "budget": {k: v for k, v in entries(found.get("budget", {})).items() if k != "spent"}}


def check(found: SelectResult) -> None:
    """The part of ``metrics.json`` that a search fills."""
    schema = {**SCHEMA["$defs"]["selection"], "$defs": SCHEMA["$defs"]}
    Draft202012Validator(schema).validate(json.loads(json.dumps(found)))


def full_table(path: Path, params: Params) -> dict[str, dict[Value, list[list[Any]]]]:
    """Of each learner ``[value][fold][place of C]``: rows right, as the full search has found them."""
    ctx = ready(path, params, classes=3)
    search = HyperparameterSearch(Stage(ctx, "select", None, ROWS), ROWS, PreparedRows(ctx.store, "train"))
    search.run()
    tables = {}
    for name, learner in search.learners.items():
        tables[name] = {
            value: [[rows.tolist() for rows in learner.scores._right[value][fold]] for fold in range(5)]
            for value in learner.values
        }
    return tables


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partitioner": "iforest"},
        {"learners": ("kernel-ogd", "logistic"), "seed": 3, "select_by": "accuracy"},
        {"psi": 16, "learners": ("svm",)},
    ],
    ids=["anne", "iforest", "rows", "C only"],
)
def test_the_race_follows_its_definition(options: dict[str, Any], tmp_path: Path) -> None:
    """It finds what the rule, applied to all that a full search has found, says: so it scored no other rows."""
    tables = full_table(tmp_path / "full", changed(**options, search="full"))
    found = select(ready(tmp_path / "race", changed(**options), classes=3))
    check(found)
    assert found["race"]["rounds"].keys() == tables.keys()
    dropped = 0
    for name, table in tables.items():
        (value, place), left, folds = naive.race(table)
        if name in found.get("tuned", {}):
            tuned = found["tuned"][name]
            assert tuned["chosen"] == value
            assert dict(zip(tuned["values"], tuned["folds_tried"], strict=True)) == folds
        else:
            assert found["chosen"][name] == value
            assert dict(zip(found["psi"], found["folds_tried"][name], strict=True)) == folds
            assert name not in found.get("chosen_C", {}) or found["chosen_C"][name] == found["C"][place]
        rounds = found["race"]["rounds"][name]
        assert [at["left"] for at in rounds] == left
        for at in rounds:
            assert at["rows"] == at["folds"] * ROWS // 5
            dropped += at["candidates"] - at["candidates_left"]
    assert dropped > 0


def test_the_full_search_tries_everything_on_all_folds(tmp_path: Path) -> None:
    found = select(ready(tmp_path, changed(search="full")))
    check(found)
    assert "race" not in found
    assert found["folds_tried"] == {name: [5] * len(found["psi"]) for name in ("svm", "ogd")}
    assert found["psi"] == [4, 8, 16, 32, 64, 128, 256]


def test_the_same_choice_in_one_process_and_on_two_workers(tmp_path: Path) -> None:
    expected = select(ready(tmp_path / "here"))
    with connect("local", workers=2, memory_limit="1GB") as cluster:
        ctx = ready(tmp_path / "workers")
        ctx.client = cluster.client
        assert select(ctx) == expected


@pytest.mark.parametrize(("partitioner", "every"), [("anne", 6), ("iforest", 18)])
def test_killed_after_any_task_it_goes_on_to_the_same_choice(partitioner: str, every: int, tmp_path: Path) -> None:
    """After some of them (``python -m tests.soaks.kill_search`` does it after each)."""
    assert killed_after_tasks(partitioner, tmp_path, every) > 1


def killed_after_tasks(partitioner: str, folder: Path, every: int) -> int:
    """Kill searches after some of their tasks, and see that each goes on to the same choice; return their number."""
    params = changed(partitioner=partitioner, budget=1000.0)
    ctx = ready(folder / "whole", params)
    seconds_each(ctx, 2.0)
    whole = select(ctx)
    n = len(ctx.events.tasks)  # type: ignore[attr-defined]
    assert whole["budget"] == {
        "seconds": 1000.0, "spent": 2.0 * n, "reached": False, "folds": whole["budget"]["folds"],
        "not_tried": {"svm": [], "ogd": []},
    }  # fmt: skip
    kills = range(0, n, every)
    for k in kills:
        # The same run is killed again and again, each time later; of each kill a copy goes on to the end.
        ctx = ready(folder / "killed", params)
        seconds_each(ctx, 2.0, kill_after=k)
        with pytest.raises(KeyboardInterrupt):
            select(ctx)
        shutil.copytree(folder / "killed", folder / str(k))
        again = ready(folder / str(k), params)
        seconds_each(again, 2.0)
        assert select(again) == whole  # the seconds of all count
        assert [task["skipped"] for task in again.events.tasks].count(False) == n - k  # type: ignore[attr-defined]
    return len(kills)


def test_a_budget_that_is_not_reached_changes_nothing(tmp_path: Path) -> None:
    found = []
    for budget in (None, 1e6):
        ctx = ready(tmp_path / str(budget), changed(budget=budget))
        seconds_each(ctx, 1.0)
        found.append(select(ctx))
    assert lasting(found[1]) == {**lasting(found[0]), "budget": lasting(found[1])["budget"]}
    assert not any("--budget" in line and "spent" in line for line in ctx.events.lines)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tasks", "partitioner"),
    [*((tasks, "anne") for tasks in (0, 3, 5)), *((tasks, "iforest") for tasks in (2, 4, 9))],
)
def test_a_budget_that_is_reached_takes_the_best_of_what_is_known_on_equal_terms(
    tasks: int, partitioner: str, tmp_path: Path
) -> None:
    params = changed(partitioner=partitioner, budget=tasks + 0.5)
    ctx = ready(tmp_path / "run", params)
    seconds_each(ctx, 1.0)
    search = HyperparameterSearch(Stage(ctx, "select", None, ROWS), ROWS, PreparedRows(ctx.store, "train"))
    search.run()
    found = cast("SelectResult", {**search.result(), "rows": ROWS, "folds": 5})
    check(found)
    done = len(ctx.events.tasks)  # type: ignore[attr-defined]
    assert done == max(1, tasks + 1) or not found["budget"]["reached"]
    assert found["budget"]["spent"] == done
    for name, learner in search.learners.items():
        tried = [psi for psi, folds in zip(found["psi"], found["folds_tried"][name], strict=True) if folds]
        assert tried == found["psi"]
        assert found["budget"]["not_tried"][name] == [psi for psi in learner.values if psi not in tried]
        racing = [psi for psi in learner.left if psi in tried]
        common = set.intersection(*(set(learner.scores.folds(psi)) for psi in racing))
        assert len(common) == found["budget"]["folds"][name] >= 1
        rows = {
            candidate: right.tolist()
            for candidate, right in learner.scores.on(common, racing).items()
            if candidate[1] < learner.left[candidate[0]]
        }
        assert (found["chosen"][name], learner.chosen()[1]) == naive.best(rows)
    said = [line for line in ctx.events.lines if "is spent" in line]  # type: ignore[attr-defined]
    assert len(said) == found["budget"]["reached"]
    if said and found["budget"]["not_tried"]["svm"]:
        assert "svm was chosen on 1 of 5 folds, without psi" in said[0]
    say_chosen(ctx, found)
    how = "cross-validation that --budget cut short" if said else "5-fold cross-validation"
    assert f"psi by {how}: " in ctx.events.lines[-2]  # type: ignore[attr-defined]
    assert f"C by {how}: " in ctx.events.lines[-1]  # type: ignore[attr-defined]


def test_a_resumed_search_counts_the_seconds_before(tmp_path: Path) -> None:
    params = changed(partitioner="iforest", budget=5.5)
    ctx = ready(tmp_path / "whole", params)
    seconds_each(ctx, 1.0)
    whole = select(ctx)
    assert whole["budget"]["reached"]
    ctx = ready(tmp_path / "killed", params)
    seconds_each(ctx, 1.0, kill_after=4)
    with pytest.raises(KeyboardInterrupt):
        select(ctx)
    again = ready(tmp_path / "killed", params)
    seconds_each(again, 1.0)
    assert select(again) == whole
    # Once made, the choice is kept: it stands in the manifest.
    assert again.run.stage("select")["result"] == whole  # type: ignore[index]


def test_a_budget_too_small_for_anything_is_exceeded_and_this_is_said(tmp_path: Path) -> None:
    ctx = ready(tmp_path, changed(budget=5.0))
    search = HyperparameterSearch(Stage(ctx, "select", None, ROWS), ROWS, PreparedRows(ctx.store, "train"))
    ctx.clock.now = 6.0  # type: ignore[attr-defined]
    assert not search.enough()
    search.run()
    assert search.result()["psi"] == [4]
    assert "--budget 5 s is spent, and more (6.0 s), as nothing was known before" in ctx.events.lines[-1]  # type: ignore[attr-defined]


def test_a_budget_ends_once_values_have_a_fold_in_common(tmp_path: Path) -> None:
    """Two values of which each has a score on a fold of its own cannot be compared."""
    ctx = ready(tmp_path, changed(budget=5.0, search="full", learners=("svm",)))
    search = HyperparameterSearch(Stage(ctx, "select", None, ROWS), ROWS, PreparedRows(ctx.store, "train"))
    ctx.clock.now = 6.0  # type: ignore[attr-defined]
    (learner,) = search.learners.values()
    (first, second, *_), right = learner.values, [np.ones(ROWS // 5, dtype=bool)]
    learner.scores.add(first, 0, right)
    learner.scores.add(second, 1, right)
    assert not search.enough()
    learner.scores.add(second, 0, right)
    assert search.enough()
    assert learner.chosen() == (first, 0)


def test_classifiers_are_chosen_by_log_loss_unless_asked_otherwise(tmp_path: Path) -> None:
    asked = {"psi": 16, "learners": ("svm", "logistic"), "select_by": "auto"}
    ctx = ready(tmp_path / "auto", changed(**asked))
    found = select(ctx)
    check(found)
    assert found["by"] == {"svm": "log_loss", "logistic": "log_loss"}
    assert list(entries(found)["log_loss_by_C"]) == ["svm", "logistic"]
    at_ends = {name: C for name, C in found["chosen_C"].items() if C in (found["C"][0], found["C"][-1])}
    assert {name: edge["value"] for name, (edge,) in found.get("edges", {}).items()} == at_ends
    ((by_C,), Cs) = entries(found)["log_loss_by_C"]["logistic"], found["C"]
    assert found["chosen_C"]["logistic"] == Cs[int(np.nanargmin(by_C))]
    assert any("for logistic by log loss" in line for line in ctx.events.lines)  # type: ignore[attr-defined]
    one_for_all = select(ready(tmp_path / "all", changed(**{**asked, "select_by": "accuracy"})))
    assert one_for_all["by"] == "accuracy"
    assert list(entries(one_for_all)["accuracy_by_C"]) == ["svm", "logistic"]


def sleepy(seconds: float) -> TaskRecord:
    import time

    time.sleep(seconds)
    return {}


def test_tasks_that_run_when_enough_is_known_are_given_up(tmp_path: Path) -> None:  # noqa: ARG001
    """What a budget does to a task that takes for ever: its worker is started anew, and can be used."""
    with connect("local", workers=1, memory_limit="1GB") as cluster:
        done: list[str] = []
        tasks = [Task("short", (0.0,)), Task("long", (3600.0,)), Task("later", (0.0,))]
        for task, _ in engine.run_tasks(cluster.client, "select-00000000", sleepy, tasks, lambda: bool(done)):
            done.append(task.name)
        assert done == ["short"]
        assert list(engine.run_tasks(cluster.client, "select-00000000", sleepy, tasks, lambda: True)) == []
        assert cluster.client.submit(abs, -1, pure=False).result(timeout=60) == 1


def test_what_is_tried_and_the_best_so_far_are_said_from_the_first_task_on(tmp_path: Path) -> None:
    ctx = ready(tmp_path)
    seconds_each(ctx, 2.0)
    found = select(ctx)
    heard: Heard = ctx.events  # type: ignore[assignment]
    assert heard.lines[0].startswith(
        "select: tries psi 4 to 256 and C 0.03125 to 2048 for svm; psi 4 to 256 for ogd on 400 rows in 5 folds"
    )
    first = heard.tasks[0]
    assert first["note"].startswith("psi 4 on fold 1 of 5 done; best so far psi 4, C ")
    assert "+-" in first["note"]
    assert heard.tasks[1]["note"].startswith("psi 8 to 256 on fold 1 of 5 done; best so far")
    assert [task["left"] > 0 for task in heard.tasks] == [True] * (len(heard.tasks) - 1) + [False]
    svm = found["race"]["rounds"]["svm"][0]
    psis = ", ".join(map(str, svm["left"])) if len(svm["left"]) < 5 else f"{svm['left'][0]} to {svm['left'][-1]}"
    assert f"select: after 1 of 5 folds {len(svm['left'])} of 7 psi left for svm ({psis})" in heard.lines


def test_a_log_says_the_first_that_is_known_at_once() -> None:
    import io

    stream, clock = io.StringIO(), Clock()
    log = LogProgress(stream, every=5.0, clock=clock)
    log.stage_started("select", None, 100)
    for k in range(3):
        clock.now += 1
        log.task_done("select", {"note": f"best {k}", "left": 30.0 - k})
    clock.now += 4
    log.task_done("select", {"note": "best 3", "left": 7.0})
    lines = [line.partition(" ")[2] for line in stream.getvalue().splitlines()]
    assert lines[1:] == ["select: 1 task, 30.0 s left, best 0", "select: 4 tasks, 7.00 s left, best 3"]
    assert log.stages["select"].seconds_left(clock.now + 3) == 4.0


def test_a_budget_is_part_of_what_a_run_is() -> None:
    from flows.runs.batch import batch_params

    assert batch_params(BatchOptions(budget=60.0)).as_json()["budget"] == 60.0
    assert batch_params(BatchOptions()).as_json()["search"] == "race"


def test_learners_with_the_same_decisions_are_searched_once(tmp_path: Path) -> None:
    class Same(OGD):
        about: ClassVar[LearnerAbout] = LearnerAbout(name="same", title="the same", equivalent_to="ogd")

    with registered(Same):
        ctx = ready(tmp_path, changed(learners=("same", "ogd")), classes=2)
        seconds_each(ctx, 1.0)
        found = select(ctx)
    assert found["chosen"]["same"] == found["chosen"]["ogd"]
    assert list(entries(found)["accuracy"]) == ["ogd"]
    assert np.isfinite(entries(found)["accuracy"]["ogd"]).all()


def test_a_race_goes_by_so_many_partitionings_and_says_so(tmp_path: Path) -> None:
    few, many = (changed(t=t, learners=("svm",), psi=4) for t in (MOST_PARTITIONINGS, MOST_PARTITIONINGS + 1))
    contexts = [ready(tmp_path / str(params.map.t), params) for params in (few, many)]
    whole, part = (select(ctx) for ctx in contexts)
    assert part == {**whole, "partitionings": MOST_PARTITIONINGS}
    check(part)
    lines = cast("Heard", contexts[1].events).lines
    assert (
        f"select: compares candidates with {MOST_PARTITIONINGS} of the {MOST_PARTITIONINGS + 1} partitionings"
        in " ".join(lines)
    )
    assert "partitionings" not in " ".join(cast("Heard", contexts[0].events).lines)
    full = params_for(**{**ASKED, "t": MOST_PARTITIONINGS + 1, "learners": ("svm",), "psi": 4, "search": "full"})
    assert map_to_search(full) == full.map
