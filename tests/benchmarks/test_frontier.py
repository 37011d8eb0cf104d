"""Accuracy against seconds: points that are measured, those that nothing beats, and their picture."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    frontier,
    frontier_picture,
    peers,
    records,
    runner,
    tabular,
)
from benchmarks.data import load
from benchmarks.harness import (
    Options,
)  # fmt: skip

OPTIONS = Options(repeats=1, quick=True, datasets=("digits",), threads=1, limit=5.0)


def test_points_of_the_frontier() -> None:
    data = load("digits", OPTIONS)
    name, measure = next(iter(frontier.ours(OPTIONS)))
    points = frontier.in_own_process(measure, data, 60.0)
    assert isinstance(points, list)
    assert [point["name"] for point in points] == [
        f"{name}, {learner}" for learner in ("svm, C = 1", "svm, C = 5", "ogd")
    ]
    assert all(point["seconds"] > 0 and point["accuracy"] > 0.7 for point in points)
    for name, measure in frontier.peers(OPTIONS):
        if name.startswith(("ExtraTrees", "Nystroem")):
            (point,) = measure(data)
            assert point["name"] == name
            assert 0.3 < point["accuracy"] <= 1


@pytest.mark.slow
def test_points_of_tables() -> None:
    whole = load("digits", OPTIONS)
    data = replace(whole, X=whole.X[:500], y=whole.y[:500], X_test=whole.X_test[:200], y_test=whole.y_test[:200])
    (anne, measure), *others = list(tabular.ours(OPTIONS))
    assert [name.split(",")[0] for name, _ in others] == ["iforest", "gcws", "gcws"]
    assert all(point["accuracy"] > 0.6 for point in measure(data))
    wide = replace(data, X=data.X * [1e6, *[1.0] * 63], X_test=data.X_test * [1e6, *[1.0] * 63])
    assert [p["accuracy"] for p in measure(wide)] == [p["accuracy"] for p in measure(data)], anne
    for name, work in tabular.boosting(OPTIONS):
        if name.startswith("LightGBM") and peers.find("lightgbm") is None:
            with pytest.raises(ImportError, match="make bench"):
                work(data)
        else:
            (point,) = work(data)
            assert point["name"] == name
            assert point["accuracy"] > 0.5


@pytest.mark.slow
def test_a_frontier_is_measured_once_and_put_beside_the_documents(tmp_path: Path) -> None:
    asked = []

    def groups(_: Options) -> frontier.Groups:
        def work(data: Any) -> list[frontier_picture.Point]:
            asked.append(data.y.size)
            return [{"name": "gcws, t = 9, ogd", "seconds": 0.5, "accuracy": 0.9}]

        yield "gcws, t = 9", work

    def none(_: Options) -> frontier.Groups:
        yield from ()

    small = frontier.Frontier("tabular", "Tables", "what they are", ("digits",), groups, none, 60.0)
    for _ in range(2):
        assert frontier.measure(small, OPTIONS, tmp_path, unset=[]) == 0
    assert asked == [frontier.FEW]  # the measured call is in another process
    assert "gcws, t = 9, ogd" in (tmp_path / "tabular.md").read_text(encoding="utf-8")
    assert runner.record(tmp_path, ["tabular"], tmp_path / "docs") == ["tabular"]
    assert records.load("tabular", tmp_path / "docs" / "measured").tables[0].columns[2] == "seconds"
    if peers.find("matplotlib") is not None:
        assert (tmp_path / "docs" / "tabular.svg").exists()


def fail(_: Any) -> list[frontier_picture.Point]:
    raise ValueError("no")


def stop(_: Any) -> list[frontier_picture.Point]:
    os._exit(3)


def sleep(_: Any) -> list[frontier_picture.Point]:
    time.sleep(600)
    return []


@pytest.mark.parametrize(
    ("measure", "limit", "said"), [(fail, 60.0, "ValueError: no"), (stop, 60.0, "ended"), (sleep, 0.5, "given up")]
)
def test_points_that_cannot_be_measured(
    measure: Callable[[Any], list[frontier_picture.Point]], limit: float, said: str
) -> None:
    found = frontier.in_own_process(measure, None, limit)  # type: ignore[arg-type]
    assert isinstance(found, str)
    assert said in found


def report() -> dict[str, Any]:
    ours = [
        {"name": "iforest, t = 50, psi = 16, ogd", "seconds": 0.1, "accuracy": 0.8},
        {"name": "anne, t = 50, psi = 16, svm, C = 5", "seconds": 2.0, "accuracy": 0.9},
    ]
    groups = {
        "ours": {"side": "ours", "points": ours},
        "ExtraTrees, 300": {
            "side": "peers",
            "points": [{"name": "ExtraTrees, 300", "seconds": 1.0, "accuracy": 0.85}],
        },
        "RandomForest, 300": {
            "side": "peers",
            "points": [{"name": "RandomForest, 300", "seconds": 3.0, "accuracy": 0.9}],
        },
        "Nystroem": {"side": "peers", "failed": "given up after 1 s"},
    }
    machine = {
        "processor": "P", "cores": 2, "threads": 2, "caches": {}, "memory_bytes": 1 << 30, "system": "S",
        "versions": {}, "blas": [], "unset": [], "date": "D",
    }  # fmt: skip
    return {"datasets": {"some": groups, "other": groups}, "machine": machine}


def test_frontier_is_what_nothing_beats() -> None:
    points = frontier_picture.points_of(report()["datasets"]["some"])
    assert [point["name"].split(",")[0] for point in points if point["frontier"]] == ["iforest", "anne", "ExtraTrees"]
    text = frontier.table(report())
    assert "| some | ExtraTrees, 300 | 1 | 0.8500 | yes |" in text
    assert "| some | RandomForest, 300 | 3 | 0.9000 | - |" in text
    assert "given up after 1 s" in text


@pytest.mark.slow
def test_picture(tmp_path: Path) -> None:
    if peers.find("matplotlib") is None:
        pytest.skip("matplotlib is not installed (make bench)")
    frontier_picture.draw(report(), tmp_path)
    text = (tmp_path / "frontier.svg").read_text(encoding="utf-8")
    assert "ExtraTrees" in text
    assert "ψ=16" in text
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
