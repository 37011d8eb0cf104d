"""Runs of a paper on a cluster that is lost: those that are left would all end as the first."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.options.reproduce import ReproduceOptions
from flows.runs.local_data import LocalData
from flows.runs.paper_runs import Runs
from pipeline.errors import ClusterLost
from pipeline.monitoring.events import QuietProgress
from pipeline.reproduce.paper import Entry
from tests.support.calls import counted
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
