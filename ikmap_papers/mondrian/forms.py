"""The forms of the figures of the Mondrian paper: a study each, a picture, and a table of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ikmap_papers.mondrian import found, pictures
from ikmap_papers.mondrian.splits import SGD
from pipeline.record_types import RecordView
from pipeline.reproduce.form import Form, Made, Row, table
from pipeline.reproduce.paper import Entry, Request

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pipeline.report.rendering import Cell

SYSTEM = "mondrian"
GENERATED = "generated"
NOT_OPTIONS = ("title", "systems", "datasets", "shown", SGD)
SOLVER = "ridge_solver"
WAYS = {None: "", SGD: "SGD"}
type Parts = Sequence[RecordView]


class Studied(Form):
    """An experiment that is one study of each data set, or of generated points where it has no data sets.

    Attributes
    ----------
    picture : callable
        Draws it: from the options, and what each repetition has found.
    lines : callable
        Of the same: head of a table, and its lines.
    note : str
        What the table shows.
    """

    picture: Callable[..., Figure]
    lines: Callable[..., tuple[Sequence[str], list[Sequence[str]]]]
    note: str

    def entries(self, request: Request) -> Iterator[Entry]:
        """Yield a study for each data set."""
        about = self.experiment.about
        common = {name: value for name, value in about.items() if name not in NOT_OPTIONS}
        common["parts"] = request.readings.get("repeats", 5)
        for dataset in request.datasets if "datasets" not in about else ("",):
            if request.systems is None or SYSTEM in request.systems:
                for solver, more in self._solvers(request):
                    key = "-".join(filter(None, (f"{dataset or GENERATED}/{about['of']}", solver)))
                    yield Entry(key, dataset, SYSTEM, "study", {**common, **more})

    def _solvers(self, request: Request) -> Iterator[tuple[str, RecordView]]:
        """Yield what each solver that is asked for adds to the key and to the options: the first one nothing."""
        about, chosen = self.experiment.about, request.readings.get(SOLVER, "all")
        for solver, options in self.paper.readings[SOLVER].values.items():
            if not options:
                if chosen in ("all", solver) or SGD not in about:
                    yield "", {}
            elif chosen in ("all", solver) and solver in about:
                yield solver, {**options, **about[solver]}

    def rows(self, made: Made) -> list[Row]:
        """One for each data set and solver, with all that its repetitions have found."""
        return [
            {
                "dataset": entry.dataset or GENERATED, "system": entry.system, "title": self.experiment.title,
                "way": WAYS[entry.options.get("solver")], "shown": True, "options": dict(entry.options),
                "parts": _parts(outcome.metrics, entry.options["parts"]), "error": _error(outcome.metrics),
                "published_error": None, "difference": None, "within": None, **outcome.told(),
            }
            for entry in made.entries
            for outcome in [made.outcome(entry)]
        ]  # fmt: skip

    def html(self, rows: Sequence[Row]) -> str:
        """The table."""
        head, cells = self.printed_out(rows)
        lined: list[list[str | Cell]] = [list(line) for line in cells]
        return table(head, lined, self.experiment.title, texts=2, notes=[type(self).note])

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
        """The same."""
        head: Sequence[str] = ("", "")
        lines: list[Sequence[str]] = []
        for row in rows:
            if row["parts"]:
                head, of = type(self).lines(row["options"], row["parts"])
                lines += [(_named(row), *line) for line in of]
        return ("data set", *head), lines

    def figures(self, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
        """Yield a picture of each data set."""
        for row in rows:
            if row["parts"]:
                figure = type(self).picture(_named(row), row["options"], row["parts"])
                yield f"figure{self.experiment.name}-{row['dataset']}{'-sgd' * bool(row['way'])}", figure


def _named(row: Row) -> str:
    return ", ".join(filter(None, (row["dataset"], row["way"])))


def _parts(metrics: RecordView | None, n: int) -> list[object]:
    return [] if metrics is None else list(metrics["parts"][:n])


def _error(metrics: RecordView | None) -> float | None:
    return None if metrics is None else round(float(np.mean([part["error"] for part in metrics["parts"]])), 4)


class KernelError(Studied):
    """Figure 5."""

    picture, lines = staticmethod(pictures.kernel_error), staticmethod(found.kernel_error)
    note = (
        "The largest error over all pairs of points, as the mean over repetitions. A Fourier feature has two non-zeros "
        "for each frequency. Slope: of the logarithm of that mean against the logarithm of M, for M of 5 and more."
    )


class AgainstM(Studied):
    """Figure 6."""

    picture, lines = staticmethod(pictures.against_M), staticmethod(found.against_M)
    note = (
        "100 |yhat - y| / |y| on test rows, in per cent: mean and standard deviation over seeded splits. Exact: ridge "
        "regression with the Laplace kernel, at the lifetime of the maps and at the one that is best on validation "
        "rows. Inputs are raw, the ridge constant is 1e-4. SGD: the maps' weights by stochastic gradient descent."
    )


class KnownLifetime(Studied):
    """Figure 7."""

    picture, lines = staticmethod(pictures.known_lifetime), staticmethod(found.known_lifetime)
    note = (
        "Errors on test points, in per cent. Averaged: predictions of all lifetimes, weighed by their posterior "
        "probability under a uniform prior."
    )


class AgainstTime(Studied):
    """Figure 8."""

    picture, lines = staticmethod(pictures.against_time), staticmethod(found.against_time)
    note = (
        "Seconds until the validation error is within 5 % of the least that the same system reaches, with growing or "
        "drawing its features, on one thread: mean over seeded splits, with the least error, and the least of all. "
        "Searches begin at lifetime 1, as the paper's do, or at one over the typical distance of two rows. Fourier "
        "features have an exact solution for each width, random binning some epochs of the sweep's gradient descent."
    )


class BesideForest(Studied):
    """Figure 9."""

    picture, lines = staticmethod(pictures.beside_forest), staticmethod(found.beside_forest)
    note = "Errors in per cent at the lifetime where the error on test rows is least, as the paper compares them."


class Weights(Studied):
    """Figure 10."""

    picture, lines = staticmethod(pictures.weights), staticmethod(found.weights)
    note = "Excess kurtosis of the weights of all cells, at one lifetime."


FORMS: Mapping[str, type[Form]] = {
    "figure 5": KernelError,
    "figure 6": AgainstM,
    "figure 7": KnownLifetime,
    "figure 8": AgainstTime,
    "figure 9": BesideForest,
    "figure 10": Weights,
}
