"""AdaRaker and Raker: many Gaussian kernels in random features, weighed as they prove themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ikmap.methods.fourier import FeaturesOptions
from ikmap.methods.kinds import Choice, Real
from ikmap.methods.learners import OnlineOptions, StreamLearner
from ikmap.methods.options import BASELINES, MethodOptions, Setting, option
from ikmap.methods.sample import Sample, Shape
from ikmap.methods.search import Search

LAMBDAS = tuple(sorted(10.0**m / half for m in (-2, -3, -4, -5) for half in (1, 2)))
"""Search range of lambda, the paper's Table 3."""


class RakerOptions(FeaturesOptions, OnlineOptions):
    """Of AdaRaker and Raker."""

    decay: float | str = option(
        "auto",
        Real(0, words=("auto",)),
        group=BASELINES,
        help="lambda of adaraker and raker; auto chooses it by cross-validation",
        setting=Setting(
            "λ",
            "factor of the penalty",
            "How much large weights count against a solution that follows the rows closely.",
            parameter="lambda",
        ),
    )
    flavour: str = option(
        "published",
        Choice(("published", "script")),
        group=BASELINES,
        help="adaraker as published, or as in its authors' reference script",
    )
    online_loss: str = option(
        "auto",
        Choice(("auto", "hinge", "logistic")),
        group=BASELINES,
        help="loss of adaraker and raker; auto: hinge, with --flavour script logistic",
    )
    sigma_is: str = option(
        "frequency",
        Choice(("frequency", "width")),
        group=BASELINES,
        help="what the sixteen numbers of adaraker's kernels are: factors of the frequencies, or widths",
    )


@dataclass(frozen=True, kw_only=True)
class _Raker(StreamLearner):
    """With intervals, AdaRaker."""

    Options: ClassVar[type[MethodOptions]] = RakerOptions
    models = ("ikmap.learners.mapped_model", "ikmap.maps.fourier")

    intervals: bool

    def parameter(self, options: Any) -> str | None:
        return "lambda"

    def search(self, options: Any, n_rows: int) -> Search | None:
        return Search("decay", "lambda", LAMBDAS) if options.decay == "auto" else None

    def given(self, options: Any) -> float | None:
        return None if options.decay == "auto" else float(options.decay)

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.learners.online.adaraker import SIGMAS, AdaRakerState, adaraker_map

        frequencies = adaraker_map(
            sample.n_columns, sample.seed, options.features, sigma_is=options.sigma_is, flavour=options.flavour
        )
        asked: Any = {
            "loss": None if options.online_loss == "auto" else options.online_loss,
            "flavour": options.flavour,
            "n_threads": n_threads,
        }
        return AdaRakerState(
            frequencies, len(SIGMAS), sample.n_classes, options.eta, float(value or 0.0), self.intervals, **asked
        )

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        from ikmap.learners.online.adaraker import SIGMAS, adaraker_bytes

        return adaraker_bytes(shape.n, shape.d, len(SIGMAS), options.features, shape.n_classes, self.intervals)


ADARAKER = _Raker(
    name="adaraker",
    title="AdaRaker: sixteen Gaussian kernels in random features",
    on="rows",
    intervals=True,
)
RAKER = _Raker(
    name="raker",
    title="Raker: AdaRaker without its intervals",
    on="rows",
    intervals=False,
)
