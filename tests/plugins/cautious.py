"""A learner that can be made cautious: gradient steps on cells of size C, which cross-validation may choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt

from ikmap.methods import Doc, LearnerAbout, Sample, Searched
from ikmap.methods.ogd import OGD

if TYPE_CHECKING:
    from ikmap.learners.online.averaged_ogd import AveragedOGDState
    from ikmap.learners.online.ogd import OGDState
    from ikmap.learners.online.squared_ogd import SquaredOGDState


class Cautious(OGD):
    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="cautious", title="gradient descent of steps C", on="cells", tasks=frozenset({"classification"})
    )
    C: Annotated[float, Gt(0), Doc("size of steps"), Searched()] = 1.0

    def start(self, sample: Sample, n_threads: int = 1) -> OGDState | SquaredOGDState | AveragedOGDState:
        return OGD(eta=self.C).start(sample, n_threads)
