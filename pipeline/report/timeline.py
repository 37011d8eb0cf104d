"""The stages over time: one bar each, with its throughput."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.report.charts import along, nice_ticks, strip_ticks
from pipeline.report.fields import Metrics, get_list, get_mapping, get_number, get_text, number, stages_of
from pipeline.report.rendering import render
from pipeline.report.text import MISSING, count, duration, nbytes, percent, plural, rate, shorten

_MAX_WORKERS = 16


@dataclass(frozen=True)
class Bar:
    """A stage on the time axis; ``seconds`` is None while it has not finished."""

    stage: Mapping[str, object]
    start: float
    seconds: float | None

    @property
    def end(self) -> float:
        """Seconds since the start of the run."""
        return self.start + (self.seconds or 0.0)


def bars_of(stages: list[Metrics]) -> list[Bar]:
    """Place the stages on the time axis; a stage without a start follows the one before it."""
    bars: list[Bar] = []
    for stage in stages:
        start, seconds = get_number(stage, "started"), get_number(stage, "seconds")
        if start is None or start < 0:
            start = bars[-1].end if bars else 0.0
        bars.append(Bar(stage, start, seconds if seconds is not None and seconds >= 0 else None))
    return bars


def megabytes_per_second(bar: Bar) -> float | None:
    """Return the bytes read and written per second of the stage, in MB/s."""
    moved = [get_number(bar.stage, key) for key in ("bytes_read", "bytes_written")]
    if not bar.seconds or all(n is None for n in moved):
        return None
    return sum(n for n in moved if n is not None) / bar.seconds / 1e6


def _workers(stage: Mapping[str, object]) -> list[tuple[str, float]]:
    """Return (name, seconds busy) of the workers of a stage."""
    workers = []
    for i, worker in enumerate(get_list(stage, "workers")):
        busy = get_number(worker, "seconds_busy")
        if busy is not None and busy >= 0:
            workers.append((get_text(worker, "name") or get_text(worker, "pid", str(i + 1)), busy))
    return workers


def _facts(bar: Bar) -> list[str]:
    """Return the texts beside a bar, in order of interest."""
    facts = []
    rows_per_second, mbps = get_number(bar.stage, "rows_per_second"), megabytes_per_second(bar)
    if rows_per_second is not None:
        facts.append(rate(rows_per_second))
    if mbps:
        facts.append(rate(mbps, "MB/s"))
    peak = get_number(bar.stage, "peak_rss_bytes")
    if peak is not None:
        facts.append(f"peak {nbytes(peak)}")
    workers = _workers(bar.stage)
    if workers and bar.seconds:
        share = min(1.0, sum(busy for _, busy in workers) / (len(workers) * bar.seconds))
        facts.append(f"{plural(len(workers), 'worker')} {percent(share, 0)} busy")
    skipped = get_number(bar.stage, "tasks_skipped")
    if skipped:
        facts.append(f"{plural(skipped, 'task')} already done")
    return facts


def _strip(bar: Bar, span: float) -> dict[str, object]:
    """Return the strip of a stage: its bar, a thin one for every worker's busy seconds, and texts."""
    domain, name = (0.0, span), get_text(bar.stage, "name", "stage")
    said = f"started after {duration(bar.start)}, has not finished"
    if bar.seconds is not None:
        said = ", ".join([f"{duration(bar.seconds)} from {duration(bar.start)}", *_facts(bar)])
    return {
        "name": name,
        "short_name": shorten(name, 40),
        "seconds": "not finished" if bar.seconds is None else duration(bar.seconds),
        "facts": _facts(bar),
        "said": said,
        "start": along(bar.start, domain),
        "width": None if bar.seconds is None else along(bar.seconds, domain),
        "workers": [
            (along(min(busy, bar.seconds), domain), f"worker {worker}: busy {duration(busy)}")
            for worker, busy in _workers(bar.stage)[:_MAX_WORKERS]
            if bar.seconds
        ],
    }


_HEADS = ("Stage", "Time", "Rows", "Rows/s", "Read", "Written", "MB/s", "Peak memory", "Tasks", "Done before")


def _numbers(bar: Bar) -> list[str]:
    """Return the numbers behind a bar, under `_HEADS`."""
    stage, mbps = bar.stage, megabytes_per_second(bar)
    speed = get_number(stage, "rows_per_second")
    return [
        get_text(stage, "name", "stage"),
        duration(bar.seconds),
        count(get_number(stage, "rows")),
        MISSING if speed is None else rate(speed, "").strip(),
        nbytes(get_number(stage, "bytes_read")),
        nbytes(get_number(stage, "bytes_written")),
        MISSING if mbps is None else rate(mbps, "").strip(),
        nbytes(get_number(stage, "peak_rss_bytes")),
        count(number(stage.get("tasks"))),
        count(number(stage.get("tasks_skipped"))),
    ]


def _outside(bars: list[Bar], seconds: float) -> float:
    """Return the seconds of the run during which no stage was running (stages may overlap)."""
    reached = inside = 0.0
    for bar in sorted(bars, key=lambda bar: bar.start):
        inside += max(0.0, bar.end - max(bar.start, reached))
        reached = max(reached, bar.end)
    return max(0.0, seconds - inside)


def _clock(run: Mapping[str, object], stages: list[Metrics]) -> list[tuple[str, float]]:
    """Return the parts of the seconds of the command, by name; they add up to the wall-clock time."""
    seconds = get_number(run, "seconds")
    if not seconds:
        return []
    outside = _outside(bars_of(stages), seconds)
    compiling = min(outside, get_number(run, "compile_seconds") or 0.0)
    parts = [
        ("starting: imports, looking for the data, worker processes", get_number(run, "start_seconds") or 0.0),
        ("compiling, once per installation", compiling),
        ("in the stages", seconds - outside),
        ("before, between and after the stages", outside - compiling),
        ("stopping: Dask's report, ending the workers", get_number(run, "stop_seconds") or 0.0),
    ]
    return [(what, spent) for what, spent in parts if spent > 0]


def _clock_rows(parts: list[tuple[str, float]]) -> list[tuple[str, str]]:
    """Return the parts and their sum."""
    total = sum(seconds for _, seconds in parts)
    if not total:
        return []
    rows = [(what, f"{duration(seconds)} ({percent(seconds / total, 0)})") for what, seconds in parts]
    return [*rows, ("all together", duration(total))]


def stages_section(metrics: Metrics) -> str:
    """Return the stages as a picture on one time axis, which ends with the run, and its numbers."""
    stages, run = stages_of(metrics), get_mapping(metrics, "run")
    if not stages:
        return ""
    bars = bars_of(stages)
    span = max([get_number(run, "seconds") or 0.0, *(bar.end for bar in bars)]) or 1.0
    size, unit = (3600, "h") if span > 7200 else (60, "min") if span > 120 else (1, "s")
    ticks = nice_ticks(0.0, span / size, 5)
    return render(
        "stages.html",
        strips_of_stages=[_strip(bar, span) for bar in bars],
        ticks=strip_ticks(ticks, (0.0, span / size), lambda tick: f"{tick:g} {unit}"),
        with_workers=any(get_list(stage, "workers") for stage in stages),
        clock=_clock_rows(_clock(run, stages)),
        head=_HEADS,
        rows=[_numbers(bar) for bar in bars],
    )
