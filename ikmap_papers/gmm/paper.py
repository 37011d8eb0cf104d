"""Tunable GMM kernels: Tables 1 to 3, Figures 1 to 7.

``experiments.toml`` says what its systems and experiments are, ``published.toml`` what was printed; ``best_on_test`` is
its protocol for kernels and ``hashed`` that for hashes, ``forms`` and ``hashed_form`` are how experiments are made and
shown, ``pictures`` draws its figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le

from ikmap.arrays import Array
from ikmap.methods.fields import Configured, Doc
from pipeline.record_types import Record, RecordView
from pipeline.reproduce.paper import Experiment, Measure, Paper

if TYPE_CHECKING:
    from ikmap.rows import Rows
    from pipeline.reproduce.form import Form


class Options(Configured):
    """Options for how much of the protocol of the paper is done."""

    repeats: Annotated[int, Ge(1), Le(100), Doc("seeded shuffles of each data set into halves for the GMM paper")] = 10


class TunableGMM(Paper):
    """Kernel SVMs with min-max kernels that have parameters."""

    name = "gmm"
    short = "tunable GMM kernels paper"
    title = "Several Tunable GMM Kernels"
    source = "Ping Li"
    package = __package__
    Options = Options
    measure = Measure(
        key="accuracy", many="accuracies", what="the best accuracy on test rows, in per cent", form=".2f", printed=".2f"
    )
    learners = ("svm", "ogd")

    def form(self, experiment: Experiment) -> type[Form] | None:
        """Return the form that shows an experiment as the paper does."""
        from ikmap_papers.gmm.forms import FORMS

        return FORMS.get(experiment.label)

    def study(
        self, rows: Rows, target: Array, columns: Sequence[str] | None, options: RecordView, seed: int, part: int
    ) -> Record:
        """The whole grid of one system on one shuffle into halves."""
        if "hashes" in options:
            from ikmap_papers.gmm.hashed import hashed_on_test

            return hashed_on_test(rows, target, columns, options, seed, part)
        if "features" in options:
            from ikmap_papers.gmm.linearised import linearised_on_test

            return linearised_on_test(rows, target, columns, options, seed, part)
        from ikmap_papers.gmm.best_on_test import best_on_test

        return best_on_test(rows, target, columns, options, seed, part)


PAPER = TunableGMM()
