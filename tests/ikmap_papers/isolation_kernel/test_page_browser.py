"""The page of a reproduction in a real browser: nothing cut off, nothing fetched, every kind of outcome shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.reproduce.compared import form_of
from pipeline.reproduce.form import Outcome
from pipeline.reproduce.page import write_page
from pipeline.reproduce.paper import Entry, Experiment, Request
from pipeline.reproduce.registry import PAPERS
from pipeline.reproduce.results import collect
from tests.pipeline.report.test_report_browser import Open, chrome, pytestmark, show, visible_text  # noqa: F401

WAYS = ("finished", "stopped", "memory", "failed")


def outcome(entry: Entry) -> Outcome:
    """A made-up end of a run; each way in turn."""
    way = WAYS[len(entry.key) % len(WAYS)] if entry.reading else "finished"
    if way != "finished":
        return Outcome(way, "python -m flows.batch", message=f"why it is {way}: <b>a long story</b> of {entry.key}")  # type: ignore[arg-type]
    if entry.command == "online":
        curve = {"rows": [100, 200], "accuracy": [0.5, 0.75], "seconds": [0.1, 0.2], "n_support": [60, 90]}
        learners: dict[str, Any] = {
            name: {
                "psi": 8, "accuracy": 0.75, "rows": 200, "map_seconds": 0.1, "predict_seconds": 0.02,
                "train_seconds": 0.03, "n_support": 90, "stopped_early": name == "nogd", "curve": curve,
            }
            for name in entry.options["learner"]
        }  # fmt: skip
        return Outcome("finished", "python -m flows.online", {"learners": learners}, f"{entry.key}/report.html")
    (name,) = entry.options["learner"]
    stages = ("partition", "cells", f"train:{name}", f"evaluate:{name}")
    metrics = {
        "learners": {name: {"accuracy": 0.8349, "confusion": [[70, 5], [10, 15]], "labels": [-1, 1]}},
        "stages": [{"name": stage, "workers": [{"seconds_busy": 65.4321}]} for stage in stages],
        "selection": {"chosen": {name: 4096}, "folds": 5},
        "data": {"classes": [-1, 1]},
    }
    return Outcome("finished", "python -m flows.batch", metrics, f"{entry.key}/report.html")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("reproduced")
    paper = PAPERS["isolation-kernel"]
    labels = ("table 3", "table 4", "table 5", "table 6", "table 7", "table 8", "figure 3", "section 8.1.1")
    experiments: list[Experiment] = [paper.experiments[tuple(label.split())] for label in labels]  # type: ignore[index]
    entries = {e.label: list(form_of(paper, e).entries(Request(["a9a", "news20.binary"]))) for e in experiments}
    size = {"rows_train": 10, "rows_test": 5, "columns": 4, "nnz": 30}
    results = collect(paper, experiments, entries, outcome, {}, {"a9a": size, "ijcnn1": "could not be read"}, folder)
    results["skipped"] = {"url": "url: url_combined not found in /some/where"}
    results["run"] = {
        "command": "python -m flows.reproduce --table 5", "seed": 0, "limit_seconds": 60.0, "seconds": 12.0,
        "machine": {"processor": "A processor", "cores": 2, "memory_bytes": 1 << 34, "system": "Linux"},
        "cluster": {"kind": "local", "workers": 2, "threads": 2}, "versions": {"python": "3.12.1"},
    }  # fmt: skip
    write_page(paper, results, folder / "report.html")
    return folder / "report.html"


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_reaches_over_the_edge(show: Open, page: Path, width: int, scheme: str) -> None:  # noqa: F811
    driver = show(page, width, scheme)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    wide = driver.execute_script(
        """return [...document.querySelectorAll("table")].filter(
        e => e.scrollWidth > e.parentElement.clientWidth && !e.closest(".scroll")).length"""
    )
    assert wide == 0


@pytest.mark.slow
def test_pictures_are_seen_and_nothing_is_fetched(show: Open, page: Path) -> None:  # noqa: F811
    driver = show(page)
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in sent if not url.startswith("data:")] == [page.as_uri()]
    sizes = driver.execute_script("return [...document.images].map(e => [e.complete, e.naturalWidth, e.alt])")
    assert [alt for _, _, alt in sizes] == ["figure 3: a9a", "figure 3: news20.binary"]
    assert all(complete and width > 100 for complete, width, _ in sizes)


def test_every_outcome_is_told_and_texts_stay_texts(show: Open, page: Path) -> None:  # noqa: F811
    text = visible_text(show(page))
    for mark in ("0.8349", "stopped", "-ME-", "failed", "see Table 6", "-ME-", "75", "url_combined not found"):
        assert mark in text
    assert "<b>a long story</b>" in text
    assert (
        "Always answering the most frequent class of the training rows would be right on 0.7500 of the test rows."
        in text
    )
    assert "(stopped early)" in text
    assert "could not be read" in text
