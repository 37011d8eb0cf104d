"""The picture of the frontier: one panel a data set, accuracy against seconds on a logarithmic scale."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import peers

#: Okabe and Ito: told apart with every kind of colour vision, and the shapes tell them apart without colour.
STYLES = {
    "anne": ("#0072B2", "o", "ours: anne (Voronoi cells)"),
    "iforest": ("#D55E00", "s", "ours: iforest (trees)"),
    "gcws": ("#009E73", "d", "ours: gcws (weighted hashes, min-max kernel)"),
    "LightGBM": ("#555555", "*", "LightGBM"),
    "HistGradientBoosting": ("#555555", "^", "HistGradientBoosting"),
    "RandomForest": ("#555555", "D", "RandomForest"),
    "ExtraTrees": ("#555555", "v", "ExtraTrees"),
    "Nystroem": ("#555555", "P", "Nystroem + LinearSVC"),
    "RBFSampler": ("#555555", "X", "RBFSampler + LinearSVC"),
}

OURS = ("anne", "iforest", "gcws")
ACROSS = 3
"""Panels that stand beside each other."""

Point = dict[str, Any]


def points_of(measured: dict[str, Any]) -> list[Point]:
    """All points of one data set, with their side and whether they lie on the frontier."""
    points = [{**point, "side": group["side"]} for group in measured.values() for point in group.get("points", [])]
    best = -1.0
    for point in sorted(points, key=lambda point: (point["seconds"], -point["accuracy"])):
        point["frontier"] = point["accuracy"] > best
        best = max(best, point["accuracy"])
    return points


def draw(report: dict[str, Any], folder: Path, called: str = "frontier") -> None:
    """Write an SVG and a PNG file, or say that matplotlib is missing."""
    if peers.find("matplotlib") is None:
        print(f"{called}: matplotlib is not installed, no picture drawn")
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ikmap", "font.size": 10, "font.family": "sans-serif"})
    names = list(report["datasets"])
    across = min(ACROSS, len(names))
    down = -(-len(names) // across)
    figure, axes = plt.subplots(down, across, figsize=(5.2 * across, 4.6 * down + 0.6), squeeze=False)
    for axis in axes.flat[len(names) :]:
        axis.remove()
    for axis, name in zip(axes.flat[: len(names)], names, strict=True):
        _panel(axis, name, report["datasets"][name])
    for axis in axes[:, 0]:
        axis.set_ylabel("test accuracy")
    handles = {
        label: handle
        for axis in axes.flat[: len(names)]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    ordered = [style[2] for style in STYLES.values() if style[2] in handles]
    ordered += [label for label in handles if label not in ordered]
    figure.legend(
        [handles[label] for label in ordered], ordered, loc="lower center", ncols=min(5, 2 * across), frameon=False
    )
    figure.tight_layout(rect=(0, (0.11 if across > 1 else 0.24) / down, 1, 1))
    for suffix in ("svg", "png"):
        figure.savefig(folder / f"{called}.{suffix}", dpi=110, metadata={"Date": None} if suffix == "svg" else None)
    plt.close(figure)


def _panel(axis: Any, name: str, measured: dict[str, Any]) -> None:
    from matplotlib import ticker

    points = points_of(measured)
    axis.set_title(name)
    axis.set_xscale("log")
    spread = max(p["seconds"] for p in points) / min(p["seconds"] for p in points) if points else 1.0
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0,) if spread > 50 else (1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())
    axis.set_xlabel("seconds: map + train + predict")
    axis.ticklabel_format(axis="y", useOffset=False)
    axis.grid(True, which="major", color="#e5e5e5")
    axis.set_axisbelow(True)
    if not points:
        return
    for key, (colour, marker, label) in STYLES.items():
        chosen = [point for point in points if point["name"].startswith(key)]
        theirs = key not in OURS
        if not chosen:
            continue
        axis.scatter(
            [point["seconds"] for point in chosen],
            [point["accuracy"] for point in chosen],
            c="white" if theirs else colour, edgecolors=colour, linewidths=1.4 if theirs else 0.4,
            marker=marker, s=62 if theirs else 24, alpha=1.0 if theirs else 0.75, label=label, zorder=3 + theirs,
        )  # fmt: skip
    frontier = sorted((point for point in points if point["frontier"]), key=lambda point: point["seconds"])
    longest = max(point["seconds"] for point in points)
    steps = [*frontier, {**frontier[-1], "seconds": longest}]
    axis.step(
        [point["seconds"] for point in steps], [point["accuracy"] for point in steps],
        where="post", color="black", linewidth=1.0, zorder=2, label="frontier: nothing is both faster and better",
    )  # fmt: skip
    axis.scatter(
        [point["seconds"] for point in frontier], [point["accuracy"] for point in frontier],
        s=110, facecolors="none", edgecolors="black", linewidths=0.9, zorder=5, label="on the frontier",
    )  # fmt: skip
    # The upper part is where the choice is made; a point far below would press everything else together.
    best, peers_lowest = (
        frontier[-1]["accuracy"],
        min(p["accuracy"] for p in points if p["side"] == "peers" or p["frontier"]),
    )
    low = max(peers_lowest, best - 0.16)
    margin = 0.08 * (best - low) + 1e-4
    axis.set_ylim(low - margin, best + 2.5 * margin)
    _annotate(axis, [point for point in points if low <= point["accuracy"]], frontier)


def _annotate(axis: Any, points: list[dict[str, Any]], frontier: list[dict[str, Any]]) -> None:
    """Names beside the peers and the best of ours, each where it covers nothing."""
    figure = axis.get_figure()
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    frame = axis.get_window_extent(renderer)
    taken: list[Any] = []
    marks = [axis.transData.transform((point["seconds"], point["accuracy"])) for point in points]
    marks += _line(axis, frontier, max(point["seconds"] for point in points))
    named = [point for point in points if point["side"] == "peers"]
    # Of our own: the most accurate, and the first within one and within three points of it.
    own = [point for point in frontier if point["side"] == "ours"]
    if own:
        best = own[-1]["accuracy"]
        named += [next(point for point in own if point["accuracy"] >= best - gap) for gap in (0.0, 0.01, 0.03)]
    seen = set()
    for point in named:
        if point["name"] in seen or point not in points:
            continue
        seen.add(point["name"])
        colour = "#333333" if point["side"] == "peers" else STYLES[point["name"].split(",")[0]][0]
        for dx, dy, across, up in PLACES:
            text = axis.annotate(
                _short(point["name"]), (point["seconds"], point["accuracy"]), xytext=(dx, dy),
                textcoords="offset points", ha=across, va=up, fontsize=8, color=colour, zorder=6,
                arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.6} if abs(dy) > 12 else None,
            )  # fmt: skip
            box = text.get_window_extent(renderer)
            free = not any(box.overlaps(other) for other in taken) and not any(box.contains(*mark) for mark in marks)
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if free and inside:
                taken.append(box)
                break
            text.remove()


SHORT = {
    "HistGradientBoosting": "HistGB",
    " + LinearSVC": "",
    " rounds": "",
    "t = ": "t=",
    "psi = ": "ψ=",
    "C = ": "C=",
}
PLACES = [
    (dx * side, dy, {1: "left", -1: "right"}[side], "center")
    for dy in (0, 9, -9, 18, -18, 28, -28, 40, -40, 54, -54, 70, -70)
    for dx in (7, 22)
    for side in (1, -1)
]  # fmt: skip


def _line(axis: Any, frontier: list[dict[str, Any]], longest: float) -> list[Any]:
    """Points on the line of the frontier, close enough to each other that no label fits between them."""
    corners = []
    for point, after in zip(frontier, [*frontier[1:], {"seconds": longest, "accuracy": None}], strict=True):
        corners.append((point["seconds"], point["accuracy"]))
        corners.append((after["seconds"], point["accuracy"]))
    placed = axis.transData.transform(corners)
    return [a + (b - a) * k / 100 for a, b in pairwise(placed) for k in range(101)]


def _short(name: str) -> str:
    for long, short in SHORT.items():
        name = name.replace(long, short)
    return name
