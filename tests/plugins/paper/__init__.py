"""A paper as a stranger's package has it: one table of two systems on one data set, a reading and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ikmap.methods.fields import Configured, Doc
from pipeline.reproduce.paper import Experiment, Paper

if TYPE_CHECKING:
    from pipeline.reproduce.form import Form


class Readings(Configured):
    """What it leaves open."""

    scale_of_eta: Annotated[Literal["all", "as_printed", "tenfold"], Doc("the step size of its second system")] = "all"


class Throwaway(Paper):
    """Two steps of the same learner."""

    name = "throwaway"
    short = "throwaway paper"
    title = "Two sizes of a step"
    source = "Nobody, nowhere"
    package = __name__
    Options = Readings

    def form(self, experiment: Experiment) -> type[Form]:
        """Its table has a picture."""
        from pipeline.reproduce.compared import Compared
        from pipeline.reproduce.drawing import panels, style

        class Pictured(Compared):
            def figures(self, rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
                figure, (axes,) = panels(1, "accuracy of each run")
                axes.plot([row["accuracy"] for row in rows], **style(0))
                yield "table1", figure

        return Pictured


PAPER = Throwaway()
