"""What a cluster shows of runs of every kind: names of tasks, figures for Prometheus, and graphs that stay small."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import dask
import numpy as np
import pytest
from dask.utils import key_split
from distributed import Client

import cluster.targets
from cluster import ClusterHandle, certificates, connect
from cluster.targets import targets
from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.score import ScoreOptions
from flows.runs import batch as run_batch
from flows.runs import online as run_online
from flows.runs import score as run_score
from ikmap.methods import LEARNERS
from ikmap.model import Model
from pipeline.errors import ClusterLost
from pipeline.monitoring.events import QuietProgress
from pipeline.monitoring.process_metrics import COUNTED, STAGES, ProcessMetrics
from pipeline.record_types import StageProgress
from pipeline.running.scheduler_metrics import TOPIC, ReportedEvents, StageMetrics, reported_to_scheduler
from pipeline.running.stage import stage_label
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, load_model
from pipeline.storage.rundir import read_manifest
from pipeline.storage.store import Store
from tests import ROOT
from tests.support.narrow import address_of

prometheus_client = pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

MANY_BYTES = 10**5
"""Nothing in a graph may be larger; every model and every table of weights of these runs is."""
ROWS, COLUMNS, CLASSES, T, PSI = 2000, 150, 16, 20, 512

COMMON = ["--t", str(T), "--psi", str(PSI)]
BATCH = {
    "memory": [*COMMON, "--C", "1", "--solver", "memory", "--learner", "svm,ogd,isolation-svm,kernel-svm,kernel-ogd"],
    "block": [*COMMON, "--C", "1", "--solver", "block", "--learner", "svm"],
    "distributed": [*COMMON, "--C", "1", "--solver", "distributed", "--parts", "3", "--learner", "svm,logistic"],
    "select": ["--t", "3", "--psi", "auto", "--learner", "ogd,kernel-ogd", "--cv-rows", "1000"],
}


@dataclass
class Watched:
    """Runs on one cluster, and what was seen of them."""

    cluster: ClusterHandle
    certificates: str
    runs: dict[str, Path] = field(default_factory=dict)
    prefixes: dict[str, set[str]] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)
    scored: dict[str, dict[str, Any]] = field(default_factory=dict)
    earlier: dict[str, dict[str, float]] = field(default_factory=dict)

    def stages(self) -> list[dict[str, Any]]:
        """Records of all stages of all runs."""
        metrics = [json.loads((path / "metrics.json").read_text()) for path in self.runs.values()]
        return [stage for found in (*metrics, *self.scored.values()) for stage in found["stages"]]

    def samples(self, process: str) -> list[list[Any]]:
        """Samples of the pages of metrics of all processes of a kind, where Prometheus is told to look for them."""
        groups = [group for group in targets(self.cluster)[0] if group["labels"]["process"] == process]
        places = [f"{target}{group['labels']['__metrics_path__']}" for group in groups for target in group["targets"]]
        found = []
        for place in places:
            with urlopen(f"http://{place}", timeout=60) as answer:
                families = text_string_to_metric_families(answer.read().decode())
                found.append([sample for family in families for sample in family.samples])
        return found

    def pages(self, process: str) -> list[dict[str, dict[str, float]]]:
        """The same by name and value of the label."""
        found: list[dict[str, dict[str, float]]] = []
        for samples in self.samples(process):
            found.append(defaultdict(dict))
            for sample in samples:
                found[-1][sample.name][",".join(sample.labels.values())] = sample.value
        return found


def known_prefixes(client: Client) -> set[str]:
    """Groups of tasks on the dashboard."""
    return set(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes)))


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    rng = np.random.default_rng(0)
    y = np.arange(ROWS) % CLASSES
    X = rng.normal(size=(CLASSES, COLUMNS))[y] + rng.normal(size=(ROWS, COLUMNS))
    np.save(folder / "rows.npy", np.column_stack([X, y]))
    given = ["--input", str(folder / "rows.npy")]
    certificates.write(folder / "tls", certificates.temporary())
    tls = f"tls={folder / 'tls'}"
    with (
        connect("local", workers=2, memory_limit="1.5GB", options=[tls]) as handle,
        dask.config.set({"distributed.admin.large-graph-warning-threshold": MANY_BYTES}),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        found = Watched(handle, tls)
        (found.earlier,) = found.pages("scheduler")  # it is in this process, which other tests have counted in before
        on = ["--cluster", address_of(handle), "--cluster-option", tls]
        before: set[str] = set()

        def seen(name: str) -> None:
            nonlocal before
            now = known_prefixes(handle.client)
            found.prefixes[name], before = now - before, now

        for name, more in BATCH.items():
            found.runs[name] = folder / name
            options = BatchOptions.parse([*given, *on, *more, "--run-dir", str(folder / name)])
            run_batch.run(options, events=QuietProgress())
            seen(name)
        found.runs["online"] = folder / "online"
        online = ["--learner", "ogd,kernel-ogd", "--initial", "1000", "--run-dir", str(folder / "online")]
        run_online.run(OnlineOptions.parse([*given, *on, *COMMON, *online]), events=QuietProgress())
        seen("online")
        for learner in ("svm", "kernel-svm"):
            scored = ["--model", str(folder / "memory"), "--learner", learner, "--output", str(folder / learner)]
            found.scored[learner] = run_score.run(ScoreOptions.parse([*given, *on, *scored]), events=QuietProgress())
        seen("score")
        found.warned = [str(warning.message) for warning in caught if "graph" in str(warning.message)]
        yield found


def nbytes_of_models(path: Path, learners: tuple[str, ...]) -> dict[str, int]:
    """Bytes of the partitionings of a run, and of the models of some learners."""
    store = Store(path / "store.zarr")
    fitted = read_manifest(path)["stages"]["partition"]["result"]["fitted"]
    found = {"partitions": Fitted(**fitted[0]).load(store).nbytes}
    return found | {name: load_model(store, f"{MODELS}/{name}", Model).nbytes for name in learners}


def test_nothing_large_is_in_a_graph(watched: Watched) -> None:
    """Neither models nor weights nor rows nor cells, all of which are larger here than what Dask is told to warn of."""
    large = {"rows": ROWS * COLUMNS * 8, "cells": ROWS * T * 4}
    large |= nbytes_of_models(watched.runs["memory"], ("svm", "ogd", "kernel-svm", "isolation-svm"))
    assert min(large.values()) > MANY_BYTES, large
    assert min(nbytes_of_models(watched.runs["online"], ("ogd",)).values()) > MANY_BYTES
    assert min(nbytes_of_models(watched.runs["distributed"], ("svm", "logistic")).values()) > MANY_BYTES
    assert watched.warned == []


def test_dask_would_have_warned(watched: Watched) -> None:
    """What is a little too large is found by the same setting."""
    rows = np.zeros(MANY_BYTES + 1000, dtype=np.uint8)
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": MANY_BYTES}):
        with pytest.warns(UserWarning, match="Sending large graph of size"):
            watched.cluster.client.submit(len, rows, key="large-1").result()
        watched.cluster.client.submit(len, rows[:1000], key="small-1").result()


def test_the_dashboard_groups_tasks_by_stage(watched: Watched) -> None:
    earlier: set[str] = set()
    for name, path in watched.runs.items():
        stages = json.loads((path / "metrics.json").read_text())["stages"]
        now = {stage_label(stage["name"]) for stage in stages}
        # Beside the stages, loops may have had to be compiled.
        assert watched.prefixes[name] - {"compile"} == now - earlier
        earlier |= now
    assert watched.prefixes["score"] - {"compile"} == {"score"}
    assert watched.prefixes["memory"] >= {"ingest", "partition", "cells", "train_isolation-svm", "evaluate_kernel-svm"}
    assert watched.prefixes["online"] - {"compile"} == {"shuffle", "stream"}
    assert "select" in watched.prefixes["select"]


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("number", ["abcdefab", "01234567", "deadbeef", "00000000"])
def test_any_learner_and_any_run_make_a_group(learner: str, number: str) -> None:
    """Dask takes words for a part of the name, but not eight hexadecimal digits."""
    label = stage_label(f"train:{learner}")
    assert key_split(f"{label}-{number}-classes-000-0123") == label
    assert key_split(f"{label}-{number}-train-anne-psi-8-000000-0123") == label


def test_the_scheduler_knows_rows_and_bytes_of_every_stage(watched: Watched) -> None:
    (page,) = watched.pages("scheduler")
    for name in (*COUNTED, "tasks", "seconds"):
        before = watched.earlier.get(f"ikmap_stage_{name}_total", {})
        counted = {label: value - before.get(label, 0.0) for label, value in page[f"ikmap_stage_{name}_total"].items()}
        here = {stage_label(stage["name"]) for stage in watched.stages()}
        page[f"ikmap_stage_{name}_total"] = {label: value for label, value in counted.items() if value or label in here}
    for name in (*COUNTED, "tasks"):
        expected: dict[str, float] = defaultdict(float)
        for stage in watched.stages():
            expected[stage_label(stage["name"])] += stage[name]
        found = page[f"ikmap_stage_{name}_total"]
        if name == "tasks":  # a round of the distributed solver is told of as a task, and not kept as a record
            for label in ("train_svm", "train_logistic"):
                assert found.pop(label) > expected.pop(label)
        assert found == expected
    seconds = page["ikmap_stage_seconds_total"]
    assert seconds.keys() == page["ikmap_stage_rows_total"].keys()
    for label, total in seconds.items():
        told = sum(stage["seconds"] for stage in watched.stages() if stage_label(stage["name"]) == label)
        assert 0.5 * told - 0.1 < total < 2 * told + 1, label
    assert set(page["ikmap_stage_running"].values()) == set(page["ikmap_stage_tasks_expected"].values()) == {0}


def test_workers_know_what_they_did(watched: Watched) -> None:
    pages = watched.pages("worker")
    assert len(pages) == 2
    total = sum(page["ikmap_worker_tasks_total"].get("cells", 0) for page in pages)
    assert total == sum(stage["tasks"] for stage in watched.stages() if stage["name"] == "cells")
    for name in COUNTED:
        for label in ("ingest", "partition", "cells", "evaluate_svm", "score"):
            found = sum(page[f"ikmap_worker_{name}_total"].get(label, 0) for page in pages)
            parts = [stage[name] for stage in watched.stages() if stage_label(stage["name"]) == label]
            if (label, name) == ("score", "bytes_written"):  # the client joins the parts that they wrote
                assert 0 < found <= sum(parts)
            else:
                assert found == sum(parts), (label, name)
    for page in pages:
        assert set(page["ikmap_worker_running"].values()) == {0}
        assert sum(page["ikmap_worker_busy_seconds_total"].values()) > 0


def test_a_worker_reads_a_model_once_a_command(watched: Watched) -> None:
    """What another command has read may still be there, or may have made room for other models."""
    commands: Counter[str] = Counter()
    for run, path in watched.runs.items():
        times = 1 + (len(watched.scored) if run == "memory" else 0)
        for kind in ("partitions", "models"):
            names = [entry.name for entry in (path / "store.zarr" / kind).iterdir() if entry.is_dir()]
            commands.update({f"{kind}/{name}": times for name in names})
    reads: dict[str, float] = defaultdict(float)
    for page in watched.pages("worker"):
        for name, count in page["ikmap_worker_models_read_total"].items():
            reads[name] += count
            assert page["ikmap_worker_models_read_bytes_total"][name] > 0
            assert count <= commands[name] + 1, name  # in a command of many models too, one may have made room
    assert any(name.startswith("partitions/") for name in reads)
    assert any(name.startswith("models/") for name in reads)


# --- the files for Prometheus and Grafana

QUERY_WORDS = {"sum", "rate", "max", "increase"}


def queries(dashboard: dict[str, Any]) -> list[str]:
    """All expressions of a Grafana dashboard."""
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def test_the_grafana_dashboard_asks_for_what_there_is(watched: Watched) -> None:
    """Every name in its queries is that of a metric, and sums are by labels that this metric has."""
    dashboard = json.loads((ROOT / "cluster" / "monitoring" / "grafana.json").read_text())
    labels: dict[str, set[str]] = defaultdict(lambda: {"instance"})  # which Prometheus adds
    for page in (*watched.samples("scheduler"), *watched.samples("worker")):
        for sample in page:
            labels[sample.name] |= set(sample.labels)
    asked: set[str] = set()
    for query in queries(dashboard):
        plain = re.sub(r"\[[^\]]*\]|\bby *\([^)]*\)", " ", query)
        names = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", plain)) - QUERY_WORDS
        assert names
        assert names <= labels.keys(), query
        for by in re.findall(r"\bby *\(([^)]*)\)", query):
            assert all({label.strip() for label in by.split(",")} <= labels[name] for name in names), query
        asked |= names
    ours = {name for name in labels if name.startswith("ikmap_") and not name.endswith("_created")}
    assert ours <= asked
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) > 5


def test_targets_of_a_scheduler_are_printed(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster.targets.main([address_of(watched.cluster), watched.certificates]) == 0
    assert json.loads(capsys.readouterr().out) == targets(watched.cluster)[0]
    assert cluster.targets.main([]) == 2
    assert cluster.targets.main(["nowhere"]) == 2
    assert capsys.readouterr().err.splitlines()[1].startswith("cluster.targets: --cluster: found 'nowhere'")


# --- the parts


def told(figures: dict[str, Any]) -> dict[str, Any]:
    zeros = dict.fromkeys((*STAGES.counters, *STAGES.gauges), 0)
    return {**zeros, "token": "t-1", "client": "c-1", "stage": "test_stage", "running": 1, **figures}


def growth(before: dict[str, float], name: str) -> float:
    return STAGES.of(name).get("test_stage", 0.0) - before[name]


@pytest.fixture
def before() -> dict[str, float]:
    return {name: STAGES.of(name).get("test_stage", 0.0) for name in (*STAGES.counters, *STAGES.gauges)}


def test_what_is_told_again_is_not_counted_again(before: dict[str, float]) -> None:
    plugin = StageMetrics()
    for rows, running in ((10, 1), (10, 1), (25, 1), (30, 0)):
        plugin.log_event(TOPIC, told({"rows": rows, "running": running, "tasks_expected": 7 * running}))
        assert growth(before, "rows") == rows
        assert growth(before, "running") == running
        assert growth(before, "tasks_expected") == 7 * running
    plugin.log_event("another topic", told({"rows": 1000}))
    plugin.log_event(TOPIC, told({"token": "t-2", "rows": 5, "running": 0}))
    assert growth(before, "rows") == 35


def test_a_client_that_is_gone_is_in_no_stage(before: dict[str, float]) -> None:
    plugin: Any = StageMetrics()
    plugin.log_event(TOPIC, told({"rows": 3, "tasks_expected": 9}))
    plugin.log_event(TOPIC, told({"token": "t-2", "client": "c-2"}))
    plugin.remove_client(None, "c-1")
    plugin.remove_client(None, "c-1")
    assert growth(before, "running") == 1
    assert growth(before, "rows") == 3
    plugin.remove_client(None, "c-2")
    assert growth(before, "running") == growth(before, "tasks_expected") == 0


class Wire:
    """A client that keeps what is told."""

    id = "c-1"
    scheduler: str | None = "tcp://a:1"

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def log_event(self, topic: str, message: dict[str, Any]) -> None:
        assert topic == TOPIC
        self.said.append(dict(message))


class Heard(QuietProgress):
    """Events that note their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        self.calls.append(("started", (name, total_tasks, total_rows)))

    def task_done(self, name: str, record: Any) -> None:
        self.calls.append(("task", (name, dict(record))))

    def stage_finished(self, name: str, summary: Any) -> None:
        self.calls.append(("finished", (name, dict(summary))))

    def message(self, text: str) -> None:
        self.calls.append(("message", text))


def test_events_reach_their_listener_and_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.running.scheduler_metrics.TELL_SECONDS", 0.0)
    wire, heard = Wire(), Heard()
    summary: StageProgress = {
        "rows": 30,
        "bytes_read": 300,
        "bytes_written": 3,
        "tasks": 3,
        "tasks_skipped": 1,
        "seconds": 8.0,
        "seconds_before": 6.5,
    }
    with ReportedEvents(wire, heard) as events:  # type: ignore[arg-type]
        events.stage_started("train:svm", 3, 30)
        events.task_done("train:svm", {"rows": 10, "bytes_read": 100, "skipped": True})
        events.task_done("train:svm", {"bytes_read": 80})
        events.task_done("train:svm", {"bytes_read": 80, "skipped": False})
        events.message("a line")
        events.stage_finished("train:svm", summary)
        events.stage_started("cells", 2, None)
        events.task_done("unknown", {"rows": 1})
    assert [kind for kind, _ in heard.calls] == ["started", *["task"] * 3, "message", "finished", "started", "task"]
    assert heard.calls[5] == ("finished", ("train:svm", summary))
    assert [said["rows"] for said in wire.said[:5]] == [0, 0, 0, 0, 20]
    assert [said["bytes_read"] for said in wire.said[:5]] == [0, 0, 80, 160, 200]
    last = wire.said[4]
    assert last["seconds"] == 1.5  # as its rows, those of this process
    assert (last["stage"], last["tasks"], last["tasks_skipped"]) == ("train_svm", 2, 1)
    assert (last["running"], last["tasks_expected"], wire.said[3]["tasks_expected"]) == (0, 0, 3)
    # The stage that nobody finished ends as the events do.
    assert [(said["stage"], said["running"]) for said in wire.said[5:]] == [("cells", 1), ("cells", 0)]
    assert len({said["token"] for said in wire.said}) == 2


def test_a_scheduler_that_is_lost_is_not_told_of_it() -> None:
    wire = Wire()
    with pytest.raises(ClusterLost), ReportedEvents(wire, Heard()) as events:  # type: ignore[arg-type]  # noqa: PT012
        events.stage_started("cells", 2, None)
        raise ClusterLost("the scheduler is gone")
    assert [said["running"] for said in wire.said] == [1]
    wire.scheduler = None  # Dask has closed the client
    with ReportedEvents(wire, Heard()) as events:  # type: ignore[arg-type]
        events.stage_started("cells", 2, None)
    assert len(wire.said) == 1


def test_the_scheduler_is_not_told_of_every_task() -> None:
    wire = Wire()
    with ReportedEvents(wire, QuietProgress()) as events:  # type: ignore[arg-type]
        events.stage_started("cells", 1000)
        for _ in range(1000):
            events.task_done("cells", {"rows": 1})
        events.stage_finished("cells", {"rows": 1000, "tasks": 1000, "tasks_skipped": 0})
    assert len(wire.said) < 500  # two, and one for each half second
    assert wire.said[-1]["rows"] == wire.said[-1]["tasks"] == 1000


def test_a_stage_that_is_called_again_is_running_once(before: dict[str, float]) -> None:
    wire, plugin = Wire(), StageMetrics()
    with ReportedEvents(wire, QuietProgress()) as events:  # type: ignore[arg-type]
        for _ in range(2):  # the first attempt ends in an error
            events.stage_started("test:stage", 9)
        for said in wire.said:
            plugin.log_event(TOPIC, said)
        assert growth(before, "running") == 1
        assert growth(before, "tasks_expected") == 9
    plugin.log_event(TOPIC, wire.said[-1])
    assert growth(before, "running") == growth(before, "tasks_expected") == 0


def test_seconds_of_a_stage_never_go_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling is left out: of that which still went on, it is known later, when it has been told of already."""
    monkeypatch.setattr("pipeline.running.scheduler_metrics.TELL_SECONDS", 0.0)
    wire = Wire()
    with ReportedEvents(wire, QuietProgress()) as events:  # type: ignore[arg-type]
        events.stage_started("cells", 1)
        events.task_done("cells", {"rows": 1})
        events.task_done("cells", {"rows": 1, "compile_seconds": 1000.0})
        events.stage_finished("cells", {"rows": 1, "tasks": 1, "tasks_skipped": 0, "seconds": 0.0})
        events.stage_started("ingest", 1)
        events.task_done("ingest", {"rows": 1, "compile_seconds": 1000.0})
    seconds = [said["seconds"] for said in wire.said if said["stage"] == "cells"]
    assert seconds == sorted(seconds)
    assert seconds[-1] == seconds[1] > 0.0
    assert {said["seconds"] for said in wire.said if said["stage"] == "ingest"} == {wire.said[4]["seconds"]}


def test_a_stage_found_done_counts_no_rows() -> None:
    wire = Wire()
    with ReportedEvents(wire, QuietProgress()) as events:  # type: ignore[arg-type]
        events.stage_started("train:svm", 1, 100)
        events.task_done("train:svm", {"skipped": True})
        events.stage_finished("train:svm", {"rows": 100, "tasks": 1, "tasks_skipped": 1})
    assert wire.said[-1]["rows"] == 0
    assert wire.said[-1]["tasks_skipped"] == 1


def test_a_scheduler_without_plugins_is_no_obstacle() -> None:
    class Refusing(Wire):
        def register_plugin(self, plugin: Any) -> None:  # noqa: ARG002
            raise ValueError("Cannot register a scheduler plugin\nhere")

    heard, wire = Heard(), Refusing()
    with reported_to_scheduler(wire, heard) as events:  # type: ignore[arg-type]
        assert events is heard
    assert heard.calls == [
        ("message", "the scheduler will show no stages in its metrics: Cannot register a scheduler plugin here")
    ]


def test_figures_are_shown_once_and_only_grow() -> None:
    figures = ProcessMetrics("ikmap_test_figures", "stage", {"things": "Things done"}, {"now": "Things at work"})
    figures.expose()
    figures.expose()
    try:
        figures.add("a", things=2, now=1)
        figures.add("a", things=3, now=-1)
        text = prometheus_client.generate_latest().decode()
        assert 'ikmap_test_figures_things_total{stage="a"} 5.0' in text
        assert 'ikmap_test_figures_now{stage="a"} 0.0' in text
    finally:
        prometheus_client.REGISTRY.unregister(figures)


def test_without_the_package_nothing_is_shown_and_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    figures = ProcessMetrics("ikmap_test_absent", "stage", {"things": "Things done"}, {})
    figures.expose()
    figures.add("a", things=1)
    assert figures.of("things") == {"a": 1}
