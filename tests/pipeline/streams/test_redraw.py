"""Partitionings drawn anew after an alarm: what is predicted then, the same after a kill, and the model at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.online import OnlineOptions
from ikmap.drift import ADWIN
from ikmap.learners.online.ogd import OGDState
from ikmap.methods import Sample
from ikmap.methods.iforest import IForest
from ikmap.partitioners.redrawn import carry_matrix, seed_of_redraw
from pipeline.errors import InputError
from pipeline.runs.trained import load_run
from tests.support.kills import KilledWhen
from tests.support.metrics import check_metrics
from tests.support.one_process import Command, Heard, one_process
from tests.support.sizes import SmallSizes

N, INITIAL, BLOCK, ROWS, T, PSI = 1700, 200, 50, 120, 10, 8
CHANGES = (500, 1000)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows that move elsewhere, twice, where the classes lie the other way round."""
    rng = np.random.default_rng(1)
    part = np.searchsorted(np.array(CHANGES) + INITIAL, np.arange(N), side="right")
    X = (rng.random((N, 3)) + 2.0 * part[:, None]).round(4)
    y = (X[:, 0] - 2.0 * part > 0.5) ^ (part % 2 == 1)
    path: Path = tmp_path_factory.mktemp("rows") / "rows.csv"
    np.savetxt(path, np.c_[X, y], delimiter=",", header="a,b,c,y", comments="", fmt="%g")
    return path


@pytest.fixture(autouse=True)
def _small_chunks(small_sizes: SmallSizes) -> None:
    small_sizes.stream_chunks(2)


def command(file: Path, **more: Any) -> Command:
    asked = {"t": T, "psi": PSI, "initial": INITIAL, "block_rows": BLOCK, "order": "file", "partitioner": "iforest"}
    asked |= {"drift": "adwin", "on_drift": "redraw", "redraw_rows": ROWS, "seed": 3}
    return Command(OnlineOptions(input=str(file), **{"learner": ("ogd",), **asked, **more}))


def predictions(run: Path, learner: str = "ogd") -> np.ndarray:
    return np.fromfile(run / "predictions" / f"{learner}.int32", np.int32)


def by_hand(path: Path) -> tuple[np.ndarray, list[int], list[int], Any]:
    """The same stream, block by block, as the documentation tells it."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    X, y = np.ascontiguousarray(table[:, :3]), table[:, 3].astype(np.int32)
    of_map = IForest(t=T, psi=PSI)
    model = of_map.fit(Sample(INITIAL, 3, None, X[:INITIAL].__getitem__, 3))
    state, detector = OGDState.start(int(model.offsets[-1]), 2, 0.5, T), ADWIN()
    state.partial_fit(model.cells(X[:INITIAL]).packed(), y[:INITIAL])
    predicted, alarms, since = [], [], 0
    redraws: list[Any] = []
    for start in range(INITIAL, N, BLOCK):
        block, labels = X[start : start + BLOCK], y[start : start + BLOCK]
        cells = model.cells(block).packed()
        predicted.append((state.decision_function(cells)[:, 0] >= 0).astype(np.int32))
        state.partial_fit(cells, labels)
        found = detector.update((predicted[-1] != labels).astype(float))
        alarms += (start - INITIAL + 1 + found).tolist()
        stop = start + BLOCK
        if since and stop - since >= ROWS:
            recent = X[since:stop]
            sample = Sample(len(recent), 3, None, recent.__getitem__, seed_of_redraw(3, len(redraws) + 1))
            redraws.append(stop - INITIAL)
            new, drawn = of_map.redrawn(model, sample, len(redraws))
            state.carry(carry_matrix(model.cells(recent), new.cells(recent), drawn), new.offsets)
            model, since = new, 0
        elif not since and found.size:
            since = stop
    scores = state.decision_function(model.cells(X).packed())
    return np.concatenate(predicted), alarms, redraws, scores


@pytest.mark.slow
def test_as_told_and_after_a_kill(file: Path, tmp_path: Path) -> None:
    predicted, alarms, redraws, scores = by_hand(file)
    heard = Heard()
    with one_process():
        metrics = command(file).run(tmp_path / "run", heard=heard)
        check_metrics(tmp_path / "run")
        for k in ("ogd-000006", "ogd-000012"):  # while rows are gathered, and after a redraw
            killed = KilledWhen(tmp_path / "again" / "records" / "stream" / f"{k}.json")
            with pytest.raises(KeyboardInterrupt):
                command(file).run(tmp_path / "again", heard=killed)
        again = command(file).run(tmp_path / "again")
    learner = metrics["learners"]["ogd"]
    assert (learner["drifts"], learner["redraws"]) == (alarms, redraws)
    assert len(redraws) >= 2
    assert CHANGES[0] < redraws[0] < CHANGES[0] + 300
    np.testing.assert_array_equal(predictions(tmp_path / "run"), predicted)
    np.testing.assert_array_equal(predictions(tmp_path / "again"), predicted)
    for key in ("content_hash", "drifts", "redraws", "accuracy"):
        assert again["learners"]["ogd"][key] == learner[key]
    assert f"ogd: half of its partitionings drawn anew after row {redraws[0]:,} of the stream" in heard.lines
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"Half of the partitionings were drawn anew, also marked: ogd after row {redraws[0]:,}" in page
    assert page.count('class="event s0"') == len(alarms) + len(redraws)
    X = np.loadtxt(file, delimiter=",", skiprows=1)[:, :3]
    np.testing.assert_allclose(load_run(tmp_path / "run").decision_function(X), scores[:, 0], rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_however_rows_are_put_together_to_chunks(file: Path, tmp_path: Path, small_sizes: SmallSizes) -> None:
    learners = ("ogd", "norma", "kernel-ogd")
    with one_process():
        two = command(file, learner=learners, partitioner="anne").run(tmp_path / "two")
        small_sizes.stream_chunks(7)
        seven = command(file, learner=learners, partitioner="anne").run(tmp_path / "seven")
    assert two["learners"]["ogd"]["redraws"]
    assert "redraws" not in two["learners"]["kernel-ogd"]  # it has no partitionings
    for name in learners:
        assert two["learners"][name]["content_hash"] == seven["learners"][name]["content_hash"]
        np.testing.assert_array_equal(predictions(tmp_path / "two", name), predictions(tmp_path / "seven", name))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"drift": "none"}, "--on-drift redraw: found no --drift, expected adwin or page-hinkley: type --drift adwin"),
        ({"on_drift": "mark"}, "--redraw-rows 120: found --on-drift mark, expected --on-drift redraw"),
        (
            {"partitioner": "mondrian", "psi": None},
            "found --partitioner mondrian, whose partitionings grow ",
        ),
        (
            {"partitioner": "forest"},
            "found --partitioner forest, whose partitionings are grown by labels of the first rows; ",
        ),
        ({"partitioner": "gcws", "psi": None}, "found --partitioner gcws, whose partitionings do not depend on rows; "),
        ({"learner": ("kernel-ogd",)}, "--on-drift redraw: found --learner kernel-ogd, which has no partitionings; "),
        (
            {"learner": ("online-ridge",)},
            "found --learner online-ridge, which cannot go on with other partitionings; ",
        ),
    ],
)
def test_what_cannot_be_is_refused(more: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"learner": ("ogd",), "drift": "adwin", "on_drift": "redraw", "redraw_rows": 120, **more}
    with pytest.raises(InputError) as caught:
        OnlineOptions(input="x.csv", **{name: value for name, value in asked.items() if value is not None})
    assert said in str(caught.value)


def test_too_few_rows_for_the_cells_are_refused(file: Path, tmp_path: Path) -> None:
    with one_process(), pytest.raises(InputError, match=r"--redraw-rows 5: found too few rows .* give --redraw-rows 8"):
        command(file, redraw_rows=5).run(tmp_path / "run")
