"""The figures of the Isolation Kernel paper, drawn from our numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ikmap.arrays import Floats
from ikmap.kernels import LaplacianKernel
from ikmap.partitioners import fit_partitions
from ikmap.partitioners.subsample import draw_subsamples
from ikmap.seeds import generator
from pipeline.record_types import RecordView
from pipeline.reproduce.drawing import panels, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

type Row = RecordView

GRID = 61
"""Points in each direction where contours are computed."""


def isolation_values(
    points: np.ndarray, centre: np.ndarray, grid: np.ndarray, method: str, psi: int, t: int, seed: int = 0
) -> np.ndarray:
    """Isolation Kernel of a point and each point of a grid.

    Parameters
    ----------
    points : ndarray of float64, shape (n, 2)
        That the partitionings are drawn from.
    centre : ndarray, shape (2,)
    grid : ndarray, shape (m, 2)
    """
    draws = draw_subsamples(len(points), t, psi, seed)
    used, position = np.unique(draws, return_inverse=True)
    model = fit_partitions(points[used], position.reshape(draws.shape), method=method, seed=seed)
    codes = model.cells(np.vstack([centre, grid])).codes
    return np.asarray((codes[1:] == codes[0]).mean(axis=1))


def _grid_of(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = np.meshgrid(np.linspace(low[0], high[0], GRID), np.linspace(low[1], high[1], GRID))
    return x, y, np.column_stack([x.ravel(), y.ravel()])


def _contours(ax: Axes, x: np.ndarray, y: np.ndarray, values: np.ndarray, name: str) -> None:
    levels = np.arange(0.1, 1.0, 0.1)
    lines = ax.contour(x, y, values.reshape(x.shape), levels=levels, cmap="viridis", linewidths=1.2)
    ax.clabel(lines, fmt="%.1f", fontsize=7)
    ax.set_title(name, fontsize=10)
    ax.set_aspect("equal")


def uniform(about: RecordView) -> Figure:
    """Figure 1: on uniform data the two kernels are nearly the same."""
    psi, t = about["psi"], about["t"]
    points = generator(0, 1).uniform(-0.5, 0.5, (10_000, 2))
    centre = np.zeros(2)
    x, y, grid = _grid_of(np.full(2, -0.5), np.full(2, 0.5))
    figure, axes = panels(2, f"Kernel with (0, 0), 10,000 uniform points in a unit square, psi = {psi}")
    laplacian = LaplacianKernel.of_psi(psi, 2).matrix(grid, centre[None, :])[:, 0]
    _contours(axes[0], x, y, laplacian, "Laplacian")
    values = isolation_values(points, centre, grid, "iforest", psi, t)
    _contours(axes[1], x, y, values, f"Isolation Kernel (iForest), t = {t}")
    return figure


def real(about: RecordView) -> Figure:
    """Figure 2: contours are long where data is sparse and short where it is dense."""
    from sklearn.datasets import load_wine

    psi, t = about["psi"], about["t"]
    data = load_wine()
    found: Floats = data.data[:, [data.feature_names.index(name) for name in ("flavanoids", "color_intensity")]]
    points: np.ndarray = (found - found.min(axis=0)) / np.ptp(found, axis=0)
    centre = points[np.argmin(np.abs(points - np.median(points, axis=0)).sum(axis=1))]
    x, y, grid = _grid_of(np.full(2, -0.05), np.full(2, 1.05))
    title = f"Isolation Kernel with the red point, psi = {psi}, t = {t}: wine data, flavanoids and colour intensity"
    figure, axes = panels(2, title)
    for ax, (method, name) in zip(axes, (("anne", "aNNE (Voronoi)"), ("iforest", "iForest")), strict=True):
        _contours(ax, x, y, isolation_values(points, centre, grid, method, psi, t), name)
        ax.plot(points[:, 0], points[:, 1], ".", color="black", markersize=2.5)
        ax.plot(*centre, "o", color="#d01c1c", markersize=6)
    return figure


NAMES = {
    "ogd": "IK-OGD", "ogd-naive": "IK-OGD, naive", "ogd-dual": "IK-OGD, dual", "kernel-ogd": "OGD", "nogd": "NOGD",
}  # fmt: skip
"""Names of learners in the paper."""
NAMES_WITH = {("ogd", "iforest"): "IK_i-OGD", ("ogd", "anne"): "IK_a-OGD"}
"""Names that a learner has with the cells of a map."""


def online(dataset: str, rows: Sequence[Row]) -> Figure:
    """Figure 3: accuracy and seconds against rows of the stream."""
    figure, (left, right) = panels(2, f"{dataset}, online: every block predicted before it is learned from")
    for i, row in enumerate(rows):
        learner = row["learner"]
        name = str(NAMES_WITH.get((learner, row["part"]), NAMES.get(learner, learner)))
        name += " (stopped)" if row["stopped_early"] else ""
        curve = row["curve"]
        line = {**style(i), "markevery": max(1, len(curve["rows"]) // 12)}
        left.plot(curve["rows"], curve["accuracy"], label=name, **line)
        right.plot(curve["rows"], curve["seconds"], label=name, **line)
    left.set(xlabel="rows of the stream", ylabel="accuracy so far")
    right.set(xlabel="rows of the stream", ylabel="seconds so far", yscale="log")
    left.legend(fontsize=8, frameon=False)
    return figure


def naive(dataset: str, rows: Sequence[Row]) -> Figure:
    """Figure 4: seconds against psi."""
    figure, (ax,) = panels(1, f"{dataset}, online: mapping, predicting and learning")
    for i, learner in enumerate(dict.fromkeys(row["learner"] for row in rows)):
        seconds = sorted((row["psi"], row["seconds"]) for row in rows if row["learner"] == learner)
        ax.plot(*zip(*seconds, strict=True), label=NAMES.get(learner, learner), **style(i))
    ax.set_xscale("log", base=2)
    ax.set(xlabel="psi", ylabel="seconds", yscale="log")
    ax.legend(fontsize=8, frameon=False)
    return figure


def growing(dataset: str, rows: Sequence[Row]) -> Figure:
    """Figure 5: accuracy and seconds against t of IK_i-OGD and b of NOGD."""
    figure, (left, right) = panels(2, f"{dataset}, batch: IK_i-OGD with growing t, NOGD with growing b, psi = 8")
    for i, (parameter, name) in enumerate((("t", "IK_i-OGD"), ("b", "NOGD"))):
        curve = sorted((row["size"], row["accuracy"], row["seconds"]) for row in rows if row["parameter"] == parameter)
        if curve:
            sizes, accuracies, seconds = zip(*curve, strict=True)
            left.plot(sizes, accuracies, label=f"{name}, {parameter}", **style(i))
            right.plot(sizes, seconds, label=f"{name}, {parameter}", **style(i))
    left.set(xlabel="t, b", ylabel="accuracy", xscale="log")
    right.set(xlabel="t, b", ylabel="seconds", xscale="log", yscale="log")
    left.legend(fontsize=8, frameon=False)
    return figure
