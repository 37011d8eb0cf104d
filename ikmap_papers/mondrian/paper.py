"""The Mondrian kernel: Figures 5 to 10.

``experiments.toml`` says what its experiments are. ``generated`` has the studies on generated points, ``cpu`` those on
the rows of a data set, ``splits`` their rows and errors; ``forms`` says how experiments are shown, ``pictures`` draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Le

from ikmap.arrays import Array
from ikmap.methods.fields import Configured, Doc
from pipeline.record_types import Record, RecordView
from pipeline.reproduce.paper import Experiment, Measure, Paper

if TYPE_CHECKING:
    from ikmap.rows import Rows
    from pipeline.reproduce.form import Form


class Options(Configured):
    """Options for how much of the protocol of the paper is done, and by which solver."""

    repeats: Annotated[int, Ge(1), Le(100), Doc("seeded repetitions of each experiment of the Mondrian paper")] = 5
    ridge_solver: Annotated[
        Literal["all", "exact", "sgd"],
        Doc("how the Mondrian paper solves ridge regression: exactly or by stochastic gradient descent"),
    ] = "all"


class MondrianKernel(Paper):
    """Random features of the Laplace kernel for all widths at once."""

    name = "mondrian"
    short = "Mondrian kernel paper"
    title = "The Mondrian Kernel"
    source = "Matej Balog, Balaji Lakshminarayanan, Zoubin Ghahramani, Daniel M. Roy, Yee Whye Teh (2016)"
    package = __package__
    Options = Options
    learners = ("ridge",)
    measure = Measure(key="error", many="errors", what="relative error on test rows, in per cent", form=".3f")

    def form(self, experiment: Experiment) -> type[Form] | None:
        """A picture and a table of what was found."""
        from ikmap_papers.mondrian.forms import FORMS

        return FORMS.get(experiment.label)

    def study(
        self,
        rows: Rows,
        target: Array,
        columns: Sequence[str] | None,  # noqa: ARG002
        options: RecordView,
        seed: int,
        part: int,
    ) -> Record:
        """One repetition of the experiment that the options name."""
        from ikmap_papers.mondrian import cpu, generated

        of_rows = {"against_M": cpu.against_M, "against_time": cpu.against_time, "beside_forest": cpu.beside_forest}
        of_points = {"kernel_error": generated.kernel_error, "known_lifetime": generated.known_lifetime}
        name = options["of"]
        if name in of_points:
            return of_points[name](options, seed, part)
        return of_rows[name](rows, target, options, seed, part)


PAPER = MondrianKernel()
