"""Alarms of drift in a run: where losses rise, in the report, and the same after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.online import OnlineOptions
from ikmap.drift import ADWIN
from ikmap.tasks import REGRESSION
from ikmap.tasks.criteria import drift_losses
from pipeline.errors import InputError
from tests.support.kills import KilledWhen
from tests.support.metrics import check_metrics
from tests.support.one_process import Command, Heard, one_process
from tests.support.sizes import SmallSizes

N, INITIAL, CHANGE, BLOCK = 1500, 200, 900, 50


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Classes that change places at a row of the stream."""
    rng = np.random.default_rng(1)
    X = rng.random((N, 3)).round(4)
    y = (X[:, 0] > 0.5) ^ (np.arange(N) >= INITIAL + CHANGE)
    path: Path = tmp_path_factory.mktemp("rows") / "rows.csv"
    np.savetxt(path, np.c_[X, y], delimiter=",", header="a,b,c,y", comments="", fmt="%g")
    return path


@pytest.fixture(autouse=True)
def _small_chunks(small_sizes: SmallSizes) -> None:
    small_sizes.stream_chunks(2)


def command(file: Path, **more: Any) -> Command:
    asked = {"t": 20, "psi": 8, "initial": INITIAL, "block_rows": BLOCK, "order": "file", "partitioner": "iforest"}
    return Command(OnlineOptions(input=str(file), learner=("ogd",), **{**asked, **more}))


@pytest.mark.slow
def test_an_alarm_where_the_classes_change(file: Path, tmp_path: Path) -> None:
    heard = Heard()
    with one_process():
        metrics = command(file, drift="adwin").run(tmp_path / "run", heard=heard)
        check_metrics(tmp_path / "run")
        drifts = metrics["learners"]["ogd"]["drifts"]
        killed = KilledWhen(tmp_path / "again" / "records" / "stream" / "ogd-000009.json")
        with pytest.raises(KeyboardInterrupt):
            command(file, drift="adwin").run(tmp_path / "again", heard=killed)
        again = command(file, drift="adwin").run(tmp_path / "again")
    predicted = np.fromfile(tmp_path / "run" / "predictions" / "ogd.int32", np.int32)
    wrong = predicted != np.loadtxt(file, delimiter=",", skiprows=1)[INITIAL:, 3]
    assert drifts == (ADWIN().update(wrong.astype(float)) + 1).tolist()
    assert CHANGE < drifts[0] < CHANGE + 200
    assert again["learners"]["ogd"]["drifts"] == drifts
    assert f"ogd: drift alarm after row {drifts[0]:,} of the stream" in heard.lines
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"Drift alarms (adwin), thin upright lines: ogd after row {drifts[0]:,}" in page
    assert page.count('class="event s0"') == len(drifts)


def test_losses_are_between_0_and_1() -> None:
    task = REGRESSION.of(0.0, 2.0, [])
    assert drift_losses(task, np.array([0.0, 0.0]), np.array([0.0, 4.0])).tolist() == [0.0, 0.8]


def test_options_that_make_no_sense_together() -> None:
    with pytest.raises(InputError, match=r"--drift-delta 0.1: found no --drift, expected adwin"):
        OnlineOptions(input="x.csv", drift_delta=0.1)
