"""The perceptron (Rosenblatt 1958) on cells: a row that is predicted wrong moves the weights of its cells."""

from __future__ import annotations

from typing import Any

from ikmap.methods import StreamLearner, option
from ikmap.methods.kinds import Real
from ikmap.methods.learners import OnlineOptions


class Options(OnlineOptions):
    """eta, as all online learners have it, and what is asked of a row that is right."""

    margin: float = option(1.0, Real(0), group="Learning", help="perceptron learns from rows with a margin below it")


class _Perceptron(StreamLearner):
    Options = Options

    def start(self, options: Any, value: float | None, sample: Any, n_threads: int = 1) -> Any:
        from ikmap_simhash.state import State  # here, as it imports NumPy: --help loads this file

        return State.of_zeros(int(sample.offsets[-1]), sample.n_classes, options.eta, options.margin)


PERCEPTRON = _Perceptron(name="perceptron", title="perceptron on cells", on="cells")
