"""Measure tasks and stages: seconds without compiling, rows, bytes and memory."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from pipeline.monitoring.process_metrics import task_of
from pipeline.record_types import StageProgress, Summary, TaskRecord
from pipeline.storage.durable import promised


def measured[R: TaskRecord](function: Callable[..., R], args: tuple[object, ...], stage: str = "") -> R:
    """Do a task on a worker; return its record with its seconds, its process and the peak memory of the process."""
    # Loads Numba, which the caller of tasks need not have.
    from pipeline.running.working_clock import compiled_since, compiling, working_clock

    with task_of(stage) as done:
        began, (before, n) = working_clock(), compiling()
        with promised():  # what the record says of it
            record = function(*args)
        seconds = working_clock() - began
        done(record, seconds)
    late, noted = compiled_since(n), cast("TaskRecord", record)
    complete = {
        **record,
        **({"compile_seconds": round(compiling()[0] - before, 6), "compiled": late} if late else {}),
        # A task that goes on from a checkpoint has counted the attempts before it.
        "seconds": round(noted.get("seconds", seconds), 6),
        "peak_rss_bytes": max(noted.get("peak_rss_bytes", 0), peak_rss_bytes()),
        "worker": f"{os.uname().nodename}:{os.getpid()}",
    }
    return cast("R", complete)


def peak_rss_bytes() -> int:
    """Return the largest resident set of this process so far, in bytes."""
    try:
        # getrusage counts what the parent held when it forked; this does not.
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return int(peak) if sys.platform == "darwin" else int(peak) * 1024


def progress_of(summary: Summary) -> StageProgress:
    """Return the fields of a summary that progress shows."""
    return {
        "seconds": summary["seconds"],
        "rows": summary["rows"],
        "rows_per_second": summary["rows_per_second"],
        "bytes_read": summary["bytes_read"],
        "bytes_written": summary["bytes_written"],
        "tasks": summary["tasks"],
        "tasks_skipped": summary["tasks_skipped"],
        "seconds_before": summary.get("seconds_before", 0.0),
    }


def summarise(
    name: str,
    records: Sequence[TaskRecord],
    started: float,
    seconds: float,
    rows: int | None = None,
    skipped: int = 0,
) -> Summary:
    """Sum up the records of a stage's tasks, as in ``metrics.json``; rows default to the sum over the tasks."""
    if rows is None:
        rows = sum(record.get("rows", 0) for record in records)
    busy: dict[str, float] = {}
    for record in records:
        for worker, spent in (record["busy"] if "busy" in record else {record["worker"]: record["seconds"]}).items():
            busy[worker] = busy.get(worker, 0.0) + spent
    return {
        "name": name,
        "started": round(started, 4),
        "seconds": round(seconds, 4),
        "rows": rows,
        "rows_per_second": round(rows / seconds, 1) if seconds > 0 else 0.0,
        "bytes_read": sum(record.get("bytes_read", 0) for record in records),
        "bytes_written": sum(record.get("bytes_written", 0) for record in records),
        "peak_rss_bytes": max((record["peak_rss_bytes"] for record in records), default=0),
        "tasks": len(records),
        "tasks_skipped": skipped,
        "workers": [{"name": name, "seconds_busy": round(value, 4)} for name, value in sorted(busy.items())],
    }
