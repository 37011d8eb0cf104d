"""NOGD: online gradient descent on Nystroem features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc, FieldError
from ikmap.methods.kernel_on_rows import OnKernel
from ikmap.methods.learner import GradientLearner
from ikmap.methods.sample import Sample, Shape

if TYPE_CHECKING:
    from ikmap_papers.isolation_kernel.nogd_state import NOGDState


class NOGD(OnKernel, GradientLearner):
    """Online gradient descent on Nystroem features of a kernel."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="nogd",
        title="online gradient descent on Nystroem features",
        on="rows",
        models=("ikmap.learners.mapped_model", "ikmap.maps.nystroem"),
        loops=("ikmap_papers.isolation_kernel._nogd_loops",),
    )
    b: Annotated[int, Ge(1), Doc("points of nogd's map (default: 100)")] = 100
    rank: Annotated[int | None, Ge(1), Doc("features of nogd (default: a fifth of b)")] = None
    points: Annotated[
        Literal["uniform", "violators"],
        Doc("nogd's points: drawn from the training rows, or the first rows with a margin below 1"),
    ] = "uniform"
    average: Annotated[bool, Doc("predict with the average of its weights")] = False

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        if self.rank is not None and self.rank > self.b:
            raise FieldError("rank", f"{{b}} {self.b}", "no more features than points", value=self.rank)

    def start(self, sample: Sample, n_threads: int = 1) -> NOGDState:
        from ikmap.maps import NystroemMap
        from ikmap.maps.nystroem import draw_points
        from ikmap_papers.isolation_kernel.nogd_state import NOGDState, rank_of

        kernel = self.kernel.kernel(sample.n_columns)
        points = None
        if self.points == "uniform":
            drawn = sample.take(draw_points(sample.n_rows, self.b, sample.seed))
            points = NystroemMap.fit(drawn, kernel, self.rank or rank_of(self.b), n_threads)
        return NOGDState(
            kernel, sample.n_classes, self.b, self.rank, self.eta, self.average, points, n_threads=n_threads
        )

    def memory(self, shape: Shape, rows: int | None = None) -> int:  # noqa: ARG002
        from ikmap_papers.isolation_kernel.nogd_state import nogd_bytes

        return nogd_bytes(shape.d, shape.nnz_per_row, self.b, self.rank, shape.n_classes)
