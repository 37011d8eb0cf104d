"""The methods of the paper in runs: they learn alike, go on, see nothing that is held out, and refuse in a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from ikmap.cells import Cells
from ikmap.methods import Sample, StreamLearner, parameter_of, search_of, value_of
from ikmap.model_selection import folds
from ikmap.tasks import CLASSIFICATION
from ikmap_papers.isolation_kernel.adaraker import LAMBDAS, AdaRaker
from ikmap_papers.isolation_kernel.naive_ogd import NaiveOGD
from ikmap_papers.isolation_kernel.nogd import NOGD
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.resolve import refuse_growth
from pipeline.running.compiling import words_of_learner
from pipeline.running.worker_memory import USABLE
from pipeline.runs.plan import DataSizes, make_plan
from pipeline.stages import select_rows
from pipeline.storage.durable import write_arrays
from pipeline.training.train import train
from tests.pipeline.training.test_on_rows import PSI, learned
from tests.support.calls import killed_at
from tests.support.narrow import entries
from tests.support.params_for import params_for
from tests.support.runs import context, points, store_rows
from tests.support.sizes import SmallSizes
from tests.support.watched_learners import watched

pytestmark = pytest.mark.slow


def test_the_three_forms_of_ik_ogd_agree_on_every_test_row(tmp_path: Path) -> None:
    confusions = [learned(tmp_path / name, name)[3]["confusion"] for name in ("ogd", "ogd-naive", "ogd-dual")]
    assert confusions[0] == confusions[1] == confusions[2]


def test_an_interrupted_pass_goes_on_from_its_checkpoint(tmp_path: Path, small_sizes: SmallSizes) -> None:
    small_sizes.learning_blocks(60, 1)
    _, whole, _, _ = learned(tmp_path / "whole", "nogd", points="violators", b=20)
    with killed_at(write_arrays, 2, end=True):  # a checkpoint
        learned(tmp_path / "killed", "nogd", points="violators", b=20)
    assert list((tmp_path / "killed").rglob("checkpoint.npz"))
    ctx = context(tmp_path / "killed", params_for(t=10, psi=PSI, C=1.0, decay=1e-3, points="violators", b=20))
    result = train(ctx, "nogd", None, ctx.params.value("nogd"))
    assert result["content_hash"] == whole.content_hash
    assert not list((tmp_path / "killed").rglob("checkpoint.npz"))


def test_cells_of_the_dual_form_are_those_of_the_run(tmp_path: Path) -> None:
    ctx, model, result, _ = learned(tmp_path, "ogd-dual")
    stored = ctx.store.open_arrays(f"cells/{result['cells']}/train")["codes"][...]
    codes = {row.tobytes() for row in stored.astype(np.int32)}
    assert all(row.tobytes() in codes for row in model.points.codes.astype(np.int32))


@pytest.mark.parametrize("kind", [NOGD, AdaRaker])
def test_cross_validation_never_builds_on_held_out_rows(kind: type[StreamLearner], tmp_path: Path) -> None:
    X, y = points(100)
    seen: list[np.ndarray] = []
    with watched(kind.about.name, seen) as name:
        ctx = context(tmp_path, params_for(learners=(name,)))
        store_rows(ctx.store, X, y)
        for k, (_, held_out) in enumerate(folds(100, ctx.params.seed)):
            seen.clear()
            select_rows.score_rows(ctx.store, ctx.params, name, [8], k, 100)
            hidden = {row.tobytes() for row in X[held_out]}
            assert seen
            assert not any(row.tobytes() in hidden for rows in seen for row in rows)


def test_lambda_is_chosen_by_cross_validation(tmp_path: Path) -> None:
    from pipeline.stages.select import select

    ctx = context(tmp_path, params_for(learners=("adaraker",)))
    store_rows(ctx.store, *points(120))
    tuned = select(ctx)["tuned"]["adaraker"]
    assert (tuned["parameter"], tuned["values"]) == ("lambda", list(LAMBDAS))
    accuracy = entries(tuned)["accuracy"]
    assert tuned["chosen"] == tuned["values"][accuracy.index(max(accuracy))]


def test_what_is_searched_and_what_is_given() -> None:
    params = Params.given(learners=("raker",))
    assert parameter_of(params.of("raker"), params.searched("raker")) == "lambda"
    given = Params.given(learners=("raker",), decay=0.1)
    assert search_of(given.of("raker"), given.searched("raker"), 1000) is None
    assert value_of(given.of("raker"), given.searched("raker")) == 0.1


def test_a_learner_that_cannot_fit_is_refused_by_name(tmp_path: Path) -> None:
    sizes = DataSizes(40_000, 10, 3_000_000, 4_000_000, 1, dense=False)
    plan = make_plan(params_for(learners=("adaraker",)), 8, sizes, workers=1)
    assert plan.worker_bytes > 8 * 16 * 50 * 3_000_000
    with pytest.raises(InputError, match=r"training adaraker would need about .* without adaraker$"):
        plan.check(int(plan.worker_bytes / USABLE) - 1, tmp_path)


def test_learners_with_the_decisions_of_ogd_need_its_loops() -> None:
    assert words_of_learner(NaiveOGD()) == {"ogd-naive", "ogd", "cells-online"}


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        (BatchOptions, "--rank 30", "--rank 30: found --learner auto, expected nogd"),
        (BatchOptions, "--learner nogd --b 20 --rank 30", "--rank 30: found --b 20, expected no more features than"),
        (BatchOptions, "--learner ogd-dual --feature-scale raw", "--feature-scale raw: found --learner ogd-dual"),
        (BatchOptions, "--partitioner gcws --b 17 --learner nogd,svm", "--b 17: found gcws and nogd, which read it"),
        (OnlineOptions, "--b 7", "--b 7: found --learner ogd, expected nogd"),
        (
            OnlineOptions,
            "--learner ogd-dual --partitioner mondrian",
            "--learner ogd-dual: found --partitioner mondrian",
        ),
        (
            OnlineOptions,
            "--learner ogd-naive --drift adwin --on-drift redraw",
            "--on-drift redraw: found --learner ogd-",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(command: type[BatchOptions], words: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        command.parse(["--input", "rows.csv", *words.split()])
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_weights_that_grow_are_those_of_the_wide_layout_from_the_start() -> None:
    rng = np.random.default_rng(0)
    new, old = np.array([0, 300, 310]), np.array([0, 100, 104])
    y = rng.integers(0, 3, 400)
    codes = rng.integers(0, [100, 4], (400, 2)).astype(np.int32)
    codes[200:] = rng.integers(0, [300, 10], (200, 2))
    grown, wide = (
        NaiveOGD().start(Sample(400, 1, CLASSIFICATION.of([0, 1, 2]), np.zeros((400, 1)).__getitem__, 0, offsets))
        for offsets in (old, new)
    )
    grown.partial_fit(Cells(codes[:200], old).packed(), y[:200])
    grown.grow(old, new)
    grown.partial_fit(Cells(codes[200:], new).packed(), y[200:])
    wide.partial_fit(Cells(codes, new).packed(), y)
    assert np.array_equal(grown.index.weights, wide.index.weights)
    refuse_growth(("mondrian", "ogd-naive", "nogd", "laplacian"), {})


def test_options_of_one_name_can_be_given_to_each_method() -> None:
    words = "--partitioner gcws --learner nogd,svm --gcws.b 4 --nogd.b 50 --nogd.kernel gaussian --gcws.gamma 2"
    options = BatchOptions.parse(["--input", "rows.csv", *words.split()])
    assert (options.by_method["gcws"]["b"], options.by_method["nogd"]["b"]) == (4, 50)
