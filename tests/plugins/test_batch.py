"""Throwaway methods of a batch run, each a file of its own, go through everything without an edit elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.params import Params
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch, run_identity
from pipeline.runs.metrics import Invocation
from pipeline.runs.new_data import open_data
from pipeline.runs.score import score
from pipeline.runs.score_output import Output
from pipeline.runs.trained_model import open_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.spec import Split
from pipeline.storage.durable import read_json
from pipeline.storage.rundir import RunDirectory
from tests.plugins import registered
from tests.plugins.counting import NaiveBayes, NearestMean
from tests.support.calls import killed_at
from tests.support.in_process import InProcess
from tests.support.one_process import Heard, forget, one_process, results, write_rows
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.slow

KINDS: tuple[Any, ...] = (NaiveBayes, NearestMean)
NAMES = tuple(kind.about.name for kind in KINDS)


@pytest.fixture(autouse=True)
def _known(small_sizes: SmallSizes) -> Iterator[None]:
    # Small enough for several blocks in several tasks.
    small_sizes.learning_blocks(16)
    small_sizes.counted_pieces(5)
    with registered(*KINDS):
        yield


def run(path: Path, file: Path, shard_rows: int = 64, psi: Any = 8) -> dict[str, Any]:
    """A run in this process; the command line knows only what is installed when it starts."""
    forget()
    params = Params.given(learners=NAMES, t=7, psi=psi, shard_rows=shard_rows, cv_rows=150, select_by="accuracy")
    data = ResolvedDataset("rows", str(file), None, split=Split(fraction=0.75))
    with closing(RunDirectory(path, run_identity(params.as_json(), data, []))) as held:
        context = Context(InProcess(), held, params, Heard())
        return run_batch(context, data, Invocation("test", "", {"kind": "local", "workers": 1}, dask_report=False))


def score_file(model: Path, learner: str, file: Path, out: Path) -> dict[str, Any]:
    forget()
    found = open_run(str(model), learner)
    client: Any = InProcess()
    with Output(str(out)) as output:
        return score(client, found, open_data(found, str(file)), output, Heard())


def test_counts_are_the_same_for_any_shards_and_after_a_kill(tmp_path: Path) -> None:
    file = write_rows(tmp_path)
    with one_process():
        run(tmp_path / "whole", file, 64, "auto")
        run(tmp_path / "other", file, 128, "auto")
        for name, kind in zip(NAMES, KINDS, strict=True):
            with killed_at(kind.count, 5):
                run(tmp_path / f"killed-{name}", file)
            run(tmp_path / f"killed-{name}", file)
        run(tmp_path / "given", file)
        given, whole, other = (results(tmp_path / where) for where in ("given", "whole", "other"))
        for name in NAMES:
            assert results(tmp_path / f"killed-{name}") == given
            stage = next(
                s
                for s in read_json(tmp_path / f"killed-{name}" / "metrics.json")["stages"]
                if s["name"] == f"train:{name}"
            )
            assert (stage["tasks"], stage["tasks_skipped"]) == (6, 1)  # what was counted before is not counted again
            assert not (tmp_path / "whole" / "store.zarr" / "models" / f"{name}-counts").exists()
            assert score_file(tmp_path / "whole", name, file, tmp_path / "out.parquet")["accuracy"] > 0.5
    assert whole == other
    metrics = read_json(tmp_path / "whole" / "metrics.json")
    selection = metrics["selection"]
    assert selection["chosen"].keys() == {NaiveBayes.about.name}
    for name in NAMES:
        assert metrics["learners"][name]["rows_counted"] == metrics["data"]["rows_train"]
        assert metrics["learners"][name]["accuracy"] > 0.5
    assert len(np.unique(selection["accuracy"][NaiveBayes.about.name])) > 1
