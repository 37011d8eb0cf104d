"""AdaRaker and Raker: many Gaussian kernels in random features, weighed as they prove themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ikmap.methods.learner import Sample, Shape, StreamLearner

LAMBDAS = tuple(sorted(10.0**m / half for m in (-2, -3, -4, -5) for half in (1, 2)))
"""Search range of lambda, the paper's Table 3."""


@dataclass(frozen=True, kw_only=True)
class _Raker(StreamLearner):
    """With intervals, AdaRaker."""

    models = ("ikmap.learners.mapped_model", "ikmap.maps.fourier")

    intervals: bool

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.learners.adaraker import SIGMAS, AdaRakerState, adaraker_map

        frequencies = adaraker_map(sample.n_columns, options.seed, options.features, sigma_is=options.sigma_is)
        asked: Any = {
            "loss": None if options.online_loss == "auto" else options.online_loss,
            "flavour": options.flavour,
            "n_threads": n_threads,
        }
        return AdaRakerState(
            frequencies, len(SIGMAS), sample.n_classes, options.eta, float(value or 0.0), self.intervals, **asked
        )

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        from ikmap.learners.adaraker import SIGMAS, adaraker_bytes

        return adaraker_bytes(shape.n, shape.d, len(SIGMAS), options.features, shape.n_classes, self.intervals)


_OPTIONS = "features decay flavour online_loss sigma_is"
ADARAKER = _Raker(
    name="adaraker",
    title="AdaRaker: sixteen Gaussian kernels in random features",
    on="rows",
    own=_OPTIONS,
    width="lambda",
    intervals=True,
)
RAKER = _Raker(
    name="raker",
    title="Raker: AdaRaker without its intervals",
    on="rows",
    own=_OPTIONS,
    width="lambda",
    intervals=False,
)
