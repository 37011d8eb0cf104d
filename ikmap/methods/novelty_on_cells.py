"""What learners of novelty on cells have in common: a score, and a threshold that is a quantile of training scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Real
from ikmap.methods.learners import CountsLearner
from ikmap.methods.map import Map, Value
from ikmap.methods.options import MethodOptions, option
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block

BITS = 16
"""Training scores are counted in bins narrower than 2**-16 of a score: their quantile is found to within that."""


class NoveltyOptions(MethodOptions):
    """Of all learners of novelty."""

    alert_rate: float = option(
        0.05,
        Real(0, 1),
        help="share of the training rows above the threshold of novelty: rows that score above it are novel",
    )


class NoveltyLearner(CountsLearner):
    """Counts rows in a first pass, which makes scores of them; in a second one, counts the scores of the same rows.

    Attributes
    ----------
    psi : int
        Cells of a partitioning where --psi does not say: there are no labels to choose it by.
    rows_per_cell : int
        Of few rows, there are no more cells than one for so many rows.
    """

    models = ("ikmap.learners.novelty.cell_scores",)
    Options: ClassVar[type[MethodOptions]] = NoveltyOptions
    twice = True
    psi: ClassVar[int]
    rows_per_cell: ClassVar[int] = 1
    told: ClassVar[Mapping[str, Any]] = {
        "threshold": {"description": "A row that scores above it is novel.", "type": "number"},
        "alert_rate_train": {"description": "Share of the training rows above it.", "type": "number", "minimum": 0},
    }

    def width(self, options: Any, of_map: Map, map_options: Any, n_rows: int) -> Value | None:
        return of_map.unsearched(map_options, max(1, min(self.psi, n_rows // self.rows_per_cell)), n_rows)

    def scores(self, counts: dict[str, np.ndarray], sample: Sample) -> Any:
        """The model, without a threshold."""
        raise NotImplementedError

    def own_scores(self, model: Any, rows: Any, sample: Sample) -> np.ndarray:
        """Scores of training rows, shape (n,), as if they were new ones as far as that is known."""
        found: np.ndarray = model.score(rows)
        return found

    def count_again(
        self, options: Any, value: float | None, block: Block, sample: Sample, counts: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        import numpy as np

        from ikmap.tasks.score_histogram import bins_of

        scores = self.own_scores(self.scores(counts, sample), block.rows, sample)
        bins, rows = np.unique(bins_of(scores, BITS), return_counts=True)
        return {"score_bins": bins, "score_rows": rows}

    def merge(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        import numpy as np

        if "score_bins" not in a:
            return super().merge(a, b)
        bins, at = np.unique(np.concatenate([a["score_bins"], b["score_bins"]]), return_inverse=True)
        rows = np.zeros(bins.size, dtype=np.int64)
        np.add.at(rows, at, np.concatenate([a["score_rows"], b["score_rows"]]))
        return {"score_bins": bins, "score_rows": rows}

    def finish(
        self, options: Any, value: float | None, counts: dict[str, np.ndarray], sample: Sample
    ) -> tuple[Any, dict[str, Any]]:
        from dataclasses import replace

        from ikmap.tasks.score_histogram import quantile_bin, upper_edge

        bins, rows = counts["score_bins"], counts["score_rows"]
        edge = quantile_bin(bins, rows, options.alert_rate)
        threshold = upper_edge(edge, BITS)
        model = replace(self.scores(counts, sample), threshold=threshold, params={"alert_rate": options.alert_rate})
        share = float(rows[bins > edge].sum() / rows.sum())
        return model, {"threshold": threshold, "alert_rate_train": share}
