"""Papers as strangers add them: one goes through the command, with the product's own papers and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.options.reproduce import ReproduceOptions
from ikmap.methods import fields_of
from ikmap.methods.registry import WITHOUT_PAPERS, UnknownMethod, method
from pipeline.reproduce.compared import form_of
from pipeline.reproduce.paper import Paper, Request
from pipeline.reproduce.registry import PAPERS, register
from tests.plugins.paper import PAPER as THROWAWAY
from tests.support.machine import papers_installed
from tests.support.strange_paper import answers, finished, install, offer, start, words_for

pytestmark = pytest.mark.system

RUNS = ("small", "large", "large-scale_of_eta-tenfold")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stranger's paper as pip would have installed it, and its data set."""
    folder: Path = tmp_path_factory.mktemp("site")
    install(folder)
    return folder


def test_a_strangers_paper_is_run_shown_and_gone_on_with(site: Path) -> None:
    """It needs none of ours to be run, and is gone on with where they are."""
    path = site / "runs" / "throwaway"  # by its name, where nobody says
    status, out, err = finished(start(site, *words_for(site), papers=False))
    assert status == 0, err
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
    for text in ("Two sizes of a step", "Large steps, scale_of_eta: tenfold", 'src="data:image/svg+xml;base64,'):
        assert text in page
    assert (path / "table1.png").read_bytes().startswith(b"\x89PNG")
    assert "Small steps" in out
    before = (path / "clouds" / RUNS[2] / "metrics.json").read_text()
    chosen = ["--throwaway.scale-of-eta", "tenfold", "--systems", "large"]
    status, _, err = finished(start(site, *words_for(site), *chosen))
    assert status == 0, err
    (row,) = json.loads((path / "results.json").read_text())["experiments"][0]["rows"]
    assert (row["shown"], row["reading"]) == (True, {"scale_of_eta": "tenfold"})
    assert "Isolation Kernel paper" not in (path / "report.html").read_text()
    assert (path / "clouds" / RUNS[2] / "metrics.json").read_text() == before


def test_what_a_paper_does_not_have_is_refused_in_a_line(site: Path) -> None:
    refusals = {
        "--paper throwaway --table 5": "--table: found '5', expected some of 1 (--paper throwaway)",
        "--paper throwaway --figure 1": "--figure: found '1', expected none (--paper throwaway)",
        "--paper throwaway --table 1 --scale-of-eta 3": (
            "--scale-of-eta: found '3', expected one of all, as_printed, tenfold"
        ),
        "--paper throwaways --table 1": (
            f"--paper: found 'throwaways', expected one of {', '.join([*PAPERS, 'throwaway'])} (did"
        ),
        "--paper throwaway --table 1 --systems ogd": "--systems: found 'ogd', expected some of small, large",
    }
    found = answers(site, *(f"{words} --quiet" for words in refusals))
    for (status, _, err), said in zip(found, refusals.values(), strict=True):
        assert (status, len(err.splitlines())) == (2, 1)
        assert said in err


def test_help_lists_its_options(site: Path) -> None:
    ((status, text, _),) = answers(site, "--help-all")
    assert status == 0
    assert "throwaway, the throwaway paper" in " ".join(text.split())
    assert "--scale-of-eta {all,as_printed,tenfold}" in text


def test_without_any_paper_a_line_says_what_is_missing(tmp_path: Path) -> None:
    lines = ("", "--help", "--table 5", "--paper isolation-kernel --table 5")
    for status, out, err in answers(tmp_path, *lines, papers=False):
        assert (status, out) == (2, "")
        assert err == f"error: there is no paper to reproduce: {WITHOUT_PAPERS}\n"


def test_a_strangers_paper_stands_alone_without_ours(site: Path) -> None:
    told, *refused = answers(site, "--help", "--table 1", "--paper gmm --table 1", papers=False)
    assert told[0] == 0
    assert "--paper {throwaway}" in told[1]
    said = ("--paper: found none, expected one of throwaway", "--paper: found 'gmm', expected one of throwaway")
    for (status, _, err), words in zip(refused, said, strict=True):
        assert status == 2
        assert err == f"error: {words}; {WITHOUT_PAPERS}\n"


def test_an_unknown_method_may_be_one_of_the_papers() -> None:
    with (
        papers_installed(True),
        pytest.raises(UnknownMethod, match="install the package that has it on this machine too, with pip"),
    ):
        method("nowhere")
    missing = r"is not known on .*: the package ikmap_papers, which .* is not installed"
    with papers_installed(False), pytest.raises(UnknownMethod, match=missing):
        method("nowhere")


@pytest.mark.parametrize("text", ["import nowhere_at_all", "PAPER = 1"])
def test_a_package_at_fault_stops_nobody_and_is_named_where_it_is_wanted(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken_paper.py").write_text(text)
    offer(tmp_path, "broken_paper", "broken")
    (helped, *_), (status, _, err) = answers(tmp_path, "--help", "--paper broken --table 1")
    assert helped == 0 or not PAPERS  # without any paper, there is no help either
    assert (status, len(err.splitlines())) == (2, 1)
    assert "pip uninstall broken-paper" in err


def test_a_name_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAPERS, "throwaway", THROWAWAY)
    with pytest.raises(ValueError, match="its paper 'throwaway' has a name that is taken"):
        register(THROWAWAY, "another")


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
