"""The forms of the Isolation Kernel paper, and which of its experiments has which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ikmap.model_selection import PSIS
from ikmap_papers.isolation_kernel import pictures
from ikmap_papers.isolation_kernel.adaraker import LAMBDAS
from ikmap_papers.isolation_kernel.adaraker_state import SIGMAS
from ikmap_papers.isolation_kernel.sizes import Sizes
from ikmap_papers.isolation_kernel.streams import Streams
from pipeline.record_types import RecordView
from pipeline.report.rendering import Cell
from pipeline.report.text import count
from pipeline.reproduce.compared import PARTS, Compared, batch_result
from pipeline.reproduce.form import Form, Made, Row, link, table
from pipeline.reproduce.paper import Entry, Request
from pipeline.reproduce.text import MARKS, measured, number, seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def by_dataset(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows that have a result, for each data set."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row["accuracy"] is not None:
            groups.setdefault(row["dataset"], []).append(row)
    return groups


class Ranges(Form):
    """Table 3: search ranges printed, and ours."""

    def rows(self, made: Made) -> list[Row]:  # noqa: ARG002
        """One for each parameter."""
        ours: dict[str, Sequence[float]] = {"psi": PSIS, "lambda": sorted(LAMBDAS), "sigma": sorted(SIGMAS)}
        return [
            {
                "parameter": name,
                "published": list(range_),
                "ours": list(ours[name]),
                "same": [float(value) for value in ours[name]] == [float(value) for value in range_],
            }
            for name, range_ in self.paper.published["table3"].items()
        ]

    def html(self, rows: Sequence[Row]) -> str:
        """A line for each parameter."""
        head = ("parameter", "printed", "ours", "")
        cells = (
            [row["parameter"], _numbers(row["published"]), _numbers(row["ours"]),
             "the same" if row["same"] else Cell("another", strong=True)]
            for row in rows
        )  # fmt: skip
        return table(head, cells, "Search ranges", texts=4, kind="compared wrapped")


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


class Mapped(Compared):
    """Table 6: accuracies are those of Table 5, seconds of two machines."""

    def printed(self, dataset: str, system: str) -> tuple[object, object]:
        """Accuracy of Table 5, seconds of Table 6."""
        tables = self.paper.published
        cell = tables["table6"].get(dataset)
        was = f"{cell['cpu']:,} s; GPU: {cell['gpu']} s" if cell else None
        return tables["table5"].get(dataset, {}).get(system, [None])[0], was


class Additive(Compared):
    """Table 8, with the seconds that Section 8.4.2 prints beside it."""

    def printed(self, dataset: str, system: str) -> tuple[object, object]:
        """Return the accuracy of Table 8, and the seconds of training and testing together where they are printed."""
        was, _ = super().printed(dataset, system)
        parts = self.paper.published["section8.4.2"].get(dataset, {}).get(system)
        return was, None if parts is None else round(sum(parts), 1)


class Contours(Form):
    """Figures 1 and 2: no runs, contours of kernels."""

    def figures(self, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:  # noqa: ARG002
        """Yield the picture."""
        draw = {"1": pictures.uniform, "2": pictures.real}[self.experiment.name]
        yield f"figure{self.experiment.name}", draw(self.experiment.about)


class Curves(Streams):
    """Figures 3 and 4: a picture for each data set."""

    def figures(self, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
        """Yield the pictures."""
        draw = {"3": pictures.online, "4": pictures.naive}[self.experiment.name]
        for dataset, group in by_dataset(rows).items():
            yield f"figure{self.experiment.name}-{dataset}", draw(dataset, group)


class Growing(Form):
    """Figure 5: accuracy and seconds with growing t and b."""

    def entries(self, request: Request) -> Iterator[Entry]:
        """Yield for each data set one run for each t and each b."""
        about = self.experiment.about
        for dataset in request.datasets:
            for name, system in (("t", about["of_t"]), ("b", about["of_b"])):
                for size in about["sizes"]:
                    options = {**system, "psi": about["psi"], name: size}
                    yield Entry(f"{dataset}/figure5-{name}-{size}", dataset, f"{name}={size}", "batch", options)

    def rows(self, made: Made) -> list[Row]:
        """One for each run."""
        rows = []
        for entry in made.entries:
            outcome = made.outcome(entry)
            of_run: Row = {"accuracy": None, "seconds": None}
            if outcome.metrics is not None:
                of_run = batch_result(outcome.metrics, list(PARTS))
            name, _, size = entry.system.partition("=")
            rows.append({"dataset": entry.dataset, "parameter": name, "size": int(size), **of_run, **outcome.told()})
        return rows

    def html(self, rows: Sequence[Row]) -> str:
        """A line for each run."""
        names = {"t": "IK_i-OGD, t", "b": "NOGD, b"}
        cells = (
            [row["dataset"], names[row["parameter"]], count(row["size"]),
             measured(row), seconds(row["seconds"])]
            for row in rows
        )  # fmt: skip
        return table(("data set", "system", "size", "accuracy", "seconds"), cells, "Growing t and b", texts=2)

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
        """A line for each run."""
        cells: list[Sequence[str]] = [
            (row["dataset"], row["parameter"], str(row["size"]), measured(row), seconds(row["seconds"])) for row in rows
        ]
        return ("data set", "grows", "size", "accuracy", "seconds"), cells

    def figures(self, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
        """Yield a picture for each data set."""
        for dataset, group in by_dataset(rows).items():
            yield f"figure5-{dataset}", pictures.growing(dataset, group)


PRINTED_COLUMNS = {"ogd": 0, "ogd-dual": 1}
"""Place of each learner among the numbers that are printed for a data set."""


class Shares(Streams):
    """Section 8.1.1: how much of the time the prediction function takes, in the primal and in the dual."""

    @property
    def published(self) -> RecordView:
        """Shares, seconds and sizes, by data set."""
        printed: RecordView = self.paper.published["section8.1.1"]
        return printed

    def html(self, rows: Sequence[Row]) -> str:
        """A line for each learner."""
        head = ("data set", "learner", "share of f, %", "printed", "seconds", "printed", "support", "printed")
        cells: list[list[str | Cell]] = []
        for row in rows:
            if row["accuracy"] is None:
                cells.append([row["dataset"], row["message"], *[MARKS[row["status"]]], *[""] * 5])
                continue
            column = PRINTED_COLUMNS[row["learner"]]
            was = self.published.get(row["dataset"])
            cells.append([
                row["dataset"], link(row, row["learner"]), number(row["share"], ".1f"),
                number(was and was["share"][column], "g"),
                seconds(row["seconds"]), seconds(was and was["seconds"][column]),
                count(row["n_support"]), count(was and was["n_support"]),
            ])  # fmt: skip
        note = (
            "f, the prediction function, is evaluated twice for each row: to predict it, and to learn "
            "from it. The first was measured, the second is counted with the same time. Seconds: mapping, predicting "
            "and learning on the stream."
        )
        return table(head, cells, "Share of the prediction function", texts=2, notes=[note])


FORMS: dict[str, type[Form]] = {
    "table 3": Ranges,
    "table 4": Sizes,
    "table 6": Mapped,
    "table 8": Additive,
    "figure 1": Contours,
    "figure 2": Contours,
    "figure 3": Curves,
    "figure 4": Curves,
    "figure 5": Growing,
    "section 8.1.1": Shares,
}
"""Forms by label; all other experiments are tables of systems."""
