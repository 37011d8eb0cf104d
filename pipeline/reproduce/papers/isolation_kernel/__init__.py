"""Isolation Kernel: its Tables 3 to 8, Figures 1 to 5, and the claim of Section 8.1.1.

``experiments.toml`` says what its systems and experiments are, in options of our commands, ``published.toml`` what was
printed; ``forms`` is how its experiments are made and shown, ``pictures`` draws its figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikmap.methods.kinds import Choice
from ikmap.methods.options import MethodOptions, option
from pipeline.reproduce.paper import READINGS, Experiment, Paper

if TYPE_CHECKING:
    from pipeline.reproduce.form import Form


class Readings(MethodOptions):
    """What the paper leaves open: one reading of each point, or all."""

    depth: str = option(
        "all", Choice(("all", "none", "log2")), group=READINGS, help="depth of the iForest trees, which is open"
    )
    score_scale: str = option(
        "all", Choice(("all", "kernel", "raw")), group=READINGS, help="scale of the score of IK-OGD: 1/t or none"
    )
    svm_scale: str = option(
        "all", Choice(("all", "kernel", "raw")), group=READINGS, help="scale of the features of the IK_a-SVM"
    )
    svm_C: str = option(
        "all", Choice(("all", "1", "0.01", "0.1", "10", "100")), group=READINGS, help="C of the linear SVMs"
    )
    svm_loss: str = option(
        "all", Choice(("all", "squared_hinge", "hinge")), group=READINGS, help="loss of the linear SVMs"
    )
    nogd: str = option(
        "all",
        Choice(("all", "averaged", "last", "violators", "library")),
        group=READINGS,
        help="NOGD: points drawn, weights averaged or those of the last step; or points that violate the margin, "
        "weights of the last step or (library) averaged",
    )
    adaraker: str = option(
        "all", Choice(("all", "script", "published")), group=READINGS, help="AdaRaker as in its script or as published"
    )


class IsolationKernel(Paper):
    """The paper that the default run is about."""

    name = "isolation-kernel"
    short = "Isolation Kernel paper"
    title = "Isolation Kernel: The X Factor in Efficient and Effective Large Scale Online Kernel Learning"
    source = "Kai Ming Ting, Jonathan R. Wells, Takashi Washio"
    package = __name__
    Options = Readings

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets of Table 4, in its order."""
        return tuple(self.published["table4"])

    def form(self, experiment: Experiment) -> type[Form] | None:
        """As the paper shows it."""
        from pipeline.reproduce.papers.isolation_kernel.forms import FORMS

        return FORMS.get(experiment.label)


PAPER = IsolationKernel()
