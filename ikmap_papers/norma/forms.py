"""The form of Figure 1 of the NORMA paper: grids of digits, and a table of counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pipeline.record_types import Record
from pipeline.reproduce.form import Form, Made, Row, table
from pipeline.reproduce.paper import Entry, Request

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pipeline.report.rendering import Cell

SYSTEM = "norma-dual"
NOTE = (
    "One pass over the training digits in the order of the file, without labels: Gaussian kernel, rho not clipped, "
    "steps of 1 / sqrt(m) for m training digits, as in the caption. Margin errors: digits that came with f(x) < rho. "
    "With steps that decrease with the row's number the first are so large that rho is low for a quarter of the pass, "
    "and there are fewer. Worst: the lowest f(x) - rho, by the mean of all functions on the way; and, in the second "
    "picture, by the function after the pass, which rests on the few digits that were margin errors: what is unlike "
    "these is first there, odd or not."
)
GRIDS = {
    "figure1": ("mean of all functions", "mean_", ("errors", "train", "test")),
    "figure1-last": ("after the pass", "", ("errors", "train", "test")),
}


class Digits(Form):
    """A study of each data set."""

    def entries(self, request: Request) -> Iterator[Entry]:
        """Yield one for each."""
        options = {k: v for k, v in self.experiment.about.items() if k not in ("title", "systems", "datasets")}
        for dataset in request.datasets:
            if request.systems is None or SYSTEM in request.systems:
                yield Entry(f"{dataset}/{SYSTEM}", dataset, SYSTEM, "study", {**options, "parts": 1})

    def rows(self, made: Made) -> list[Row]:
        """One for each data set, with its digits."""
        return [
            {
                "dataset": entry.dataset, "system": entry.system, "title": self.experiment.title, "way": "",
                "shown": True, "options": dict(entry.options), "found": part,
                "margin_errors": part.get("margin_errors"), "published_margin_errors": None, "difference": None,
                "within": None, **outcome.told(),
            }
            for entry in made.entries
            for outcome in [made.outcome(entry)]
            for part in [outcome.metrics["parts"][0] if outcome.metrics else {}]
        ]  # fmt: skip

    def html(self, rows: Sequence[Row]) -> str:
        """The table."""
        head, cells = self.printed_out(rows)
        lined: list[list[str | Cell]] = [list(line) for line in cells]
        return table(head, lined, self.experiment.title, texts=1, notes=[NOTE])

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
        """Return a table of the margin errors of each run, with their number and time."""
        head = (
            "data set", "training rows", "nu", "margin errors", "with decreasing steps", "share, by fifths of the pass",
            "rho at the end",
        )  # fmt: skip
        lines: list[Sequence[str]] = [
            (
                row["dataset"],
                f"{row['options']['train']:,}",
                f"{row['options']['nu']:g}",
                str(row["found"]["margin_errors"]),
                str(row["found"]["decreasing"]),
                ", ".join(f"{share:.4f}" for share in row["found"]["rate"]),
                f"{row['found']['rho']:.4g}",
            )
            for row in rows
            if row["found"]
        ]
        return head, lines

    def figures(self, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
        """Yield pictures of the digits, by the last function and by the mean of all."""
        for row in rows:
            for name, (which, prefix, panels) in GRIDS.items():
                if row["found"]:
                    drawn = {key: row["found"][key if key == "errors" else prefix + key] for key in panels}
                    figure = grids(drawn, int(row["options"]["side"]), row["dataset"], which)
                    yield f"{name}-{row['dataset']}", figure


def grids(digits: Record, side: int, dataset: str, which: str) -> Figure:
    """Three panels of digits, ten in a line."""
    import numpy as np
    from matplotlib.figure import Figure

    titles = {
        "errors": f"{dataset}: the first {len(digits['errors'])} margin errors",
        "train": f"the {len(digits['train'])} worst training digits ({which})",
        "test": f"the {len(digits['test'])} worst test digits ({which})",
    }
    figure = Figure(figsize=(12, 3.2), layout="constrained")
    all_axes = figure.subplots(1, 3)
    for axes, (name, images) in zip(all_axes, digits.items(), strict=True):
        lines = max(1, -(-len(images) // 10))
        canvas = np.full((lines * (side + 1) + 1, 10 * (side + 1) + 1), 110, dtype=np.uint8)
        for k, (_, _, _, pixels) in enumerate(images):
            top, left = (k // 10) * (side + 1) + 1, (k % 10) * (side + 1) + 1
            canvas[top : top + side, left : left + side] = np.array(pixels).reshape(side, side)
        axes.imshow(canvas, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axes.set_title(titles[name], fontsize=9)
        axes.set_axis_off()
    return figure


FORMS: dict[str, type[Form]] = {"figure 1": Digits}
