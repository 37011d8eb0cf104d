"""The score of the isolation forest, by which rows that few cuts isolate are novel."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.novelty_on_cells import METRICS_SCHEMA, MODELS, NoveltyLearner
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from ikmap.learners.novelty.cell_scores import CellDepths
    from ikmap.learners.rows import Block
    from ikmap.methods.learner import Counts


class IForestScore(NoveltyLearner):
    """The score of the isolation forest, by the depths of the cells of a row."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="iforest-score",
        title="score of the isolation forest",
        tasks=frozenset({"novelty"}),
        models=MODELS,
        needs_tables=("depth",),
        metrics_schema=METRICS_SCHEMA,
    )
    psi: ClassVar[int] = 256

    def count(self, block: Block, sample: Sample) -> Counts:
        import numpy as np

        return {"rows": np.array([block.y.size])}

    def scores(self, counts: Counts, sample: Sample) -> CellDepths:
        from ikmap.learners.novelty.cell_scores import CellDepths
        from ikmap.learners.novelty.depths import average_path_length

        assert sample.offsets is not None
        t = sample.offsets.size - 1
        psi = sample.tables["points"].sum() / t
        return CellDepths(sample.tables["depth"], float(t * average_path_length(psi)) or 1.0, 1.0, self.about.name)
