"""Online quantile regression on cells: several quantiles of each target, and prediction intervals between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.capabilities import DecidesOtherwise
from ikmap.methods.fields import Doc
from ikmap.methods.kinds import Levels
from ikmap.methods.learner import GradientLearner
from ikmap.methods.sample import Sample
from ikmap.tasks.regression.quantiles_schema import QUANTILES

if TYPE_CHECKING:
    from ikmap.learners.online.quantile_ogd import QuantileOGDState
    from ikmap.tasks import Task


class Quantile(GradientLearner, DecidesOtherwise):
    """Online quantile regression on cells, by gradient steps on the pinball loss of each quantile."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="quantile",
        title="online quantile regression on cells",
        tasks=frozenset({"regression"}),
        metrics_schema=QUANTILES,
    )
    grows: ClassVar[bool] = True
    carries: ClassVar[bool] = True
    quantiles: Annotated[
        str,
        Levels(),
        Doc(
            "levels of the quantiles to predict, ascending; first and last are the ends of a prediction interval, the "
            "second and the last but one of the next, and the one next to 0.5 is the prediction"
        ),
    ] = "0.05,0.5,0.95"

    @property
    def levels(self) -> list[float]:
        """The levels as numbers."""
        return [float(word) for word in self.quantiles.split(",")]

    def start(self, sample: Sample, n_threads: int = 1) -> QuantileOGDState:
        from ikmap.learners.online.quantile_ogd import QuantileOGDState

        assert sample.offsets is not None
        return QuantileOGDState.start(sample.offsets, self.levels, self.eta)

    def decision_task(self, task: Task) -> Task:
        from ikmap.tasks.regression.quantiles import with_quantiles

        return with_quantiles(task, self.levels)
