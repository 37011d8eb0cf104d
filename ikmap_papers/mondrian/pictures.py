"""The figures of the Mondrian paper, from our numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipeline.record_types import RecordView
from pipeline.reproduce.drawing import COLOURS, panels, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

type Options = RecordView
type Parts = Sequence[RecordView]


def logarithmic(axes: Axes, *which: str) -> None:
    """Make axes logarithmic, with plain numbers at 1, 2 and 5 times the powers of ten.

    Parameters
    ----------
    which : {"x", "y"}
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for name in which:
        axes.set(**{f"{name}scale": "log"})
        axis = getattr(axes, f"{name}axis")
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def kernel_error(name: str, options: Options, parts: Parts) -> Figure:
    """Figure 5: a panel for each number of dimensions."""
    n = options["points"]
    figure, all_axes = panels(len(options["D"]), f"{n} {name} points, lifetime {options['lifetime']:g}")
    for axes, d in zip(all_axes, options["D"], strict=True):
        for i, system in enumerate(parts[0]["curves"][str(d)]):
            values = np.array([part["curves"][str(d)][system] for part in parts])
            axes.errorbar(
                options["M"], values.mean(axis=0), values.std(axis=0), label=system, capsize=2, **style(i)
            )  # fmt: skip
        logarithmic(axes, "x", "y")
        axes.set(xlabel="M, non-zero features", title=f"D = {d}")
    all_axes[0].set_ylabel("largest error over all pairs")
    all_axes[0].legend(fontsize=8)
    return figure


def against_M(name: str, options: Options, parts: Parts) -> Figure:
    """Figure 6: beside the exact kernel as a line."""
    figure, (axes,) = panels(1, f"{name}: error on test rows, lifetime {options['lifetime']:g}")
    for i, system in enumerate(parts[0]["curves"]):
        values = np.array([part["curves"][system] for part in parts])
        axes.errorbar(options["M"], values.mean(axis=0), values.std(axis=0), label=system, capsize=2, **style(i))
    beyond = [part["beyond"] for part in parts if part["beyond"]]
    if beyond:
        M, errors = options["beyond"], np.mean(beyond, axis=0)
        axes.plot(M, errors, "--", color=COLOURS[0], marker="o", markersize=4, label="mondrian, one split")
    exact = float(np.mean([part["error"] for part in parts]))
    axes.axhline(exact, color="#333333", linewidth=1.2, label="exact Laplace kernel")
    logarithmic(axes, "x", "y")
    axes.set(xlabel="M, non-zero features", ylabel="relative error, %")
    axes.legend(fontsize=8)
    return figure


def known_lifetime(name: str, options: Options, parts: Parts) -> Figure:
    """Figure 7: errors of each repetition against the lifetime, and the likelihood where the solution is exact."""
    exact = parts[0]["log_likelihood"] is not None
    title = f"{name}: Gaussian process, true lifetime {options['lifetime']:g}"
    figure, (errors, *likely) = panels(2 if exact else 1, title)
    for i, part in enumerate(parts):
        colour = COLOURS[i % len(COLOURS)]
        for key, dashes in (("validation", "-"), ("test", ":")):
            label = key if i == 0 else None
            errors.plot(part["lifetime"], part[key], dashes, color=colour, linewidth=1.4, label=label)
        for axes in likely:
            axes.plot(part["lifetime"], part["log_likelihood"], color=colour, linewidth=1.4)
    errors.set_ylabel("relative error, %")
    errors.legend(fontsize=8)
    for axes in likely:
        # At small lifetimes the likelihood is lower by orders of magnitude: shown is where its maximum can be seen.
        last = [part["log_likelihood"][-1] for part in parts]
        highest = max(max(part["log_likelihood"]) for part in parts)
        axes.set_ylim(highest - 2.5 * (highest - min(last)), highest + 0.2 * (highest - min(last)))
        axes.set_ylabel("log marginal likelihood")
    for axes in (errors, *likely):
        axes.axvline(options["lifetime"], color="#333333", linewidth=1)
        axes.set(xscale="log", xlabel="lifetime")
    for axes in likely:
        axes.set_xlim(left=options["lifetime"] / 4)
    return figure


def against_time(name: str, options: Options, parts: Parts) -> Figure:
    """Figure 8: the first repetition."""
    figure, (axes,) = panels(1, f"{name}: error on validation rows, M = {options['M']}")
    for i, (system, curve) in enumerate(parts[0]["curves"].items()):
        seconds, errors, _ = zip(*curve, strict=True)
        axes.plot(seconds, np.minimum.accumulate(errors), label=system, **{**style(i), "markersize": 2.5})
    logarithmic(axes, "x", "y")
    axes.set(xlabel="seconds", ylabel="least relative error so far, %")
    axes.legend(fontsize=7)
    return figure


def beside_forest(name: str, options: Options, parts: Parts) -> Figure:
    """Figure 9: errors of kernel and forest against the lifetime, each repetition a line."""
    figure, all_axes = panels(2, f"{name}: kernel and forest on the same {options['M']} trees")
    for axes, side in zip(all_axes, ("train", "test"), strict=True):
        for i, learner in enumerate(("kernel", "forest")):
            for k, part in enumerate(parts):
                axes.plot(
                    part["lifetime"], part[learner][side], color=COLOURS[i], linewidth=1.1,
                    label=learner if k == 0 else None,
                )  # fmt: skip
        axes.set(xscale="log", xlabel="lifetime", title=f"{side} rows")
    all_axes[0].set_ylabel("relative error, %")
    all_axes[0].legend(fontsize=8)
    return figure


def weights(name: str, options: Options, parts: Parts) -> Figure:
    """Figure 10: weights of all cells in the first repetition."""
    figure, all_axes = panels(2, f"{name}: weights of all cells at lifetime {options['lifetime']:g}")
    for i, (axes, learner) in enumerate(zip(all_axes, ("kernel", "forest"), strict=True)):
        summary = parts[0]["weights"][learner]
        edges = np.linspace(summary["least"], summary["largest"], len(summary["heights"]) + 1)
        axes.stairs(summary["heights"], edges, fill=True, color=COLOURS[i])
        axes.set(yscale="log", xlabel="weight", title=f"{learner}, excess kurtosis {summary['kurtosis']:.1f}")
    all_axes[0].set_ylabel("cells")
    return figure
