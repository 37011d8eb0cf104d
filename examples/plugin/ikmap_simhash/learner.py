"""The perceptron (Rosenblatt 1958) on cells: a row that is predicted wrong moves the weights of its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt

from ikmap.methods import Doc, LearnerAbout, Sample
from ikmap.methods.learner import GradientLearner

if TYPE_CHECKING:
    from ikmap_simhash.state import State


class Perceptron(GradientLearner):
    """The perceptron, with eta, as all learners by steps have it, and a margin."""

    about: ClassVar[LearnerAbout] = LearnerAbout(name="perceptron", title="perceptron on cells")

    margin: Annotated[float, Gt(0), Doc("perceptron learns from rows with a margin below it")] = 1.0

    def start(self, sample: Sample, n_threads: int = 1) -> State:
        from ikmap_simhash.state import State  # here, as it imports NumPy: --help loads this file

        assert sample.offsets is not None
        return State.of_zeros(int(sample.offsets[-1]), sample.n_classes, self.eta, self.margin)
