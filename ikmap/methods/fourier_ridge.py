"""Ridge regression on random Fourier features (Rahimi and Recht), from sums that many workers add up."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fourier import MODELS, OnFourier
from ikmap.methods.learner import CountsLearner
from ikmap.methods.sample import Sample, Shape
from ikmap.methods.squared import ALPHA_SCHEMA, SquaredErrors

if TYPE_CHECKING:
    from ikmap.json_values import Json
    from ikmap.learners.mapped_model import MappedModel
    from ikmap.learners.rows import Block
    from ikmap.methods.learner import Counts, Summary

BLOCK_BYTES = 1 << 23
"""Bytes of the features that are made at a time."""


class FourierRidge(OnFourier, CountsLearner, SquaredErrors):
    """Ridge regression of targets less their mean on random Fourier features of a kernel, by its normal equations."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="fourier-ridge",
        title="ridge regression on random Fourier features",
        on="rows",
        tasks=frozenset({"regression"}),
        models=MODELS,
        metrics_schema=ALPHA_SCHEMA,
    )

    def takes_weights(self, task: str) -> bool:
        return True

    def count(self, block: Block, sample: Sample) -> Counts:
        import numpy as np

        from ikmap._threads import single_threaded_blas
        from ikmap.cells import Cells
        from ikmap.rows import row_blocks

        assert not isinstance(block.rows, Cells)
        features = self.fourier_map(sample.n_columns, sample.seed)
        d = features.n_features
        weight = np.ones(block.y.size) if block.sample_weight is None else block.sample_weight
        products, sums = np.zeros((d, d)), np.zeros((d, 2))
        with single_threaded_blas:  # the last bits of BLAS depend on the number of threads
            for part in row_blocks(block.y.size, 3 * 8.0 * d, BLOCK_BYTES):
                Z = features.transform(block.rows[part], 1)
                weighted = weight[part, None] * Z
                products += weighted.T @ Z
                sums += weighted.T @ np.column_stack([block.y[part], np.ones(len(Z))])
        return {"products": products, "sums": sums, "all": np.array([weight.sum(), weight @ block.y])}

    def finish(self, counts: Counts, sample: Sample) -> tuple[MappedModel, Summary]:
        import numpy as np
        import scipy.linalg as sl

        from ikmap._threads import single_threaded_blas
        from ikmap.learners.linear_model import LinearModel
        from ikmap.learners.mapped_model import MappedModel

        mean = counts["all"][1:] / counts["all"][0]
        matrix = counts["products"] + self.alpha * np.eye(len(counts["sums"]))
        with single_threaded_blas:
            coef = sl.solve(matrix, counts["sums"] @ np.array([[1.0], [-mean[0]]]), assume_a="pos")
        params: dict[str, Json] = {"alpha": self.alpha, "features": self.features, "orthogonal": self.orthogonal}
        linear = LinearModel(np.ascontiguousarray(coef), mean, 1.0, self.about.name, [], params)
        features = self.fourier_map(sample.n_columns, sample.seed)
        return MappedModel(features, linear), {"alpha": self.alpha}

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        # Two counts while they are merged, the matrix and its factor; the frequencies while they are drawn.
        return 8 * (4 * (2 * self.features) ** 2 + 3 * self.features * shape.d) + BLOCK_BYTES
