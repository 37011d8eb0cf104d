"""Tasks whose rows weigh go through everything, and no learner ignores that in silence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm
from ikmap.learners.rows import Block
from ikmap.methods import LearnerAbout, unregister
from ikmap.model import Model
from pipeline.errors import InputError
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
from pipeline.stages.task import requested_task
from pipeline.storage.durable import read_json
from pipeline.storage.models import load_model
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.store import Store
from tests.plugins import registered
from tests.plugins.number_task import ByCounts, Numbers, Rmse
from tests.plugins.weighted import Curved, CurvedRidge, Heavy, HeavySVM, OneClass
from tests.support.calls import killed_at
from tests.support.in_process import InProcess
from tests.support.one_process import Heard, forget, one_process, results, write_rows
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.slow

T, PSI = 7, 8


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with registered(Rmse, Curved, CurvedRidge, Heavy, OneClass, HeavySVM):
        yield


def run(path: Path, file: Path, task: str, learner: str, **options: Any) -> dict[str, Any]:
    forget()
    params = Params.given(**{"task": task, "learners": (learner,), "t": T, "psi": PSI, **options})
    data = ResolvedDataset("rows", str(file), None, split=Split(fraction=0.75))
    with closing(RunDirectory(path, run_identity(params.as_json(), data, []))) as held:
        context = Context(InProcess(), held, params, Heard())
        return run_batch(context, data, Invocation("test", "", {"kind": "local", "workers": 1}, dask_report=False))


def score_file(folder: Path, learner: str, file: Path, out: Path) -> dict[str, Any]:
    forget()
    found = open_run(str(folder), learner)
    client: Any = InProcess()
    with Output(str(out)) as output:
        return score(client, found, open_data(found, str(file)), output, Heard())


def write_numbers(folder: Path, n: int = 240) -> Path:
    rng = np.random.default_rng(0)
    X = rng.random((n, 3))
    y = 2 + 3 * X[:, 0] - 2 * X[:, 1] ** 2 + rng.normal(size=n) * 0.05 + 9 * (rng.random(n) < 0.04)
    path = folder / "rows.libsvm"
    lines = (f"{y:g} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(x)) for x, y in zip(X, y, strict=True))
    path.write_text("\n".join(lines) + "\n")
    return path


def stored(folder: Path, learner: str) -> tuple[Cells, np.ndarray, Any]:
    """Training cells and targets of a finished run, and its model."""
    forget()
    group: Any = zarr.open_group(str(folder / "store.zarr"), mode="r")["cells"]
    (label,) = group.group_keys()
    cells = Cells(group[label]["train/codes"][...], np.arange(T + 1, dtype=np.int64) * PSI)
    model: Any = load_model(Store(folder / "store.zarr"), f"models/{learner}", Model)
    return cells, group[label]["train/labels"][...], model


def test_weighted_regression_goes_through_everything(tmp_path: Path, small_sizes: SmallSizes) -> None:
    # Small enough for several blocks in several tasks.
    small_sizes.learning_blocks(16)
    small_sizes.counted_pieces(5)
    file, name = write_numbers(tmp_path), CurvedRidge.about.name
    with one_process():
        whole, other = (
            run(tmp_path / str(rows), file, Curved.name, name, shard_rows=rows, psi="auto", cv_rows=150)
            for rows in (64, 128)
        )
        with killed_at(CurvedRidge.count, 5):
            run(tmp_path / "killed", file, Curved.name, name)
        run(tmp_path / "killed", file, Curved.name, name)
        given = run(tmp_path / "given", file, Curved.name, name)
        scored = score_file(tmp_path / "given", name, file, tmp_path / "out.parquet")
    assert results(tmp_path / "64") == results(tmp_path / "128")
    assert whole["learners"][name]["rmse"] == other["learners"][name]["rmse"]
    assert len(set(whole["selection"]["rmse"][name])) > 1
    assert results(tmp_path / "killed") == results(tmp_path / "given")
    stages = {stage["name"]: stage for stage in read_json(tmp_path / "killed" / "metrics.json")["stages"]}
    assert (stages[f"train:{name}"]["tasks"], stages[f"train:{name}"]["tasks_skipped"]) == (6, 1)
    assert scored["rows_labelled"] == 240
    assert given["learners"][name]["mae"] < given["learners"][name]["rmse"] < 4

    cells, y, model = stored(tmp_path / "given", name)
    targets, mean = np.column_stack([y, y**2]), float(np.loadtxt(file, usecols=0, converters=float).mean())
    X, some = cells.to_csr(normalize=False).toarray(), np.sqrt(0.5) * np.eye(T * PSI)

    def least_squares(weight: np.ndarray) -> np.ndarray:
        root = np.sqrt(weight)[:, None]
        A, B = np.vstack([root * X, some]), np.vstack([root * targets, np.zeros((T * PSI, 2))])
        return np.linalg.lstsq(A, B)[0]

    np.testing.assert_allclose(model.weights, least_squares(1 / (1 + (y - mean) ** 2)), rtol=1e-6, atol=1e-8)
    assert np.abs(model.weights - least_squares(np.ones(y.size))).max() > 0.05


@pytest.mark.parametrize("solver", ["memory", "block", "distributed", "distributed from a file"])
def test_a_row_of_weight_two_is_two_rows_for_every_solver(solver: str, tmp_path: Path, small_sizes: SmallSizes) -> None:
    """The objective of the run's weights over repeated rows is the best one, within the gap that was asked for."""
    solver, _, spooled = solver.partition(" ")
    if spooled:
        small_sizes.solver_blocks(held=0)
    file, name, tol = write_rows(tmp_path, 2000), HeavySVM.about.name, 1e-3
    with one_process():
        metrics = run(tmp_path / "run", file, Heavy.name, name, C=1.0, solver=solver, tol=tol)
    told = metrics["learners"][name]
    assert (told["solver"], told["converged"]) == (solver, True)
    cells, y, model = stored(tmp_path / "run", name)
    assert y.size == 1500  # visited in two blocks by the solver that reads them from a file
    (stage,) = (stage for stage in metrics["stages"] if stage["name"] == f"train:{name}")
    assert stage["rows"] == y.size  # rows, whatever they weigh
    often = np.repeat(np.arange(y.size), y + 1)
    X, repeated = cells.to_csr()[often], y[often]

    def primal(coef: np.ndarray) -> np.ndarray:
        slack = np.maximum(1 - np.where(repeated[:, None] == np.arange(3), 1, -1) * (X @ coef), 0)
        return (coef**2).sum(axis=0) / 2 + (slack**2).sum(axis=0)

    tight = SVMParams(tol=1e-9)
    best = fit_linear_svm([Block(sp.csr_array(X), repeated)], 3, tight).primal
    assert (primal(model.coef) <= best * (1 + 1.1 * tol)).all()
    plain = fit_linear_svm([Block(cells, y)], 3, tight).coef
    assert (primal(plain) > best * (1 + 10 * tol)).all()


def test_cross_validation_weighs(tmp_path: Path) -> None:
    """Where rows weigh nothing, the search sees nothing of them."""
    file, name = write_rows(tmp_path), HeavySVM.about.name
    options: dict[str, Any] = {"psi": "auto", "cv_rows": 150, "select_by": "accuracy"}
    with one_process():
        for C in (1.0, "auto"):
            heavy = run(tmp_path / f"heavy-{C}", file, Heavy.name, name, C=C, **options)
            one = run(tmp_path / f"one-{C}", file, OneClass.name, name, C=C, **options)
            assert one["selection"]["accuracy"] != heavy["selection"]["accuracy"]


class Unweighted(Numbers):
    name = Curved.name


def test_a_learner_that_ignores_weights_is_refused() -> None:
    class Careless(ByCounts):
        about: ClassVar[LearnerAbout] = replace(ByCounts.about, name="careless", tasks=frozenset({Curved.name}))

    data = ResolvedDataset("rows", "rows.csv", None)
    assert requested_task(Params(task=Curved.name, learners=(CurvedRidge.about.name,)), data).name == Curved.name
    said = (
        r"^--learner careless: ignores what rows weigh in curved \(--task curved\); expected --learner curved-ridge, or"
    )
    with registered(Careless):
        with pytest.raises(InputError, match=said):
            requested_task(Params(task=Curved.name, learners=(CurvedRidge.about.name, "careless")), data)
        unregister(Curved.name)
        with registered(Unweighted):
            assert requested_task(Params(task=Curved.name, learners=("careless",)), data).name == Curved.name
