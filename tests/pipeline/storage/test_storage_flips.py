"""Damage to what runs have stored, read again in every public way: a small sample of ``tests.soaks.flips``."""

from __future__ import annotations

import json
import pickle
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import load_predictions, load_run
from pipeline.errors import Damaged, InputError
from pipeline.storage.durable import read_json, write_json
from tests.support.damage import flip
from tests.support.stored_runs import DETECTED, HARMLESS, REPAIRED, Failed, Stored, make, readings, verdict

pytestmark = pytest.mark.slow

FLIPS, OTHERS = 20, 10


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[Stored]:
    """A table with words whose decisions were calibrated, and a stream; finished and stopped on their way."""
    return make(tmp_path_factory.mktemp("stored") / "made", {"words", "stream", "stream after stream"})


def finished(stored: list[Stored], name: str, copy: Path) -> Stored:
    (one,) = (one for one in stored if one.name == name)
    shutil.copytree(one.folder, copy, symlinks=True)
    return one


def test_damage_is_repaired_or_said_in_one_line_however_it_is_read(stored: list[Stored], tmp_path: Path) -> None:
    found = list(readings(stored, tmp_path / "work", 1, FLIPS, OTHERS))
    assert [one for one in found if one.verdict not in (HARMLESS, REPAIRED, DETECTED)] == []
    assert Counter(one.verdict for one in found).keys() == {HARMLESS, REPAIRED, DETECTED}


def test_other_values_and_errors_of_other_types_are_told_apart(tmp_path: Path) -> None:
    """The test before this one can fail."""

    def fails(_: Path) -> Any:
        raise Failed("KeyError: 'x'", expected=False)

    def names_nothing(_: Path) -> Any:
        raise Failed("error: something is damaged", expected=True)

    def other(_: Path) -> Any:
        from tests.support.stored_runs import Result

        return Result(np.ones(2))

    one = Stored("run", tmp_path, {"a": fails, "b": names_nothing, "c": other}, {"c": np.zeros(2)})
    seen = [verdict(one, way, Path("models/x"), tmp_path)[0] for way in one.ways]
    assert seen == ["TRACEBACK", "TRACEBACK", "SILENT"]


def test_predictions_of_a_finished_stream_are_verified_on_reading(stored: list[Stored], tmp_path: Path) -> None:
    copy = tmp_path / "run"
    one = finished(stored, "stream", copy)
    raw = np.fromfile(copy / "predictions/ogd.int32", np.int32)
    labels = load_predictions(copy, "ogd")
    assert labels.tolist() == load_run(copy).task.codec.decode(raw).tolist()
    flip(copy / "predictions/ogd.int32", 8 * 4 * 50)
    said = r"predictions/ogd.int32 is damaged .its SHA-256 is wrong.; restore it .*: python -m flows.online .* --fresh$"
    with pytest.raises(Damaged, match=said) as error:
        load_predictions(copy, "ogd")
    assert error.value.__suppress_context__
    assert error.value.__cause__ is None
    found, line = verdict(one, "again", Path("predictions/ogd.int32"), copy)
    assert found == DETECTED
    assert line.endswith("or make the run again: the same command with --fresh")
    # A run of before there were digests of whole files has none to compare with.
    manifest = read_json(copy / "manifest.json")
    del manifest["stages"]["stream"]["result"]["predicted"]
    write_json(copy / "manifest.json", manifest)
    assert np.flatnonzero(load_predictions(copy, "ogd") != labels).tolist() == [50]


def test_only_a_stream_has_predictions(stored: list[Stored], tmp_path: Path) -> None:
    finished(stored, "words", tmp_path / "run")
    with pytest.raises(InputError, match=r"found a run of flows\.batch, expected one of flows\.online"):
        load_predictions(tmp_path / "run")


def test_damage_met_in_predict_is_no_fault_of_the_rows(stored: list[Stored], tmp_path: Path) -> None:
    one = finished(stored, "words", tmp_path / "run")
    chunk = next((tmp_path / "run/store.zarr/data/encoding").glob("*/c/0"))
    flip(chunk, 8 * (chunk.stat().st_size // 2))
    found, line = verdict(one, "load svm", chunk.relative_to(tmp_path / "run"), tmp_path / "run")
    assert found == DETECTED
    assert "; restore it from a copy, or make the run again: python -m flows.batch --config" in line


def test_cells_of_a_stream_that_are_damaged_once_it_has_ended_are_made_again(
    stored: list[Stored], tmp_path: Path
) -> None:
    """All learners are past them: nobody waits for these cells, but the run counts the seconds that they took."""
    one = finished(stored, "stream after stream", tmp_path / "run")
    chunk = next((tmp_path / "run/records/stream").glob("map-*.json"))
    chunk.write_bytes(b"")
    assert verdict(one, "resumed", chunk.relative_to(tmp_path / "run"), tmp_path / "run")[0] == REPAIRED


def test_a_remedy_survives_the_way_from_a_worker() -> None:
    damaged = Damaged("x", "it is empty", "y").with_remedy("do it again")
    again = pickle.loads(pickle.dumps(damaged))
    assert (str(again), again.withdrawn) == ("x is damaged (it is empty); do it again", ("y",))
    assert json.dumps(str(again))
