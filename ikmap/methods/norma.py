"""NORMA on cells: regularised online classification, regression and novelty detection with the isolation kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.norma_options import METRICS_SCHEMA, NormaLearner, target_unit
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from ikmap.learners.online.norma import NormaState

PSI, ROWS_PER_CELL = 32, 4
"""Cells of a partitioning for novelty if ``psi`` is not given, and least number of rows for each cell."""


class Norma(NormaLearner):
    """Regularised online learning on cells."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="norma",
        title="regularised online learning on cells (NORMA)",
        tasks=frozenset({"classification", "novelty", "regression"}),
        metrics_schema=METRICS_SCHEMA,
    )
    grows: ClassVar[bool] = True
    carries: ClassVar[bool] = True

    def unsearched_psi(self, n_rows: int) -> int | None:
        return max(1, min(PSI, n_rows // ROWS_PER_CELL)) if self.loss == "novelty" else None

    def start(self, sample: Sample, n_threads: int = 1) -> NormaState:
        from ikmap.learners.online.norma import NormaState

        assert sample.offsets is not None
        assert sample.task is not None
        self.check_task(sample.task.name)
        rule = self.rule(self.loss_for(sample.task.name), sample.n_rows)
        t, unit = float(sample.offsets.size - 1), target_unit(rule, sample)
        return NormaState.start(
            rule, int(sample.offsets[-1]), t, sample.n_classes or 2, learner=self.about.name, **unit
        )
