"""C is chosen for a learner of any kind that marks it, on a batch run and on a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikmap.learners.linear_model import LinearModel
from ikmap.methods import LEARNERS, fields_of
from ikmap.model_selection import values_of_C
from pipeline.params import Params
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch, run_identity
from pipeline.runs.metrics import Invocation
from pipeline.runs.online import OnlineParams, run_online
from pipeline.runs.trained_model import open_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.spec import Split
from pipeline.storage.rundir import RunDirectory
from tests.plugins import registered
from tests.plugins.cautious import Cautious
from tests.support.in_process import InProcess
from tests.support.one_process import Heard, forget, one_process, write_rows

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with registered(Cautious):
        yield


def run(path: Path, file: Path, C: Any) -> dict[str, Any]:
    forget()
    params = Params.given(learners=("cautious",), t=7, psi=8, C=C, cv_rows=150, select_by="accuracy", search="full")
    data = ResolvedDataset("rows", str(file), None, split=Split(fraction=0.75))
    held = RunDirectory(path, run_identity(params.as_json(), data, []))
    try:
        context = Context(InProcess(), held, params, Heard())
        return run_batch(context, data, Invocation("test", "", {"kind": "local", "workers": 1}, dask_report=False))
    finally:
        held.close()


def test_every_C_is_scored_and_the_best_is_trained_with(tmp_path: Path) -> None:
    file = write_rows(tmp_path)
    with one_process():
        run(tmp_path / "auto", file, "auto")
        selection = json.loads((tmp_path / "auto" / "metrics.json").read_text())["selection"]
        (scores,) = selection["accuracy_by_C"]["cautious"]
        Cs = list(values_of_C(2))
        assert selection["C"] == Cs
        assert len(set(scores)) > 2  # as far as every fold went on
        best = Cs[scores.index(max(scores))]
        assert selection["chosen_C"] == {"cautious": best}
        run(tmp_path / "given", file, best)
    assert accuracy(tmp_path / "auto") == accuracy(tmp_path / "given")


def run_stream(path: Path, file: Path, C: Any) -> dict[str, Any]:
    forget()
    params = Params.given(learners=("cautious",), t=7, psi=8, C=C, select_by="accuracy", search="full", order="file")
    data = ResolvedDataset("rows", str(file), None, split=Split(fraction=0.75))
    with closing(RunDirectory(path, {"params": params.as_json(), "data": {"label": None}, "online": {}})) as held:
        context = Context(InProcess(), held, params, Heard())
        how = Invocation("test", "", {"kind": "local", "workers": 1, "threads": 1}, dask_report=False)
        return run_online(context, data, how, OnlineParams(initial=100, block_rows=50))


def test_a_stream_is_learned_with_the_C_that_was_chosen(tmp_path: Path) -> None:
    file = write_rows(tmp_path)
    with one_process():
        run_stream(tmp_path / "auto", file, "auto")
        chosen = json.loads((tmp_path / "auto" / "metrics.json").read_text())["selection"]["chosen_C"]["cautious"]
        assert chosen != Cautious().C
        run_stream(tmp_path / "given", file, chosen)
        run_stream(tmp_path / "default", file, Cautious().C)
    models = {name: weights(tmp_path / name) for name in ("auto", "given", "default")}
    np.testing.assert_array_equal(models["auto"], models["given"])
    assert not np.array_equal(models["auto"], models["default"])


def weights(run: Path) -> np.ndarray:
    model = open_run(str(run), "cautious").load()[1]
    assert isinstance(model, LinearModel)
    return model.coef


def accuracy(run: Path) -> float:
    found: float = json.loads((run / "metrics.json").read_text())["learners"]["cautious"]["accuracy"]
    return found


def test_learners_of_ours_on_cells_search_nothing_else() -> None:
    """Those of packages are refused as they are registered."""
    on_cells = {name: fields_of(kind) for name, kind in LEARNERS.items() if kind.about.on == "cells"}
    searched = {key for fields in on_cells.values() for key, field in fields.items() if field.searched is not None}
    assert searched == {"C"}
