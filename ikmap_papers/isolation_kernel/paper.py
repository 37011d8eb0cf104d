"""Isolation Kernel: its Tables 3 to 8, Figures 1 to 5, and the claim of Section 8.1.1.

``experiments.toml`` says what its systems and experiments are, in options of our commands, ``published.toml`` what was
printed; ``forms`` is how its experiments are made and shown, ``pictures`` draws its figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from ikmap.methods.fields import Configured, Doc
from pipeline.reproduce.paper import Experiment, Paper

if TYPE_CHECKING:
    from pipeline.reproduce.form import Form


class Readings(Configured):
    """Points that the paper leaves open: one reading of each, or all."""

    depth: Annotated[Literal["all", "none", "log2"], Doc("depth of the iForest trees, which is open")] = "all"
    score_scale: Annotated[Literal["all", "kernel", "raw"], Doc("scale of the score of IK-OGD: 1/t or none")] = "all"
    svm_scale: Annotated[Literal["all", "kernel", "raw"], Doc("scale of the features of the IK_a-SVM")] = "all"
    svm_C: Annotated[Literal["all", "1", "0.01", "0.1", "10", "100"], Doc("C of the linear SVMs")] = "all"
    svm_loss: Annotated[Literal["all", "squared_hinge", "hinge"], Doc("loss of the linear SVMs")] = "all"
    nogd: Annotated[
        Literal["all", "averaged", "last", "violators", "library"],
        Doc(
            "NOGD: points drawn, weights averaged or those of the last step; or points that violate the margin, "
            "weights of the last step or (library) averaged"
        ),
    ] = "all"
    adaraker: Annotated[Literal["all", "script", "published"], Doc("AdaRaker as in its script or as published")] = "all"


class IsolationKernel(Paper):
    """The paper that the default run is about."""

    name = "isolation-kernel"
    short = "Isolation Kernel paper"
    title = "Isolation Kernel: The X Factor in Efficient and Effective Large Scale Online Kernel Learning"
    source = "Kai Ming Ting, Jonathan R. Wells, Takashi Washio"
    package = __package__
    Options = Readings

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets of Table 4, in its order."""
        return tuple(self.published["table4"])

    learners = ("svm", "ogd")

    def form(self, experiment: Experiment) -> type[Form] | None:
        """Return the form that shows an experiment as the paper does."""
        from ikmap_papers.isolation_kernel.forms import FORMS

        return FORMS.get(experiment.label)


PAPER = IsolationKernel()
