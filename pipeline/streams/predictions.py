"""Predictions of a learner for the rows of its stream, as it made them before it saw any of their labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ikmap.arrays import Floats
from pipeline.errors import Damaged
from pipeline.record_types import LearnRecord
from pipeline.storage.predictions import PredictionFile, promise_of_predictions


@dataclass(frozen=True)
class Predictions:
    """The files of a learner's predictions and, where labels come late, of the decisions behind them.

    Attributes
    ----------
    path : str
    dtype : str
        Type of predictions.
    outputs : int
        Number of decisions of a row.
    late : bool
        Whether decisions are kept until labels come.
    checkpoint : str
        Path of the learner's checkpoint, which is worth nothing without the predictions.
    """

    path: str
    dtype: str
    outputs: int
    late: bool
    checkpoint: str

    def write(self, first: int, n: int, predicted: np.ndarray, decision: Floats) -> None:
        """Write the predictions of the n rows from place `first` of the stream on to disk.

        Raises
        ------
        ValueError
            If there is not one prediction for each row.
        """
        if np.shape(predicted) != (n,):
            raise ValueError(f"predictions have shape {np.shape(predicted)}, expected ({n},)")
        self._predicted.write(first, predicted)
        if self.late:
            self._decided.write(first * self.outputs, decision.ravel())

    def read(self, first: int, n: int) -> np.ndarray:
        """Return the predictions of n rows.

        Raises
        ------
        Damaged
            Some rows have no prediction.
        """
        predicted = self._predicted.read(first, n)
        if predicted.size != n:
            raise Damaged(self.path, "some of it is missing", self.path, self.checkpoint)
        return predicted

    def decisions(self, first: int, n: int) -> Floats:
        """Return the decisions behind the predictions of n rows, shape (n, K); only where labels come late.

        Raises
        ------
        Damaged
            Some rows have none.
        """
        values = self._decided.read(first * self.outputs, n * self.outputs)
        if values.size != n * self.outputs:
            raise Damaged(self._decided.path, "some of it is missing", self._decided.path, self.checkpoint)
        decisions: Floats = values.reshape(n, self.outputs)
        return decisions

    def promises(self, first: int, n: int) -> LearnRecord:
        """Return the promises of the predictions of n rows, for the record of their chunk."""
        promises: LearnRecord = {"predicted": promise_of_predictions(self.path, self.dtype, first, n)}
        if self.late:
            of_decisions = first * self.outputs, n * self.outputs
            promises["decided"] = promise_of_predictions(self._decided.path, "float64", *of_decisions)
        return promises

    @property
    def _predicted(self) -> PredictionFile:
        return PredictionFile(self.path, self.dtype)

    @property
    def _decided(self) -> PredictionFile:
        return PredictionFile(f"{self.path}.decisions", "float64")
