"""A learner that can be made cautious: gradient steps on cells of size C, which cross-validation may choose."""

from __future__ import annotations

from typing import Annotated, ClassVar

from annotated_types import Gt

from ikmap.methods import Doc, LearnerAbout, Sample, Searched
from ikmap.methods.learner import State
from ikmap.methods.ogd import OGD


class Cautious(OGD):
    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="cautious", title="gradient descent of steps C", on="cells", tasks=frozenset({"classification"})
    )
    C: Annotated[float, Gt(0), Doc("size of steps"), Searched()] = 1.0

    def start(self, sample: Sample, n_threads: int = 1) -> State:
        return super().at({"eta": self.C}).start(sample, n_threads) if self.eta != self.C else super().start(sample)
