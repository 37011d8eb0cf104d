"""Online learning with kernels (NORMA): Figure 1, novelty detection on handwritten digits.

``experiments.toml`` says what its experiment is, ``digits`` computes it, ``forms`` says how it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikmap.arrays import Array
from pipeline.record_types import Record, RecordView
from pipeline.reproduce.paper import Experiment, Measure, Paper

if TYPE_CHECKING:
    from ikmap.rows import Rows
    from pipeline.reproduce.form import Form


class OnlineLearningWithKernels(Paper):
    """Regularised online learning in a space of functions."""

    name = "norma"
    short = "NORMA paper"
    title = "Online Learning with Kernels"
    source = "Jyrki Kivinen, Alex J. Smola, Robert C. Williamson (NIPS 2001)"
    package = __package__
    measure = Measure(
        key="margin_errors", many="margin errors", what="training rows that were novel as they came", form=".0f"
    )
    learners = ("svm", "ogd")

    def form(self, experiment: Experiment) -> type[Form] | None:
        """Digits as pictures, and a table."""
        from ikmap_papers.norma.forms import FORMS

        return FORMS.get(experiment.label)

    def study(
        self,
        rows: Rows,
        target: Array,
        columns: Sequence[str] | None,  # noqa: ARG002
        options: RecordView,
        seed: int,  # noqa: ARG002
        part: int,  # noqa: ARG002
    ) -> Record:
        """One pass over the digits in the order of the file: nothing in it is drawn."""
        from ikmap_papers.norma.digits import novel_digits

        return novel_digits(rows, target, options)


PAPER = OnlineLearningWithKernels()
