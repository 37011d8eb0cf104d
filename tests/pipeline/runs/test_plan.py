"""The plan: more work needs more, what cannot fit is refused, and the estimate of memory is not below the truth."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ikmap.methods import LEARNERS
from pipeline.errors import DoesNotFit, InputError
from pipeline.rows.block_sizes import choose_parts, choose_solver, packed_bytes
from pipeline.rows.density import is_dense
from pipeline.running.repair import STORE
from pipeline.running.worker_memory import USABLE
from pipeline.runs.plan import DataSizes, Plan, largest_value, least_plan, make_plan
from pipeline.sources.datasets.spec import Split
from tests import ROOT
from tests.support.narrow import number
from tests.support.params_for import params_for
from tests.support.runs import new_store, points, store_rows

SOLVERS = ("memory", "block", "distributed")

BASE: dict[str, Any] = {
    "rows_train": 50_000,
    "rows_test": 10_000,
    "columns": 100,
    "nnz": 3_000_000,
    "outputs": 1,
    "workers": 2,
    "dense": True,
}


def plan(psi: int = 64, t: int = 100, partitioner: str = "anne", **changes: Any) -> Plan:
    asked = {name: changes.pop(name) for name in ("solver", "parts", "learners", "shard_rows") if name in changes}
    if asked.get("solver") not in (None, "auto", "distributed"):
        asked.pop("parts", None)  # which the others have not
    asked = {"learners": ("svm", "ogd"), **asked}
    found = {**BASE, **changes}
    workers = found.pop("workers")
    return make_plan(params_for(t=t, partitioner=partitioner, **asked), psi, DataSizes(**found), workers)


sizes = st.fixed_dictionaries(
    {
        "psi": st.integers(2, 4096),
        "t": st.integers(1, 500),
        "partitioner": st.sampled_from(["anne", "iforest"]),
        "dense": st.booleans(),
    }
)


@given(
    sizes=sizes,
    solver=st.sampled_from(SOLVERS),
    parts=st.integers(2, 64),
    factor=st.floats(1, 50),
    name=st.sampled_from(["psi", "t", "rows_train", "rows_test", "columns", "nnz", "outputs"]),
)
def test_more_needs_no_less(sizes: dict[str, Any], solver: str, parts: int, factor: float, name: str) -> None:
    """By the same solver, in as many parts, in shards of as many rows; those for larger data need less memory."""
    options = {**BASE, **sizes, "solver": solver, "parts": parts, "shard_rows": 4096}
    changed = {**options, name: max(options[name] + 1, int(options[name] * factor))}
    if name in ("rows_train", "rows_test"):  # of the same entries each
        rows = [each["rows_train"] + each["rows_test"] for each in (options, changed)]
        changed["nnz"] = -(-options["nnz"] * rows[1] // rows[0])
    less, more = plan(**options), plan(**changed)
    assert more.worker_bytes >= less.worker_bytes
    assert more.output_bytes >= less.output_bytes


@given(sizes=sizes, rows_train=st.integers(5000, 20_000_000))
def test_the_plan_is_that_of_the_solver_by_size(sizes: dict[str, Any], rows_train: int) -> None:
    cells = packed_bytes(rows_train, sizes["t"], sizes["psi"])
    solver, parts = choose_solver(cells), choose_parts(rows_train, cells)
    assert plan(**sizes, rows_train=rows_train) == plan(**sizes, rows_train=rows_train, solver=solver, parts=parts)


def test_the_lines_say_what_will_be_done() -> None:
    text = "\n".join(plan().lines)
    assert "50,000 training and 10,000 test rows x 100 columns, dense" in text
    assert "anne, t = 100, psi = 64" in text
    assert "in memory" in text
    assert "block by block (solver block)" in "\n".join(plan(rows_train=2_000_000).lines)
    assert "in 12 parts of 66.7 MB each (solver distributed)" in "\n".join(plan(rows_train=8_000_000).lines)
    (tasks,) = re.findall(r"cells: (\d+) tasks on 2 workers", text)
    assert int(tasks) >= 12
    assert "sparse" in "\n".join(plan(dense=False).lines)


def test_the_lines_are_of_the_learners() -> None:
    """Nothing of cells where no learner is on them; memory of each learner that holds more than a block."""
    lines = plan(psi=0, learners=("kernel-svm", "kernel-ogd")).lines
    words = ["data", "training kernel-svm", "training kernel-ogd", "memory"]
    assert [line.partition(":")[0] for line in lines] == words
    assert lines[1].startswith("training kernel-svm: at least 4")  # 192 MB for 4,000 rows, the rest for all.
    assert lines[2].startswith("training kernel-ogd: about ")
    lines = plan(learners=("ogd", "isolation-svm")).lines
    assert [line.partition(":")[0] for line in lines] == [
        "data", "partitions", "cells", "training isolation-svm", "memory"
    ]  # fmt: skip
    few, many = (plan(psi=0, learners=("kernel-ogd",), rows_train=n) for n in (1000, 50_000))
    assert few.output_bytes < many.output_bytes < plan(learners=("kernel-ogd", "ogd")).output_bytes


def test_psi_of_all_rows_draws_all_of_them() -> None:
    assert "about 50,000 different points" in plan(psi=50_000, t=1).lines[1]
    assert "about 64 different points" in plan(t=1).lines[1]


def test_what_does_not_fit_a_worker_is_refused(tmp_path: Path) -> None:
    needed = plan().worker_bytes
    plan().check(int(needed / USABLE) + 1, tmp_path)
    plan().check(None, tmp_path)
    with pytest.raises(DoesNotFit, match=r"a worker would need about \d+ MB, found a limit of \d+ MB, of which nine"):
        plan().check(int(needed / USABLE) - 1, tmp_path)


def test_what_does_not_fit_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = plan().output_bytes
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**15, 10**15, output - 1))  # noqa: ARG005
    with pytest.raises(InputError, match=r"the run would write about [\d.]+ MB, found [\d.]+ MB free"):
        plan().check(None, tmp_path)


def test_a_run_that_goes_on_needs_no_disk_for_what_it_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**15, 10**15, 60_000_000))  # noqa: ARG005
    begun = Plan((), 0, 100_000_000)
    for name in ("cells/anne-psi-8/train/codes/c/0", "data/train/x/c/0"):
        (tmp_path / STORE / name).parent.mkdir(parents=True)
    with open(tmp_path / STORE / "data/train/x/c/0", "wb") as rows:
        rows.truncate(50_000_000)
    with open(tmp_path / STORE / "cells/anne-psi-8/train/codes/c/0", "wb") as shard:
        shard.truncate(30_000_000)
        with pytest.raises(InputError, match="the run would write about 70 MB, found 60 MB free"):
            begun.check(None, tmp_path)
        shard.truncate(50_000_000)
    begun.check(None, tmp_path)


@pytest.mark.parametrize(("psi", "size"), [(1, 1), (2, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 4)])
def test_bytes_of_a_packed_cell(psi: int, size: int) -> None:
    assert packed_bytes(3, 5, psi) == 15 * size


MEASURE = """
import os
import sys
from pathlib import Path
import numpy as np
from pipeline.runs.plan import DataSizes, make_plan
from pipeline.running.measured import peak_rss_bytes
from pipeline.rows.prepared import PreparedRows
from pipeline.stages.cells import map_shard
from pipeline.training.dual_tasks import solve_classes
from pipeline.training.stream_runner import train_online
from pipeline.rows.block_sizes import cell_layout
from pipeline.stages.cells import create_cells
from pipeline.storage.fitted import Fitted
from pipeline.stages.partition import fit
from tests.support.params_for import params_for
from pipeline.storage.store import Store
import distributed  # as every worker has

# What is imported is so once, and each run is measured in a process of its own.
for folder in sys.argv[1:]:
    if not os.fork():
        break
    assert os.wait()[1] == 0
else:
    sys.exit()
n, d, t, psi, partitioner, classes = (word if word.isalpha() else int(word) for word in Path(folder).name.split())
store = Store(Path(folder) / "store.zarr")
params = params_for(t=t, psi=psi, partitioner=partitioner, learners=("svm", "ogd"))
fitted = Fitted(partitioner, "psi", psi, psi, fit(store, params, psi)["content_hash"], t)
layout = cell_layout(n - 100, t)
create_cells(store, fitted.cells_name("train"), n - 100, t, layout, np.dtype(np.int32))
for start in range(0, n - 100, layout.shard_rows):
    map_shard(store, fitted, "train", start, min(start + layout.shard_rows, n - 100))
solve_classes(store, params, "svm", fitted, classes, [0], 0)
task = PreparedRows(store, "train").preparation.task
train_online(store, params, "ogd", fitted, None, task, folder + "/checkpoint.npz")
plan = make_plan(params, psi, DataSizes(n - 100, 100, d, n * d, 1 if classes == 2 else classes, dense=True), workers=1)
print(plan.worker_bytes, peak_rss_bytes())
"""


@pytest.mark.slow
def test_the_estimate_is_not_below_the_truth(tmp_path: Path) -> None:
    """One process does all a worker may be given, which is more than the worst of it at a time."""
    folders = [tmp_path / sizes for sizes in ("8000 500 100 100 anne 3", "60000 20 100 256 iforest 2")]
    for folder in folders:
        n, d, classes = (int(folder.name.split()[k]) for k in (0, 1, -1))
        store_rows(new_store(folder), *points(n, d, classes), rule="first", n_train=n - 100, part_rows=20_000)
    measured = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, folders)], cwd=ROOT, capture_output=True, text=True
    )
    assert measured.returncode == 0, measured.stderr
    for folder, line in zip(folders, measured.stdout.splitlines(), strict=True):
        estimate, truth = map(int, line.split())
        print(f"{folder.name}: estimated {estimate / 1e6:.0f} MB, found {truth / 1e6:.0f} MB")
        assert truth <= 1.1 * estimate
        assert estimate <= 2.5 * truth


class Head:
    """What the head of a file may tell."""

    def __init__(self, rows: int, columns: int | None, sparse: bool, known: bool) -> None:
        self.rows, self.n_columns, self.sparse, self.knows_rows = rows, columns, sparse, known

    def least_rows(self) -> int:
        return self.rows


@pytest.mark.slow
@settings(max_examples=150)
@given(
    learners=st.sets(
        st.sampled_from(sorted(name for name, one in LEARNERS.items() if not one.about.needs_tables)),
        min_size=1,
        max_size=3,
    ),
    psi=st.one_of(st.just("auto"), st.integers(2, 4096)),
    t=st.integers(1, 500),
    partitioner=st.sampled_from(["anne", "iforest"]),
    solver=st.sampled_from(["auto", *SOLVERS]),
    kind=st.sampled_from(["table", "libsvm", "npz"]),
    seen=st.integers(1, 200_000),
    more=st.floats(0, 20),
    columns=st.integers(1, 20_000),
    told=st.booleans(),
    share=st.floats(0, 1),
    classes=st.integers(2, 200),
    split=st.one_of(st.none(), st.floats(0.1, 0.9)),
    stream=st.booleans(),
)
def test_what_is_refused_before_it_is_read_would_be_refused_after(
    learners: set[str], psi: Any, t: int, partitioner: str, solver: str, kind: str, seen: int, more: float,
    columns: int, told: bool, share: float, classes: int, split: float | None, stream: bool,
) -> None:  # fmt: skip
    assume(solver != "distributed" or "svr" not in learners)  # which is refused before there is a plan
    params = params_for(t=t, psi=psi, partitioner=partitioner, solver=solver, learners=tuple(sorted(learners)))
    known = kind == "npz"
    head = Head(seen, columns if told or kind != "libsvm" else None, kind != "table", known)
    data: Any = SimpleNamespace(
        sources=(head, None if split else head), split=Split(fraction=split if split is not None else 0.8)
    )
    least = least_plan(params, data, 2, stream=stream)
    rows = seen if known else seen + int(more * seen)
    rows_train, rows_test = (math.ceil(split * rows), rows - math.ceil(split * rows)) if split else (rows, rows)
    if stream:
        rows_train, rows_test = rows_train + rows_test, 0
    largest = number(largest_value(params, rows_train))
    if least is None or largest > rows_train:
        return  # refused for another reason
    nnz = int(share * columns * (rows_train + rows_test))
    dense = kind == "table" or is_dense(True, rows_train + rows_test, columns, nnz)
    sizes = DataSizes(rows_train, rows_test, columns, nnz, 1 if classes == 2 else classes, dense)
    found = make_plan(params, largest, sizes, workers=2)
    assert least.worker_bytes <= found.worker_bytes
    assert least.output_bytes <= found.output_bytes
