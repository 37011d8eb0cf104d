"""Runners: each trains one kind of learners, by tasks on the cluster, and says how much memory they need.

:mod:`pipeline.training.train` has an object for each kind of learners.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from ikmap.methods import Learner
from ikmap.methods.search import Value
from pipeline.record_types import Record, RecordView
from pipeline.rows.block_sizes import STREAM_BYTES
from pipeline.rows.prepared import PreparedRows
from pipeline.running.stage import Context, Stage
from pipeline.storage.fitted import Fitted


@dataclass(frozen=True)
class TrainingJob:
    """One learner of a run, and what it is to be trained on.

    Attributes
    ----------
    context : Context
    learner : str
    fitted : Fitted or None
        Of the cells; None for a learner on rows.
    value : number, tuple of numbers or None
        What was chosen or given for a learner on rows: psi, gamma or lambda.
    n_threads : int
        For those whose only task may use them.
    """

    context: Context
    learner: str
    fitted: Fitted | None
    value: Value | None = None
    n_threads: int = 1

    @property
    def rows(self) -> PreparedRows:
        """The training rows."""
        return PreparedRows(self.context.store, "train")

    @property
    def chosen(self) -> Record:
        """The value chosen for the map or the learner, such as psi; the result begins with it."""
        if self.fitted is not None:
            return self.fitted.as_result()
        return {"parameter": self.context.params.parameter(self.learner) or None, "value": self.value}

    def stage(self, n_tasks: int | None) -> Stage:
        """The stage that trains it, in so many tasks; None: as many as it turns out."""
        return Stage(self.context, f"train:{self.learner}", n_tasks, self.rows.n_rows)


@dataclass(frozen=True)
class CellSizes:
    """Sizes of what a learner on cells is trained on.

    Attributes
    ----------
    rows : int
    outputs : int
        Columns of decisions.
    cells_bytes, weights_bytes : int
        Of all cells, packed, and of a weight for every cell and output.
    """

    rows: int
    outputs: int
    cells_bytes: int
    weights_bytes: int


class Runner[L: Learner]:
    """Base of all runners.

    Attributes
    ----------
    told : mapping of str to mapping
        What it adds to ``learners.NAME`` in ``metrics.json``, beside what the learner has to say of itself: the JSON
        Schema of each field.
    """

    told: ClassVar[RecordView] = MappingProxyType({})

    def train(self, lesson: TrainingJob) -> Record:
        """Train; return the content hash of the stored model, what was chosen, and the learner's facts."""
        raise NotImplementedError

    def fills_cluster(self, learner: L, cells_bytes: int) -> bool:
        """Whether its tasks go to every worker in rounds, so that another learner's would keep them all waiting."""
        return False

    def needs(self, learner: L, sizes: CellSizes) -> tuple[float, str]:
        """Memory that training on cells takes in a worker, and how the cells are held, in words; empty: block by block.

        What the learner takes for itself (:meth:`~ikmap.methods.Learner.memory`) is not in it.
        """
        # A block that is learned from, and the next one.
        return 2.0 * min(sizes.cells_bytes, STREAM_BYTES) + 3 * sizes.weights_bytes, ""

    def least(self, learner: L) -> dict[str, Any]:
        """Options to set in place of those given so that training takes the least memory that it may."""
        return {}
