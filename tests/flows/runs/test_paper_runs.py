"""Runs of a paper: on a cluster that is lost, those that are left would all end as the first; seconds count once."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster import ClusterHandle
from flows.options.reproduce import ReproduceOptions
from flows.runs.batch import batch_params
from flows.runs.local_data import LocalData
from flows.runs.paper_runs import Runs
from pipeline.errors import ClusterLost, Damaged
from pipeline.monitoring.events import QuietProgress
from pipeline.reproduce.paper import Entry
from pipeline.running.side_by_side import TimeLimitReached
from pipeline.runs.batch import run_batch
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.storage.rundir import RunDirectory
from tests.support.calls import counted
from tests.support.in_process import InProcess
from tests.support.papers import with_papers

pytestmark = with_papers


def test_a_lost_cluster_ends_all_runs(tmp_path: Path) -> None:
    def lose(call: int) -> None:  # noqa: ARG001
        raise ClusterLost("the scheduler is gone")

    asked = ReproduceOptions(table=("5",))
    cluster: Any = None  # nothing is done on it
    runs = Runs(asked, tmp_path, LocalData(asked), lambda _, work: work(), QuietProgress())
    entry = Entry("one", "a9a", "system", "batch", {"learner": ["ogd"], "psi": 8})
    todo = deque([entry, replace(entry, key="other")])
    with counted(Runs._run, lose) as calls, pytest.raises(ClusterLost):
        runs._lane(todo, None, cluster, 1)
    assert (calls.number, len(todo), runs.outcomes) == (1, 1, {})
    with counted(Runs._ingested, lose), pytest.raises(ClusterLost):
        runs._size("a9a", cluster)


class Shared(Runs):
    """Runs whose rows are there, and are again after they were damaged."""

    def _link(self, *_: Any, **__: Any) -> None:
        """Leave the run without rows, which nothing reads here."""

    def _ingested(self, *_: Any, **__: Any) -> Any:
        """Read nothing again."""


def test_a_run_that_is_taken_up_again_has_a_clock_of_its_own(tmp_path: Path, small: Path) -> None:
    """The seconds of the attempt before are among those that the run has spent already."""

    def damaged(call: int) -> None:
        raise TimeLimitReached if call == 3 else Damaged("data", "it is cut short")

    asked, client = ReproduceOptions(table=("5",)), InProcess()
    cluster = ClusterHandle(client, "local", workers=1, threads=1, memory_limit=None, dashboard_link=None)
    runs = Shared(asked, tmp_path, LocalData(asked), lambda _, work: work(), QuietProgress())
    entry = Entry("one", "a9a", "system", "batch", {"learner": ["ogd"], "psi": 8})
    options, data = runs._options(entry), ResolvedDataset("a9a", str(small))
    directory = RunDirectory(tmp_path / "one", {})
    with counted(run_batch, damaged, note=lambda args: args["context"]) as calls, pytest.raises(TimeLimitReached):
        runs._make(entry, options, batch_params(options), data, directory, cluster, 1)
    directory.close()
    first, second, third = (context._started for context in calls.notes)
    assert first < second < third
