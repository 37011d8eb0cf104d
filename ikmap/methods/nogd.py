"""NOGD: online gradient descent on Nystroem features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ikmap.methods.learner import Sample, Shape, StreamLearner, kernel_on_rows


@dataclass(frozen=True, kw_only=True)
class _NOGD(StreamLearner):
    models = ("ikmap.learners.mapped_model", "ikmap.maps.nystroem")

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.learners.nogd import NOGDState, rank_of
        from ikmap.maps import NystroemMap
        from ikmap.maps.nystroem import draw_points

        kernel, b, rank = kernel_on_rows(options, value, sample.n_columns), options.b, options.rank
        points = None
        if options.points == "uniform":
            drawn = sample.take(draw_points(sample.n_rows, b, options.seed))
            points = NystroemMap.fit(drawn, kernel, rank or rank_of(b), n_threads)
        return NOGDState(kernel, sample.n_classes, b, rank, options.eta, options.average, points, n_threads=n_threads)

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        from ikmap.learners.nogd import nogd_bytes

        return nogd_bytes(shape.d, shape.nnz_per_row, options.b, options.rank, shape.n_classes)


NOGD = _NOGD(
    name="nogd",
    title="online gradient descent on Nystroem features",
    on="rows",
    own="kernel gamma b rank points average",
)
