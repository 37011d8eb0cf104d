"""Training and test file are read side by side: killed between the two, or within one, the run goes on from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikmap.tasks import CLASSIFICATION
from pipeline.record_types import TaskRecord
from pipeline.rows import parts
from pipeline.rows.prepared import PreparedRows
from pipeline.running import stage as engine
from pipeline.running.dispatch import Task, run_tasks
from pipeline.running.stage import Context
from pipeline.sources import ReadRequest, Sizes
from pipeline.sources.datasets import registry as datasets
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages import read as read_step
from pipeline.stages.ingest import ingest
from pipeline.stages.read import ingest_fragment
from pipeline.storage.durable import promised, taken
from tests.support.narrow import csr
from tests.support.runs import context, points

ROWS = {"train": 90, "test": 30}


class Killed(BaseException):
    """As sudden as a kill, but leaves the test alive."""


@pytest.fixture
def data(tmp_path: Path) -> ResolvedDataset:
    for seed, (side, n) in enumerate(ROWS.items()):
        X, y = points(n, seed=seed)
        with open(tmp_path / side, "w") as file:
            for x, label in zip(X.tolist(), y.tolist(), strict=True):
                print(label, *(f"{j}:{value!r}" for j, value in enumerate(x, start=1)), file=file)
    return ResolvedDataset("d", str(tmp_path / "train"), str(tmp_path / "test"), format="libsvm", n_columns=4)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts a file."""
    monkeypatch.setattr(datasets, "ReadRequest", partial(ReadRequest, sizes=Sizes(fragment=1 << 20, block=1000)))


def doing(order: Callable[[Sequence[Task]], Sequence[Task]], kill_after: int, done: list[str]) -> Any:
    """In place of `run_tasks`: tasks in the order in which workers finish them; dies after some."""

    def run(client: Any, key: str, function: Callable[..., TaskRecord], tasks: Sequence[Task]) -> Iterator[Any]:
        for task, record in run_tasks(client, key, function, order(tasks)):
            yield task, record
            done.append(task.name)
            if len(done) == kill_after:
                raise Killed

    return run


def rows(ctx: Context) -> list[Any]:
    found = []
    for side in ROWS:
        prepared = PreparedRows(ctx.store, side)
        X, y, *_ = prepared.read(0, prepared.n_rows)
        found += [np.asarray(X if isinstance(X, np.ndarray) else csr(X).toarray()).tobytes(), y.tobytes()]
    return found


def kept(tasks: Sequence[Task]) -> Sequence[Task]:
    return tasks


def turned(tasks: Sequence[Task]) -> Sequence[Task]:
    return tasks[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("order", [kept, turned])
def test_killed_between_the_two_files(order: Any, data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = context(tmp_path / "whole")
    expected = ingest(whole, data)
    ctx = context(tmp_path / "killed")
    done: list[str] = []
    monkeypatch.setattr(engine, "run_tasks", doing(order, 1, done))
    with pytest.raises(Killed):
        ingest(ctx, data)
    assert done == [order(["train-00000", "test-00000"])[0]]
    monkeypatch.setattr(engine, "run_tasks", doing(kept, 0, done))
    ctx = context(tmp_path / "killed")
    assert ingest(ctx, data) == expected
    assert sorted(done) == ["test-00000", "train-00000"]  # each once
    record = ctx.run.stage("ingest")
    assert record is not None
    assert (record["record"]["tasks"], record["record"]["tasks_skipped"]) == (2, 1)
    assert rows(ctx) == rows(whole)


@pytest.mark.slow
@pytest.mark.parametrize("side", list(ROWS))
def test_killed_within_one_file_while_the_other_is_done(
    side: str, data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = context(tmp_path / "whole")
    expected = ingest(whole, data)
    write_part, written = parts.write_part, []

    def killed(store: Any, name: str, *rest: Any) -> int:
        if name == f"data/{side}/00000-00001":
            raise Killed
        written.append(name)
        return write_part(store, name, *rest)

    order = kept if side == "test" else turned
    monkeypatch.setattr(engine, "run_tasks", doing(order, 0, []))
    with monkeypatch.context() as patch:
        patch.setattr(read_step, "write_part", killed)
        with pytest.raises(Killed):
            ingest(context(tmp_path / "killed"), data)
    before = set(written)
    assert any(side not in name for name in before)
    assert f"data/{side}/00000-00000" in before

    def counted(store: Any, name: str, *rest: Any) -> int:
        written.append(name)
        return write_part(store, name, *rest)

    monkeypatch.setattr(read_step, "write_part", counted)
    ctx = context(tmp_path / "killed")
    assert ingest(ctx, data) == expected
    assert len(written) == len(set(written))  # no part twice
    assert set(written) > before
    assert rows(ctx) == rows(whole)


def test_parts_of_an_attempt_that_was_killed_are_flushed_before_the_next_one_promises_them(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_part, number = parts.write_part, count()

    def killed(*args: Any) -> int:
        if next(number) == 1:
            raise Killed
        return write_part(*args)

    store = context(tmp_path / "killed").store
    source = data.sources[0]
    (fragment,) = source.fragments()
    with monkeypatch.context() as patch:
        patch.setattr(read_step, "write_part", killed)
        with pytest.raises(Killed), promised():
            ingest_fragment(store, source, fragment, "data/train", CLASSIFICATION.name)
    with promised():
        first = ingest_fragment(store, source, fragment, "data/train", CLASSIFICATION.name)["outputs"][0]
        paths = taken()
    assert {str(path) for path in Path(store.path, first).rglob("*")} <= paths
