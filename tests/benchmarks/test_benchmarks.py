"""The benchmarks at sizes that take no time: do the sides do the same work, do the tables say what was measured?"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks import NAMES, environment, libsvm_text, linear_svm, markdown, memory, peers, records, runner
from benchmarks import pipeline as pipeline_benchmark
from benchmarks import scaling as scaling_benchmark
from benchmarks.data import load
from benchmarks.harness import (
    Case,
    Comparison,
    Disagreement,
    Options,
    Row,
    Side,
    as_json,
    compare,
    interleave,
    measure_memory,
    options_from_json,
)  # fmt: skip
from flows.options.batch import BatchOptions
from ikmap import CellSVC, IsolationKernelMap
from pipeline.sources.datasets.known import default_data_dir
from tests import ROOT
from tests.support.papers import with_papers

pytestmark = pytest.mark.slow

OPTIONS = Options(repeats=1, quick=True, datasets=("digits",), threads=1, limit=4.5)
"""Options that no other file of tests has, as the benchmarks remember what they read by these."""
LARGE = replace(OPTIONS, quick=False)
COMPARED = ("voronoi", "iforest", "linear_svm", "ogd", "libsvm_text")


@pytest.fixture(scope="module", autouse=True)
def _few_rows() -> Iterator[None]:
    """Read so many rows as show that the sides agree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.data.QUICK_ROWS", 600)
        yield


def compared_cases() -> list[Any]:
    cases = [(name, case) for name in COMPARED for case in import_module(f"benchmarks.{name}").cases(OPTIONS)]
    # digits come as CSV, which is no LIBSVM text; of the many problems of the svm, one for each loss and solver.
    kept = [
        (name, case)
        for name, case in cases
        if (name != "libsvm_text" or case.name == libsvm_text.GENERATED)
        and (name != "linear_svm" or "C = 0.1," in case.name)
    ]
    return [pytest.param(case, id=f"{name}: {case.name}") for name, case in kept]


@pytest.mark.parametrize("case", compared_cases())
def test_both_sides_do_the_same_work(case: Case) -> None:
    assert case.comparison is not None
    work = case.comparison()
    results = {}
    for side in (work.ours, *work.peers):
        if side.work is not None:
            assert side.calibrate is None or side.calibrate() is not None
            results[side.name] = side.work()
    assert isinstance(work.check(results), str)
    assert work.bound is not None
    assert len(work.bound(0.1)) > 20
    # The check must see a side that does other work.
    results["ours"] = spoiled(results["ours"])
    with pytest.raises(Disagreement):
        work.check(results)
    if missing := [side.missing for side in work.peers if side.work is None]:
        pytest.skip(f"only part was compared: {', '.join(missing)} not installed (make bench)")


def spoiled(result: Any) -> Any:
    """The same result, but wrong."""
    match result:
        case np.ndarray():
            return result + 1
        case [*parts]:
            return (
                [spoiled(parts[0]), *parts[1:]] if hasattr(parts[0], "indices") else [spoiled(part) for part in parts]
            )
        case _ if hasattr(result, "coef"):
            result.coef[:] += 1
            return result
    return result * 2.0


@with_papers
def test_sweeps_and_what_is_written_with_numpy_agree() -> None:
    options = replace(OPTIONS, datasets=(), data_dir=default_data_dir())
    if not (options.data_dir / "cpu_act.csv.gz").exists():
        pytest.skip("needs cpu_act in the data directory")
    for case in import_module("benchmarks.sweep").cases(options):
        if case.comparison is None:
            assert case.rows is not None
            for row in case.rows():
                assert row.value is not None
                assert row.value > 0
            continue
        work = case.comparison()
        results = {side.name: side.work() for side in (work.ours, *work.peers) if side.work is not None}
        assert isinstance(work.check(results), str)
        first = next(iter(results))
        results[first] = spoiled(results[first])
        with pytest.raises(Disagreement):
            work.check(results)


def test_solvers_end_with_the_same_objective() -> None:
    for case in list(import_module("benchmarks.solvers").cases(OPTIONS))[:2]:
        assert case.rows is not None
        rows = case.rows()
        assert rows[0].against == "block minimisation"
        assert all(row.reached for row in rows if row.value is not None)


def pretend_to_run(monkeypatch: pytest.MonkeyPatch, metrics: dict[str, Any]) -> list[BatchOptions]:
    """In place of running the pipeline: check its command line, leave these metrics behind."""
    asked = []

    def run(command: list[str], **_: Any) -> None:
        assert command[1:3] == ["-m", "flows.batch"]
        asked.append(BatchOptions.parse(command[3:]))
        assert asked[-1].run_dir is not None
        Path(asked[-1].run_dir).mkdir()
        (Path(asked[-1].run_dir) / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_pipeline_against_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, X_test, y_test = (getattr(load("digits", LARGE), name) for name in ("X", "y", "X_test", "y_test"))
    isolation = IsolationKernelMap("iforest", 100, 16, random_state=0).fit(X)
    svm = CellSVC(C=5.0).fit(isolation.transform(X), y)
    accuracy = float(np.mean(svm.predict(isolation.transform(X_test)) == y_test))
    metrics = {
        "run": {"seconds": 10.0},
        "stages": [{"name": "cells", "seconds": 9.0}],
        "learners": {"svm": {"accuracy": accuracy}, "ogd": {"accuracy": 0.0}},
    }
    asked = pretend_to_run(monkeypatch, metrics)
    (row,) = pipeline_benchmark.whole_against_kernels("case", "digits", "iforest", 16, 100, LARGE)
    assert (asked[-1].dataset, asked[-1].partitioner, asked[-1].psi, asked[-1].workers) == ("digits", "iforest", 16, 1)
    assert row.ours == [10.0]
    assert row.value == pytest.approx(10.0 / row.theirs[0])
    assert row.notes[0] == f"accuracy {accuracy:.4f} and {accuracy:.4f}"
    metrics["learners"]["svm"]["accuracy"] -= 0.02  # type: ignore[index]
    with pytest.raises(Disagreement, match="accuracy"):
        pipeline_benchmark.whole_against_kernels("case", "digits", "iforest", 16, 100, LARGE)


def test_scaling_generates_the_same_rows_whatever_their_number(tmp_path: Path) -> None:
    for n in (1000, 3000):
        scaling_benchmark.generate(tmp_path / f"{n}.npy", n)
    small, large = (np.load(tmp_path / f"{n}.npy") for n in (1000, 3000))
    assert large.shape == (3000, 21)
    np.testing.assert_array_equal(np.unique(large[:, -1]), [0, 1])
    assert 0.2 < large[:, -1].mean() < 0.8
    np.testing.assert_array_equal(small.shape, (1000, 21))


def test_scaling_compares_time_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    run = {"seconds": 8.0, "client_peak_rss_bytes": 1 << 20}
    stage = {"name": "cells", "seconds": 7.0, "peak_rss_bytes": 100}
    metrics = {"run": run, "stages": [stage], "learners": {"ogd": {"accuracy": 0.9}}}
    asked = pretend_to_run(monkeypatch, metrics)
    time_row, memory_row = scaling_benchmark.small_against_large("x", 1000, OPTIONS)
    assert [Path(options.input or "").name for options in asked] == ["1000.npy", "8000.npy"]
    assert time_row.value == 0.0  # both took 8 seconds
    assert time_row.reached
    assert memory_row.value == 1.0


def test_one_worker_and_two_store_the_same_cells() -> None:
    (case,) = import_module("benchmarks.workers").cases(OPTIONS)
    assert case.rows is not None
    first, again = case.rows()
    for row in (first, again):
        assert row.value == row.theirs[0] / row.ours[0]
        assert (len(row.ours), len(row.theirs), row.target, row.relation) == (1, 1, 1.7, ">=")
    assert any(note.startswith("the mapping alone") for note in first.notes)


def test_tls_is_measured_beside_none() -> None:
    running, starting = import_module("benchmarks.tls").cases(OPTIONS)
    assert running.rows is not None
    assert starting.rows is not None
    for row in (*running.rows(), *starting.rows()):
        assert row.value == row.ours[0] / row.theirs[0]
        assert (len(row.ours), len(row.theirs), row.relation) == (1, 1, "<=")


def test_a_model_in_the_store_passes_by_the_client() -> None:
    (case,) = import_module("benchmarks.models").cases(OPTIONS)
    assert case.rows is not None
    row, peer = case.rows()
    assert row.ours_bytes is not None
    assert row.theirs_bytes is not None
    assert peer.theirs_bytes is not None
    assert row.ours_bytes < 2 << 20 <= row.theirs_bytes <= peer.theirs_bytes
    assert row.reached


# The seam.


def side(name: str, calls: list[str], *, seconds: float = 0.0, target: float | None = None) -> Side:
    def work() -> str:
        calls.append(name)
        time.sleep(seconds)
        return name

    return Side(name, work, target=target)


def test_sides_take_turns() -> None:
    calls: list[str] = []
    seconds, results = interleave([side("a", calls), side("b", calls)], 3, 60.0)
    assert calls == ["a", "b"] * 3
    assert [len(runs) for runs in seconds.values()] == [3, 3]
    assert results == {"a": "a", "b": "b"}


def test_a_slow_side_is_not_run_again() -> None:
    calls: list[str] = []
    seconds, _ = interleave([side("a", calls), side("b", calls, seconds=0.05)], 4, 0.08)
    assert (len(seconds["a"]), len(seconds["b"])) == (4, 1)


def test_rows_say_what_was_measured() -> None:
    calls: list[str] = []
    ours, peer = side("ours", calls), side("peer", calls, seconds=0.02, target=1.0)
    said: list[str] = []

    def check(results: dict[str, Any]) -> str:
        said.extend(results)
        return "equal"

    absent = Side.absent("other", "otherpackage", target=2.0)
    case = Case("work", lambda: Comparison(ours, [peer, absent], check, bound=lambda _: "memory"))
    first, second = compare("none", case, Options(repeats=2))
    assert said == ["ours", "peer"]
    assert first.reached
    assert first.value == pytest.approx(np.median(first.theirs) / np.median(first.ours))
    assert first.notes == ["equal"]
    assert second.reached is None
    assert second.notes == ["otherpackage is not installed"]


def test_a_missed_target_says_what_bounds_us() -> None:
    calls: list[str] = []
    ours, peer = side("ours", calls, seconds=0.02), side("peer", calls, target=100.0)
    (row,) = compare(
        "none", Case("work", lambda: Comparison(ours, [peer], lambda _: "", bound=lambda _: "light")), OPTIONS
    )
    assert row.reached is False
    assert row.notes == ["bound: light"]


@pytest.mark.parametrize(
    ("values", "reached"),
    [
        ({"value": 4.0, "target": 4.0}, True),
        ({"value": 3.9, "target": 4.0}, False),
        ({"value": 1.1, "target": 1.2, "relation": "<="}, True),
        ({"value": 1.3, "target": 1.2, "relation": "<="}, False),
        ({"value": 5.0, "target": 4.0, "ours_bytes": 10, "theirs_bytes": 90, "memory_target": 10.0}, False),
        ({"value": 5.0, "target": 4.0, "ours_bytes": 10, "theirs_bytes": 100, "memory_target": 10.0}, True),
        ({"target": 4.0}, None),
        ({"value": 4.0}, None),
    ],
)
def test_targets(values: dict[str, Any], reached: bool | None) -> None:
    assert Row("work", "peer", **values).reached is reached


def test_options_survive_the_way_to_another_process() -> None:
    assert options_from_json(json.loads(json.dumps(as_json(OPTIONS)))) == OPTIONS


def test_memory_is_what_the_work_adds() -> None:
    held = np.ones(1 << 23)
    grown = memory.growth(lambda: np.ones(1 << 23))  # 64 MiB, and what is held already does not count
    assert held.nbytes <= grown < held.nbytes + (16 << 20)


def test_memory_of_a_side_is_what_the_command_for_it_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command is run here: to import all that it needs once more would take most of the time."""

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        assert command[:3] == [sys.executable, "-m", memory.__name__]
        monkeypatch.setattr(sys, "argv", command[2:])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(memory.__file__), run_name="__main__")
        return SimpleNamespace(returncode=ended.value.code, stdout=capsys.readouterr().out, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    case = f"digits, squared_hinge, C = {linear_svm.COSTS[1]:g}, 1 thread"
    assert 0 <= measure_memory("linear_svm", case, "ours", OPTIONS) < 1 << 30


# Peers and settings.


@pytest.mark.parametrize("package", ["liblinear-official", "liblinear-multicore"])
def test_liblinear_is_the_one_asked_for(package: str) -> None:
    module = peers.find_liblinear(package)
    if module is None:
        pytest.skip(f"{package} is not installed (make bench)")
    parameter = module.parameter("-s 1 -q")
    assert hasattr(parameter, "nr_thread") == (package == "liblinear-multicore")


def test_peers_that_are_missing() -> None:
    assert peers.find("no_such_package") is None
    assert peers.find_liblinear("liblinear-of-nobody") is None


def test_tolerance_of_a_peer_is_the_loosest_that_serves() -> None:
    found = linear_svm.find_eps(lambda eps: eps**2, 1e-4, 60.0)
    assert found is not None
    assert 1e-2 / 1.2 <= found[0] <= 1e-2
    assert found[1] == found[0] ** 2
    assert linear_svm.find_eps(lambda _: 1.0, 1e-4, 60.0) is None


def test_objective_is_that_of_liblinear() -> None:
    problem = linear_svm.problem("digits", "hinge", 0.5, OPTIONS)
    w = np.random.default_rng(0).normal(size=problem.cells.n_columns)
    decision = np.array([w[columns].sum() for columns in problem.cells.columns()]) / np.sqrt(linear_svm.T)
    expected = 0.5 * (w**2).sum() + 0.5 * sum(
        max(0.0, 1 - (2 * k - 1) * f) for k, f in zip(problem.y, decision, strict=True)
    )
    assert problem.primal(w) == pytest.approx(expected, rel=1e-12)


# Tables and the command.


def test_table() -> None:
    row = Row("a | b", "peer", [0.002, 0.001, 0.004], [1.0], 500.0, 40.0, per_rows=1000, notes=["x", "x", "y"])
    row.ours_bytes, row.theirs_bytes, row.memory_target = 1 << 20, 20 << 20, 10.0
    line = markdown.markdown([row]).splitlines()[-1]
    assert line == (
        "| a \\| b | 2 us/row (1..4) | peer | 1e+03 us/row | **500** | at least 40 "
        "| 1 MiB, 20 MiB, 20 (at least 10) | x; y |"
    )
    assert markdown.seconds([0.5]) == "500 ms"
    assert markdown.seconds([1.5, 2.5, 2.0]) == "2 s (1.5..2.5)"


def test_a_result_becomes_a_record_with_its_picture(tmp_path: Path) -> None:
    folder, docs = tmp_path / "runs", tmp_path / "docs"
    folder.mkdir()
    report: dict[str, Any] = {
        "benchmark": "ogd",
        "options": {**as_json(replace(Options(), datasets=("digits",), limit=5.0)), "data_dir": "."},
        "machine": {**environment.machine(2, []), "date": "2026-11-25", "commit": "abc"},
        "cases": {"a": {"rows": [asdict(Row("a | b", "peer", [0.5], [1.5], 3.0, 2.0))]}},
    }
    (folder / "ogd.json").write_text(json.dumps(report))
    (folder / "ogd.md").write_text(runner.table(report))
    (folder / "ogd.svg").write_text("<svg/>")
    assert runner.record(folder, ["ogd", "voronoi"], docs) == ["ogd"]
    found = records.load("ogd", docs / "measured")
    assert found.command == "python -m benchmarks ogd --datasets digits --limit 5"
    assert (found.date, found.commit, found.origin) == ("2026-11-25", "abc", records.WRITTEN)
    assert found.machine.startswith(report["machine"]["processor"])
    assert found.tables[0].rows[0][:5] == ["a | b", "500 ms", "peer", "1.5 s", "**3**"]
    assert (docs / "ogd.svg").read_text() == "<svg/>"


def benchmarks(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS")}, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_figures_of_quick_runs_are_not_kept() -> None:
    done = benchmarks("ogd", "--quick", "--record")
    assert done.returncode == 2
    assert "--quick" in done.stderr


def test_command_measures_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    arguments = (
        "ogd",
        "--quick",
        "--datasets",
        "digits",
        "--repeats",
        "1",
        "--threads",
        "1",
        "--output",
        str(tmp_path),
    )
    done = benchmarks(*arguments, OPENBLAS_CORETYPE="Haswell")
    assert done.returncode == 0, done.stderr
    assert "unset for this command" in done.stdout
    assert "| digits, psi 256 |" in done.stdout
    path = tmp_path / "quick" / "ogd.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["machine"]["unset"] == ["OPENBLAS_CORETYPE"]
    assert report["machine"]["processor"]
    assert report["machine"]["versions"]["numpy"] == np.__version__
    report["cases"]["digits, psi 256"]["rows"][0]["notes"] = ["kept"]
    path.write_text(json.dumps(report), encoding="utf-8")
    runner.run("ogd", options_from_json({**report["options"], "data_dir": "."}), path.parent, unset=[])
    assert "kept" in path.with_suffix(".md").read_text(encoding="utf-8")
    assert "kept" not in done.stdout


def test_a_case_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def broken() -> list[Row]:
        raise Disagreement("cells differ")

    cases = [Case("bad", rows=broken), Case("good", rows=lambda: [Row("good", "peer", value=2.0, target=1.0)])]
    module: Any = ModuleType("benchmarks.strange")
    module.cases, module.TITLE, module.ABOUT = (lambda _: cases), "Strange", "what is strange"
    monkeypatch.setitem(sys.modules, "benchmarks.strange", module)
    assert runner.run("strange", OPTIONS, tmp_path, unset=[]) == 1
    text = (tmp_path / "strange.md").read_text(encoding="utf-8")
    assert "- bad: failed, Disagreement: cells differ" in text
    assert "**2**" in text
    assert "cells differ" in capsys.readouterr().out
    kept = json.loads((tmp_path / "strange.json").read_text(encoding="utf-8"))
    assert "error" in kept["cases"]["bad"]


def test_command_lists_and_refuses() -> None:
    done = benchmarks()
    assert done.returncode == 0
    abouts = {name: import_module(f"benchmarks.{name}").ABOUT for name in NAMES}
    assert [line.split(maxsplit=1) for line in done.stdout.splitlines()] == [[*entry] for entry in abouts.items()]
    done = benchmarks("voronoy")
    assert done.returncode == 2
    assert "voronoy" in done.stderr


def test_peers_are_pinned_within_their_ranges() -> None:
    lines = (ROOT / "requirements-bench.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    pinned = {canonicalize_name(name): version for name, version in pairs}
    assert [name for name, _ in pairs] == sorted(name for name, _ in pairs)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for text in project["project"]["optional-dependencies"]["bench"]:
        need = Requirement(text)
        assert pinned[canonicalize_name(need.name)] in need.specifier
