"""Charts as SVG text: pure functions, no state, no library.

Two kinds. *Strips* have no viewBox: positions are percentages, so they fill any width and their text
keeps its size. *Charts* have a viewBox and scale; the style sheet enlarges their text on narrow screens.
Every number here is a float made by us; every text is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from pipeline.report.labels import Box, place_labels
from pipeline.report.text import brief, esc, percent, shorten

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 22, 34, 54
_MAX_POINTS = 500
_MAX_MARKERS = 30
_RING = 8.0
# Room for a label: a character and a line of the text of narrow screens, the largest (style sheet).
_LETTER, _LINE = 9.2, 20.0
# Marker outlines around (0, 0), so that series differ without colour.
_MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M0-4.5L4.5 3.5h-9z",
    "M0-5L5 0 0 5-5 0z",
)
STYLES = len(_MARKERS)
"""How many series differ in colour, dash and marker."""


@dataclass(frozen=True)
class Series:
    """A named line through points in order of x."""

    name: str
    points: Sequence[tuple[float, float]]
    style: int = 0  # which colour, dash and marker
    mark: float | None = None  # x of the point to ring and label; none where no point has it


def _nice_step(span: float, most: int) -> float:
    """The least of 1, 2, 5 times a power of ten of which at most ``most`` fit into ``span``."""
    raw = span / most
    power = 10.0 ** math.floor(math.log10(raw))
    return next((m * power for m in (1, 2, 5) if m * power >= raw * (1 - 1e-9)), 10 * power)


def _multiple(k: int, step: float) -> float:
    # Division by a whole number, where there is one, gives 0.3 rather than 0.30000000000000004.
    return k / round(1 / step) if step < 1 else k * step


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values (1, 2 or 5 times a power of ten apart) within [low, high], at most ``most`` + 1."""
    if not high > low:
        return [low]
    step = _nice_step(high - low, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [_multiple(k, step) for k in range(first, last + 1)]


def share_domain(values: Sequence[float]) -> tuple[float, float]:
    """An interval within [0, 1] that ends on round values and holds ``values`` with a little air."""
    least, most = min(values), max(values)
    pad = max((most - least) * 0.08, 0.004)
    low, high = max(0.0, least - pad), min(1.0, most + pad)
    step = _nice_step(high - low, 6)
    low, high = _multiple(math.floor(low / step + 1e-9), step), _multiple(math.ceil(high / step - 1e-9), step)
    return max(0.0, min(low, least)), min(1.0, max(high, most))


def number_domain(values: Sequence[float]) -> tuple[float, float]:
    """An interval that holds ``values`` with a little air."""
    least, most = min(values), max(values)
    pad = (most - least) * 0.08 or max(abs(most), 1.0) * 0.08
    return least - pad, most + pad


def share_label(ticks: Sequence[float]) -> Callable[[float], str]:
    """Formats shares as percentages with as many digits as the distance of the ticks needs."""
    step = min((b - a for a, b in pairwise(ticks)), default=0.01) * 100
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return lambda share: f"{share * 100:.{digits}f}%"


def compact(value: float) -> str:
    """A tick of an axis: 500, 20k, 1.5M; 0.0039 for 1/256."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if suffix == 'k' else size):g}{suffix}"
    return f"{value:.2g}" if abs(value) < 1 else f"{value:g}"


def strip_axis(ticks: Sequence[tuple[float, str]]) -> str:
    """The axis under a stack of strips; ``ticks`` are (percent of the width, text)."""
    parts = []
    for at, text in ticks:
        anchor = "start" if at < 4 else "end" if at > 96 else "middle"
        parts.append(f'<line class="tick" x1="{at:.3f}%" x2="{at:.3f}%" y1="0" y2="5"/>')
        parts.append(f'<text x="{at:.3f}%" y="18" text-anchor="{anchor}">{esc(text)}</text>')
    return f'<svg class="strip axis" width="100%" height="22" aria-hidden="true">{"".join(parts)}</svg>'


def strip_grid(ticks: Sequence[float], height: float) -> str:
    """Vertical grid lines of a strip at percentages of its width."""
    return "".join(f'<line class="grid" x1="{at:.3f}%" x2="{at:.3f}%" y1="0" y2="{height:g}"/>' for at in ticks)


def interval_strip(
    name: str,
    share: float,
    interval: tuple[float, float] | None,
    baseline: float | None,
    domain: tuple[float, float],
    style: int,
    ticks: Sequence[float],
) -> str:
    """One accuracy as a dot with its interval, beside the baseline, on the axis ``domain``."""
    low, high = domain

    def at(value: float) -> float:
        return 100 * (value - low) / (high - low)

    said = f"{name}: {percent(share, 2)} of the test rows are right"
    if interval:
        said += f"; 95% interval {percent(interval[0], 2)} to {percent(interval[1], 2)}"
    if baseline is not None:
        said += f"; majority class {percent(baseline, 2)}"
    parts = [strip_grid([at(tick) for tick in ticks], 28)]
    if baseline is not None:
        parts.append(
            f'<line class="baseline" x1="{at(baseline):.3f}%" x2="{at(baseline):.3f}%" y1="0" y2="28"/>'
            f'<line class="lead s{style}" x1="{at(baseline):.3f}%" x2="{at(share):.3f}%" y1="14" y2="14"/>'
        )
    if interval:
        a, b = (at(end) for end in interval)
        parts.append(f'<line class="whisker s{style}" x1="{a:.3f}%" x2="{b:.3f}%" y1="14" y2="14"/>')
        parts += [f'<line class="cap s{style}" x1="{end:.3f}%" x2="{end:.3f}%" y1="7" y2="21"/>' for end in (a, b)]
    parts.append(f'<circle class="dot s{style}" cx="{at(share):.3f}%" cy="14" r="5"/>')
    return (
        f'<svg class="strip" width="100%" height="28" role="img"><title>{esc(name)}</title>'
        f"<desc>{esc(said)}</desc>{''.join(parts)}</svg>"
    )


def swatch(style: int) -> str:
    """The line and marker of a series, for a legend."""
    return (
        f'<svg class="swatch" width="30" height="12" aria-hidden="true"><line class="line s{style % 4}" '
        f'x1="0" x2="30" y1="6" y2="6"/><path class="marker s{style % 4}" '
        f'transform="translate(15 6)" d="{_MARKERS[style % 4]}"/></svg>'
    )


def _named(xs: Sequence[float], px: Callable[[float], float]) -> Sequence[float]:
    """All values, or every second, every third, ...: at most eight, whose names have room beside each other."""
    for step in range(math.ceil(len(xs) / 8), len(xs)):
        ticks = xs[::step]
        room = (px(b) - px(a) - _LETTER * (len(compact(a)) + len(compact(b)) + 1) / 2 for a, b in pairwise(ticks))
        if all(left >= 0 for left in room):
            return ticks
    return xs[:1]


def _thinned(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """Evenly spaced points, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    last = len(points) - 1
    return [points[round(i * last / (most - 1))] for i in range(most)]


class ChartWords(NamedTuple):
    """What a chart says of itself: for those who cannot see it, and at its axes."""

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
    unit: str = "share",
) -> str:
    """Lines of shares (y, in [0, 1]) or numbers over counts (x), with axes.

    Marked points are ringed and labelled "name: x".

    Parameters
    ----------
    key : str
        Unique on the page; prefix of the ids of title and description.
    words : ChartWords
    log2 : bool
        Logarithmic x axis with ticks where there are points; every x must be positive.
    reference : float, optional
        Height of a horizontal line to compare with.
    unit : {"share", "number"}
        Of y.
    """
    xs = sorted({x for line in series for x, _ in line.points})
    ys = [y for line in series for _, y in line.points] + ([] if reference is None else [reference])
    y_low, y_high = share_domain(ys) if unit == "share" else number_domain(ys)
    scale: Callable[[float], float] = math.log2 if log2 else float
    x_low, x_high = (scale(xs[0]), scale(xs[-1])) if log2 else (min(0.0, xs[0]), xs[-1])
    if x_high <= x_low:
        x_low, x_high = x_low - 1, x_high + 1

    def px(x: float) -> float:
        return LEFT + (scale(x) - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def py(y: float) -> float:
        return HEIGHT - BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)

    x_ticks = _named(xs, px) if log2 else nice_ticks(x_low, x_high)
    y_ticks = nice_ticks(y_low, y_high)
    y_text = share_label(y_ticks) if unit == "share" else compact
    floor = HEIGHT - BOTTOM
    parts = []
    for y in y_ticks:
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py(y):.2f}" y2="{py(y):.2f}"/>'
            f'<text x="{LEFT - 7}" y="{py(y) + 4:.2f}" text-anchor="end">{y_text(y)}</text>'
        )
    for x in x_ticks:
        parts.append(
            f'<line class="tick" x1="{px(x):.2f}" x2="{px(x):.2f}" y1="{floor}" y2="{floor + 5}"/>'
            f'<text x="{px(x):.2f}" y="{floor + 19}" text-anchor="middle">{compact(x)}</text>'
        )
    parts.append(
        f'<rect class="plot" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{floor - TOP}"/>'
        f'<text class="name" x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 10}" text-anchor="middle">'
        f'{esc(words.x)}</text><text class="name" x="4" y="14">{esc(words.y)}</text>'
    )
    if reference is not None:
        parts.append(
            f'<line class="reference" x1="{LEFT}" x2="{WIDTH - RIGHT}" '
            f'y1="{py(reference):.2f}" y2="{py(reference):.2f}"/>'
        )
    drawn, say = [], partial(percent, digits=2) if unit == "share" else brief
    for line in series:
        style = line.style % 4
        shown = _thinned(line.points, _MAX_POINTS)
        drawn.append([(px(x), py(y)) for x, y in shown])
        path = " ".join(f"{x:.2f},{y:.2f}" for x, y in drawn[-1])
        parts.append(f'<polyline class="line s{style}" points="{path}"/>')
        for x, y in _thinned(shown, _MAX_MARKERS):
            parts.append(
                f'<path class="marker s{style}" transform="translate({px(x):.2f} {py(y):.2f})" '
                f'd="{_MARKERS[style]}"><title>{esc(line.name)}: {say(y)} at {x:,.6g}</title></path>'
            )
    marked = [(line, (px(x), py(y))) for line in series for x, y in line.points if x == line.mark]
    parts.append(_marks(marked, drawn, Box(LEFT + 2, TOP + 2, WIDTH - RIGHT - 2, floor - 2)))
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="{key}-title {key}-desc"><title id="{key}-title">{esc(words.title)}</title>'
        f'<desc id="{key}-desc">{esc(words.description)}</desc>{"".join(parts)}</svg>'
    )


def _marks(
    marked: Sequence[tuple[Series, tuple[float, float]]], drawn: Sequence[Sequence[tuple[float, float]]], area: Box
) -> str:
    """Rings around points of series, and their labels within ``area``, above all that is drawn."""
    texts = [f"{shorten(line.name, 16)}: {brief(line.mark)}" for line, _ in marked if line.mark is not None]
    points = [at for _, at in marked]
    boxes = place_labels(points, [_LETTER * len(text) for text in texts], _LINE, _RING + 1, drawn, area)
    rings = []
    for i, (line, (x, y)) in enumerate(marked):
        # Around a ring (almost) in the same place goes a larger one.
        radius = _RING + 3 * sum(math.dist((x, y), other) < _RING / 2 for other in points[:i])
        rings.append(f'<circle class="ring s{line.style % 4}" cx="{x:.2f}" cy="{y:.2f}" r="{radius:g}"/>')
    labels = [
        f'<text class="mark s{line.style % 4}" x="{box.centre[0]:.2f}" y="{box.centre[1] + 4.5:.2f}" '
        f'text-anchor="middle">{esc(text)}</text>'
        for (line, _), text, box in zip(marked, texts, boxes, strict=True)
    ]
    return "".join(rings + labels)


def heat_picture(key: str, counts: Sequence[Sequence[int]], names: Sequence[str], description: str) -> str:
    """A confusion matrix as a picture: rows are true classes, columns predicted ones.

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
    cells = "".join(
        f'<path class="{kind}" fill-opacity="{level / 10:g}" d="{"".join(paths)}"/>'
        for (kind, level), paths in sorted(shades.items())
    )
    parts = []
    step = max(1, math.ceil(k / 12 / 5) * 5) if k > 10 else 1
    for i in range(0, k, step):
        at, text = (i + 0.5) * side / k, esc(names[i] if len(names[i]) <= 7 else names[i][:6] + "…")
        parts.append(
            f'<text x="{left - 6:g}" y="{top + at + 4:.2f}" text-anchor="end">{text}</text>'
            f'<text x="{left + at:.2f}" y="{top - 6:g}" text-anchor="middle">{text}</text>'
        )
    return (
        f'<svg class="chart heat" viewBox="0 0 480 {top + side + 4:g}" role="img" '
        f'aria-labelledby="{key}-title {key}-desc"><title id="{key}-title">Confusion matrix</title>'
        f'<desc id="{key}-desc">{esc(description)}</desc>'
        f'<rect class="plot" x="{left:g}" y="{top:g}" width="{side:g}" height="{side:g}"/>'
        f'<g transform="translate({left:g} {top:g}) scale({side / k:.6f})">{cells}</g>{"".join(parts)}'
        f'<text class="name" x="{left + side / 2:g}" y="14" text-anchor="middle">predicted class →</text>'
        f'<text class="name" transform="translate(13 {top + side / 2:g}) rotate(-90)" '
        f'text-anchor="middle">← true class</text></svg>'
    )
