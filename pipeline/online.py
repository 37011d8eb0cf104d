"""The online pipeline: an initial set, then block after block predicted and learned from (algorithms.md 9.4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from distributed import performance_report

from pipeline.baselines import given
from pipeline.batch import Call, Invocation, Result, call_directly, say_chosen, versions
from pipeline.datasets import ResolvedDataset
from pipeline.engine import Context, Record, Stage, Task, peak_rss_bytes, run_ready, stage_is_whole
from pipeline.learners import LEARNERS
from pipeline.rundir import write_json
from pipeline.stages.ingest import ingest
from pipeline.stages.partition import Fitted, cores_of_a_host, partition
from pipeline.stages.select import searches, select
from pipeline.stages.shuffle import shuffle
from pipeline.stages.stream import Contestant, learn_chunk, learn_initial, map_chunk
from pipeline.stream_data import Stream

AHEAD = 4
"""Chunks that are mapped before the slowest learner needs them."""


@dataclass(frozen=True)
class OnlineParams:
    """What decides the result of a run on a stream, beside :class:`~pipeline.params.Params`.

    Attributes
    ----------
    initial : int or None
        Rows of the initial set; None: as many as the data set has for training.
    block_rows : int
    limit_seconds : float or None
        A learner that has predicted and learned for so long is stopped, and said to have been.
    """

    initial: int | None = None
    block_rows: int = 1000
    limit_seconds: float | None = None


def run_online(
    context: Context,
    data: ResolvedDataset,
    invocation: Invocation,
    online: OnlineParams,
    *,
    call: Call = call_directly,
) -> dict[str, Any]:
    """Run every stage that is not finished yet and write the run's files.

    Returns
    -------
    dict
        The contents of ``metrics.json``.

    Raises
    ------
    InputError
        The data or the machine is at fault.
    """
    run, params = context.run, context.params
    (run.path / "run.toml").write_text(invocation.config_toml)
    run.begin_session()

    def step(name: str, work: Callable[[], Result]) -> Result:
        finished = run.stage(name)
        if finished is not None and stage_is_whole(context, name):
            context.events.message(f"{name}: done before")
            return dict(finished["result"])
        return call(name, work)

    with performance_report(filename=str(run.path / "dask-report.html")):
        # Ranges of columns are those of the initial rows, not of whatever the files hold for training.
        unscaled = replace(context, params=replace(params, scale="none"))
        ingested = step("ingest", partial(ingest, unscaled, data))
        n_initial = ingested["rows_train"] if online.initial is None else online.initial
        shuffled = step("shuffle", partial(shuffle, context, n_initial, online.block_rows, params.order))
        selection = None
        if searches(params):
            selection = step("select", partial(select, context))
            say_chosen(context, selection)
        selected, tuned = (selection or {}).get("chosen", {}), (selection or {}).get("tuned", {})
        psis = {
            name: selected[name] if name in selected else int(params.psi)
            for name in params.learners
            if LEARNERS[name].on == "cells"
        }
        fitted: dict[int, Fitted] = {}
        if psis:
            partitioned = step("partition", partial(partition, context, list(psis.values())))
            fitted = {model["psi"]: Fitted(**model) for model in partitioned["fitted"]}
        contestants = [
            Contestant(
                name,
                fitted[psis[name]] if name in psis else None,
                tuned[name]["chosen"] if name in tuned else None if name in psis else given(name, params),
                str((run.path / "predictions" / f"{name}.int32").absolute()),
                str((run.path / "checkpoints" / f"{name}.npz").absolute()),
            )
            for name in params.learners
        ]
        streamed = step("stream", partial(_stream, context, online, shuffled, contestants))
        run.end_session(context.elapsed)

    stages = [dict(stage["record"]) for stage in run.manifest["stages"].values()]
    metrics = {
        "schema_version": 1,
        "run": {
            "id": run.manifest["id"],
            "command": invocation.command,
            "seed": params.seed,
            "started": run.manifest["started"],
            "seconds": run.manifest["seconds"],
            "versions": versions(),
            "cluster": dict(invocation.cluster),
            "config_toml": invocation.config_toml,
            "client_peak_rss_bytes": peak_rss_bytes(),
        },
        "data": {"name": data.name, **ingested, "sources": [dict(source) for source in invocation.sources]},
        "params": params.as_json(),
        "online": {**asdict(online), **shuffled},
        "stages": stages,
        "selection": selection,
        "learners": streamed["learners"],
    }
    write_json(run.path / "metrics.json", metrics)
    run.manifest["status"] = "finished"
    run.save()
    return metrics


@dataclass
class _Race:
    """How far everyone is: which chunks are mapped, what each learner may do next."""

    context: Context
    stream: Stream
    params: Params
    contestants: list[Contestant]
    n_chunks: int
    limit_seconds: float | None
    stage: Stage
    mapped: dict[int, Record] = field(default_factory=dict)
    done: dict[str, list[Record]] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    _given_out: set[str] = field(default_factory=set)

    def next_chunk(self, learner: str) -> int:
        """Chunk that a learner is at; -1: the initial rows."""
        return len(self.done[learner]) - 1

    def seconds(self, learner: str) -> float:
        """Time that a learner has spent on the stream."""
        return float(sum(b[2] + b[3] for record in self.done[learner][1:] for b in record["blocks"]))
