"""The picture of the drift benchmark: one panel a stream, the share of right predictions among the last rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import peers

#: Okabe and Ito, and dashes that tell them apart without colour.
STYLES = (
    ("#000000", "-"), ("#0072B2", "-"), ("#56B4E9", "--"), ("#009E73", ":"), ("#E69F00", "-."), ("#D55E00", "-"),
    ("#CC79A7", "-"), ("#CC79A7", "--"), ("#999999", "-"), ("#999999", "--"), ("#999999", ":"), ("#999999", "-."),
)  # fmt: skip


def draw(report: dict[str, Any], folder: Path) -> None:
    """Write drift.svg and drift.png, or say that matplotlib is missing."""
    if peers.find("matplotlib") is None:
        print("drift: matplotlib is not installed, no picture drawn")
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ikmap", "font.size": 10, "font.family": "sans-serif"})
    streams = report["streams"]
    figure, axes = plt.subplots(len(streams), 1, figsize=(9.5, 3.6 * len(streams) + 1.8), squeeze=False)
    sides = list(dict.fromkeys(side for about in streams.values() for side in about["sides"]))
    styles = dict(zip(sides, STYLES * 2, strict=False))
    for axis, (name, about) in zip(axes[:, 0], streams.items(), strict=True):
        for side, found in about["sides"].items():
            colour, dash = styles[side]
            ends = [about["initial"] + end for end in found["ends"]]
            axis.plot(ends, _smooth(found["curve"]), dash, color=colour, linewidth=1.3, label=side)
        for k, change in enumerate(about["changes"]):
            axis.axvline(
                change, color="#bbbbbb", linewidth=1, zorder=0, label="the concept changes" if k == 0 else None
            )
        for k, alarm in enumerate(about.get("adwin", {}).get("alarms", [])):
            label = "alarm of ADWIN, in losses of the first" if k == 0 else None
            axis.plot(
                [alarm], [0.02], "^", color="#000000", markersize=5, transform=axis.get_xaxis_transform(), label=label
            )
        axis.set_title(name)
        axis.set_xlabel("rows of the stream")
        axis.set_ylabel("right of the last rows")
        axis.grid(True, color="#eeeeee")
        axis.set_axisbelow(True)
    handles = {label: h for axis in axes[:, 0] for h, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="lower center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 1.8 / figure.get_figheight(), 1, 1))
    for suffix in ("svg", "png"):
        figure.savefig(folder / f"drift.{suffix}", dpi=110, metadata={"Date": None} if suffix == "svg" else None)
    plt.close(figure)


def _smooth(curve: list[float], most: int = 40) -> list[float]:
    """Means of neighbours where there are many points: lines that can be told apart."""
    half = max(0, round(len(curve) / most) - 1)
    return [sum(near) / len(near) for k in range(len(curve)) if (near := curve[max(0, k - half) : k + half + 1])]
