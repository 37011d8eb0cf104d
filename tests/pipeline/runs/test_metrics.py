"""Dask's report, which stands beside the metrics of a run."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ClusterLost, InputError
from pipeline.runs.metrics import Invocation
from tests.support.runs import context


@pytest.mark.parametrize(("error", "asked"), [(None, 1), (InputError("a wrong row"), 1), (ClusterLost("gone"), 0)])
def test_a_lost_cluster_is_not_asked_for_a_report(
    error: InputError | None, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking it would take half a minute, and then hide what has happened behind an error of Dask's own."""
    exits: list[Any] = []

    def report(**_: object) -> ExitStack:
        stack = ExitStack()
        stack.push(lambda *how: exits.append(how))
        return stack

    monkeypatch.setattr("pipeline.runs.metrics.performance_report", report)
    raised: list[InputError] = []
    try:
        with Invocation("test", "", {}).watched(context(tmp_path).run):
            if error is not None:
                raise error
    except InputError as caught:
        raised.append(caught)
    assert (len(exits), raised) == (asked, [] if error is None else [error])
