"""Runs that choose the width of a Laplace kernel, for random binning and for random Fourier features."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikmap.methods.lifetime import MULTIPLES
from ikmap.methods.width import GAMMAS
from pipeline.params import Params
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch, run_identity
from pipeline.runs.metrics import Invocation
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.spec import Split
from pipeline.storage.rundir import RunDirectory
from tests.support.in_process import InProcess
from tests.support.metrics import check_metrics
from tests.support.one_process import Heard, forget, one_process

HERE = {"kind": "local", "workers": 1, "threads": 1}
BINNING = {"partitioner": "binning", "learners": ("ridge",), "t": 50}
FOURIER = {"learners": ("fourier-ridge",), "kernel": "laplacian", "features": 50}


def wave(folder: Path, frequency: float) -> Path:
    """Write 240 rows of a wave along a line, whose best kernel is the narrower the higher the frequency is."""
    x = np.random.default_rng(4).random(240) * 10
    y = np.sin(frequency * x)
    file = folder / "rows.csv"
    file.write_text("\n".join(["x,label", *(f"{a:.5f},{b:.5f}" for a, b in zip(x, y, strict=True))]) + "\n")
    return file


def run(path: Path, file: Path, options: dict[str, Any]) -> dict[str, Any]:
    forget()
    params = Params.given(**{"C": 50.0, "cv_rows": 160, "task": "regression", **options})
    data = ResolvedDataset("rows", str(file), None, split=Split(fraction=0.75))
    with closing(RunDirectory(path, run_identity(params.as_json(), data, []))) as held, one_process():
        context = Context(InProcess(), held, params, Heard())
        metrics = run_batch(context, data, Invocation("test", "", HERE, dask_report=False))
    check_metrics(path)
    return metrics


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "option", "n_values"),
    [(BINNING, "lifetime", len(MULTIPLES)), (FOURIER, "gamma", len(GAMMAS))],
    ids=["random binning", "random Fourier features"],
)
def test_the_chosen_width_is_better_than_much_smaller_and_larger_ones(
    options: dict[str, Any], option: str, n_values: int, tmp_path: Path
) -> None:
    (learner,) = options["learners"]
    file = wave(tmp_path, 3.0)
    metrics = run(tmp_path / "auto", file, {**options, option: "auto"})
    selection, width = metrics["selection"], metrics["learners"][learner]["value"]
    # Values of a map stand under its parameter, those of a learner under its name.
    tried = selection["tuned"][learner]["values"] if "tuned" in selection else selection[option]
    assert len(tried) == n_values
    np.testing.assert_allclose(np.diff(np.log2(tried)), 1.0)
    assert metrics["learners"][learner]["parameter"] == option
    assert width in tried
    r2 = metrics["learners"][learner]["r2"]
    assert r2 > 0.9
    for factor in (1 / 64, 64):
        given = run(tmp_path / f"by-{factor}", file, {**options, option: width * factor})
        assert given["learners"][learner]["value"] == width * factor
        assert given["learners"][learner]["r2"] < r2 - 0.3
