"""A metric of its own needs one file: it is accumulated, searched by, reported and described in the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ikmap.methods.registry import GROUP, _load, offered, register
from ikmap.tasks import CLASSIFICATION, METRICS, REGRESSION, Metric, Sentences, criteria, criterion_of, unregister
from ikmap.tasks.capabilities import calibrated
from ikmap.tasks.checks import check_criterion
from ikmap.tasks.classification.calibration import LOG_ODDS, fit_calibrator
from ikmap.tasks.classification.criteria import ByProbabilities
from ikmap.tasks.scoring import accumulate, state_from, total
from pipeline.params import Params
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch, run_identity
from pipeline.runs.metrics import Invocation
from pipeline.runs.schema import metrics_schema
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.spec import Split
from pipeline.storage.rundir import RunDirectory
from tests.plugins.brier_skill import BrierSkill
from tests.plugins.test_task import write_numbers
from tests.plugins.within_metric import Within
from tests.support.in_process import InProcess
from tests.support.metrics import check_metrics
from tests.support.one_process import Heard, forget, one_process

KEY = Within.metric.key


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    register(Within, "strange")
    yield
    unregister(KEY)


def test_it_is_one_small_file() -> None:
    assert len((Path(__file__).parent / "within_metric.py").read_text().splitlines()) <= 30


def test_a_package_brings_it_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unregister(KEY)
    about = tmp_path / "strange-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ikmap.methods]\nwithin = tests.plugins.within_metric:Within\n")
    monkeypatch.delenv("IKMAP_PACKAGES", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (point,) = [point for point in offered(GROUP) if point.name == "within"]
    _load(point)
    assert METRICS[KEY] is Within


def test_it_adds_up_over_shards() -> None:
    rng = np.random.default_rng(0)
    y = 1 + rng.random(300)
    task, decision = REGRESSION.of(float(y.mean()), float(y.std())), (y * (1 + 0.15 * rng.normal(size=300)))[:, None]
    whole = accumulate(task, y, decision)
    expected = float((np.abs(y - decision[:, 0]) <= 0.1 * y).mean())
    assert whole.metrics()[KEY] == pytest.approx(expected, rel=1e-12)
    cuts = (slice(0, 1), slice(1, 200), slice(200, None))
    parts = [json.loads(json.dumps(accumulate(task, y[rows], decision[rows]).as_json())) for rows in cuts]
    assert total(task, parts).metrics() == whole.metrics()
    assert total(task, parts).rows == 300
    assert state_from(task, None).metrics()[KEY] is None
    before: Any = whole.as_json()  # a record of a time when each metric had one sum
    before["metrics"][KEY] = before["metrics"][KEY][0]
    assert state_from(task, before).metrics() == whole.metrics()
    # Without it, records are those of the scorer alone; with it or without, either kind of record is read.
    unregister(KEY)
    alone = accumulate(task, y, decision)
    assert alone.as_json() == whole.as_json()["task"]  # type: ignore[index, call-overload]
    assert total(task, parts).metrics() == alone.metrics()
    register(Within)
    assert total(task, [alone.as_json()]).metrics() == alone.metrics()


def test_a_search_may_go_by_it() -> None:
    assert KEY in criteria()
    criterion = criterion_of(REGRESSION.of(), KEY)
    scores = criterion.row_scores(np.array([1.0, 2.0]), np.array([1.05, 3.0]))
    assert (scores.tolist(), criterion.score(scores.sum(), scores.size)) == ([True, False], 0.5)


def test_its_name_is_its_own() -> None:
    with pytest.raises(ValueError, match="package other: its metric 'within_tenth' has a name that ikmap has taken"):
        register(Within, "other")
    assert METRICS[KEY] is Within


@pytest.mark.slow
def test_a_run_reports_it_and_chooses_by_it(tmp_path: Path) -> None:
    write_numbers(tmp_path / "rows.csv")
    params = Params.given(
        task="regression", learners=("ridge",), t=12, psi="auto", partitioner="anne", cv_rows=150, select_by=KEY
    )
    data = ResolvedDataset("numbers", str(tmp_path / "rows.csv"), None, label="y", split=Split(fraction=0.75))
    forget()
    path = tmp_path / "run"
    with one_process(), closing(RunDirectory(path, run_identity(params.as_json(), data, []))) as held:
        context = Context(InProcess(), held, params, Heard())
        how = Invocation("test", "", {"kind": "local", "workers": 1, "threads": 1}, dask_report=False)
        metrics = run_batch(context, data, how)
    check_metrics(path)
    assert 0 < metrics["learners"]["ridge"][KEY] <= 1
    assert metrics["selection"]["by"] == KEY
    assert len(metrics["selection"][KEY]["ridge"]) > 1
    assert "within tenth" in (path / "report.html").read_text()
    assert metrics_schema()["$defs"]["learner"]["properties"][KEY]["oneOf"][1]["maximum"] == 1


class Certainty(ByProbabilities):
    metric: ClassVar[Metric] = Metric("certainty", "number", Sentences.about("Mean probability of the class"))
    tasks: ClassVar[frozenset[str]] = frozenset({"classification"})

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        own: np.ndarray = self.probabilities(target, predicted)[np.arange(target.size), target]
        return own


def test_a_metric_by_probabilities_is_known_only_where_these_are() -> None:
    """Else it would be fitted to the block of rows that it scores, and depend on how rows are cut."""
    register(Certainty, "strange")
    try:
        rng = np.random.default_rng(0)
        task, y, decision = CLASSIFICATION.of([0, 1]), rng.integers(0, 2, 40).astype(np.int32), rng.normal(size=(40, 1))
        assert accumulate(task, y, decision).metrics()["certainty"] is None
        known = calibrated(task, fit_calibrator(LOG_ODDS))
        own = 1 / (1 + np.exp(np.where(y == 1, -decision[:, 0], decision[:, 0])))
        assert accumulate(known, y, decision).metrics()["certainty"] == pytest.approx(own.mean(), rel=1e-9)
        parts = [accumulate(known, y[rows], decision[rows]).as_json() for rows in (slice(0, 7), slice(7, 40))]
        assert total(known, parts).metrics() == accumulate(known, y, decision).metrics()
    finally:
        unregister("certainty")


def test_a_metric_that_is_a_ratio_of_sums() -> None:
    """It is exact over shards, and its mean over the rows of a fold is what a search goes by."""
    assert len((Path(__file__).parent / "brier_skill.py").read_text().splitlines()) <= 30
    register(BrierSkill, "strange")
    try:
        rng = np.random.default_rng(0)
        y = (rng.random(200) < 0.3).astype(np.int32)
        decision = (y + rng.normal(size=200) - 1)[:, None]
        task = calibrated(CLASSIFICATION.of([0, 1]), fit_calibrator(LOG_ODDS))
        probability = 1 / (1 + np.exp(-decision[:, 0]))
        expected = 1 - ((probability - y) ** 2).sum() / ((y.mean() - y) ** 2).sum()
        whole = accumulate(task, y, decision)
        assert whole.metrics()["brier_skill"] == pytest.approx(expected, rel=1e-9)
        cuts = (slice(0, 1), slice(1, 9), slice(9, 200))
        parts = [json.loads(json.dumps(accumulate(task, y[rows], decision[rows]).as_json())) for rows in cuts]
        assert total(task, parts).metrics() == whole.metrics()
        nothing = state_from(task, None)
        assert nothing.metrics()["brier_skill"] is None
        assert (nothing + whole).metrics() == (whole + nothing).metrics() == whole.metrics()
        assert BrierSkill(task).row_scores(y, decision).mean() == pytest.approx(expected, rel=1e-9)
        assert check_criterion(BrierSkill) == []
    finally:
        unregister("brier_skill")
