"""A kernel of another package is named, tuned, trained, scored and gone on with as ours are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from ikmap.kernels import kernel_as_dict, kernel_from
from ikmap.methods import InvalidValue, KernelAbout, OnKernel, search_of
from ikmap.methods.kinds import Choice
from ikmap.methods.registry import WITHOUT_PAPERS, has_papers
from ikmap.rows import Rows
from pipeline.errors import InputError, InvalidValues, NegativeValues
from pipeline.params import Params
from pipeline.resolve import chosen, shared_out
from pipeline.rows.values import check_values
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch, run_identity
from pipeline.runs.metrics import Invocation
from pipeline.runs.online import OnlineParams, run_online
from pipeline.runs.trained import load_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.spec import Split
from pipeline.storage.rundir import RunDirectory
from tests.plugins import registered
from tests.plugins.cauchy_kernel import WIDTHS, Cauchy, CauchyKernel, known
from tests.support.in_process import InProcess
from tests.support.one_process import Heard, forget, one_process
from tests.support.runs import context, points, store_rows

LEARNT = ("kernel-svm", "kernel-ogd")


@pytest.fixture(autouse=True)
def cauchy() -> Iterator[None]:
    with known():
        yield


def params(**values: Any) -> Params:
    return Params.given(**{"learners": LEARNT, "kernel": CauchyKernel.name} | values)


def test_its_options_are_those_of_the_run() -> None:
    asked = params(cauchy_width=0.5)
    assert asked.methods[CauchyKernel.name] == {"cauchy_width": 0.5}
    assert "laplacian" not in asked.methods
    assert [asked.value(name) for name in LEARNT] == [0.5] * 2
    ogd = params(scoped={CauchyKernel.name: {"cauchy_width": 2.0}}).of("kernel-ogd")
    assert isinstance(ogd, OnKernel)
    assert ogd.kernel == Cauchy(cauchy_width=2.0)
    with pytest.raises(InputError, match=r"--gamma 1\.0: found --kernel throwaway-cauchy, expected one of laplacian"):
        params(gamma=1.0)
    with pytest.raises(InputError, match="no random Fourier features of it, expected one of laplacian, gaussian"):
        params(learners=("fourier-linear",))


def test_two_learners_of_a_run_have_the_same_kernel_unless_told_otherwise() -> None:
    asked = params(scoped={"kernel-ogd": {"kernel": "gaussian"}, "gaussian": {"gamma": 0.25}})
    assert [asked.kernel(name) for name in LEARNT] == [CauchyKernel.name, "gaussian"]
    assert asked.value("kernel-ogd") == 0.25
    search = search_of(asked.of("kernel-svm"), asked.searched("kernel-svm"), 100)
    assert search is not None
    assert search.values == WIDTHS
    of = chosen("anne", ["kernel-ogd"])
    with pytest.raises(
        InputError, match=r"--gaussian\.gamma 1: found kernel-ogd laplacian chosen; add --kernel gaussian"
    ):
        shared_out(of, {}, {"gaussian": {"gamma": 1}})


def test_the_command_line_lists_it() -> None:
    asked = BatchOptions.parse(["--dataset", "a9a", "--learner", "kernel-ogd", "--kernel", CauchyKernel.name])
    assert set(asked.by_method) == {"kernel-ogd", CauchyKernel.name}
    kind = BatchOptions.specs()["kernel"].kind
    assert isinstance(kind, Choice)
    assert CauchyKernel.name in kind.known
    without_papers = "" if has_papers() else f"; {re.escape(WITHOUT_PAPERS)}"
    with pytest.raises(
        InputError, match=f"expected one of laplacian, gaussian, .*, {CauchyKernel.name}{without_papers}$"
    ):
        BatchOptions.parse(["--dataset", "a9a", "--learner", "kernel-ogd", "--kernel", "isolation"])


def test_values_that_a_kernel_cannot_take_are_refused_for_every_learner() -> None:
    rows = np.array([[0.5, -1.0]])
    with pytest.raises(InputError, match=r"row 1, feature 2: found -1, expected a value >= 0 for --learner kernel-ogd"):
        check_values("kernel-ogd", rows, lambda row: f"row {row + 1}", None, kernel="chi2")
    check_values("kernel-ogd", rows, lambda row: f"row {row + 1}", None, kernel=CauchyKernel.name)


def test_only_negative_values_are_refused_with_the_option_that_scales_them() -> None:
    class UpToOne(Cauchy):
        about: ClassVar[KernelAbout] = replace(Cauchy.about, name="up-to-one")

        def first_invalid(self, rows: Rows) -> InvalidValue | None:
            return InvalidValue(0, 1, 2.0, "a value <= 1")

    rows, refusal = np.array([[0.5, 2.0]]), r"found 2, expected a value <= 1 for --learner kernel-ogd$"
    with registered(UpToOne), pytest.raises(InvalidValues, match=refusal) as refused:
        check_values("kernel-ogd", rows, lambda row: f"row {row + 1}", None, kernel="up-to-one")
    assert not isinstance(refused.value, NegativeValues)
    with pytest.raises(NegativeValues, match=r"for --learner kernel-ogd \(--scale minmax\)$"):
        check_values("kernel-ogd", -rows, lambda row: f"row {row + 1}", None, kernel="chi2")


def test_a_model_with_it_is_read_by_its_name() -> None:
    assert kernel_from(kernel_as_dict(CauchyKernel(0.5))) == CauchyKernel(0.5)


@pytest.mark.slow
def test_cross_validation_chooses_its_width(tmp_path: Path) -> None:
    from pipeline.stages.select import select

    ctx = context(tmp_path, params())
    store_rows(ctx.store, *points(120))
    for tuned in select(ctx)["tuned"].values():
        assert tuned["parameter"] == "width"
        assert tuned["values"] == list(WIDTHS)
        assert tuned["chosen"] in WIDTHS


def run(path: Path, file: Path, online: OnlineParams | None = None) -> dict[str, Any]:
    """A run in this process."""
    forget()
    asked = params(learners=("kernel-ogd",)) if online else params(cv_rows=100)
    data = ResolvedDataset("table", str(file), None, label="y", split=Split(fraction=0.75))
    with closing(RunDirectory(path, run_identity(asked.as_json(), data, []))) as held:
        context = Context(InProcess(), held, asked, Heard())
        how = Invocation("test", "", {"kind": "local", "workers": 1}, dask_report=False)
        return run_online(context, data, how, online) if online else run_batch(context, data, how)


def write_table(path: Path) -> None:
    X, y = points(160)
    rows = (",".join(map(repr, row.tolist())) + f",{label}" for row, label in zip(X, y, strict=True))
    path.write_text(",".join(f"x{j}" for j in range(X.shape[1])) + ",y\n" + "\n".join(rows) + "\n")


@pytest.mark.slow
def test_a_run_with_it_goes_through(tmp_path: Path) -> None:
    write_table(tmp_path / "rows.csv")
    with one_process():
        metrics = run(tmp_path / "run", tmp_path / "rows.csv")
        assert load_run(tmp_path / "run", "kernel-svm").predict(points(5)[0]).size == 5
        streamed = run(tmp_path / "stream", tmp_path / "rows.csv", OnlineParams(60, 20))
    for name in LEARNT:
        about = metrics["learners"][name]
        assert about["parameter"] == "width"
        assert about["value"] == metrics["selection"]["tuned"][name]["chosen"]
        assert about["accuracy"] > 0.6
    assert metrics["params"]["methods"][CauchyKernel.name] == {"cauchy_width": "auto"}
    assert streamed["learners"]["kernel-ogd"]["value"] in WIDTHS
