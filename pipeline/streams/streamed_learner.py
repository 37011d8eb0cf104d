"""A learner of a run on a stream, as every task of it is given it."""

from __future__ import annotations

from dataclasses import dataclass

from ikmap.methods.values import Value
from pipeline.storage.fitted import Fitted
from pipeline.streams.checkpoints import Place


@dataclass(frozen=True)
class StreamedLearner:
    """A learner on the stream, and what takes part beside it: small enough to travel with every task.

    Attributes
    ----------
    learner : str
        Its name.
    fitted : Fitted or None
        Partitionings of the initial rows, for a learner on cells.
    value : number, tuple of numbers or None
        Value that was chosen or given for a learner on rows.
    predictions, checkpoint : str
        Paths of its files.
    run : str
        Id of the run.
    alerts : bool
        Whether records list the rows of which it alerts (:class:`~pipeline.streams.alerts.AlertedRows`).
    drift : tuple of str and float or None, or None
        Name of the detector that watches its losses (:class:`~pipeline.streams.drift.DriftWatch`), and its delta.
    redraw_rows : int or None
        Number of rows from which half of its partitionings are drawn anew after an alarm
        (:class:`~pipeline.streams.redraw.RedrawnCells`); None: never.
    """

    learner: str
    fitted: Fitted | None
    value: Value | None
    predictions: str
    checkpoint: str
    run: str = ""
    alerts: bool = False
    drift: tuple[str, float | None] | None = None
    redraw_rows: int | None = None

    @property
    def place(self) -> Place:
        """Place of its state between two tasks."""
        return Place(self.run, self.checkpoint)

    @property
    def shared(self) -> Fitted | None:
        """Partitionings whose cells are made once for all learners on them; None if the learner is given rows."""
        return self.fitted if self.redraw_rows is None else None
