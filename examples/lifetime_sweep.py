"""Draw a sweep over lifetimes as a moving picture: Mondrian trees refine their cells while the error falls and rises.

    python examples/lifetime_sweep.py --data california.csv.gz --output sweep.svg

The data have two columns to learn from and one to learn (``--columns``, by name). Every tree starts as one cell. One
pass lets cuts come in the order of time, and goes on learning from copied weights at each checkpoint; the picture has
the cells of one tree, what all trees together predict on a grid, and the error on rows that were held out.
"""

from __future__ import annotations

import argparse
import base64
import io
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from PIL import Image
from pyarrow import csv

from ikmap.learners.sweeps.gradient import GradientSettings, GradientSweep
from ikmap.methods.lifetime import typical_distance
from ikmap.methods.sample import Sample
from ikmap.partitioners.mondrian import MondrianPartitions, fit_mondrian, mondrian_splits

COLUMNS = ("Longitude", "Latitude", "MedHouseVal")
TREES, FRAMES, GRID, SECONDS, POINTS = 50, 36, 64, 12.0, 800
SIDE, GAP, TOP = 300, 46, 54
COLOURS = 64
LONGEST = 128.0
"""Lifetime of the last frame, in one over the typical distance of two rows."""


def read(path: Path, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The columns to learn from, and the one to learn."""
    table = csv.read_csv(path).select(names)
    values = np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float64)
    return np.ascontiguousarray(values[:, :2]), values[:, 2]


def cuts_of(model: MondrianPartitions, box: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """When each cut of the first tree comes, and its two ends."""
    found, stack = [], [(0, box)]
    while stack:
        node, (low, high) = stack.pop()
        d = int(model.features[node])
        if d < 0:
            continue
        at = float(model.thresholds[node])
        ends = np.array([low, high])
        ends[:, d] = at
        found.append((float(model.times[node]), ends))
        left_high, right_low = high.copy(), low.copy()
        left_high[d] = right_low[d] = at
        left, right = map(int, model.children[node])
        stack += [(left, np.array([low, left_high])), (right, np.array([right_low, high]))]
    return found


def swept(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[MondrianPartitions, list[tuple[float, float, np.ndarray]]]:
    """Trees, and at each frame the lifetime, the error on rows held out and predictions on a grid."""
    order = np.random.default_rng(seed).permutation(len(X))
    inside, outside = order[len(X) // 5 :], order[: len(X) // 5]
    unit = 1 / typical_distance(Sample(len(X), 2, None, X.__getitem__, seed))
    axes = [np.linspace(low, high, GRID) for low, high in zip(X.min(axis=0), X.max(axis=0), strict=True)]
    grid = np.array([(a, b) for b in axes[1][::-1] for a in axes[0]])
    model = fit_mondrian(X[inside], TREES, LONGEST * unit, seed)
    start, splits = mondrian_splits(model, [X[inside], X[outside], grid])
    shift = y[inside].mean()
    settings = GradientSettings("squared", 1e-2 / len(inside), eta=0.1, epochs=3, growth=0.15)
    sweep = GradientSweep(start, y[inside, None] - shift, settings)
    frames = []
    for value in sweep.follow(splits):
        off = sweep.decisions(1)[:, 0] + shift - y[outside]
        unknown = (sweep.columns.of[2] < 0).mean(axis=1) > 0.5
        seen = np.where(unknown, np.nan, sweep.decisions(2)[:, 0] + shift)
        frames.append((value, float(np.sqrt(np.mean(off**2))), seen.reshape(GRID, GRID)))
    kept = np.unique(np.linspace(0, len(frames) - 1, min(FRAMES, len(frames))).astype(int))
    return model, [frames[k] for k in kept]


def as_png(values: np.ndarray, low: float, high: float) -> str:
    """A picture for use within another file; what is not known is left out."""
    steps = np.nan_to_num(np.clip((values - low) / (high - low), 0, 1) * (COLOURS - 2) + 1).astype(np.uint8)
    picture = Image.fromarray(steps, mode="P")
    shades = (255 * colormaps["viridis"](np.linspace(0, 1, COLOURS - 1))[:, :3]).astype(np.uint8)
    picture.putpalette(np.concatenate([[[255, 255, 255]], shades]).astype(np.uint8).tobytes())
    held = io.BytesIO()
    picture.save(held, format="PNG", transparency=0, optimize=True)
    return base64.b64encode(held.getvalue()).decode()


def draw(X: np.ndarray, y: np.ndarray, names: tuple[str, ...], seed: int) -> str:
    """The picture, as SVG that moves by itself."""
    model, frames = swept(X, y, seed)
    low, high = X.min(axis=0), X.max(axis=0)
    n, width, height = len(frames), 3 * SIDE + 4 * GAP, SIDE + TOP + GAP
    values = np.array([value for value, _, _ in frames])
    errors = np.array([error for _, error, _ in frames])
    best, third = int(np.argmin(errors)), GAP + 2 * (SIDE + GAP)
    x = third + SIDE * np.log(values / values[0]) / np.log(values[-1] / values[0])
    bottom, top = errors.min() * 0.95, errors.max() * 1.02
    level = TOP + SIDE * (1 - (errors - bottom) / (top - bottom))

    def placed(points: np.ndarray, panel: int) -> np.ndarray:
        share = (points - low) / (high - low)
        return np.column_stack([GAP + panel * (SIDE + GAP) + SIDE * share[:, 0], TOP + SIDE * (1 - share[:, 1])])

    css = [
        "text{font:13px sans-serif;fill:#333}.title{font-weight:bold}.cut{stroke:#b03a2e;stroke-width:.8}"
        f".frame{{visibility:hidden}}@media(prefers-reduced-motion:reduce){{*{{animation:none!important}}"
        f"#f{n - 1}{{visibility:visible}}}}"
    ]
    body = []
    for k in range(n):
        begin, end = f"{100 * k / n:.3f}%", f"{100 * (k + 1) / n:.3f}%"
        shown, hidden = "{visibility:visible}", "{visibility:hidden}"
        later = shown if k == n - 1 else hidden
        css += [
            f"@keyframes f{k}{{0%{hidden if k else shown}{begin}{shown}{end},100%{later}}}",
            f"@keyframes c{k}{{0%{hidden if k else shown}{begin},100%{shown}}}",
            f"#f{k}{{animation:f{k} {SECONDS}s step-end infinite}}.c{k}{{animation:c{k} {SECONDS}s step-end infinite}}",
        ]
    some = np.random.default_rng(seed).permutation(len(X))[:POINTS]
    for a, b in placed(X[some], 0):
        body.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r=".9" fill="#2c5f8a" opacity=".6"/>')
    for time, ends in cuts_of(model, np.array([low, high])):
        k = int(np.searchsorted(values, time))
        (a, b), (c, d) = placed(ends, 0)
        if k < n:
            body.append(f'<line class="cut c{k}" x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>')
    limits = np.quantile(y, [0.02, 0.98])
    for k, (value, error, seen) in enumerate(frames):
        body.append(
            f'<g id="f{k}" class="frame"><image x="{GAP + SIDE + GAP}" y="{TOP}" width="{SIDE}" height="{SIDE}" '
            f'preserveAspectRatio="none" style="image-rendering:pixelated" '
            f'href="data:image/png;base64,{as_png(seen, *limits)}"/>'
            f'<circle cx="{x[k]:.1f}" cy="{level[k]:.1f}" r="5" fill="#b03a2e"/>'
            f'<text x="{third}" y="{TOP + SIDE + 34}">'
            f"lifetime {value:.3g}, error {error:.3f}</text></g>"
        )
    curve = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, level, strict=True))
    body.append(f'<polyline points="{curve}" fill="none" stroke="#333" stroke-width="1.5"/>')
    body.append(f'<circle cx="{x[best]:.1f}" cy="{level[best]:.1f}" r="8" fill="none" stroke="#333"/>')
    titles = ("cells of one tree", f"what {TREES} trees predict: {names[2]}", "error on rows held out")
    for panel, title in enumerate(titles):
        left = GAP + panel * (SIDE + GAP)
        body.append(f'<rect x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>')
        body.append(f'<text class="title" x="{left}" y="{TOP - 12}">{title}</text>')
        if panel < 2:
            body.append(f'<text x="{left}" y="{TOP + SIDE + 18}">{names[0]}; upwards: {names[1]}</text>')
    body.append(f'<text x="{third}" y="{TOP + SIDE + 16}">lifetime (logarithmic); ring: the best</text>')
    for at in (top, bottom):
        level_of = TOP + SIDE * (1 - (at - bottom) / (top - bottom))
        body.append(f'<text x="{third - 6}" y="{level_of + 5:.1f}" text-anchor="end">{at:.2f}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="A sweep over lifetimes"><style>{"".join(css)}</style>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{"".join(body)}</svg>\n'
    )


def main(arguments: list[str] | None = None) -> None:
    """Read, sweep, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a CSV file with a header, plain or compressed")
    parser.add_argument("--columns", default=",".join(COLUMNS), help="two to learn from, one to learn (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("sweep.svg"), help="the picture (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    names = tuple(asked.columns.split(","))
    asked.output.write_text(draw(*read(asked.data, names), names, asked.seed))


if __name__ == "__main__":
    main()
