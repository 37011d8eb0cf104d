"""The base of learners of novelty on cells: a score, and a threshold that is a quantile of the training scores."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt, Lt

from ikmap.methods.fields import Doc
from ikmap.methods.learner import CountsLearner
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from ikmap.cells import Cells
    from ikmap.json_values import Json
    from ikmap.learners.novelty.cell_scores import CellScores
    from ikmap.learners.rows import Block
    from ikmap.methods.learner import Counts, Summary

BITS = 16
"""Bits of the mantissa of training scores in bins, so that their quantile is exact to 2**-16 of its value."""
MODELS = ("ikmap.learners.novelty.cell_scores",)
METRICS_SCHEMA: Mapping[str, Mapping[str, Json]] = {
    "threshold": {"description": "A row that scores above it is novel.", "type": "number"},
    "alert_rate_train": {"description": "Share of the training rows above it.", "type": "number", "minimum": 0},
}
"""JSON Schema of the fields that all of them report."""


class NoveltyLearner(CountsLearner):
    """Counts rows in a first pass, from which scores follow; counts the scores of the same rows in a second pass.

    Attributes
    ----------
    psi : int
        Cells of a partitioning if ``psi`` is not given, as there are no labels to choose it by.
    rows_per_cell : int
        Least number of rows for each cell.
    alert_rate : float
        Share of the training rows above the threshold.
    """

    twice: ClassVar[bool] = True
    psi: ClassVar[int]
    rows_per_cell: ClassVar[int] = 1
    alert_rate: Annotated[
        float,
        Gt(0),
        Lt(1),
        Doc("share of the training rows above the threshold of novelty: rows that score above it are novel"),
    ] = 0.05

    def unsearched_psi(self, n_rows: int) -> int | None:
        return max(1, min(self.psi, n_rows // self.rows_per_cell))

    @abstractmethod
    def scores(self, counts: Counts, sample: Sample) -> CellScores:
        """Return the model, without a threshold."""

    def own_scores(self, model: CellScores, rows: Cells, sample: Sample) -> NDArray[np.float64]:
        """Return scores of training rows, shape (n,), as far as possible as if they were new rows."""
        return model.score(rows)

    def count_again(self, block: Block, sample: Sample, counts: Counts) -> Counts:
        import numpy as np

        from ikmap.cells import Cells
        from ikmap.tasks.score_histogram import bins_of

        assert isinstance(block.rows, Cells)
        scores = self.own_scores(self.scores(counts, sample), block.rows, sample)
        bins, rows = np.unique(bins_of(scores, BITS), return_counts=True)
        return {"score_bins": bins, "score_rows": rows}

    def merge(self, a: Counts, b: Counts) -> Counts:
        import numpy as np

        if "score_bins" not in a:
            return super().merge(a, b)
        bins, at = np.unique(np.concatenate([a["score_bins"], b["score_bins"]]), return_inverse=True)
        rows = np.zeros(bins.size, dtype=np.int64)
        np.add.at(rows, at, np.concatenate([a["score_rows"], b["score_rows"]]))
        return {"score_bins": bins, "score_rows": rows}

    def finish(self, counts: Counts, sample: Sample) -> tuple[CellScores, Summary]:
        from dataclasses import replace

        from ikmap.tasks.score_histogram import quantile_bin, upper_edge

        bins, rows = counts["score_bins"], counts["score_rows"]
        edge = quantile_bin(bins, rows, self.alert_rate)
        threshold = upper_edge(edge, BITS)
        model = replace(self.scores(counts, sample), threshold=threshold, params={"alert_rate": self.alert_rate})
        share = float(rows[bins > edge].sum() / rows.sum())
        return model, {"threshold": threshold, "alert_rate_train": share}
