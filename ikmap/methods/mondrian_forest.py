"""The Mondrian forest: each tree predicts by the rows of a cell alone, and the forest the mean of the trees."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.learner import CountsLearner
from ikmap.methods.sample import Sample
from ikmap.methods.squared import ALPHA_SCHEMA, SquaredErrors

if TYPE_CHECKING:
    from ikmap.json_values import Json
    from ikmap.learners.linear_model import LinearModel
    from ikmap.learners.rows import Block
    from ikmap.methods.learner import Counts, Summary

BLOCK_BYTES = 1 << 22
"""Columns of so many bytes are counted at a time."""


class MondrianForest(CountsLearner, SquaredErrors):
    """Means of the targets in each cell, shrunk to the mean of all as if ``1 / (2 C)`` more rows had that one.

    The trees are those of the map, which is best a Mondrian one; the cells of any other do as well. A tree predicts the
    mean of all targets of a row that has no cell in it.
    """

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="mondrian-forest",
        title="Mondrian forest: mean of the means of cells",
        tasks=frozenset({"regression"}),
        usual_map="mondrian",
        metrics_schema=ALPHA_SCHEMA,
    )

    def takes_weights(self, task: str) -> bool:
        return True

    def count(self, block: Block, sample: Sample) -> Counts:
        import numpy as np

        from ikmap.cells import Cells
        from ikmap.learners.sweeps.forest import add_rows
        from ikmap.rows import row_blocks

        cells, y, weight = block.rows, block.y, block.sample_weight
        assert isinstance(cells, Cells)
        rows, sums = np.zeros(cells.n_columns), np.zeros(cells.n_columns)
        for some in row_blocks(cells.n_rows, 16.0 * cells.n_partitions, BLOCK_BYTES):
            add_rows(cells[some].columns(), y[some], rows, sums, None if weight is None else weight[some])
        each = np.ones(y.size) if weight is None else weight
        return {"rows": rows, "sums": sums, "all": np.array([each.sum(), (each * y).sum()])}

    def finish(self, counts: Counts, sample: Sample) -> tuple[LinearModel, Summary]:
        from ikmap.learners.linear_model import LinearModel
        from ikmap.learners.sweeps.forest import weights_of_sums

        assert sample.offsets is not None
        t = sample.offsets.size - 1
        mean = counts["all"][1:] / counts["all"][0]
        sums = counts["sums"] - mean * counts["rows"]
        coef = weights_of_sums(counts["rows"], sums, self.alpha, t)
        params: dict[str, Json] = {"alpha": self.alpha}
        return LinearModel(coef[:, None], mean, math.sqrt(t), self.about.name, [], params), {"alpha": self.alpha}
