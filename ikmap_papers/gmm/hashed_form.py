"""The form of Figures 5 to 7 of the GMM paper, on hashing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ikmap_papers.gmm import pictures
from ikmap_papers.gmm.hashed import CS
from pipeline.record_types import Record, RecordView
from pipeline.report.text import MISSING
from pipeline.reproduce.form import Form, Made, Outcome, Row, table
from pipeline.reproduce.paper import Entry, Request
from pipeline.reproduce.text import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pipeline.report.rendering import Cell

HASHED = "gcws"
KERNEL, LINEAR = "pgmm", "linear"
PROTOCOL = (
    "Accuracy on test rows, in per cent: the best over C, which is a choice made on test rows, as the mean over "
    "shuffles of the rows into halves; the picture has all C, as the paper's does. Hashed: linear SVMs on k codes of b "
    "bits each, features 1/sqrt(k), C = 2^-8, 2^-6, ..., 2^8. Beside them the SVM with the exact pGMM kernel at its "
    "best C and a linear one on rows of unit length, C up to 2^8."
)


class Hashed(Form):
    """Accuracy against C and by the number of codes, for each exponent and number of bits."""

    def entries(self, request: Request) -> Iterator[Entry]:
        """Yield, for each data set, the hashes, the exact kernel with the same exponents, and the linear SVM."""
        about = self.experiment.about
        repeats = min(request.readings.get("repeats", 10), about["repeats"])
        common: Record = {"parts": repeats, **({"rows": about["rows"]} if "rows" in about else {})}
        linear = self.paper.systems[LINEAR].options
        ways: Mapping[str, Record] = {
            HASHED: {"hashes": {name: list(about[name]) for name in ("p", "k", "b")}},
            KERNEL: {"kernel": KERNEL, "grid": {"p": list(about["p"])}, "cv_each": 1},
            LINEAR: {"kernel": linear["kernel"], "grid": {}, "most_C": linear["most_C"]},
        }
        for dataset in request.datasets:
            for name in self.experiment.systems:
                if request.systems is None or name in request.systems:
                    key = f"{dataset}/{self.experiment.label.replace(' ', '')}-{name}"
                    yield Entry(key, dataset, name, "study", {**ways[name], **common})

    def rows(self, made: Made) -> list[Row]:
        """One for each data set, system and setting."""
        return [row for entry in made.entries for row in self._rows(entry, made.outcome(entry))]

    def _rows(self, entry: Entry, outcome: Outcome) -> Iterator[Row]:
        about = self.experiment.about
        parts = [] if outcome.metrics is None else outcome.metrics["parts"][: entry.options["parts"]]
        settings: Sequence[tuple[object, ...]] = {
            HASHED: list(product(about["p"], sorted(about["k"]), sorted(about["b"]))),
            KERNEL: [(p, None, None) for p in about["p"]],
            LINEAR: [(None, None, None)],
        }[entry.system]
        for i, (p, k, b) in enumerate(settings):
            curves = [_curve(part, i) for part in parts]
            Cs = sorted(set.intersection(*map(set, curves))) if curves else []
            best = np.array([max(curve.values()) for curve in curves])
            yield {
                "dataset": entry.dataset, "system": entry.system, "title": self.paper.systems[entry.system].title,
                "way": "", "shown": True, "p": p, "k": k, "b": b, "shuffles": len(parts),
                "Cs": Cs, "by_C": [round(float(np.mean([curve[C] for curve in curves])), 4) for C in Cs],
                "accuracy": round(float(best.mean()), 4) if best.size else None,
                "spread": round(float(best.std()), 4) if best.size else None,
                "published_accuracy": None, "difference": None, "within": None, **outcome.told(),
            }  # fmt: skip

    def html(self, rows: Sequence[Row]) -> str:
        """A line for each exponent and number of bits, a column for each number of codes."""
        head, cells = self._lines(rows)
        lined: list[list[str | Cell]] = [list(line) for line in cells]
        return table(head, lined, self.experiment.title, texts=3, notes=[PROTOCOL])

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
        """The same."""
        return self._lines(rows)

    def _lines(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
        about = self.experiment.about
        ks = sorted(about["k"])
        accuracy = {(row["dataset"], row["p"], row["b"], row["k"]): row["accuracy"] for row in rows}
        shuffles = {
            dataset: min(row["shuffles"] for row in rows if row["dataset"] == dataset) for dataset, *_ in accuracy
        }

        def shown(dataset: str, p: float | None, b: int | None, k: int | None) -> str:
            key = dataset, p, b, k
            return MISSING if accuracy.get(key) is None else number(accuracy[key], ".2f")

        cells = [
            (dataset, f"{p:g}", str(b), *(shown(dataset, p, b, k) for k in ks), shown(dataset, p, None, None),
             shown(dataset, None, None, None), str(shuffles[dataset]))
            for dataset in dict.fromkeys(row["dataset"] for row in rows)
            for p, b in product(about["p"], sorted(about["b"], reverse=True))
        ]  # fmt: skip
        return ("data set", "p", "bits", *(f"k = {k}" for k in ks), "pGMM kernel", "linear", "shuffles"), list(cells)

    def figures(self, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
        """Yield a picture of each data set."""
        for dataset in dict.fromkeys(row["dataset"] for row in rows):
            there = [row for row in rows if row["dataset"] == dataset and row["accuracy"] is not None]
            if any(row["system"] == HASHED for row in there):
                yield f"figure{self.experiment.name}-{dataset}", pictures.hashed_against_C(dataset, there)


def _curve(part: RecordView, i: int) -> dict[float, float]:
    """Return the accuracy by C of setting number `i` of one shuffle, of hashes or of a kernel."""
    if "Cs" not in part:
        return dict(zip(CS, part["grid"][i][3], strict=True))
    return dict(zip(part["Cs"], part["grid"]["accuracy"][i], strict=True))
