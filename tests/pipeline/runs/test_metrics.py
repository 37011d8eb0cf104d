"""What stands beside the metrics of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import ClusterLost
from pipeline.runs.metrics import Invocation
from tests.support.runs import context


def test_a_lost_cluster_is_not_asked_for_a_report(tmp_path: Path) -> None:
    """That would take half a minute, and then hide what has happened behind an error of its own."""
    report = Invocation("test", "", {}).watched(context(tmp_path).run)
    report.__exit__(ClusterLost, ClusterLost("the scheduler is gone"), None)
    with pytest.raises(ValueError, match="client"):  # There is none here.
        report.__exit__(None, None, None)
