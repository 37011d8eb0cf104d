"""The stages over time: one bar each, with what it got through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.report.charts import nice_ticks, strip_axis, strip_grid
from pipeline.report.fields import Metrics, get_list, get_mapping, get_number, get_text, number, stages_of
from pipeline.report.markup import fold, pairs, scroll, section
from pipeline.report.text import MISSING, count, duration, esc, nbytes, percent, plural, rate, shorten

_MAX_WORKERS = 16
_BAR = 16
_WORKER_BAR = 4


@dataclass(frozen=True)
class Bar:
    """A stage on the time axis; ``seconds`` is None while it has not finished."""

    stage: Mapping[str, Any]
    start: float
    seconds: float | None

    @property
    def end(self) -> float:
        """Seconds since the start of the run."""
        return self.start + (self.seconds or 0.0)


def bars_of(stages: list[Mapping[str, Any]]) -> list[Bar]:
    """Places the stages; one that does not say when it started follows the one before it."""
    bars: list[Bar] = []
    for stage in stages:
        start, seconds = get_number(stage, "started"), get_number(stage, "seconds")
        if start is None or start < 0:
            start = bars[-1].end if bars else 0.0
        bars.append(Bar(stage, start, seconds if seconds is not None and seconds >= 0 else None))
    return bars


def megabytes_per_second(bar: Bar) -> float | None:
    """Bytes read and written per second of the stage, in MB/s."""
    moved = [get_number(bar.stage, key) for key in ("bytes_read", "bytes_written")]
    if not bar.seconds or all(n is None for n in moved):
        return None
    return sum(n for n in moved if n is not None) / bar.seconds / 1e6


def _workers(stage: Mapping[str, Any]) -> list[tuple[str, float]]:
    """(name, seconds busy) of the workers a stage tells about."""
    found = []
    for i, worker in enumerate(get_list(stage, "workers")):
        busy = get_number(worker, "seconds_busy")
        if busy is not None and busy >= 0:
            found.append((get_text(worker, "name") or get_text(worker, "pid", str(i + 1)), busy))
    return found


def _facts(bar: Bar) -> list[str]:
    """What is written beside a bar, in order of interest."""
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


def _strip(bar: Bar, span: float, ticks: list[float]) -> str:
    """The bar itself, and a thin one for every worker's busy seconds."""
    name = get_text(bar.stage, "name", "stage")
    workers = _workers(bar.stage)[:_MAX_WORKERS] if bar.seconds else []
    height = _BAR + (2 + _WORKER_BAR * len(workers) if workers else 0)
    x = 100 * bar.start / span
    parts = [strip_grid([100 * tick / span for tick in ticks], height)]
    if bar.seconds is None:
        parts.append(f'<line class="pending" x1="{x:.3f}%" x2="100%" y1="{_BAR / 2:g}" y2="{_BAR / 2:g}"/>')
        said = f"started after {duration(bar.start)}, has not finished"
    else:
        parts.append(f'<line class="start" x1="{x:.3f}%" x2="{x:.3f}%" y1="0" y2="{_BAR}"/>')
        parts.append(f'<rect class="bar" x="{x:.4f}%" y="0" width="{100 * bar.seconds / span:.4f}%" height="{_BAR}"/>')
        said = ", ".join([f"{duration(bar.seconds)} from {duration(bar.start)}", *_facts(bar)])
    for i, (worker, busy) in enumerate(workers):
        y, width = _BAR + 2 + i * _WORKER_BAR, 100 * min(busy, bar.seconds or 0.0) / span
        parts.append(
            f'<rect class="busy" x="{x:.4f}%" y="{y}" width="{width:.4f}%" height="{_WORKER_BAR - 1}">'
            f"<title>worker {esc(worker)}: busy {duration(busy)}</title></rect>"
        )
    return (
        f'<svg class="strip" width="100%" height="{height}" role="img"><title>{esc(name)}</title>'
        f"<desc>{esc(said)}</desc>{''.join(parts)}</svg>"
    )


def timeline(stages: list[Mapping[str, Any]], run_seconds: float | None) -> str:
    """All stages on one time axis, which ends with the run."""
    bars = bars_of(stages)
    span = max([run_seconds or 0.0, *(bar.end for bar in bars)]) or 1.0
    size, unit = (3600, "h") if span > 7200 else (60, "min") if span > 120 else (1, "s")
    ticks = [tick * size for tick in nice_ticks(0.0, span / size, 5)]
    items = []
    for bar in bars:
        facts = "".join(f"<span>{esc(fact)}</span>" for fact in _facts(bar))
        seconds = "not finished" if bar.seconds is None else duration(bar.seconds)
        items.append(
            f'<li><div class="facts"><b>{esc(shorten(get_text(bar.stage, "name", "stage"), 40))}</b>'
            f"<strong>{seconds}</strong><i></i>{facts}</div>{_strip(bar, span, ticks)}</li>"
        )
    axis = strip_axis([(100 * tick / span, f"{tick / size:g} {unit}") for tick in ticks])
    items.append(f'<li class="axis-row" aria-hidden="true"><div>time since start</div>{axis}</li>')
    return f'<ol class="timeline">{"".join(items)}</ol>'


def stage_table(stages: list[Mapping[str, Any]]) -> str:
    """The numbers behind the bars."""
    heads = ("Stage", "Time", "Rows", "Rows/s", "Read", "Written", "MB/s", "Peak memory", "Tasks", "Skipped")
    rows = []
    for bar in bars_of(stages):
        stage, mbps = bar.stage, megabytes_per_second(bar)
        speed = get_number(stage, "rows_per_second")
        cells = [
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
        rows.append(
            f'<tr><th scope="row">{esc(get_text(stage, "name", "stage"))}</th>'
            + "".join(f"<td>{esc(cell)}</td>" for cell in cells)
            + "</tr>"
        )
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _outside(bars: list[Bar], seconds: float) -> float:
    """Seconds of the run during which no stage was running (stages may overlap)."""
    reached = inside = 0.0
    for bar in sorted(bars, key=lambda bar: bar.start):
        inside += max(0.0, bar.end - max(bar.start, reached))
        reached = max(reached, bar.end)
    return max(0.0, seconds - inside)


def _clock(run: Mapping[str, Any], stages: list[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """What the seconds of the command went into, by name; they add up to what a clock on the wall says."""
    seconds = get_number(run, "seconds")
    if not seconds:
        return []
    outside = _outside(bars_of(stages), seconds)
    compiling = min(outside, get_number(run, "compile_seconds") or 0.0)
    parts = [
        ("starting: imports, looking for the data, worker processes", get_number(run, "start_seconds") or 0.0),
        ("compiling, once per installation", compiling),
        ("in the stages", seconds - outside),
        ("before, between and after them", outside - compiling),
        ("stopping: Dask's report, ending the workers", get_number(run, "stop_seconds") or 0.0),
    ]
    return [(what, spent) for what, spent in parts if spent > 0]


def _clock_table(parts: list[tuple[str, float]]) -> str:
    """The parts and their sum."""
    total = sum(seconds for _, seconds in parts)
    if not total:
        return ""
    rows = [(esc(what), f"{duration(seconds)} ({percent(seconds / total, 0)})") for what, seconds in parts]
    return f'<div class="clock">{pairs([*rows, ("all together", duration(total))])}</div>'


def stages_section(metrics: Metrics) -> str:
    """The stages as a picture, and its numbers."""
    stages = stages_of(metrics)
    if not stages:
        return ""
    workers = any(get_list(stage, "workers") for stage in stages)
    run = get_mapping(metrics, "run")
    seconds = get_number(run, "seconds")
    note = '<p class="note">Thin lines below a bar: how long each worker was busy.</p>' if workers else ""
    table = scroll(stage_table(stages), "The stages in numbers")
    picture = timeline(stages, seconds)
    return section(
        "stages",
        "Stages",
        f"{picture}{note}{_clock_table(_clock(run, stages))}{fold('The same in numbers', table)}",
    )
