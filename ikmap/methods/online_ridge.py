"""Ridge regression on cells that is exact after every row of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.learner import StreamLearner
from ikmap.methods.sample import Sample, Shape
from ikmap.methods.squared import SquaredErrors

if TYPE_CHECKING:
    from ikmap.learners.ridge.online_ridge import OnlineRidge


class OnlineRidgeRegression(StreamLearner, SquaredErrors):
    """Recursive least squares on few cells: memory, and the time for a row, grow with the square of their number."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="online-ridge",
        title="ridge regression on cells, exact after each row",
        tasks=frozenset({"regression"}),
        usual_map="mondrian",
    )
    grows: ClassVar[bool] = True

    def start(self, sample: Sample, n_threads: int = 1) -> OnlineRidge:
        from ikmap.learners.ridge.online_ridge import OnlineRidge

        assert sample.offsets is not None
        return OnlineRidge.start(sample.offsets, self.alpha)

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        # The matrix, and a copy of it for a checkpoint or for more cells.
        return 2 * 8 * shape.cells * shape.cells
