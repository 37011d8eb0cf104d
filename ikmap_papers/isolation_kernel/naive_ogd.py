"""Online gradient descent on cells by products of all features, the IK-OGD(naive) of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.ogd import OnCells
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from ikmap_papers.isolation_kernel.naive_ogd_state import NaiveOGDState


class NaiveOGD(OnCells):
    """Online gradient descent on cells by products of all t psi features, as a check."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="ogd-naive",
        title="the same by products with all of t psi (IK-OGD, naive)",
        equivalent_to="ogd",
        loops=("ikmap_papers.isolation_kernel._naive_ogd_loops",),
    )
    grows: ClassVar[bool] = True

    def start(self, sample: Sample, n_threads: int = 1) -> NaiveOGDState:  # noqa: ARG002
        from ikmap_papers.isolation_kernel.naive_ogd_state import NaiveOGDState

        assert sample.offsets is not None
        return NaiveOGDState.start(
            int(sample.offsets[-1]),
            sample.n_classes,
            eta=self.eta,
            divisor=self.divisor(sample),
            constant=not sample.reaches_all,
        )
