"""The numbers of the figures of the Mondrian paper, as the lines of tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ikmap.arrays import Floats
from pipeline.record_types import RecordView
from pipeline.report.text import MISSING

type Options = RecordView
type Parts = Sequence[RecordView]
type Table = tuple[Sequence[str], list[Sequence[str]]]
NEAR = 1.05
"""Within 5 % of the least error."""
FEWEST = 5
"""Least number of features that slopes are computed from."""


def slope(M: Sequence[int], errors: Floats) -> float:
    """Return the slope of the logarithm of errors against that of M."""
    few = np.asarray(M) >= FEWEST
    return float(np.polyfit(np.log(np.asarray(M)[few]), np.log(errors[few]), 1)[0])


def kernel_error(options: Options, parts: Parts) -> Table:
    """A line for each number of dimensions and system."""
    lines: list[Sequence[str]] = []
    for d in map(str, options["D"]):
        for name in parts[0]["curves"][d]:
            mean = np.mean([part["curves"][d][name] for part in parts], axis=0)
            lines.append((f"D = {d}, {name}", *(f"{value:.3f}" for value in mean), f"{slope(options['M'], mean):.2f}"))
    return ("system", *(f"M = {M}" for M in options["M"]), "slope"), lines


def against_M(options: Options, parts: Parts) -> Table:
    """A line for each system."""
    lines: list[Sequence[str]] = []
    for name in parts[0]["curves"]:
        lines.append((name, *(spread([part["curves"][name][i] for part in parts]) for i in range(len(options["M"])))))
    blank = [""] * (len(options["M"]) - 1)
    for M, errors in zip(
        options["beyond"], zip(*(part["beyond"] for part in parts if part["beyond"]), strict=True), strict=False
    ):
        lines.append((f"mondrian, M = {M:,}, one split", f"{np.mean(errors):.2f}", *blank))
    lines.append((f"exact, lifetime {options['lifetime']:g}", spread([part["error"] for part in parts]), *blank))
    chosen = ", ".join(f"{part['validated'][0]:g}" for part in parts)
    lines.append((f"exact, validated ({chosen})", spread([part["validated"][1] for part in parts]), *blank))
    return ("system", *(f"M = {M}" for M in options["M"])), lines


def known_lifetime(options: Options, parts: Parts) -> Table:
    """A line for each repetition."""
    head = ("repetition", "least validation error at", "most likely", "test error there", "least", "averaged", "true")
    return head, [
        (
            str(i + 1), f"{part['chosen']:.3g}", _number(part.get("most_likely"), ".3g"), f"{part['error']:.2f}",
            f"{part['best']:.2f}", _number(part.get("posterior"), ".2f"), f"{options['lifetime']:g}",
        )
        for i, part in enumerate(parts)
    ]  # fmt: skip


def _number(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)


def seconds_to(curve: Sequence[Sequence[float]], error: float) -> float:
    """Return when a curve of (seconds, error, lifetime) first comes down to an error; infinity if it never does."""
    return next((seconds for seconds, at, _ in curve if at <= error), float("inf"))


def against_time(options: Options, parts: Parts) -> Table:  # noqa: ARG001
    """A line for each system."""
    lines: list[Sequence[str]] = []
    for name in parts[0]["curves"]:
        curves = [part["curves"][name] for part in parts]
        best = [min(error for _, error, _ in curve) for curve in curves]
        near = [seconds_to(curve, NEAR * least) for curve, least in zip(curves, best, strict=True)]
        of_all = [
            seconds_to(curve, NEAR * min(error for other in part["curves"].values() for _, error, _ in other))
            for curve, part in zip(curves, parts, strict=True)
        ]
        reached = [seconds for seconds in of_all if seconds < float("inf")]
        widths = float(np.mean([len(curve) for curve in curves]))
        total = float(np.mean([curve[-1][0] for curve in curves]))
        lines.append((
            name, f"{np.mean(near):.2f}", spread(best), f"{len(reached)} of {len(parts)}",
            f"{np.mean(reached):.2f}" if reached else "", f"{widths:.0f}", f"{total:.2f}",
        ))  # fmt: skip
    head = ("system", "s to 5 % of its best", "least error", "near the best of all", "s to it", "widths", "s in all")
    return head, lines


def beside_forest(options: Options, parts: Parts) -> Table:  # noqa: ARG001
    """A line for each repetition and learner."""
    lines: list[Sequence[str]] = []
    for i, part in enumerate(parts):
        for name in ("kernel", "forest"):
            at = int(np.argmin(part[name]["test"]))
            errors = (f"{part[name][side][at]:.3f}" for side in ("train", "validation", "test"))
            lines.append((str(i + 1), name, f"{part['lifetime'][at]:.3g}", *errors))
    return ("repetition", "learner", "lifetime", "training error", "validation error", "test error"), lines


def weights(options: Options, parts: Parts) -> Table:
    """A line for each repetition."""
    lines: list[Sequence[str]] = []
    for i, part in enumerate(parts):
        summary = part["weights"]
        kurtoses = (f"{summary[name]['kurtosis']:.2f}" for name in ("kernel", "forest"))
        lines.append((str(i + 1), f"{options['lifetime']:g}", *kurtoses))
    return ("repetition", "lifetime", "kernel", "forest"), lines


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"
