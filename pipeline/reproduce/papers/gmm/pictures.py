"""The figures of the GMM paper, from our numbers and from printed ones, which are marked as quoted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.reproduce.drawing import panels, style
from pipeline.reproduce.papers.gmm.best_on_test import CS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
TUNED = ("egmm", "pgmm", "gamma_gmm")


def against_C(name: str, rows: Sequence[Row]) -> Figure:
    """Figure 2: accuracy against C, of each kernel with the parameter that is best there."""
    figure, (axes,) = panels(1, f"{name}: accuracy on test rows, ours")
    for i, row in enumerate(rows):
        axes.plot(CS, row["by_C"], label=row["title"], **style(i))
    axes.set_xscale("log", base=2)
    axes.set_xlabel("C")
    axes.set_ylabel("accuracy, %, at the best parameter for each C")
    axes.legend(fontsize=8)
    return figure


def reductions(published: Mapping[str, Mapping[str, float]], rows: Sequence[Row]) -> Figure:
    """Figure 3: share of data sets by how much the best tunable kernel reduces the error of GMM."""
    quoted = [_reduction(values) for values in published.values()]
    ours = {}
    for name in dict.fromkeys((row["dataset"], row["way"]) for row in rows):
        values = {row["system"]: row["accuracy"] for row in rows if (row["dataset"], row["way"]) == name}
        if {"gmm", *TUNED} <= values.keys():
            ours[", ".join(filter(None, name))] = _reduction(values)
    figure, both = panels(2, f"{len(quoted)} data sets of Table 1, quoted, and ours")
    for at, (axes, title) in enumerate(zip(both, ("absolute, %", "relative, %"), strict=True)):
        ordered = np.sort([one[at] for one in quoted])
        axes.step(ordered, np.arange(1, ordered.size + 1) / ordered.size, where="post", label="quoted")
        for i, (way, found) in enumerate(ours.items()):
            axes.axvline(found[at], label=way, **{**style(i + 1), "marker": None, "linestyle": ":"})
        axes.set_xlabel(f"error reduction, {title}")
        axes.set_ylabel("share of data sets")
    both[0].legend(fontsize=8)
    return figure


def _reduction(values: Mapping[str, float]) -> tuple[float, float]:
    """By how much the best of the tunable kernels reduces the error of GMM: absolutely and relatively, in per cent."""
    less = max(values[name] for name in TUNED) - values["gmm"]
    error = 100.0 - values["gmm"]
    return less, 100.0 * less / error if error > 0 else 0.0


def noise(
    published: Mapping[str, Mapping[str, float]],
    rows: Sequence[Row],
    systems: Sequence[str],
    known: Mapping[str, Any],
) -> Figure:
    """Figures 1 and 4: errors by level of noise, quoted and on our stand-in."""
    figure, (left, right) = panels(2, "errors on test rows, %: lower is better")
    levels = range(1, 7)
    for i, name in enumerate(systems):
        left.plot(levels, [100 - published[f"M-Noise{k}"][name] for k in levels], label=known[name].title, **style(i))
        found = sorted((int(row["way"].split()[-1]), 100 - row["accuracy"]) for row in rows if row["system"] == name)
        if found:
            right.plot(*zip(*found, strict=True), label=known[name].title, **style(i))
    left.set_title("M-Noise, quoted from Table 2", fontsize=10)
    right.set_title("usps in correlated noise, ours", fontsize=10)
    for axes in (left, right):
        axes.set_xlabel("level of noise: 1 is most correlated")
        axes.legend(fontsize=8)
    return figure
