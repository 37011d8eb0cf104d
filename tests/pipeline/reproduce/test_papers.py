"""Papers as strangers add them: a throwaway one goes through the command, and all that there are hold together."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.reproduce import ReproduceOptions
from ikmap.methods import fields_of
from pipeline.errors import InputError
from pipeline.reproduce.compared import form_of
from pipeline.reproduce.paper import Paper, Request
from pipeline.reproduce.registry import PAPERS, register
from tests import ROOT
from tests.plugins.paper import PAPER as THROWAWAY
from tests.support.runs import points

pytestmark = pytest.mark.system

SETS = """
[dataset.clouds]
title = "Clouds"
task = "binary"
format = "csv"
train = "clouds.csv"
label = -1
header = false
"""
RUNS = ("small", "large", "large-scale_of_eta-tenfold")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The throwaway paper as pip would have installed it, and its data set."""
    folder: Path = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "tests" / "plugins" / "paper", folder / "strange_paper")
    about = folder / "strange_paper-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-paper\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ikmap.papers]\nthrowaway = strange_paper:PAPER\n")
    X, y = points(240, seed=3)
    np.savetxt(folder / "clouds.csv", np.c_[X, y], delimiter=",", fmt="%.6f")
    (folder / "sets.toml").write_text(SETS)
    return folder


def start(site: Path, *words: str, **how: Any) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "IKMAP_PACKAGES"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(site), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-m", "flows.reproduce", *words], env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=site, **how,
    )  # fmt: skip


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def asked(site: Path) -> list[str]:
    return [
        *("--paper", "throwaway", "--table", "1", "--data-dir", str(site), "--workers", "1"),
        *("--dataset-file", str(site / "sets.toml")),
    ]


def test_a_strangers_paper_is_run_killed_resumed_and_shown(site: Path) -> None:
    path = site / "runs" / "throwaway"  # by its name, where nobody says
    process = start(site, *asked(site), start_new_session=True)
    first, second = path / "clouds" / "small" / "metrics.json", path / "clouds" / "large"
    deadline = time.monotonic() + 200
    while not second.exists() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (second / "metrics.json").exists()
    before = first.read_text()
    status, out, err = finished(start(site, *asked(site)))
    assert status == 0, err
    assert first.read_text() == before
    results = json.loads((path / "results.json").read_text())
    (table,) = results["experiments"]
    assert [(row["system"], row["other"]) for row in table["rows"]] == [
        ("small", {}), ("large", {}), ("large", {"scale_of_eta": "tenfold"}),
    ]  # fmt: skip
    assert [row["published_accuracy"] for row in table["rows"]] == [0.5, 0.75, 0.75]
    for row, key in zip(table["rows"], RUNS, strict=True):
        metrics = json.loads((path / "clouds" / key / "metrics.json").read_text())
        assert row["accuracy"] == metrics["learners"]["ogd"]["accuracy"]
    assert "--eta 10.0" in table["rows"][2]["command"]
    page = (path / "report.html").read_text()
    assert "throwaway paper, reproduced" in page
    assert "Isolation Kernel paper" not in page
    for text in ("Two sizes of a step", "Large steps, scale_of_eta: tenfold", 'src="data:image/svg+xml;base64,'):
        assert text in page
    assert (path / "table1.png").read_bytes().startswith(b"\x89PNG")
    assert "Small steps" in out
    chosen = ["--throwaway.scale-of-eta", "tenfold", "--systems", "large"]
    status, _, err = finished(start(site, *asked(site), *chosen))
    assert status == 0, err
    (row,) = json.loads((path / "results.json").read_text())["experiments"][0]["rows"]
    assert (row["shown"], row["reading"]) == (True, {"scale_of_eta": "tenfold"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--paper throwaway --table 5", "--table: found '5', expected some of 1 (--paper throwaway)"),
        ("--paper throwaway --figure 1", "--figure: found '1', expected none (--paper throwaway)"),
        (
            "--paper throwaway --table 1 --depth none",
            "--depth: --paper throwaway does not use it; give --paper isolation-kernel, or leave --depth out",
        ),
        (
            "--table 5 --throwaway.scale_of_eta tenfold",
            "--throwaway.scale_of_eta: --paper isolation-kernel does not use it; give --paper throwaway",
        ),
        ("--table 1", "--table: found '1', expected some of 3, 4, 5, 6, 7, 8 (--paper isolation-kernel)"),
        (
            "--paper throwaway --table 1 --scale-of-eta 3",
            "--scale-of-eta: found '3', expected one of all, as_printed, tenfold",
        ),
        (
            "--paper throwaways --table 1",
            "--paper: found 'throwaways', expected one of gmm, isolation-kernel, mondrian, norma, throwaway (did",
        ),
        ("--paper throwaway --table 1 --systems ogd", "--systems: found 'ogd', expected some of small, large"),
    ],
)
def test_what_a_paper_does_not_have_is_refused_in_a_line(site: Path, words: str, said: str) -> None:
    status, _, err = finished(start(site, *words.split(), "--quiet"))
    assert (status, len(err.splitlines())) == (2, 1)
    assert said in err


def test_help_lists_its_options(site: Path) -> None:
    status, text, _ = finished(start(site, "--help-all"))
    assert status == 0
    assert "throwaway, the throwaway paper" in " ".join(text.split())
    assert "--scale-of-eta {all,as_printed,tenfold}" in text


@pytest.mark.parametrize("text", ["import nowhere_at_all", "PAPER = 1"])
def test_a_package_at_fault_stops_nobody_and_is_named_where_it_is_wanted(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken_paper.py").write_text(text)
    about = tmp_path / "broken_paper-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-paper\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ikmap.papers]\nbroken = broken_paper:PAPER\n")
    assert finished(start(tmp_path, "--help"))[0] == 0
    status, _, err = finished(start(tmp_path, "--paper", "broken", "--table", "1"))
    assert (status, len(err.splitlines())) == (2, 1)
    assert "pip uninstall broken-paper" in err


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="its paper 'isolation-kernel' has a name that is taken"):
        register(PAPERS["isolation-kernel"], "another")


@pytest.mark.parametrize("paper", [*PAPERS.values(), THROWAWAY], ids=lambda paper: paper.name)
def test_a_paper_holds_together(paper: Paper) -> None:
    """Every reading has an option of its name and every experiment a form, of systems that there are."""
    assert paper.experiments
    fields = fields_of(paper.Options)
    for name, reading in paper.readings.items():
        assert fields[name].kind.names == ("all", *reading.values)  # type: ignore[attr-defined]
        assert set(reading.systems) <= set(paper.systems)
    taken = {n for n, spec in ReproduceOptions.specs().items() if n not in ReproduceOptions.METHOD_OPTIONS}
    assert not taken & fields.keys()
    for experiment in paper.experiments.values():
        assert set(experiment.systems) <= set(paper.systems)
        entries = list(form_of(paper, experiment).entries(Request(paper.datasets_of(experiment))))
        assert len({entry.key for entry in entries}) == len(entries)


def test_papers_and_their_options_in_a_file() -> None:
    with pytest.raises(InputError, match=r"run\.toml: paper: found 'nothing'"):
        ReproduceOptions.from_toml('paper = "nothing"\ntable = ["5"]\n')
    options = ReproduceOptions.from_toml('table = ["5"]\n[isolation-kernel]\ndepth = "log2"\n')
    assert options.readings["depth"] == "log2"
    assert ReproduceOptions.from_toml(options.to_toml()) == options
