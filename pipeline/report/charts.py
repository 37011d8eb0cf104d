"""Lay out charts: pure functions. Templates (``*.svg``) draw them.

Two kinds. *Strips* have no viewBox: positions are percentages, so they fill any width and their text
keeps its size. *Charts* have a viewBox and scale; the style sheet enlarges their text on narrow screens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from pipeline.report.labels import Box, Point, place_labels
from pipeline.report.rendering import render
from pipeline.report.text import brief, percent, shorten

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 22, 34, 54
_AREA = Box(LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM)
_MAX_POINTS = 500
_MAX_MARKERS = 30
_RING = 8.0
# Room for a label: a character and a line of the text of narrow screens, the largest (style sheet).
_LETTER, _LINE = 9.2, 20.0
STYLES = 4
"""Number of series that differ in colour, dash (``style.css``) and marker (``macros.html``)."""


type Tick = tuple[float, str]


@dataclass(frozen=True)
class Series:
    """A named line through points in order of x."""

    name: str
    points: Sequence[tuple[float, float]]
    style: int = 0  # number of its colour, dash and marker, before wrapping around
    mark: float | None = None  # x of the point to ring and label; no point is marked if none has it

    @property
    def colour(self) -> int:
        """Number of its colour, dash and marker."""
        return self.style % STYLES


def _nice_step(span: float, most: int) -> float:
    """Return the least of 1, 2, 5 times a power of ten that fits at most ``most`` times into ``span``."""
    raw = span / most
    power = 10.0 ** math.floor(math.log10(raw))
    return next((m * power for m in (1, 2, 5) if m * power >= raw * (1 - 1e-9)), 10 * power)


def _multiple(k: int, step: float) -> float:
    # Division by a whole number, if there is one, gives 0.3 rather than 0.30000000000000004.
    return k / round(1 / step) if step < 1 else k * step


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most ``most`` + 1 round values (1, 2 or 5 times a power of ten apart) within [low, high]."""
    if not high > low:
        return [low]
    step = _nice_step(high - low, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [_multiple(k, step) for k in range(first, last + 1)]


def share_domain(values: Sequence[float]) -> tuple[float, float]:
    """Return an interval within [0, 1] that ends on round values and holds ``values`` with a margin."""
    least, most = min(values), max(values)
    pad = max((most - least) * 0.08, 0.004)
    low, high = max(0.0, least - pad), min(1.0, most + pad)
    step = _nice_step(high - low, 6)
    low, high = _multiple(math.floor(low / step + 1e-9), step), _multiple(math.ceil(high / step - 1e-9), step)
    return max(0.0, min(low, least)), min(1.0, max(high, most))


def number_domain(values: Sequence[float]) -> tuple[float, float]:
    """Return an interval that holds ``values`` with a margin."""
    least, most = min(values), max(values)
    pad = (most - least) * 0.08 or max(abs(most), 1.0) * 0.08
    return least - pad, most + pad


def share_label(ticks: Sequence[float]) -> Callable[[float], str]:
    """Return a function that formats shares as percentages, with the digits that the distance of the ticks needs."""
    step = min((b - a for a, b in pairwise(ticks)), default=0.01) * 100
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return lambda share: f"{share * 100:.{digits}f}%"


def number_label(ticks: Sequence[float]) -> Callable[[float], str]:
    """Return a function that formats numbers briefly, with the digits that distinguish neighbouring ticks."""
    for digits in range(2, 17):
        texts = [compact(tick, digits) for tick in ticks]
        if len(set(texts)) == len(ticks):
            break
    return partial(compact, digits=digits)


def compact(value: float, digits: int = 2) -> str:
    """Return a tick of an axis as text: 500, 20k, 1.5M; 0.0039 for 1/256."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if suffix == 'k' else size):g}{suffix}"
    return f"{value:.{digits}g}" if abs(value) < 1 else f"{value:.{max(6, digits)}g}"


def strip_ticks(ticks: Sequence[float], domain: tuple[float, float], text: Callable[[float], str]) -> list[Tick]:
    """Return places, in percent of the width of the axis, and texts of ticks."""
    return [(along(tick, domain), text(tick)) for tick in ticks]


def along(value: float, domain: tuple[float, float]) -> float:
    """Return the place of a value along an axis, in percent of its width."""
    low, high = domain
    return round(100 * (value - low) / (high - low), 4)


def interval_strip(
    name: str,
    metric: str,
    share: float,
    interval: tuple[float, float] | None,
    baseline: float | None,
    domain: tuple[float, float],
) -> dict[str, object]:
    """Return the strip of a share, such as accuracy: a dot with its interval, beside the baseline, on ``domain``."""
    said = f"{name}: {metric} {percent(share, 2)}"
    if interval:
        said += f"; 95% interval {percent(interval[0], 2)} to {percent(interval[1], 2)}"
    if baseline is not None:
        said += f"; majority class {percent(baseline, 2)}"
    return {
        "name": name,
        "shown": percent(share, 2),
        "said": said,
        "at": along(share, domain),
        "ends": [along(end, domain) for end in interval or ()],
        "baseline": None if baseline is None else along(baseline, domain),
    }


def _named(xs: Sequence[float], px: Callable[[float], float]) -> Sequence[float]:
    """Return all values, or every second, every third, ...: at most eight whose names fit beside each other."""
    for step in range(math.ceil(len(xs) / 8), len(xs)):
        ticks = xs[::step]
        room = (px(b) - px(a) - _LETTER * (len(compact(a)) + len(compact(b)) + 1) / 2 for a, b in pairwise(ticks))
        if all(left >= 0 for left in room):
            return ticks
    return xs[:1]


def _thinned(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """Return evenly spaced points, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    last = len(points) - 1
    return [points[round(i * last / (most - 1))] for i in range(most)]


class ChartWords(NamedTuple):
    """Texts of a chart: for people who cannot see it, and at its axes."""

    title: str
    description: str
    x: str
    y: str


def line_chart(
    key: str,
    series: Sequence[Series],
    words: ChartWords,
    *,
    log2: bool = False,
    reference: float | None = None,
    events: Sequence[tuple[int, float, str]] = (),
    unit: str = "share",
) -> str:
    """Draw lines of shares (y, in [0, 1]) or numbers over counts (x), with axes.

    Marked points are ringed and labelled "name: x".

    Parameters
    ----------
    key : str
        Unique on the page; prefix of the ids of title and description.
    words : ChartWords
    log2 : bool
        Whether the x axis is logarithmic, with ticks at points; every x must then be positive.
    reference : float, optional
        Height of a horizontal line to compare with.
    events : sequence of (int, float, str)
        Vertical lines: colour, as of a series, x, and a text about the event.
    unit : {"share", "number"}
        Unit of y.
    """
    xs = sorted({x for line in series for x, _ in line.points})
    from_zero = 0 <= xs[0] <= xs[-1] / 2
    ys = [y for line in series for _, y in line.points] + ([] if reference is None else [reference])
    y_low, y_high = share_domain(ys) if unit == "share" else number_domain(ys)
    scale: Callable[[float], float] = math.log2 if log2 else float
    x_low, x_high = (scale(xs[0]), scale(xs[-1])) if log2 else (0.0 if from_zero else xs[0], xs[-1])
    if x_high <= x_low:
        x_low, x_high = x_low - 1, x_high + 1

    def px(x: float) -> float:
        return _AREA.left + (scale(x) - x_low) / (x_high - x_low) * (_AREA.right - _AREA.left)

    def py(y: float) -> float:
        return _AREA.bottom - (y - y_low) / (y_high - y_low) * (_AREA.bottom - _AREA.top)

    x_ticks = _named(xs, px) if log2 else nice_ticks(x_low, x_high)
    y_ticks = nice_ticks(y_low, y_high)
    y_text = share_label(y_ticks) if unit == "share" else number_label(y_ticks)
    say = partial(percent, digits=2) if unit == "share" else brief
    lines, drawn = [], []
    for line in series:
        shown = _thinned(line.points, _MAX_POINTS)
        drawn.append([(px(x), py(y)) for x, y in shown])
        lines.append({
            "style": line.colour,
            "path": " ".join(f"{x:.2f},{y:.2f}" for x, y in drawn[-1]),
            "markers": [
                (round(px(x), 2), round(py(y), 2), f"{line.name}: {say(y)} at {x:,.6g}")
                for x, y in _thinned(shown, _MAX_MARKERS)
            ],
        })  # fmt: skip
    marked = [(line, (px(x), py(y))) for line in series for x, y in line.points if x == line.mark]
    return render(
        "chart.svg",
        key=key,
        words=words,
        width=WIDTH,
        height=HEIGHT,
        area=_AREA,
        x_ticks=[(round(px(x), 2), compact(x)) for x in x_ticks],
        y_ticks=[(round(py(y), 2), y_text(y)) for y in y_ticks],
        reference=None if reference is None else round(py(reference), 2),
        events=[(style % STYLES, round(px(x), 2), said) for style, x, said in events],
        lines=lines,
        marks=_marks(marked, drawn),
    )


def _marks(marked: Sequence[tuple[Series, Point]], drawn: Sequence[Sequence[Point]]) -> list[dict[str, object]]:
    """Return rings around points of series, and places of their labels, above the lines."""
    texts = [f"{shorten(line.name, 16)}: {brief(line.mark)}" for line, _ in marked if line.mark is not None]
    points = [at for _, at in marked]
    area = Box(_AREA.left + 2, _AREA.top + 2, _AREA.right - 2, _AREA.bottom - 2)
    boxes = place_labels(points, [_LETTER * len(text) for text in texts], _LINE, _RING + 1, drawn, area)
    marks = []
    for i, ((line, (x, y)), text, box) in enumerate(zip(marked, texts, boxes, strict=True)):
        # A ring at (almost) the same place as others is larger.
        radius = _RING + 3 * sum(math.dist((x, y), other) < _RING / 2 for other in points[:i])
        text_x, text_y = box.centre
        marks.append({
            "style": line.colour, "x": round(x, 2), "y": round(y, 2), "radius": radius,
            "text": text, "text_x": round(text_x, 2), "text_y": round(text_y + 4.5, 2),
        })  # fmt: skip
    return marks


def heat_picture(key: str, counts: Sequence[Sequence[int]], names: Sequence[str], description: str) -> str:
    """Draw a confusion matrix as a picture: rows are true classes, columns predicted ones.

    Cells are shaded by their share of the true class, in one path per shade, so that the size of the
    text grows with the number of cells that are not zero, and only a few bytes for each.
    """
    k, side, left, top = len(counts), 400.0, 66.0, 44.0
    shades: dict[tuple[str, int], list[str]] = {}
    for i, row in enumerate(counts):
        support = sum(row)
        for j, n in enumerate(row):
            if n > 0:
                shade = ("hit" if i == j else "miss", max(4, round(10 * math.sqrt(n / support))))
                shades.setdefault(shade, []).append(f"M{j} {i}h1v1h-1z")
    step = max(1, math.ceil(k / 12 / 5) * 5) if k > 10 else 1
    return render(
        "heat.svg",
        key=key,
        description=description,
        side=side,
        left=left,
        top=top,
        scale=round(side / k, 6),
        shades=[(kind, level / 10, "".join(cells)) for (kind, level), cells in sorted(shades.items())],
        ticks=[
            (round((i + 0.5) * side / k, 2), names[i] if len(names[i]) <= 7 else names[i][:6] + "…")
            for i in range(0, k, step)
        ],
    )
