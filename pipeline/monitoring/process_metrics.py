"""Counters of what this process has done, by stage or model, for Prometheus to read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Literal

from pipeline.record_types import TaskRecord

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


class ProcessMetrics:
    """Counters and gauges of this process under one label; any thread may add to them.

    Without the package prometheus_client they are only sums: :meth:`expose` does nothing then.

    Parameters
    ----------
    prefix : str
        Names begin with it: ``<prefix>_<name>``, of a counter ``<prefix>_<name>_total``.
    label : str
    counters, gauges : mapping of str to str
        Meaning of each, by name. Counters only grow.
    """

    def __init__(self, prefix: str, label: str, counters: Mapping[str, str], gauges: Mapping[str, str]) -> None:
        self.prefix, self.label, self.counters, self.gauges = prefix, label, dict(counters), dict(gauges)
        self._sums: dict[str, dict[str, float]] = {name: defaultdict(float) for name in (*counters, *gauges)}
        self._lock, self._exposed = Lock(), False

    def add(self, value: str, **amounts: float) -> None:
        """Add amounts, by name, for a value of the label."""
        with self._lock:
            for name, amount in amounts.items():
                self._sums[name][value] += amount

    def of(self, name: str) -> dict[str, float]:
        """Return one of the sums, by value of the label."""
        with self._lock:
            return dict(self._sums[name])

    def expose(self) -> None:
        """Let the ``/metrics`` page of this process, which Dask serves beside the dashboard, show the sums."""
        try:
            from prometheus_client import REGISTRY
        except ImportError:
            return
        with self._lock:
            first, self._exposed = not self._exposed, True
        if first:
            REGISTRY.register(self)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield families of metrics; prometheus_client calls it."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for kind, named in ((CounterMetricFamily, self.counters), (GaugeMetricFamily, self.gauges)):
            for name, meaning in named.items():
                family = kind(f"{self.prefix}_{name}", meaning, labels=[self.label])
                for value, amount in self.of(name).items():
                    family.add_metric([value], amount)
                yield family


WORK = ProcessMetrics(
    "ikmap_worker",
    "stage",
    {
        "tasks": "Tasks that this worker has done",
        "rows": "Rows that they worked on",
        "bytes_read": "Bytes that they read",
        "bytes_written": "Bytes that they wrote",
        "busy_seconds": "Seconds that they took",
    },
    {"running": "Tasks at work on this worker"},
)
"""Counters of the tasks that this process has done."""

MODELS_READ = ProcessMetrics(
    "ikmap_worker_models",
    "model",
    {"read": "Times that this worker has read the model from the store", "read_bytes": "Bytes of its arrays"},
    {},
)
"""Counters of the models that this process had to read, as they were not in its cache."""

STAGES = ProcessMetrics(
    "ikmap_stage",
    "stage",
    {
        "tasks": "Tasks done",
        "tasks_skipped": "Tasks found done by an earlier process",
        "rows": "Rows worked on",
        "bytes_read": "Bytes read by the tasks",
        "bytes_written": "Bytes written by the tasks",
        "seconds": "Seconds that the stage was at work, summed over runs",
    },
    {
        "running": "Runs that are in the stage now",
        "tasks_expected": "Tasks in all of these runs in the stage, where that is known",
        "tasks_done": "Those of them that are done",
    },
)
"""Counters of the stages of all clients; in the process of the scheduler."""

COUNTED: tuple[Literal["rows", "bytes_read", "bytes_written"], ...] = ("rows", "bytes_read", "bytes_written")
"""Fields of a task's record that are summed up."""


@contextmanager
def task_of(stage: str) -> Iterator[Callable[[TaskRecord, float], None]]:
    """Count one task of a stage: as running inside the ``with`` block, as done when the block calls the function.

    Yields
    ------
    callable
        To be called with the task's record and its seconds when it has succeeded.
    """
    # Every counter is set to zero first. Prometheus computes a rate from the difference of two samples, so the first
    # task of a stage would be missed if its counters appeared only with the values they have after it.
    WORK.add(stage, running=1, **dict.fromkeys(WORK.counters, 0))

    def done(record: TaskRecord, seconds: float) -> None:
        WORK.add(stage, tasks=1, busy_seconds=seconds, **{name: record.get(name, 0) for name in COUNTED})

    try:
        yield done
    finally:
        WORK.add(stage, running=-1)
