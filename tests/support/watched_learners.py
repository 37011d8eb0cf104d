"""Learners that note which rows they are shown, beside what they do otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ikmap.methods import LEARNERS, Learner, StreamLearner
from tests.plugins import registered


class _WatchedState:
    """The state of a stream learner, which notes the rows that it learns from."""

    def __init__(self, state: Any, seen: list[Any]) -> None:
        self._state, self._seen = state, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def partial_fit(self, rows: Any, labels: Any, *weights: Any) -> Any:
        self._seen.append(rows)
        return self._state.partial_fit(rows, labels, *weights)


@contextmanager
def watched(learner: str, seen: list[Any]) -> Iterator[str]:
    """Register a learner that does what another one does, and appends the rows it is shown; yield its name."""
    base: Any = LEARNERS[learner]

    class Streamed(base):
        about = replace(base.about, name=f"watched-{learner}")

        def start(self, sample: Any, *more: Any) -> Any:
            seen.append(sample.take(np.arange(sample.n_rows)))
            return _WatchedState(super().start(sample, *more), seen)

    class Whole(base):
        about = replace(base.about, name=f"watched-{learner}")

        def fit(self, training: Any) -> Any:
            seen.append(training.block.rows)
            return super().fit(training)

    kind: type[Learner] = Streamed if issubclass(base, StreamLearner) else Whole
    with registered(kind):
        yield kind.about.name
