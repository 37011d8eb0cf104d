"""The form of the table of linearised kernels, which the paper names and does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ikmap_papers.gmm.linearised import BITS, CODES, WAYS
from pipeline.report.text import MISSING
from pipeline.reproduce.form import Form, Made, Outcome, Row, table
from pipeline.reproduce.paper import Entry, Request
from pipeline.reproduce.text import number

if TYPE_CHECKING:
    from pipeline.report.rendering import Cell

SYSTEM = "linearised"
PROTOCOL = (
    "Error: how far inner products of features are from the kernel, on the rows to learn from, in the Frobenius norm "
    "and relative to the kernel. Accuracy: of linear SVMs on the features, on test rows, in per cent, at the best "
    f"C = 2^-6 to 2^12. Means over shuffles of the rows into halves. Two-stage: {CODES} GCWS codes of {BITS} bits, and "
    "random Fourier features of these. Nystroem: as many drawn rows as features, or all."
)


class Linearised(Form):
    """Error and accuracy by the number of features."""

    def entries(self, request: Request) -> Iterator[Entry]:
        """Yield a study for each data set."""
        about = self.experiment.about
        options = {
            "features": list(about["features"]), "le": about["le"], "rows": about["rows"],
            "parts": min(request.readings.get("repeats", 10), about["repeats"]),
        }  # fmt: skip
        for dataset in request.datasets:
            if request.systems is None or SYSTEM in request.systems:
                yield Entry(f"{dataset}/{SYSTEM}", dataset, SYSTEM, "study", options)

    def rows(self, made: Made) -> list[Row]:
        """One for each data set, way and number of features."""
        return [row for entry in made.entries for row in self._rows(entry, made.outcome(entry))]

    def _rows(self, entry: Entry, outcome: Outcome) -> Iterator[Row]:
        parts = [] if outcome.metrics is None else outcome.metrics["parts"][: entry.options["parts"]]
        for i, (count, way) in enumerate(product(self.experiment.about["features"], WAYS)):
            error, accuracy = (
                round(float(np.mean([part["grid"][i][at] for part in parts])), 5) if parts else None for at in (2, 3)
            )
            yield {
                "dataset": entry.dataset, "system": entry.system, "title": way, "way": way, "shown": True,
                "features": count, "error": error, "accuracy": accuracy, "spread": None, "published_accuracy": None,
                "difference": None, "within": None, **outcome.told(),
            }  # fmt: skip

    def html(self, rows: Sequence[Row]) -> str:
        """A line for each data set and number of features."""
        head, cells = self._lines(rows)
        lined: list[list[str | Cell]] = [list(line) for line in cells]
        return table(head, lined, self.experiment.title, texts=1, notes=[PROTOCOL])

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
        """The same."""
        return self._lines(rows)

    def _lines(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
        row_of = {(row["dataset"], row["features"], row["title"]): row for row in rows}
        cells: list[Sequence[str]] = []
        for dataset, count in dict.fromkeys((row["dataset"], row["features"]) for row in rows):
            line: list[str] = [dataset, str(count)]
            for way, (key, form) in product(WAYS, (("error", ".3f"), ("accuracy", ".2f"))):
                value = row_of[dataset, count, way][key]
                line.append(MISSING if value is None else number(value, form))
            cells.append(line)
        return ("data set", "features", *(f"{way}: {what}" for way in WAYS for what in ("error", "accuracy"))), cells
