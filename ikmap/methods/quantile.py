"""Online quantile regression on cells: several quantiles of each target, and prediction intervals between them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.capabilities import DecidesOtherwise
from ikmap.methods.fields import Doc
from ikmap.methods.kinds import Kind, refuse
from ikmap.methods.learner import GradientLearner
from ikmap.methods.sample import Sample
from ikmap.tasks.regression.quantiles_schema import QUANTILES

if TYPE_CHECKING:
    from ikmap.learners.online.quantile_ogd import QuantileOGDState
    from ikmap.tasks import Task


class Levels(Kind):
    """Ascending numbers in (0, 1) with commas between (in TOML also an array), as a text: "0.05,0.5,0.95"."""

    metavar = "Q,..."
    expected = "ascending numbers > 0 and < 1 with commas between, such as 0.05,0.5,0.95"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^\s*0?\.\d+\s*(,\s*0?\.\d+\s*)*$"}

    def check(self, value: Any) -> str:
        from decimal import Decimal

        words = value.split(",") if isinstance(value, str) else value
        try:
            numbers = [float(word) for word in words]
        except (TypeError, ValueError):
            refuse(value, self.expected)
        ascending = all(low < high for low, high in pairwise(numbers))
        if not numbers or not ascending or not all(0.0 < number < 1.0 for number in numbers):
            refuse(value, self.expected)
        return ",".join(format(Decimal(repr(number)), "f") for number in numbers)


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
