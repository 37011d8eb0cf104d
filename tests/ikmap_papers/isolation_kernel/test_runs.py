"""Reproducing the paper: the runs behind its tables, held against plain runs; what is missing, stopped or too large."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from cluster import connect
from flows import reproduce
from flows.options.batch import BatchOptions
from flows.options.reproduce import ReproduceOptions
from flows.runs import batch as run_batch
from flows.runs import paper_runs as reproduce_runs
from flows.runs.local_data import LocalData
from flows.runs.reproduce import run
from pipeline.errors import DoesNotFit, InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.reproduce.paper import Entry
from pipeline.reproduce.registry import PAPERS
from pipeline.reproduce.terminal import print_results
from pipeline.runs.online import run_online
from pipeline.storage.durable import read_json, write_json
from pipeline.storage.rundir import RunDirectory
from tests.support.calls import counted, killed_at
from tests.support.narrow import address_of
from tests.support.one_process import commands_in_this_process
from tests.support.runs import points

pytestmark = pytest.mark.system

PAPER = PAPERS["isolation-kernel"]
TABLES = ("5", "6", "7", "8")
N, COLUMNS = 260, 4

DATASETS = """
[dataset.clouds]
title = "Clouds"
task = "binary"
format = "csv"
train = "clouds.csv"
label = -1
header = false
split = {{ rule = "shuffle", fraction = 0.75 }}

[dataset.below]
title = "With negative values"
task = "binary"
format = "csv"
train = "below.csv"
label = -1
header = false

[dataset.broken]
title = "Not a table"
task = "binary"
format = "csv"
train = "broken.csv"
label = -1
header = false

[dataset.absent]
title = "Nowhere"
task = "binary"
format = "csv"
train = "nowhere.csv"
"""


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TOML file of data sets, which lie beside it."""
    folder: Path = tmp_path_factory.mktemp("data")
    X, y = points(N, seed=3)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    for name, rows in (("clouds", X), ("below", X - 0.5)):
        np.savetxt(folder / f"{name}.csv", np.c_[rows, y], delimiter=",", fmt="%.6f")
    (folder / "broken.csv").write_text("1,2,3\n4,5\n")
    file = folder / "sets.toml"
    file.write_text(DATASETS.format())
    return file


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """A cluster that is this process: to start one takes longer than what is done on it here."""
    with commands_in_this_process():
        yield "local"


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run starts workers again, with memory of their own and tasks that can be stopped."""
    monkeypatch.setattr(reproduce_runs, "connect", connect)


def options(declared: Path, path: Path, **more: Any) -> ReproduceOptions:
    asked = {"datasets": ("clouds",), "quiet": True, **more}
    return ReproduceOptions(dataset_file=str(declared), data_dir=str(declared.parent), run_dir=str(path), **asked)


class Said(QuietProgress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


def test_a_system_that_there_is_not(declared: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--systems: found 'ik_ogd', expected some of ogd, ik_i_ogd"):
        run(options(declared, tmp_path, table=("5",), systems=("ik_ogd",)))


@pytest.fixture(scope="module")
def made(declared: Path, scheduler: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Said]:
    """Tables on a small data set, one with negative values, one that cannot be read and one that is not there."""
    path: Path = tmp_path_factory.mktemp("made")
    said = Said()
    asked = options(
        declared, path, table=("4", "5", "8"), datasets=("clouds", "absent", "broken", "below"),
        systems=("ik_a_ogd", "nogd", "chi2_linear_svm"), svm_C="1", svm_loss="all", cluster=scheduler,
    )  # fmt: skip
    return path, run(asked, events=said), said


def rows_of(results: dict[str, Any], label: str) -> list[dict[str, Any]]:
    (found,) = [e["rows"] for e in results["experiments"] if f"{e['kind']} {e['name']}" == label]
    return list(found)


def test_a_run_is_the_command_that_it_names(made: Any, scheduler: str, tmp_path: Path) -> None:
    path, results, _ = made
    found = [row for row in rows_of(results, "table 5") if row["dataset"] == "clouds"]
    assert [(row["system"], row["other"]) for row in found] == [
        ("ik_a_ogd", {}), ("nogd", {}), ("ik_a_ogd", {"score_scale": "raw"}), ("nogd", {"nogd": "last"}),
        ("nogd", {"nogd": "violators"}), ("nogd", {"nogd": "library"}),
    ]  # fmt: skip
    for i, row in enumerate(found):
        words = shlex.split(row["command"])
        assert words[:3] == ["python", "-m", "flows.batch"]
        plain = BatchOptions.parse([*words[3:], "--run-dir", str(tmp_path / str(i)), "--cluster", scheduler, "--quiet"])
        ((name, learner),) = run_batch.run(plain)["learners"].items()
        metrics = json.loads((path / row["report"]).with_name("metrics.json").read_text())
        assert metrics["learners"][name]["content_hash"] == learner["content_hash"]
        assert row["accuracy"] == learner["accuracy"]
        if i == 1:
            break  # both partitioned and on rows; the rest takes the same way


def test_seconds_are_those_of_its_stages(made: Any) -> None:
    path, results, _ = made
    row = next(r for r in rows_of(results, "table 5") if r["system"] == "ik_a_ogd" and r["dataset"] == "clouds")
    stages = json.loads((path / row["report"]).with_name("metrics.json").read_text())["stages"]
    busy = {stage["name"]: sum(worker["seconds_busy"] for worker in stage["workers"]) for stage in stages}
    expected = [busy[name] for name in ("partition", "cells", "train:ogd", "evaluate:ogd")]
    assert list(row["parts"].values()) == pytest.approx(expected, abs=1e-3)
    assert row["seconds"] == pytest.approx(sum(expected), abs=1e-3)
    assert min(expected) > 0
    svm = next(r for r in rows_of(results, "table 8") if r["system"] == "chi2_linear_svm" and r["dataset"] == "clouds")
    assert svm["seconds"] == pytest.approx(svm["parts"]["train"] + svm["parts"]["test"], abs=1e-3)


def test_what_is_not_there_is_skipped_by_name_and_what_is_broken_fails_alone(made: Any, declared: Path) -> None:
    _, results, said = made
    assert results["skipped"] == {"absent": f"absent: nowhere.csv not found in {declared.parent}"}
    assert f"skipped: {results['skipped']['absent']}" in said.lines
    broken = [row for row in rows_of(results, "table 5") if row["dataset"] == "broken"]
    assert {row["status"] for row in broken} == {"failed"}
    assert all("broken.csv" in row["message"] and row["accuracy"] is None for row in broken)
    sizes = {row["dataset"]: row for row in rows_of(results, "table 4")}
    assert "broken.csv" in sizes["broken"]["message"]
    assert sizes["clouds"]["ours"]["n_train"] == 195
    assert sizes["clouds"]["ours"]["n_columns"] == COLUMNS


def test_negative_values_are_scaled_for_chi_square_and_that_is_said(made: Any) -> None:
    _, results, _ = made
    found = {r["dataset"]: r for r in rows_of(results, "table 8") if r["system"] == "chi2_linear_svm" and r["shown"]}
    assert found["below"]["status"] == "finished"
    assert found["below"]["message"] == PAPER.systems["chi2_linear_svm"].why
    assert "--scale minmax" in found["below"]["command"]
    assert found["clouds"]["message"] == ""


def test_data_is_read_once(made: Any) -> None:
    path, _, _ = made
    assert {p.name for p in (path / "data").iterdir()} == {"clouds", "below", "below-minmax", "broken"}
    for entry in (path / "clouds").iterdir():
        assert (entry / "store.zarr" / "data").resolve() == (path / "data" / "clouds" / "store.zarr" / "data").resolve()


def test_page_and_terminal_show_both_numbers(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path, results, _ = made
    page = (path / "report.html").read_text()
    assert read_json(path / "results.json") == json.loads(json.dumps(results))
    assert "nowhere.csv not found" in page
    assert 'href="clouds/nogd-nogd-averaged/report.html"' in page
    print_results(PAPER, results)
    printed_out = capsys.readouterr().out
    accuracy = next(r["accuracy"] for r in rows_of(results, "table 5") if r["dataset"] == "clouds")
    assert f"{accuracy:.4f}" in page
    assert f"{accuracy:.4f}" in printed_out
    assert f"skipped: {results['skipped']['absent']}" in printed_out
    assert printed_out.count("broken: failed: ") == 1  # once for all its runs
    assert "broken.csv" in printed_out
    assert "Nothing of it is there." not in printed_out
    print_results(
        PAPER, {**results, "experiments": [{**experiment, "rows": []} for experiment in results["experiments"]]}
    )
    assert capsys.readouterr().out.count("Nothing of it is there.") == 2  # Tables 5 and 8


def test_finished_runs_are_not_done_again_and_fresh_does_them(made: Any, declared: Path, scheduler: str) -> None:
    path, results, _ = made
    file = path / "clouds" / "ik_a_ogd" / "metrics.json"
    before = file.read_text()
    asked = {"table": ("5",), "systems": ("ik_a_ogd",), "score_scale": "kernel", "cluster": scheduler}
    again = run(options(declared, path, **asked))
    assert file.read_text() == before
    (row,) = rows_of(again, "table 5")
    assert row["accuracy"] == next(r["accuracy"] for r in rows_of(results, "table 5") if r["dataset"] == "clouds")
    with killed_at(reproduce_runs.Runs._lane):
        run(options(declared, path, fresh=True, **asked))
    anew = run(options(declared, path, **asked))  # all of it, though none was begun before the interrupt
    assert file.read_text() != before  # times differ
    assert rows_of(anew, "table 5")[0]["accuracy"] == row["accuracy"]


def test_two_names_of_a_data_set_are_one(tmp_path: Path) -> None:
    for name in ("covtype.libsvm.binary.scale", "a9a", "a9a.t"):
        (tmp_path / name).write_text("1 1:1\n2 2:1\n")
    data = LocalData(ReproduceOptions(table=("5",), data_dir=str(tmp_path)))
    names = ["covtype", "a9a", "CoverType", "adult", "usps"]
    for name in names:
        data.look_for(name)
    assert data.those_of(names) == ["covertype", "a9a"]
    assert list(data.skipped) == ["usps"]


@pytest.mark.parametrize("below", ["", "/runs"])
def test_a_directory_that_cannot_be(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="found a file, expected a directory for the run"):
        run(ReproduceOptions(table=("3",), run_dir=f"{tmp_path}/file{below}", quiet=True))


@pytest.mark.usefixtures("workers")
def test_a_run_is_stopped_at_its_limit_marked_and_goes_on_with_a_larger_one(declared: Path, tmp_path: Path) -> None:
    with connect("local", workers=1, options=["tls=off"]) as cluster:
        asked: dict[str, Any] = {"table": ("5",), "systems": ("nogd",), "nogd": "averaged"}
        asked["cluster"] = address_of(cluster)
        for _ in range(2):  # the second time it is not begun
            (row,) = rows_of(run(options(declared, tmp_path, limit_seconds=1e-3, **asked)), "table 5")
            assert (row["status"], row["accuracy"], row["message"]) == ("stopped", None, "stopped after 0.001 s")
        assert "stopped" in (tmp_path / "report.html").read_text()
        (row,) = rows_of(run(options(declared, tmp_path, limit_seconds=1e-4, **asked)), "table 5")
        assert row["message"] == "stopped after 0.001 s"  # the limit that it has reached, not a smaller one
        (row,) = rows_of(run(options(declared, tmp_path, **asked)), "table 5")
    assert row["status"] == "finished"
    assert not (tmp_path / "clouds" / "nogd-nogd-averaged" / reproduce_runs.STOPPED).exists()


def test_a_run_that_was_killed_has_used_up_some_of_its_time(declared: Path, scheduler: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"table": ("5",), "systems": ("nogd",), "nogd": "averaged", "cluster": scheduler}
    with killed_at(RunDirectory.begin_stage, end=True):
        run(options(declared, tmp_path, **asked))
    (file,) = (path for path in tmp_path.rglob("manifest.json") if "nogd" in str(path))
    write_json(file, {**read_json(file), "session": time.time() - 3600})  # it began an hour before it was killed
    (row,) = rows_of(run(options(declared, tmp_path, limit_seconds=60.0, **asked)), "table 5")
    assert row["status"] == "stopped"  # an hour was spent before
    (row,) = rows_of(run(options(declared, tmp_path, **asked)), "table 5")
    assert row["status"] == "finished"


def test_a_defect_of_ours_in_one_run_is_told_and_ends_with_status_1(
    declared: Path, scheduler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(call: int) -> None:
        raise ZeroDivisionError(f"of ours, {call}")

    words = f"""--table 5 --figure 3 --systems nogd --nogd averaged --datasets clouds --quiet --cluster {scheduler}
        --dataset-file {declared} --data-dir {declared.parent} --run-dir {tmp_path}""".split()
    with counted(run_online, broken):
        assert reproduce.main(words) == 1
    said = capsys.readouterr().out
    assert "internal error: ZeroDivisionError: of ours" in said
    results = json.loads((tmp_path / "results.json").read_text())
    assert [row["status"] for row in rows_of(results, "table 5")] == ["finished"]
    assert {row["status"] for row in rows_of(results, "figure 3")} == {"defect"}


@pytest.mark.usefixtures("workers")
def test_what_does_not_fit_is_marked_as_the_paper_does(tmp_path: Path) -> None:
    n = 6000
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "large.csv", np.c_[rng.random((n, 2)), rng.random(n) < 0.5], delimiter=",", fmt="%.4f")
    text = DATASETS.format().partition("[dataset.below]")[0].replace("clouds", "large")
    (tmp_path / "sets.toml").write_text(text)
    asked = options(
        tmp_path / "sets.toml", tmp_path / "run", table=("7",), datasets=("large",), systems=("svm_laplacian",),
        memory_limit="500MB", workers=1,
    )  # fmt: skip
    (row,) = rows_of(run(asked), "table 7")
    assert row["status"] == "memory"
    assert "training kernel-svm would need about" in row["message"]
    assert "-ME-" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.usefixtures("workers")
def test_what_does_not_fit_beside_others_is_made_alone(declared: Path, tmp_path: Path) -> None:
    asked = options(declared, tmp_path, table=("7",), systems=("svm_laplacian",), workers=2)
    workers: list[int] = []

    def only_alone(of: Mapping[str, Any]) -> None:
        workers.append(of["cluster"].workers)
        if workers[-1] > 1:
            raise DoesNotFit("a worker would need more")

    with counted(reproduce_runs.Runs._run, note=only_alone):
        (row,) = rows_of(run(asked), "table 7")
    assert workers == [2, 1]
    assert row["status"] == "finished"


# ------------------------------------------------------------------ figures and sections


SIZES = [20, 50, 100]


@pytest.fixture(scope="module")
def drawn(declared: Path, scheduler: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path: Path = tmp_path_factory.mktemp("drawn")
    figures = ("1", "2", "3", "4", "5")
    with pytest.MonkeyPatch.context() as patch:
        # Contours of few points, and few partitionings and rows, show the same.
        patch.setattr("ikmap_papers.isolation_kernel.pictures.GRID", 9)
        patch.setitem(PAPER.find("figure", "5").about, "sizes", SIZES)
        asked = options(
            declared, path, figure=figures, section=("8.1.1",), table=("3",), initial=120, cluster=scheduler
        )
        return path, run(asked)


def test_search_ranges_are_the_paper_s(drawn: Any) -> None:
    _, results = drawn
    assert all(row["same"] for row in rows_of(results, "table 3"))


def test_pictures_are_drawn_and_shown(drawn: Any) -> None:
    path, results = drawn
    expected = {"1": ["figure1.svg"], "2": ["figure2.svg"]} | {k: [f"figure{k}-clouds.svg"] for k in "345"}
    pictures = {e["name"]: e["pictures"] for e in results["experiments"] if e["kind"] == "figure"}
    assert pictures == expected
    page = (path / "report.html").read_text()
    for (name,) in expected.values():
        assert ElementTree.parse(path / name).getroot().tag.endswith("svg")
        assert (path / name).with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert page.count("data:image/svg+xml;base64,") == 5


def test_streams_are_shown_with_their_curves(drawn: Any) -> None:
    _, results = drawn
    rows = rows_of(results, "figure 3")
    assert [(row["part"], row["learner"]) for row in rows] == [
        ("iforest", "ogd"), ("iforest", "nogd"), ("iforest", "kernel-ogd"), ("anne", "ogd"),
    ]  # fmt: skip
    assert all(row["curve"]["rows"][-1] == row["rows"] == N - 120 for row in rows)
    assert all(row["curve"]["accuracy"][-1] == pytest.approx(row["accuracy"], abs=1e-6) for row in rows)


def test_naive_and_dual_forms_are_the_same_learner(drawn: Any) -> None:
    """Figure 4 and section 8.1.1 compare times: what is predicted is the same, bit for bit (OG1)."""
    _, results = drawn
    by_psi: dict[str, set[Any]] = {}
    failed = []
    for row in rows_of(results, "figure 4"):
        if row["accuracy"] is None:
            failed.append((row["part"], row["message"]))
        else:
            by_psi.setdefault(row["part"], set()).add((row["accuracy"], row["n_support"]))
    assert list(by_psi) == [f"psi={2**m}" for m in range(2, 7)]
    assert all(len(found) == 1 for found in by_psi.values())
    assert [part for part, _ in failed] == [f"psi={2**m}" for m in range(7, 15)]  # more than the 120 initial rows
    assert all("psi" in message for _, message in failed)
    primal, dual = rows_of(results, "section 8.1.1")
    assert (primal["learner"], dual["learner"]) == ("ogd", "ogd-dual")
    assert (primal["accuracy"], primal["n_support"]) == (dual["accuracy"], dual["n_support"])
    for row in (primal, dual):
        f = row["parts"]["predict"] + min(row["parts"]["predict"], row["parts"]["train"])
        assert row["share"] == pytest.approx(100 * f / sum(row["parts"].values()), abs=0.01)


def test_growing_t_and_b(drawn: Any) -> None:
    _, results = drawn
    rows = rows_of(results, "figure 5")
    assert max(PAPER.find("figure", "5").about["sizes"]) == 10_000
    assert [(row["parameter"], row["size"]) for row in rows] == [(p, s) for p in "tb" for s in SIZES]
    assert all(row["status"] == "finished" for row in rows if row["parameter"] == "t")


@pytest.mark.parametrize(
    ("command", "options", "search"),
    [
        ("batch", {"learner": ["svm"], "C": 1.0}, "full"),
        ("batch", {"learner": ["kernel-svm"], "psi": "auto"}, "full"),
        ("online", {"learner": ["ogd"]}, "full"),
        ("batch", {"learner": ["ogd"], "psi": 8}, "race"),  # nothing is searched
    ],
)
def test_the_search_is_not_cut_as_the_papers_was_not(
    command: Any, options: dict[str, Any], search: str, tmp_path: Path
) -> None:
    asked = ReproduceOptions(table=("5",))
    runs = reproduce_runs.Runs(asked, tmp_path, LocalData(asked), lambda _, work: work(), QuietProgress())
    assert runs._options(Entry("key", "a9a", "system", command, options)).search == search
