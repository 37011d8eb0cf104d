"""What ``python -m flows.online`` does, once its options are read; with or without Prefect around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.options import OnlineOptions
from flows.run_batch import run_pipeline

if TYPE_CHECKING:
    from cluster import ClusterHandle
    from pipeline.online import OnlineParams
    from pipeline.progress import Events


def run(
    options: OnlineOptions,
    *,
    call: Any = None,
    events: Events | None = None,
    on_cluster: Callable[[ClusterHandle, Path], None] | None = None,
) -> dict[str, Any]:
    """Do what the options ask for and return the contents of ``metrics.json``.

    Parameters and exceptions are those of :func:`~flows.run_batch.run_pipeline`.
    """
    from pipeline.online import run_online

    pipeline = partial(run_online, online=online_params(options))
    return run_pipeline(options, pipeline, online_identity(options), call=call, events=events, on_cluster=on_cluster)


def online_params(options: OnlineOptions) -> OnlineParams:
    """Return the parameters of a stream that decide the result."""
    from pipeline.online import OnlineParams

    return OnlineParams(options.initial, options.block_rows, options.limit_seconds)


def online_identity(options: OnlineOptions) -> dict[str, Any]:
    """What the directory of a run on a stream holds, beside what that of a batch run does."""
    return {"online": asdict(online_params(options))}
