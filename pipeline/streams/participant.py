"""A learner on a stream: what every task of it is told."""

from __future__ import annotations

from dataclasses import dataclass

from ikmap.methods.search import Value
from pipeline.storage.fitted import Fitted


@dataclass(frozen=True)
class Participant:
    """One learner on the stream: small enough to travel with every task.

    Attributes
    ----------
    learner : str
    fitted : Fitted or None
        Partitionings of the initial rows, for a learner on cells.
    value : number, tuple of numbers or None
        What was chosen or given for a learner on rows.
    predictions, checkpoint : str
        Its files.
    run : str
        Which run it is in.
    alerts : bool
        Whether records say which rows it alerts of (:mod:`pipeline.streams.alerts`).
    drift : tuple of str and float or None, or None
        What watches its losses (:mod:`ikmap.drift`), and its delta.
    redraw_rows : int or None
        After an alarm half of its partitionings are drawn anew, from so many rows (:mod:`pipeline.streams.redraw`).
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
    def shared(self) -> Fitted | None:
        """Partitionings whose cells are made once for all learners on them; None where it is given rows."""
        return self.fitted if self.redraw_rows is None else None
