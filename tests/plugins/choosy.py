"""A learner whose decisions mean what the task says, but that learns from some of the rows only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ikmap.methods import DecidesOtherwise, LearnerAbout
from ikmap.methods.ogd import OGD
from ikmap.tasks import Task
from ikmap.tasks.capabilities import LearnsFromSome
from ikmap.tasks.classification.decisions import ClassDecisions


@dataclass(frozen=True)
class EveryThird(ClassDecisions, LearnsFromSome):
    """Decisions of a learner that learns from every row of the second class, and every third of the first."""

    def learned(self, targets: np.ndarray) -> np.ndarray:
        return (targets > 0) | (np.cumsum(targets == 0) % 3 == 1)


class Choosy(OGD, DecidesOtherwise):
    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="choosy", title="gradient descent on some of the rows", on="cells", tasks=frozenset({"classification"})
    )

    def decision_task(self, task: Task) -> Task:
        assert isinstance(task.decisions, ClassDecisions)
        return replace(task, decisions=EveryThird(task.decisions.labels, task.decisions.calibration))
