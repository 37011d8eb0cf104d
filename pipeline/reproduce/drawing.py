"""The style of pictures of papers: size, colours, and how they are saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.record_types import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1f5fb0", "#b3500a", "#0b7368", "#7b3fa0", "#8a6d00", "#a3244b")
MARKERS = ("o", "s", "^", "D", "v", "P")


def save(figure: Figure, folder: Path, name: str) -> str:
    """Save a picture as SVG and PNG; return the name of the SVG file."""
    import matplotlib

    # Text as text, and the same bytes for the same numbers.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=150)
    return f"{name}.svg"


def panels(n: int, title: str, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a picture of rows of `n` panels each, and the axes of the panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8 * n, 4.2 * rows), layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=11)
    axes = list(figure.subplots(rows, n, squeeze=False).flat)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def style(i: int) -> Record:
    """Return the style of line number `i`."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "markersize": 4, "linewidth": 1.6}
