"""The online pipeline: an initial set, then block after block predicted and learned from (algorithms.md 9.4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.baselines import parameter_of
from pipeline.batch import (
    Call,
    Invocation,
    Result,
    call_directly,
    call_stage,
    check_largest,
    psi_used,
    say_chosen,
    versions,
    widths,
)
from pipeline.datasets import ResolvedDataset
from pipeline.engine import Context, Record, Stage, Task, peak_rss_bytes, run_ready
from pipeline.report import write_report
from pipeline.rundir import write_json
from pipeline.stages.ingest import ingest
from pipeline.stages.partition import Fitted, cores_of_a_host, partition
from pipeline.stages.select import searches, select
from pipeline.stages.shuffle import shuffle
from pipeline.stages.stream import Contestant, learn_chunk, learn_initial, map_chunk
from pipeline.stream_data import PredictionFile, Stream

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


def in_file_order(data: ResolvedDataset) -> ResolvedDataset:
    """A data set as a stream takes it in: without a test file, the file in its order until it is shuffled."""
    return replace(data, split=replace(data.split, rule="first"))


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
    done_before = set(run.manifest["stages"])
    run.begin_session()

    step = partial(call_stage, context, call, done_before)
    with invocation.watched(run):
        # Ranges of columns are those of the initial rows, not of whatever the files hold for training.
        unscaled = replace(context, params=replace(params, scale="none"))
        ingested = step("ingest", partial(ingest, unscaled, in_file_order(data)))
        n_initial = ingested["rows_train"] if online.initial is None else online.initial
        shuffled = step("shuffle", partial(shuffle, context, n_initial, online.block_rows, params.order))
        pooled = {**ingested, "rows_train": ingested["rows_train"] + ingested["rows_test"], "rows_test": 0}
        check_largest(context, {**pooled, "rows_train": n_initial}, invocation)
        check_largest(context, pooled, invocation, show=invocation.explain)
        selection = None
        if searches(params):
            selection = step("select", partial(select, context))
            say_chosen(context, selection)
        psis, values = widths(params, selection)
        fitted: dict[int, Fitted] = {}
        if psis:
            partitioned = step("partition", partial(partition, context, list(psis.values())))
            fitted = {model["psi"]: Fitted(**model) for model in partitioned["fitted"]}
        contestants = [
            Contestant(
                name,
                fitted[psis[name]] if name in psis else None,
                values.get(name),
                str((run.path / "predictions" / f"{name}.int32").absolute()),
                str((run.path / "checkpoints" / f"{name}.npz").absolute()),
                run.manifest["id"],
            )
            for name in params.learners
        ]
        streamed = step("stream", partial(_stream, context, online, shuffled, contestants))
        run.end_session(context.elapsed)

    stages = []
    for name, stage in run.manifest["stages"].items():
        record = dict(stage["record"])
        stages.append({**record, "tasks_skipped": record["tasks"]} if name in done_before else record)
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
        "params": {**params.as_json(), "psi": psi_used(psis)},
        "online": {**asdict(online), **shuffled},
        "stages": stages,
        "selection": selection,
        "learners": streamed["learners"],
    }
    write_json(run.path / "metrics.json", metrics)
    write_report(metrics, run.path / "report.html")
    run.manifest["status"] = "finished"
    run.save()
    return metrics


def _stream(context: Context, online: OnlineParams, shuffled: Result, contestants: list[Contestant]) -> dict[str, Any]:
    """Stage: all learners through all chunks, cells made a few chunks ahead of the slowest."""
    stage = Stage(context, "stream", None, shuffled["rows_stream"])
    race = _Race(
        context,
        Stream(context.store, shuffled["block_rows"], shuffled["chunk_rows"]),
        contestants,
        shuffled["chunks"],
        online.limit_seconds,
        max(1, cores_of_a_host(context) // len(contestants)),
    )
    for record in race.resume():
        stage.skipped += 1
        stage.records.append(record)
        stage.say(record, skipped=True)
    for task, record in run_ready(context.client, stage.key, race.ready):
        write_json(context.run.task_record(stage.name, task.name), record)
        race.finished(task.name, record)
        stage.records.append(record)
        stage.say(record)
    for contestant in contestants:
        if contestant.learner in race.stopped:
            limit = f"--limit-seconds {online.limit_seconds:g}"
            context.events.message(f"{contestant.learner}: stopped early, at {limit}")
    return stage.finish(learners={contestant.learner: race.result(contestant) for contestant in contestants})


class _Race:
    """How far everyone is: which chunks are mapped, and what each learner may do next."""

    def __init__(
        self,
        context: Context,
        stream: Stream,
        contestants: list[Contestant],
        n_chunks: int,
        limit_seconds: float | None,
        n_threads: int,
    ) -> None:
        self.context, self.stream, self.contestants = context, stream, contestants
        self.n_chunks, self.limit_seconds, self.n_threads = n_chunks, limit_seconds, n_threads
        self.fitted = list({c.fitted.psi: c.fitted for c in contestants if c.fitted is not None}.values())
        self.stopped: set[str] = set()
        self._mapped: dict[int, Record] = {}
        self._learned: dict[str, list[Record]] = {c.learner: [] for c in contestants}
        self._running: set[str] = set()
        workers = list(context.client.scheduler_info(n_workers=-1)["workers"])
        # Each learner goes on where it was: its state is in that worker's memory.
        self._home = {c.learner: workers[i % len(workers)] if workers else None for i, c in enumerate(contestants)}

    def resume(self) -> Iterator[Record]:
        """Take up what earlier processes have finished; yield their records."""
        found = {path.stem: path for path in self.context.run.task_record("stream", "any").parent.glob("*.json")}
        for k in range(self.n_chunks if self.fitted else 0):
            if (path := found.get(_map_name(k))) is not None:
                record = json.loads(path.read_text())
                if all(self.context.store.holds(output) for output in record["outputs"]):
                    self._mapped[k] = record
                    yield record
        for contestant in self.contestants:
            if not Path(contestant.checkpoint).exists():
                continue
            for k in range(-1, self.n_chunks):
                path = found.get(_learn_name(contestant.learner, k))
                if path is None:
                    break
                record = json.loads(path.read_text())
                if k >= 0 and len(PredictionFile(contestant.predictions)) < k * self.stream.chunk_rows + record["rows"]:
                    self._learned[contestant.learner].clear()  # what it was learned with is gone: from the beginning
                    self.stopped.discard(contestant.learner)
                    break
                self._note(contestant.learner, record)
                yield record

    def ready(self) -> Iterator[tuple[Callable[..., Record], Task]]:
        """Yield what may begin."""
        params = self.context.params
        racing = [c for c in self.contestants if c.learner not in self.stopped]
        at = [self._next(c) for c in racing if c.fitted is not None and self._next(c) < self.n_chunks]
        for k in range(min(self.n_chunks, max(0, min(at)) + AHEAD) if at else 0):
            if k not in self._mapped and self._begin(_map_name(k)):
                yield map_chunk, Task(_map_name(k), (self.stream, self.fitted, k))
        for contestant in racing:
            k, home = self._next(contestant), self._home[contestant.learner]
            name = _learn_name(contestant.learner, k)
            if k == -1:
                if self._begin(name):
                    yield learn_initial, Task(name, (self.stream, params, contestant, self.n_threads), home)
            elif k < self.n_chunks and (contestant.fitted is None or k in self._mapped) and self._begin(name):
                yield learn_chunk, Task(name, (self.stream, params, contestant, k, self.n_threads), home)

    def finished(self, name: str, record: Record) -> None:
        """Note that a task is done."""
        self._running.discard(name)
        learner, _, k = name.rpartition("-")
        if learner == "map":
            self._mapped[int(k)] = record
        else:
            self._note(learner, record)

    def _note(self, learner: str, record: Record) -> None:
        self._learned[learner].append(record)
        left = len(self._learned[learner]) - 1 < self.n_chunks
        if left and self.limit_seconds is not None and self._seconds(learner) > self.limit_seconds:
            self.stopped.add(learner)

    def _begin(self, name: str) -> bool:
        if name in self._running:
            return False
        self._running.add(name)
        return True

    def _next(self, contestant: Contestant) -> int:
        """Chunk that a learner is at; -1: the initial rows."""
        return len(self._learned[contestant.learner]) - 1

    def _seconds(self, learner: str) -> float:
        records = self._learned[learner]
        return float(sum(r.get("train_seconds", 0.0) + sum(b[2] + b[3] for b in r.get("blocks", ())) for r in records))

    def result(self, contestant: Contestant) -> dict[str, Any]:
        """What is known of a learner at the end: totals, and the curve block by block."""
        initial, *records = self._learned[contestant.learner]
        blocks = np.array([block for record in records for block in record["blocks"]]).reshape(-1, 5)
        of_mapping = [self._mapped[k]["seconds"] if contestant.fitted else 0.0 for k in range(len(records))]
        # A chunk's mapping counts in equal parts for its blocks.
        shares = [np.full(len(r["blocks"]), s / len(r["blocks"])) for r, s in zip(records, of_mapping, strict=True)]
        mapping = np.concatenate([np.zeros(0), *shares])
        seen, correct = np.cumsum(blocks[:, 0]), np.cumsum(blocks[:, 1])
        learning = np.cumsum(blocks[:, 2] + blocks[:, 3])
        n_seen = int(seen[-1]) if seen.size else 0
        parameter = {"psi": contestant.fitted.psi} if contestant.fitted else {
            "parameter": parameter_of(contestant.learner, self.context.params), "value": contestant.value
        }  # fmt: skip
        return {
            **parameter,
            "accuracy": float(correct[-1]) / n_seen if n_seen else None,
            "rows": n_seen,
            "stopped_early": contestant.learner in self.stopped,
            "initial_seconds": initial["train_seconds"],
            "map_seconds": round(float(mapping.sum()), 6),
            "predict_seconds": round(float(blocks[:, 2].sum()), 6),
            "train_seconds": round(float(blocks[:, 3].sum()), 6),
            "n_support": int(blocks[-1, 4]) if len(blocks) else initial["n_support"],
            "curve": {
                "rows": seen.astype(int).tolist(),
                "accuracy": (correct / np.maximum(seen, 1)).round(6).tolist(),
                "seconds": (learning + np.cumsum(mapping)).round(6).tolist(),
                "n_support": blocks[:, 4].astype(int).tolist(),
            },
        }


def _map_name(k: int) -> str:
    return f"map-{k:06d}"


def _learn_name(learner: str, k: int) -> str:
    return f"{learner}-initial" if k < 0 else f"{learner}-{k:06d}"
