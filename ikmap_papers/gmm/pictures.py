"""The figures of the GMM paper, from our numbers and from printed ones, which are marked as quoted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from pipeline.record_types import RecordView
from pipeline.reproduce.drawing import panels, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

type Row = RecordView
TUNED = ("egmm", "pgmm", "gamma_gmm")
COMPARED = ("gmm", *TUNED)


def _legend_below(figure: Figure, axes: Sequence[Axes], across: int) -> None:
    """Draw the legend of all panels below them, so that it covers no line."""
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=across, fontsize=8, frameon=False
    )


def against_C(name: str, rows: Sequence[Row]) -> Figure:
    """Figure 2: accuracy against C, of each kernel with the parameter that is best there."""
    figure, (axes,) = panels(1, f"{name}: accuracy on test rows, ours")
    for i, row in enumerate(rows):
        axes.plot(row["Cs"], row["by_C"], label=row["title"], **style(i))
    axes.set_xscale("log", base=2)
    axes.set_xlabel("C")
    axes.set_ylabel("accuracy, %, at the best parameter for each C")
    _legend_below(figure, [axes], 3)
    return figure


def hashed_against_C(name: str, rows: Sequence[Row]) -> Figure:
    """Figures 5 to 7: accuracy of linear SVMs on hashed rows against C, a line for each number of codes.

    Each panel has one exponent and one number of bits, and the exact kernel and a linear SVM on the rows beside them.
    """
    hashed = [row for row in rows if row["k"] is not None]
    ps, ks = (sorted({row[name] for row in hashed}) for name in ("p", "k"))
    bits = sorted({row["b"] for row in hashed}, reverse=True)
    figure, all_axes = panels(len(ps), f"{name}: accuracy on test rows, ours", len(bits))
    Cs = hashed[0]["Cs"]
    shown = [_within(row, Cs) for row in rows]
    low, high = (end(value for _, values in shown for value in values) for end in (min, max))
    room = 0.04 * max(high - low, 1.0)
    for axes, (b, p) in zip(all_axes, product(bits, ps), strict=True):
        for i, k in enumerate(ks):
            lines = [row for row in hashed if (row["p"], row["b"], row["k"]) == (p, b, k)]
            for row in lines:
                axes.plot(Cs, row["by_C"], label=f"hashed, k = {k}", **style(i))
        for row, line in zip(rows, shown, strict=True):
            if row["k"] is None and row["p"] in (p, None):
                of_kernel = row["p"] is not None
                axes.plot(
                    *line, color="#333333", linestyle="--" if of_kernel else ":", linewidth=1.2, marker="x",
                    markersize=4, label="pGMM kernel" if of_kernel else "linear",
                )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_title(f"p = {p:g}, b = {b}", fontsize=10)
        axes.set_ylim(low - room, high + room)
    for axes in all_axes[:: len(ps)]:
        axes.set_ylabel("accuracy, %")
    for axes in all_axes[-len(ps) :]:
        axes.set_xlabel("C")
    _legend_below(figure, all_axes, 6)
    return figure


def _within(row: Row, Cs: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the C of a row that are within the range of others, and the accuracy at each."""
    pairs = [(C, value) for C, value in zip(row["Cs"], row["by_C"], strict=True) if Cs[0] <= C <= Cs[-1]]
    return [C for C, _ in pairs], [value for _, value in pairs]


def reductions(published: Mapping[str, Mapping[str, float]], rows: Sequence[Row]) -> Figure:
    """Figure 3: share of data sets by how much the best tunable kernel reduces the error of GMM."""
    quoted = [reduction(values) for values in published.values()]
    ours = {}
    for name in dict.fromkeys((row["dataset"], row["way"]) for row in rows):
        values = {row["system"]: row["accuracy"] for row in rows if (row["dataset"], row["way"]) == name}
        if all(system in values for system in COMPARED):
            ours[", ".join(filter(None, name))] = reduction(values)
    figure, both = panels(2, f"{len(quoted)} data sets of Table 1, quoted, and ours")
    for at, (axes, title) in enumerate(zip(both, ("absolute, %", "relative, %"), strict=True)):
        ordered = np.sort([one[at] for one in quoted])
        axes.step(ordered, np.arange(1, ordered.size + 1) / ordered.size, where="post", label="quoted")
        for i, (way, accuracies) in enumerate(ours.items()):
            axes.axvline(accuracies[at], label=way, **{**style(i + 1), "marker": None, "linestyle": ":"})
        axes.set_xlabel(f"error reduction, {title}")
        axes.set_ylabel("share of data sets")
    _legend_below(figure, both, 4)
    return figure


def reduction(values: Mapping[str, float]) -> tuple[float, float]:
    """Return the reduction of the error of GMM by the best tunable kernel: absolute and relative, in per cent."""
    less = max(values[name] for name in TUNED) - values["gmm"]
    error = 100.0 - values["gmm"]
    return less, 100.0 * less / error if error > 0 else 0.0


def noise(
    published: Mapping[str, Mapping[str, float]],
    rows: Sequence[Row],
    systems: Sequence[str],
    known: RecordView,
) -> Figure:
    """Figures 1 and 4: errors by level of noise, quoted and on our stand-in."""
    figure, (left, right) = panels(2, "errors on test rows, %: lower is better")
    levels = range(1, 7)
    for i, name in enumerate(systems):
        left.plot(levels, [100 - published[f"M-Noise{k}"][name] for k in levels], label=known[name].title, **style(i))
        points = sorted((int(row["way"].split()[-1]), 100 - row["accuracy"]) for row in rows if row["system"] == name)
        if points:
            right.plot(*zip(*points, strict=True), label=known[name].title, **style(i))
    left.set_title("M-Noise, quoted from Table 2", fontsize=10)
    right.set_title("usps in correlated noise, ours", fontsize=10)
    low, high = zip(left.get_ylim(), right.get_ylim(), strict=True)
    for axes in (left, right):
        axes.set_xlabel("level of noise: 1 is most correlated")
        axes.set_xticks(levels)
        axes.set_ylim(min(low), max(high))
    left.set_ylabel("error, %")
    _legend_below(figure, (left, right), 4)
    return figure
