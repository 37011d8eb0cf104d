"""NOGD: online gradient descent on Nystroem features."""

from __future__ import annotations

from typing import Any, ClassVar

from ikmap.methods.kernel_on_rows import KernelOptions, OnKernel, kernel_on_rows
from ikmap.methods.kinds import Choice, Flag, Integer
from ikmap.methods.learners import OnlineOptions, StreamLearner
from ikmap.methods.options import BASELINES, MethodOptions, OptionError, option
from ikmap.methods.sample import Sample, Shape


class NOGDOptions(KernelOptions, OnlineOptions):
    """Of NOGD."""

    b: int = option(100, Integer(1), group=BASELINES, help="points of nogd's map (default: 100)")
    rank: int | None = option(None, Integer(1), group=BASELINES, help="features of nogd (default: a fifth of b)")
    points: str = option(
        "uniform",
        Choice(("uniform", "violators")),
        group=BASELINES,
        help="nogd's points: drawn from the training rows, or the first rows with a margin below 1",
    )
    average: bool = option(False, Flag(), group=BASELINES, help="predict with the average of its weights")

    def check_together(self) -> None:
        super().check_together()
        if self.rank is not None and self.rank > self.b:
            raise OptionError(f"--rank {self.rank}: found --b {self.b}, expected no more features than points")


class _NOGD(OnKernel, StreamLearner):
    Options: ClassVar[type[MethodOptions]] = NOGDOptions
    models = ("ikmap.learners.mapped_model", "ikmap.maps.nystroem")

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.learners.online.nogd import NOGDState, rank_of
        from ikmap.maps import NystroemMap
        from ikmap.maps.nystroem import draw_points

        kernel, b, rank = kernel_on_rows(options, value, sample.n_columns), options.b, options.rank
        points = None
        if options.points == "uniform":
            drawn = sample.take(draw_points(sample.n_rows, b, sample.seed))
            points = NystroemMap.fit(drawn, kernel, rank or rank_of(b), n_threads)
        return NOGDState(kernel, sample.n_classes, b, rank, options.eta, options.average, points, n_threads=n_threads)

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        from ikmap.learners.online.nogd import nogd_bytes

        return nogd_bytes(shape.d, shape.nnz_per_row, options.b, options.rank, shape.n_classes)


NOGD = _NOGD(name="nogd", title="online gradient descent on Nystroem features")
