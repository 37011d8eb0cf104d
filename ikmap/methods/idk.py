"""The isolation distributional kernel, which scores a row by the number of training rows in its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Gt

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc
from ikmap.methods.learner import StreamLearner
from ikmap.methods.novelty_on_cells import METRICS_SCHEMA, MODELS, NoveltyLearner
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from ikmap.cells import Cells
    from ikmap.learners.novelty.cell_scores import CellMasses, CellScores
    from ikmap.learners.novelty.fading import FadingMasses
    from ikmap.learners.rows import Block
    from ikmap.methods.learner import Counts

ALERTS = "Share of alerts among the last 1000 rows or so, and that asked for"


class IDK(NoveltyLearner, StreamLearner):
    """The isolation distributional kernel, counted over the rows of a batch run or learned from a stream."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="idk",
        title="isolation distributional kernel",
        tasks=frozenset({"novelty"}),
        usual_map="inne",
        models=MODELS,
        loop_words=frozenset({"cell-masses", "fading-masses"}),
        metrics_schema=METRICS_SCHEMA,
    )
    psi: ClassVar[int] = 32
    rows_per_cell: ClassVar[int] = 4
    grows: ClassVar[bool] = True
    carries: ClassVar[bool] = True
    traced: ClassVar[Mapping[str, str]] = {
        "alert_rate": ALERTS,
        "asked": ALERTS,
        "similarity": "Similarity below which a row is novel",
    }
    requested_alerts: ClassVar[str] = "asked"
    half_life: Annotated[
        float | Literal["none"],
        Gt(0),
        Doc("rows of a stream after which a row counts half in idk; none: all count alike, as in a batch run"),
    ] = "none"

    def count(self, block: Block, sample: Sample) -> Counts:
        import numpy as np

        from ikmap.cells import Cells
        from ikmap.learners.novelty.masses import add_rows

        assert sample.offsets is not None
        assert isinstance(block.rows, Cells)
        masses = np.zeros(int(sample.offsets[-1]))
        add_rows(block.rows, masses)
        return {"masses": masses}

    def scores(self, counts: Counts, sample: Sample) -> CellMasses:
        from ikmap.learners.novelty.cell_scores import CellMasses

        assert sample.offsets is not None
        t = sample.offsets.size - 1
        return CellMasses(counts["masses"], float(t * sample.n_rows), 1.0, self.about.name)

    def own_scores(self, model: CellScores, rows: Cells, sample: Sample) -> NDArray[np.float64]:
        """Return scores by the other rows only, since the counts do not contain a new row either."""
        import numpy as np

        own: int | NDArray[np.int64] = rows.n_partitions
        if not rows.complete:
            own = own - np.count_nonzero(rows.missing, axis=1)
        others = model.mean(rows) * model.divisor - own
        scores: NDArray[np.float64] = 1.0 - others / (rows.n_partitions * max(1, sample.n_rows - 1))
        return scores

    def start(self, sample: Sample, n_threads: int = 1) -> FadingMasses:
        from ikmap.learners.novelty.fading import FadingMasses

        assert sample.offsets is not None
        half_life = None if self.half_life == "none" else self.half_life
        return FadingMasses.start(sample.offsets, self.alert_rate, half_life, self.about.name)
