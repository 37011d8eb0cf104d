"""AdaRaker and Raker: many Gaussian kernels in random features, weighted by their losses so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Gt

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc, Searched, Symbol
from ikmap.methods.learner import GradientLearner
from ikmap.methods.method import Candidates, SearchSpace
from ikmap.methods.sample import Sample, Shape

if TYPE_CHECKING:
    from ikmap_papers.isolation_kernel.adaraker_state import AdaRakerState

LOOPS = ("ikmap_papers.isolation_kernel._adaraker_loops",)

LAMBDAS = tuple(sorted(10.0**m / divisor for m in (-2, -3, -4, -5) for divisor in (1, 2)))
"""Search range of lambda, the paper's Table 3."""


class AdaRaker(GradientLearner):
    """Sixteen Gaussian kernels in random features, learned anew in intervals of many lengths.

    Attributes
    ----------
    intervals : bool
        True if kernels are learned anew in intervals.
    """

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="adaraker",
        title="AdaRaker: sixteen Gaussian kernels in random features",
        on="rows",
        models=("ikmap.learners.mapped_model", "ikmap.maps.fourier"),
        loops=LOOPS,
    )
    intervals: ClassVar[bool] = True
    features: Annotated[int, Ge(1), Doc("random frequencies of each kernel")] = 50
    decay: Annotated[
        float,
        Gt(0),
        Doc("lambda of adaraker and raker; auto chooses it by cross-validation"),
        Searched(by_default=True),
        Symbol(
            "λ",
            "factor of the penalty",
            "How much large weights count against a solution that follows the rows closely.",
            parameter="lambda",
        ),
    ] = LAMBDAS[len(LAMBDAS) // 2]
    flavour: Annotated[
        Literal["published", "script"], Doc("adaraker as published, or as in its authors' reference script")
    ] = "published"
    online_loss: Annotated[
        Literal["auto", "hinge", "logistic"],
        Doc("loss of adaraker and raker; auto: hinge, with {flavour} script logistic"),
    ] = "auto"
    sigma_is: Annotated[
        Literal["frequency", "width"],
        Doc("what the sixteen numbers of adaraker's kernels are: factors of the frequencies, or widths"),
    ] = "frequency"

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:  # noqa: ARG002
        return {"decay": Candidates(LAMBDAS)} if "decay" in searched else {}

    def start(self, sample: Sample, n_threads: int = 1) -> AdaRakerState:
        from ikmap_papers.isolation_kernel.adaraker_state import SIGMAS, AdaRakerState, adaraker_map

        features = adaraker_map(
            sample.n_columns, sample.seed, self.features, sigma_is=self.sigma_is, flavour=self.flavour
        )
        return AdaRakerState(
            features,
            len(SIGMAS),
            sample.n_classes,
            self.eta,
            self.decay,
            self.intervals,
            loss=None if self.online_loss == "auto" else self.online_loss,
            flavour=self.flavour,
            n_threads=n_threads,
        )

    def memory(self, shape: Shape, rows: int | None = None) -> int:  # noqa: ARG002
        from ikmap_papers.isolation_kernel.adaraker_state import SIGMAS, adaraker_bytes

        return adaraker_bytes(shape.n, shape.d, len(SIGMAS), self.features, shape.n_classes, self.intervals)


class Raker(AdaRaker):
    """AdaRaker without its intervals."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="raker",
        title="Raker: AdaRaker without its intervals",
        on="rows",
        models=("ikmap.learners.mapped_model", "ikmap.maps.fourier"),
        loops=LOOPS,
    )
    intervals: ClassVar[bool] = False
