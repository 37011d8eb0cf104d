"""The schedule of a stream with several learners: how far each of them is, and which tasks may start next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Literal, cast

import numpy as np

from ikmap.json_values import Json, JsonObject
from ikmap.methods import Growable, StreamLearner, capability
from ikmap.tasks import criterion_of
from ikmap.tasks.scoring import total
from pipeline.errors import Damaged
from pipeline.record_types import (
    GrownRecord,
    GrownResult,
    LearnRecord,
    MapRecord,
    OwnMapsResult,
    Promise,
    SavedRecord,
    TaskRecord,
)
from pipeline.rows.stream_data import Stream, StreamSupply
from pipeline.running.dispatch import Task, worker_addresses
from pipeline.running.stage import Context
from pipeline.stages.named_rows import give_ids, listed_rows
from pipeline.storage.durable import read_json
from pipeline.storage.fitted import Fitted
from pipeline.storage.predictions import promise_of_stream
from pipeline.storage.verify import is_verified
from pipeline.streams.alerts import Alerts
from pipeline.streams.learn_chunks import learn_chunk, learn_initial, save_state
from pipeline.streams.map_chunks import Growing, map_and_grow, map_chunk, save_grown
from pipeline.streams.streamed_learner import StreamedLearner
from pipeline.training.traces import as_result

AHEAD = 4
"""Number of chunks that are mapped before the slowest learner needs them."""
MAP, MODEL, GROWN = "map", "model", "grown"
EVENTS: Mapping[Literal["drifts", "redraws"], str] = {
    "drifts": "drift alarm",
    "redraws": "half of its partitionings drawn anew",
}
"""Words for the events that some fields of the record of a chunk count."""

type Start = tuple[Callable[..., TaskRecord], Task]
"""A task that may start, and its function."""


class Schedule:
    """The state of a stream: the chunks that are mapped, how far each learner is, and so the tasks that may start.

    Parameters
    ----------
    context : Context
    stream : Stream
    arrivals : StreamSupply
    learners : list of StreamedLearner
    limit_seconds : float or None
        Most seconds of predicting and learning, for each learner.
    n_threads : int
        Number of threads of a learner.
    receivers : sequence of Alerts
        Receivers of the alerts in the records, if alerts are asked for.
    """

    def __init__(
        self,
        context: Context,
        stream: Stream,
        arrivals: StreamSupply,
        learners: list[StreamedLearner],
        limit_seconds: float | None,
        n_threads: int,
        receivers: Sequence[Alerts] = (),
    ) -> None:
        self.receivers = receivers
        self.context, self.stream, self.arrivals, self.learners = context, stream, arrivals, learners
        self.limit_seconds, self.n_threads, self.task = limit_seconds, n_threads, stream.task()
        self.criterion = criterion_of(self.task)
        maps = [streamed.shared for streamed in learners if streamed.shared is not None]
        self.fitted = list({fitted.label: fitted for fitted in maps}.values())
        self._on_cells = [streamed.learner for streamed in learners if streamed.shared is not None]
        self.growing = self._growing()
        self._grown: dict[str, GrownRecord] = {}
        self.stopped: set[str] = set()
        self._mapped: dict[int, MapRecord] = {}
        self._learned: dict[str, list[LearnRecord]] = {streamed.learner: [] for streamed in learners}
        self._spent = dict.fromkeys(self._learned, 0.0)
        # Number of rows, of labels that have come, and the sum of the scores of rows with labels.
        self._counts = dict.fromkeys(self._learned, (0, 0, 0))
        self._models: dict[str, SavedRecord] = {}
        self._running: set[str] = set()
        # Each learner goes on where it was: its state is in that worker's memory.
        self._home: dict[str, str] = {}

    def _growing(self) -> Growing | None:
        """Return the maps, if they grow with the stream."""
        run, params = self.context.run, self.context.params
        if not self.fitted or capability(params.map, Growable) is None:
            return None
        folder = (run.path / "checkpoints").absolute()
        return Growing(params, tuple(self.fitted), str(folder), run.manifest["id"])

    def resume(self) -> Iterator[TaskRecord]:
        """Take up the tasks that earlier processes have finished; yield their records."""
        run = self.context.run
        records_by_task = {name: record for name, record in run.records("stream").items() if record is not None}
        n_chunks = self.arrivals.chunks
        for k in range(n_chunks if self.fitted else 0):
            record = records_by_task.get(_map_name(k))
            if record is not None and is_verified(run, record):
                self._mapped[k] = cast("MapRecord", record)
                yield record
        for streamed in self.learners:
            name = streamed.learner
            if not Path(streamed.checkpoint).exists():
                continue
            records: list[LearnRecord] = []
            for k in range(-1, n_chunks):
                record = records_by_task.get(_learn_name(name, k))
                if record is None:
                    break
                records.append(cast("LearnRecord", record))
            if not all(is_verified(run, record) for record in records):
                continue  # its predictions are gone: it starts from the beginning
            for learned in records:
                self._note(name, learned)
                yield learned
        self._tell()

    # --- tasks that may begin

    def more(self) -> bool:
        """Return whether more rows may arrive for a learner that is not stopped."""
        self.arrivals.check()
        return not self.arrivals.ended and len(self.stopped) < len(self.learners)

    def ready(self) -> Iterator[Start]:
        """Yield the tasks that may begin."""
        ended = self.arrivals.ended  # read first: then the number of chunks is final
        n_chunks = self.arrivals.chunks
        places = {name: self.next(name) for name in self._on_cells}
        next_chunks = [k for name, k in places.items() if name not in self.stopped and k < n_chunks]
        # Behind the learners too: the cells of a chunk that was damaged since then are to be made again.
        behind = max(0, *places.values()) if places else 0
        for k in range(min(n_chunks, max(0, min(next_chunks)) + AHEAD) if next_chunks else behind):
            if k not in self._mapped and self._may_map(k) and self._begin(_map_name(k)):
                yield self._mapping(k)
        yield from self._save_grown(ended, n_chunks)
        for streamed in self.learners:
            start = self._learning(streamed, ended, n_chunks)
            if start is not None and self._begin(start[1].name):
                function, task = start
                yield function, replace(task, worker=self._at_home(streamed.learner))

    def _learning(self, streamed: StreamedLearner, ended: bool, n_chunks: int) -> Start | None:
        """Return the next task of a learner, for any worker, or None if the learner waits or is done."""
        name, k, fitted = streamed.learner, self.next(streamed.learner), streamed.shared
        given = self.stream, self.context.params, streamed
        if name in self.stopped or (ended and k == n_chunks):
            waits = self.growing is not None and fitted is not None and fitted.label not in self._grown
            if waits or name in self._models:
                return None
            grown = None if self.growing is None or fitted is None else self.grown_of(fitted)
            args = (*given, k, self.n_threads, grown, ended and k == n_chunks)
            return save_state, Task(f"{name}-{MODEL}", args)
        if k == -1:
            return learn_initial, Task(_learn_name(name, k), (*given, self.n_threads))
        if k >= n_chunks or (fitted is not None and k not in self._mapped):
            return None
        return learn_chunk, Task(_learn_name(name, k), (*given, k, self.n_threads))

    def _may_map(self, k: int) -> bool:
        """Return whether chunk k may be mapped now; a map that grows needs the chunk before it to be done."""
        return self.growing is None or k == 0 or k - 1 in self._mapped

    def _mapping(self, k: int) -> Start:
        """Return the task that maps chunk k."""
        if self.growing is None:
            return map_chunk, Task(_map_name(k), (self.stream, self.fitted, k, self.context.device))
        args = (self.stream, self.growing, k, self.n_threads)
        return map_and_grow, Task(_map_name(k), args, self._at_home(MAP))

    def _save_grown(self, ended: bool, n_chunks: int) -> Iterator[Start]:
        """Yield tasks that store the grown maps, as they are at the chunk where the last learner has ended."""
        over = all(name in self.stopped or (ended and self.next(name) == n_chunks) for name in self._on_cells)
        if self.growing is None or not over:
            return
        last = max(0, *(self.next(name) for name in self._on_cells))
        for fitted in self.fitted:
            name = f"{fitted.label}-{GROWN}"
            if fitted.label not in self._grown and self._begin(name):
                args = (self.stream, self.growing, fitted, last, self.n_threads)
                yield save_grown, Task(name, args, self._at_home(MAP))

    def grown_of(self, fitted: Fitted) -> Fitted:
        """Return a map as it is at the end of the stream."""
        record = self._grown[fitted.label]
        return replace(fitted, grown=True, most_cells=record["most_cells"], content_hash=record["content_hash"])

    def mapped(self) -> list[MapRecord]:
        """Return the records of the chunks that were mapped."""
        return list(self._mapped.values())

    def grown(self) -> GrownResult:
        """Return the maps that have grown, if the maps grow."""
        if self.growing is None:
            return {}
        cells = {fitted.label: self._grown[fitted.label]["cells"] for fitted in self.fitted}
        return {"grown": [asdict(self.grown_of(fitted)) for fitted in self.fitted], "cells_grown": cells}

    def predicted(self) -> dict[str, Promise]:
        """Return the promise of each learner's predictions for the manifest: one SHA-256 over all of them.

        Raises
        ------
        Damaged
            The predictions are not those that the records of the chunks promise.
        """
        promises: dict[str, Promise] = {}
        for streamed in self.learners:
            chunks = [record["predicted"] for record in self._learned[streamed.learner] if "predicted" in record]
            try:
                promises[streamed.learner] = promise_of_stream(streamed.predictions, self.task.decisions.dtype, chunks)
            except Damaged as damaged:  # then the learner starts again
                raise Damaged(damaged.path, damaged.why, damaged.path, streamed.checkpoint) from None
        return promises

    def redrawn(self) -> OwnMapsResult:
        """Return the maps that learners have of their own, by learner, if any has."""
        redrawn = {name: record["redrawn"] for name, record in self._models.items() if "redrawn" in record}
        return {"redrawn": redrawn} if redrawn else {}

    def lost(self, task: Task) -> None:
        """Move the learners of a worker that is gone to others, which take up their checkpoints."""
        self._running.discard(task.name)
        self._home = {name: worker for name, worker in self._home.items() if worker != task.worker}

    def _at_home(self, learner: str) -> str | None:
        """Return the worker of a learner; at first one of those with the fewest learners."""
        if learner not in self._home:
            taken = Counter(self._home.values())
            workers = worker_addresses(self.context.client)
            if not workers:
                return None
            self._home[learner] = min(workers, key=lambda worker: taken[worker])
        return self._home[learner]

    def _begin(self, name: str) -> bool:
        if name in self._running:
            return False
        self._running.add(name)
        return True

    # --- tasks that are done

    def finished(self, name: str, record: TaskRecord) -> None:
        """Note that a task is done."""
        self._running.discard(name)
        learner, _, k = name.rpartition("-")
        if learner == MAP:
            self._mapped[int(k)] = cast("MapRecord", record)
        elif k == MODEL:
            self._models[learner] = cast("SavedRecord", record)
        elif k == GROWN:
            self._grown[learner] = cast("GrownRecord", record)
        else:
            learned = cast("LearnRecord", record)
            self._note(learner, learned)
            for key, event in EVENTS.items():
                for row in learned.get(key, ()):
                    self.context.events.message(f"{learner}: {event} after row {row:,} of the stream")
        self._tell()

    def _note(self, learner: str, record: LearnRecord) -> None:
        """Count a chunk that a learner has done."""
        self._learned[learner].append(record)
        blocks = record.get("blocks", ())
        rows, labelled, scored = self._counts[learner]
        n = sum(b[0] for b in blocks)
        labelled += sum(record.get("labelled", [n]))
        self._counts[learner] = rows + n, labelled, scored + sum(b[1] for b in blocks)
        self._spent[learner] += record.get("train_seconds", 0.0) + sum(b[2] + b[3] for b in blocks)
        self._spent[learner] += sum(record.get("map_seconds_of_blocks", ()))
        left = not self.arrivals.ended or self.next(learner) < self.arrivals.chunks
        if left and self.limit_seconds is not None and self._spent[learner] > self.limit_seconds:
            self.stopped.add(learner)
        record.pop("tally", None)  # the record on the disk has it, for the metrics at the end
        alerts = record.pop("alerts", ())
        for receiver in self.receivers:
            receiver.note(learner, alerts)

    def _tell(self) -> None:
        running = [self.next(name) for name in self._learned if name not in self.stopped]
        self.arrivals.learned(min(running, default=self.arrivals.chunks))
        for receiver in self.receivers:
            receiver.send(self.rows)

    def next(self, learner: str) -> int:
        """Return the chunk that a learner is at; -1: the initial rows."""
        return len(self._learned[learner]) - 1

    @property
    def rows(self) -> int:
        """Number of rows that the slowest learner has done, of those that are not stopped."""
        running = [n for name, (n, *_) in self._counts.items() if name not in self.stopped]
        return min(running, default=max(n for n, *_ in self._counts.values()))

    def standing(self) -> str:
        """Return the metric of each learner so far, in words."""
        score = self.criterion.score
        return ", ".join(f"{name} {score(scored, n):.4f}" for name, (_, n, scored) in self._counts.items() if n)

    def result(self, streamed: StreamedLearner) -> JsonObject:
        """Return the result of a learner at the end: totals, and the curve block by block."""
        initial, *records = self._learned[streamed.learner]
        # Rows, their scores, seconds of predicting and of learning, support points, and traces.
        traced = self.context.params.learner_as(StreamLearner, streamed.learner).traced
        width = 5 + len(traced)
        block_entries = [block for record in records for block in record["blocks"]]
        blocks = np.array(block_entries, dtype=np.float64).reshape(-1, width)
        mapping = self._mapping_seconds(streamed, records)
        # Labels that come after their rows count in the block that they came with, or after the last.
        labelled_of_records = [record.get("labelled", [b[0] for b in record["blocks"]]) for record in records]
        labelled = np.concatenate([np.zeros(0), *labelled_of_records])
        tallies_at_end: list[Json] = []
        at_end = self._models[streamed.learner].get("at_end")
        if at_end and len(blocks):
            blocks[-1, 1] += at_end["scored"]
            labelled[-1] += at_end["labelled"]
            if at_end["labelled"]:
                tallies_at_end.append(at_end["tally"])
        seen, labelled, scored = np.cumsum(blocks[:, 0]), np.cumsum(labelled), np.cumsum(blocks[:, 1])
        n_labelled = int(labelled[-1]) if labelled.size else 0
        learning = np.cumsum(blocks[:, 2] + blocks[:, 3])
        n_seen = int(seen[-1]) if seen.size else 0
        name, key = streamed.learner, self.criterion.metric.key
        parameter = streamed.fitted.as_result() if streamed.fitted else {
            "parameter": self.context.params.parameter(name) or None, "value": streamed.value
        }  # fmt: skip
        metric = float(self.criterion.score(scored[-1], n_labelled)) if n_labelled else None
        return {
            **parameter,
            **({} if metric is None else self._metrics(name, tallies_at_end)),
            key: metric,
            "rows": n_seen,
            **({"rows_labelled": n_labelled} if self.stream.late else {}),
            **({"drifts": _all(records, "drifts")} if streamed.drift else {}),
            **({"redraws": _all(records, "redraws")} if streamed.redraw_rows is not None else {}),
            "stopped_early": streamed.learner in self.stopped,
            "content_hash": self._models[streamed.learner]["content_hash"],
            "initial_seconds": initial["train_seconds"],
            "map_seconds": round(float(mapping.sum()), 6),
            "predict_seconds": round(float(blocks[:, 2].sum()), 6),
            "train_seconds": round(float(blocks[:, 3].sum()), 6),
            "n_support": int(blocks[-1, 4]) if len(blocks) else initial["n_support"],
            "curve": {
                "rows": seen.astype(int).tolist(),
                key: self.criterion.score(scored, np.maximum(labelled, 1)).round(6).tolist(),
                "seconds": (learning + np.cumsum(mapping)).round(6).tolist(),
                "n_support": blocks[:, 4].astype(int).tolist(),
            },
            **as_result(traced, blocks[:, 5:]),
        }

    def _mapping_seconds(self, streamed: StreamedLearner, records: list[LearnRecord]) -> np.ndarray:
        """Return the seconds of mapping each block; cells for several learners count in equal parts for its blocks."""
        seconds = [np.zeros(0)]
        for k, record in enumerate(records):
            n = len(record["blocks"])
            if streamed.shared is not None:
                seconds.append(np.full(n, self._mapped[k]["map_seconds"][streamed.shared.label] / n))
            else:
                seconds.append(np.array(record.get("map_seconds_of_blocks", [0.0] * n)))
        return np.concatenate(seconds)

    def _metrics(self, learner: str, at_end: Sequence[Json]) -> dict[str, Json]:
        """Return the metrics of all rows that were predicted; rows in lists of single rows have their ids.

        Parameters
        ----------
        at_end : sequence
            Accumulated metrics of rows whose labels came after the last chunk.
        """
        task, run = self.context.params.decision_task(learner, self.task), self.context.run
        files = (run.task_record("stream", _learn_name(learner, k)) for k in range(self.next(learner)))
        metrics = total(task, chain((read_json(file)["tally"] for file in files), at_end)).metrics()
        give_ids(metrics, self.stream.ids_of(listed_rows(metrics), self.arrivals.chunks))
        return metrics


def _all(records: Iterable[LearnRecord], key: Literal["drifts", "redraws"]) -> list[int]:
    """Return the rows that are listed in records, one after the other."""
    return [row for record in records for row in record.get(key, ())]


def _map_name(k: int) -> str:
    return f"{MAP}-{k:06d}"


def _learn_name(learner: str, k: int) -> str:
    return f"{learner}-initial" if k < 0 else f"{learner}-{k:06d}"


def chunks_in_records(records: Iterable[str]) -> int:
    """Return the number of chunks that have records, by the names of the records."""
    numbers = (name.rpartition("-")[2] for name in records)
    return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
