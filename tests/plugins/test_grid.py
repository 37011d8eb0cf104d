"""A kernel with two numbers to choose: every pair is tried, and what the pairs have in common is computed once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikmap.kernels.tabled import KernelTable, numbered
from ikmap.learners.kernel.kernel_svm import KernelSVMParams, fit_kernel_svm
from ikmap.methods import KERNELS, register, search_of
from ikmap.methods import checks as conformance
from ikmap.methods import kernel_on_rows as on_rows
from ikmap.methods.kernel_svm import KernelSVM
from ikmap.model_selection import folds
from pipeline.params import Params
from pipeline.record_types import SelectResult
from pipeline.report import render_report
from pipeline.rows.prepared import PreparedRows
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch, run_identity
from pipeline.runs.metrics import Invocation
from pipeline.runs.online import OnlineParams, run_online
from pipeline.runs.trained import load_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.spec import Split
from pipeline.stages.select import select
from pipeline.storage.rundir import RunDirectory
from tests.plugins.two_option_kernel import COMPUTED, GAMMAS, POWERS, Power, PowerKernel, known
from tests.support.in_process import InProcess
from tests.support.narrow import entries
from tests.support.one_process import Heard, forget, one_process
from tests.support.runs import context, points, store_rows

pytestmark = pytest.mark.slow

LEARNT = ("kernel-svm", "kernel-ogd")


@pytest.fixture(autouse=True)
def power() -> Iterator[None]:
    with known():
        COMPUTED.clear()
        yield


def params(**values: Any) -> Params:
    return Params.given(**{"learners": LEARNT, "kernel": PowerKernel.name, "select_by": "accuracy"} | values)


def found_by(path: Path, **values: Any) -> SelectResult:
    ctx = context(path, params(**values))
    store_rows(ctx.store, *points(150))
    return select(ctx)


def test_the_kernel_holds_what_kernels_have_to() -> None:
    assert conformance.main([PowerKernel.name]) == 0


class OfGamma(PowerKernel):
    """A kernel whose shared part depends on the width."""

    def shared(self, left: Any, right: Any, out: np.ndarray) -> None:
        out[:] = self.gamma * np.abs(left.rows[:, None] - right.rows[None]).sum(axis=2)


class PowerOfGamma(Power):
    def kernel(self, n_columns: int) -> PowerKernel:
        return OfGamma(self.power_p, self.power_gamma)


def test_a_shared_part_that_depends_on_other_numbers_is_found_out(capsys: pytest.CaptureFixture[str]) -> None:
    del KERNELS[PowerKernel.name]
    register(PowerOfGamma, "throwaway")
    assert conformance.main([PowerKernel.name]) == 1
    assert "shared" in capsys.readouterr().out


@pytest.mark.parametrize("search", ["full", "race"])
def test_every_pair_is_tried_and_the_best_is_chosen(tmp_path: Path, search: str) -> None:
    found = json.loads(json.dumps(found_by(tmp_path, search=search)))
    for name in LEARNT:
        tuned = found["tuned"][name]
        assert tuned["parameter"] == "p, gamma"
        assert tuned["values"] == [list(pair) for pair in product(POWERS, GAMMAS)]
        assert tuned["chosen"] in tuned["values"]
    assert found["tuned"]["kernel-svm"]["folds_tried"] == [5] * 9 or search == "race"


def test_the_figures_are_those_of_a_loop_over_all_pairs(tmp_path: Path) -> None:
    ctx = context(tmp_path, params(learners=("kernel-svm",), search="full"))
    store_rows(ctx.store, *points(150))
    tuned = select(ctx)["tuned"]["kernel-svm"]
    block = PreparedRows(ctx.store, "train").take(np.arange(PreparedRows(ctx.store, "train").n_rows))
    rows: Any = block.rows
    expected = []
    for p, gamma in product(POWERS, GAMMAS):
        right = []
        for fit, held_out in folds(block.y.size, ctx.params.seed):
            svm = ctx.params.of("kernel-svm")
            assert isinstance(svm, KernelSVM)
            asked = KernelSVMParams(C=svm.C)
            model = fit_kernel_svm(rows[fit], block.y[fit], 2, PowerKernel(p, gamma), asked, [0, 1])
            right.append((model.decision_function(rows[held_out])[:, 0] >= 0) == block.y[held_out])
        expected.append(float(np.concatenate(right).mean()))
    assert entries(tuned)["accuracy"] == expected
    assert tuned["chosen"] == list(product(POWERS, GAMMAS))[int(np.argmax(expected))]


def test_shared_blocks_are_computed_once_and_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"learners": ("kernel-svm", "kernel-ogd"), "search": "full"}
    shared = found_by(tmp_path / "shared", **chosen)
    n_shared = sum(COMPUTED)
    COMPUTED.clear()
    monkeypatch.setattr(on_rows, "TABLE_BYTES", 0)
    alone = found_by(tmp_path / "alone", **chosen)
    assert shared["tuned"] == alone["tuned"]
    # For each fold, learner and p: 120 rows with themselves, of which one half may be left out, and with 30 others.
    assert n_shared <= 5 * 2 * len(POWERS) * 120 * 150
    assert sum(COMPUTED) > 2 * n_shared


def test_a_table_has_the_values_of_the_kernel() -> None:
    X, _ = points(40)
    kernel = PowerKernel(0.5, 2.0)
    tabled: Any = KernelTable.of(kernel, X[:30], X[30:]).kernel(kernel)
    expected = kernel.matrix(X[:30], X, 1)
    assert np.array_equal(tabled.matrix(numbered(0, 30), numbered(0, 40), 1), expected)
    assert np.array_equal(tabled.matrix(numbered(30, 10), numbered(0, 30), 1), expected[:, 30:].T)


def test_a_number_that_is_given_is_not_searched(tmp_path: Path) -> None:
    found = found_by(tmp_path, learners=("kernel-svm",), power_p=1.0)
    assert found["tuned"]["kernel-svm"]["parameter"] == "gamma, p"
    assert found["tuned"]["kernel-svm"]["values"] == [(gamma, 1.0) for gamma in GAMMAS]
    both = params(learners=("kernel-svm",), power_p=1.0, power_gamma=2.0)
    assert search_of(both.of("kernel-svm"), both.searched("kernel-svm"), 100) is None
    assert both.value("kernel-svm") == (1.0, 2.0)


def run(path: Path, file: Path, stop_at: int | None = None, online: OnlineParams | None = None, **values: Any) -> Any:
    """A run in this process; `stop_at`: killed after so many tasks of select."""
    forget()
    asked = params(learners=("kernel-ogd",)) if online else params(cv_rows=100, **values)
    data = ResolvedDataset("table", str(file), None, label="y", split=Split(fraction=0.75))
    with closing(RunDirectory(path, run_identity(asked.as_json(), data, []))) as held:
        heard = Heard()
        context = Context(InProcess(), held, asked, heard)
        how = Invocation("test", "", {"kind": "local", "workers": 1}, dask_report=False)
        if stop_at is not None:
            left = iter(range(stop_at))

            def killed(name: str, record: Any) -> None:  # noqa: ARG001
                if name == "select" and next(left, None) is None:
                    raise KeyboardInterrupt

            heard.task_done = killed  # type: ignore[method-assign]
        return run_online(context, data, how, online) if online else run_batch(context, data, how)


def test_a_run_goes_through_and_on_after_a_kill(tmp_path: Path) -> None:
    X, y = points(160)
    rows = (",".join(map(repr, row.tolist())) + f",{label}" for row, label in zip(X, y, strict=True))
    (tmp_path / "rows.csv").write_text(",".join(f"x{j}" for j in range(X.shape[1])) + ",y\n" + "\n".join(rows) + "\n")
    with one_process():
        whole = run(tmp_path / "whole", tmp_path / "rows.csv")
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "cut", tmp_path / "rows.csv", stop_at=7)
        resumed = run(tmp_path / "cut", tmp_path / "rows.csv")
        streamed = run(tmp_path / "stream", tmp_path / "rows.csv", online=OnlineParams(60, 20))
        assert load_run(tmp_path / "whole", "kernel-svm").predict(points(5)[0]).size == 5
    for name in LEARNT:
        about = whole["learners"][name]
        assert about["parameter"] == "p, gamma"
        assert list(about["value"]) == list(whole["selection"]["tuned"][name]["chosen"])
        assert resumed["learners"][name]["content_hash"] == about["content_hash"]
    assert streamed["learners"]["kernel-ogd"]["value"]
    page = render_report(whole)
    assert "Cross-validation of p<" in page
    assert "Cross-validation of gamma<" in page
    assert "best of 3 tried" in page
