"""What learners of novelty on cells have in common: a score, and a threshold that is a quantile of training scores."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt, Lt

from ikmap.methods.fields import Doc
from ikmap.methods.learner import CountsLearner
from ikmap.methods.map import Map
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
"""Training scores are counted in bins narrower than 2**-16 of a score: their quantile is found to within that."""
MODELS = ("ikmap.learners.novelty.cell_scores",)
METRICS_SCHEMA: Mapping[str, Mapping[str, Json]] = {
    "threshold": {"description": "A row that scores above it is novel.", "type": "number"},
    "alert_rate_train": {"description": "Share of the training rows above it.", "type": "number", "minimum": 0},
}
"""What all of them report."""


class NoveltyLearner(CountsLearner):
    """Counts rows in a first pass, which makes scores of them; in a second one, counts the scores of the same rows.

    Attributes
    ----------
    psi : int
        Cells of a partitioning where ``psi`` is not given: there are no labels to choose it by.
    rows_per_cell : int
        Of few rows, there are no more cells than one for so many rows.
    alert_rate : float
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

    def replaces_search(self, of_map: Map, searched: frozenset[str]) -> bool:
        return True

    def map_on(self, of_map: Map, searched: frozenset[str], n_rows: int) -> Map | None:
        return of_map.unsearched(searched, n_rows, max(1, min(self.psi, n_rows // self.rows_per_cell)))

    @abstractmethod
    def scores(self, counts: Counts, sample: Sample) -> CellScores:
        """Return the model, without a threshold."""

    def own_scores(self, model: CellScores, rows: Cells, sample: Sample) -> NDArray[np.float64]:
        """Return scores of training rows, shape (n,), as if they were new ones as far as that is known."""
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
