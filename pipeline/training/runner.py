"""Runners: each trains one kind of learners, by tasks on the cluster, and knows how much memory they need.

:mod:`pipeline.training.train` has an object for each kind of learners.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, cast

from ikmap.json_values import Json, JsonObject
from ikmap.methods import Learner, RoundsLearner, capability
from ikmap.methods.values import Value
from pipeline.record_types import TrainResult
from pipeline.rows.block_sizes import STREAM_BYTES, packed_bytes
from pipeline.rows.prepared import PreparedRows
from pipeline.running.stage import Context, Stage
from pipeline.storage.fitted import Fitted


@dataclass(frozen=True)
class TrainingJob:
    """The training of one learner of a run.

    Attributes
    ----------
    context : Context
    learner : str
    fitted : Fitted or None
        Map of the cells; None for a learner on rows.
    value : number, tuple of numbers or None
        Value that was chosen or given for a learner on rows: psi, gamma or lambda.
    n_threads : int
        Number of threads of a learner that is trained in one task.
    """

    context: Context
    learner: str
    fitted: Fitted | None
    value: Value | None = None
    n_threads: int = 1

    @property
    def rows(self) -> PreparedRows:
        """Training rows of the run."""
        return PreparedRows(self.context.store, "train")

    @property
    def cells_bytes(self) -> int:
        """Bytes of the cells of all training rows, packed; 0 for a learner on rows."""
        if self.fitted is None:
            return 0
        return packed_bytes(self.rows.n_rows, self.fitted.t, self.fitted.most_cells)

    @property
    def held_bytes(self) -> int:
        """Bytes of all training rows as a learner holds them: of the packed cells, or of what it makes of rows."""
        if self.fitted is not None:
            return self.cells_bytes
        in_rounds = capability(self.context.params.of(self.learner), RoundsLearner)
        if in_rounds is None:
            return 0
        rows, about = self.rows, self.rows.preparation
        return rows.n_rows * in_rounds.row_bytes(about.n_columns, about.task.decisions.outputs)

    @property
    def chosen(self) -> JsonObject:
        """Value chosen for the map or the learner, such as psi; the result begins with it."""
        if self.fitted is not None:
            return self.fitted.as_result()
        return {"parameter": self.context.params.parameter(self.learner) or None, "value": self.value}

    def stage(self, n_tasks: int | None) -> Stage:
        """Begin the stage that trains the learner, in `n_tasks` tasks, or None if their number is not known."""
        return Stage(self.context, f"train:{self.learner}", n_tasks, self.rows.n_rows)

    def result(self, content_hash: str, summary: Mapping[str, Json]) -> TrainResult:
        """Return the result of the stage: the chosen value, the stored model, and the learner's summary."""
        return cast("TrainResult", {**self.chosen, "content_hash": content_hash, **summary})


@dataclass(frozen=True)
class CellSizes:
    """Sizes of the training rows of a learner on cells.

    Attributes
    ----------
    rows : int
    outputs : int
        Number of columns of decisions.
    cells_bytes, weights_bytes : int
        Bytes of all cells, packed, and of a weight for every cell and output.
    """

    rows: int
    outputs: int
    cells_bytes: int
    weights_bytes: int


class Runner:
    """Base of all runners.

    Attributes
    ----------
    metrics_schema : mapping of str to mapping
        JSON Schema of each field that the runner adds to ``learners.NAME`` in ``metrics.json``, beside those of the
        learner.
    """

    metrics_schema: ClassVar[Mapping[str, JsonObject]] = MappingProxyType({})

    def train(self, job: TrainingJob) -> TrainResult:
        """Train; return the content hash of the stored model, the chosen value, and the learner's summary."""
        raise NotImplementedError

    def fills_cluster(self, learner: Learner, held_bytes: int) -> bool:
        """Return whether tasks go to every worker in rounds, so that another learner's tasks would delay them all."""
        return False

    def needs(self, learner: Learner, sizes: CellSizes) -> tuple[float, str]:
        """Return the memory of a worker that trains on cells, and in words how cells are held; empty: block by block.

        The memory of the learner itself (:meth:`~ikmap.methods.Learner.memory`) is not included.
        """
        # The block that is learned from, and the next one.
        return 2.0 * min(sizes.cells_bytes, STREAM_BYTES) + 3 * sizes.weights_bytes, ""

    def least(self, learner: Learner) -> JsonObject:
        """Return the options with which training takes the least memory, in place of those given."""
        return {}
