"""Quantile regression on cells, online: several quantiles of each target, so also prediction intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Levels
from ikmap.methods.learners import OnlineOptions, StreamLearner
from ikmap.methods.options import MethodOptions, option
from ikmap.methods.sample import Sample
from ikmap.tasks.regression.quantiles_schema import QUANTILES

if TYPE_CHECKING:
    from ikmap.tasks import Task


class QuantileOptions(OnlineOptions):
    """Of quantile regression."""

    quantiles: str = option(
        "0.05,0.5,0.95",
        Levels(),
        help="levels of the quantiles to predict, ascending; first and last are the ends of a prediction interval, the "
        "second and the last but one of the next, and the one next to 0.5 is the prediction",
    )


def levels_of(quantiles: str) -> list[float]:
    """Levels as numbers."""
    return [float(word) for word in quantiles.split(",")]


class _Quantile(StreamLearner):
    Options: ClassVar[type[MethodOptions]] = QuantileOptions
    grows = True
    carries = True
    told: ClassVar[Mapping[str, Any]] = QUANTILES

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.learners.online.quantile_ogd import QuantileOGDState

        assert sample.offsets is not None
        return QuantileOGDState.start(sample.offsets, levels_of(options.quantiles), options.eta)

    def judged(self, options: Any, task: Task) -> Task:
        from ikmap.tasks.regression.quantiles import with_quantiles

        return with_quantiles(task, levels_of(options.quantiles))


QUANTILE = _Quantile(
    name="quantile",
    title="online quantile regression on cells",
    on="cells",
    tasks=frozenset({"regression"}),
)
