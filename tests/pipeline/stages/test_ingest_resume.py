"""Training and test file are read side by side: killed between the two, or within one, the run goes on from there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikmap.tasks import CLASSIFICATION
from pipeline.rows.parts import write_part
from pipeline.rows.prepared import PreparedRows
from pipeline.running.stage import Context
from pipeline.sources import Sizes
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.ingest import ingest
from pipeline.stages.read import ingest_fragment
from pipeline.storage.durable import promised, taken
from tests.support.calls import killed_at
from tests.support.in_process import InProcess
from tests.support.kills import KilledAfter, Watched
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
    return ResolvedDataset(
        "d", str(tmp_path / "train"), str(tmp_path / "test"), format="libsvm", n_columns=4,
        sizes=Sizes(fragment=1 << 20, block=1000),  # several parts a file
    )  # fmt: skip


def written(ctx: Context, side: str) -> dict[str, int]:
    """Return the parts of a file in the store, with the time when each was written."""
    parts = Path(ctx.store.path, "data", side).glob("*/zarr.json")
    return {f"{side}/{path.parent.name}": path.stat().st_mtime_ns for path in parts}


def rows(ctx: Context) -> list[Any]:
    found = []
    for side in ROWS:
        prepared = PreparedRows(ctx.store, side)
        X, y, *_ = prepared.read(0, prepared.n_rows)
        found += [np.asarray(X if isinstance(X, np.ndarray) else csr(X).toarray()).tobytes(), y.tobytes()]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("first", list(ROWS))
def test_killed_between_the_two_files(first: str, data: Any, tmp_path: Path) -> None:
    whole = context(tmp_path / "whole")
    expected = ingest(whole, data)
    client = InProcess(last_first=first == "test")
    ctx = context(tmp_path / "killed", client=client)
    with pytest.raises(KeyboardInterrupt):
        ingest(replace(ctx, events=KilledAfter("ingest", 1)), data)
    records = [ctx.run.task_record("ingest", f"{side}-00000") for side in ROWS]
    assert [record.exists() for record in records] == [side == first for side in ROWS]
    client = Watched()
    ctx = context(tmp_path / "killed", client=client)
    assert ingest(ctx, data) == expected
    assert client.number_of(ingest_fragment) == 1
    record = ctx.run.stage("ingest")
    assert record is not None
    # Two files are read, then the first rows are looked at.
    assert (record["record"]["tasks"], record["record"]["tasks_skipped"]) == (3, 1)
    assert rows(ctx) == rows(whole)


@pytest.mark.slow
@pytest.mark.parametrize("side", list(ROWS))
def test_killed_within_one_file_while_the_other_is_done(side: str, data: Any, tmp_path: Path) -> None:
    whole = context(tmp_path / "whole")
    expected = ingest(whole, data)
    (other,) = set(ROWS) - {side}
    ctx = context(tmp_path / "killed", client=InProcess(last_first=side == "train"))
    with killed_at(write_part, len(written(whole, other)) + 2):  # the second part of the file
        ingest(ctx, data)
    before = written(ctx, other) | written(ctx, side)
    assert before.keys() == written(whole, other).keys() | {f"{side}/00000-00000"}
    ctx = context(tmp_path / "killed")
    assert ingest(ctx, data) == expected
    after = written(ctx, other) | written(ctx, side)
    assert after.keys() > before.keys()
    assert {name: after[name] for name in before} == before  # no part twice
    assert rows(ctx) == rows(whole)


def test_parts_of_an_attempt_that_was_killed_are_flushed_before_the_next_one_promises_them(
    data: Any, tmp_path: Path
) -> None:
    store = context(tmp_path / "killed").store
    source = data.sources[0]
    (fragment,) = source.fragments()
    with killed_at(write_part, 2), promised():
        ingest_fragment(store, source, fragment, "data/train", CLASSIFICATION.name)
    with promised():
        first = ingest_fragment(store, source, fragment, "data/train", CLASSIFICATION.name)["outputs"][0]
        paths = taken()
    assert {str(path) for path in Path(store.path, first).rglob("*")} <= paths
