"""The Mondrian forest, the mean of trees that predict by the training rows of a cell alone."""

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
"""Bytes of the columns that are counted at a time."""


class MondrianForest(CountsLearner, SquaredErrors):
    """Means of the targets in each cell, shrunk to the mean of all targets as if it had ``1 / (2 C)`` rows more.

    The trees are those of the map, usually ``mondrian``; the cells of any other map will do. For a row without a cell,
    a tree predicts the mean of all targets.
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
        for part in row_blocks(cells.n_rows, 16.0 * cells.n_partitions, BLOCK_BYTES):
            add_rows(cells[part].columns(), y[part], rows, sums, None if weight is None else weight[part])
        row_weight = np.ones(y.size) if weight is None else weight
        return {"rows": rows, "sums": sums, "all": np.array([row_weight.sum(), (row_weight * y).sum()])}

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
