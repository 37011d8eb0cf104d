"""The preparation of rows: values and labels as they were read become features and targets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp

from ikmap.json_values import JsonObject
from ikmap.rows import Rows, as_dense
from ikmap.tasks import Task, task_from
from pipeline.errors import InputError
from pipeline.record_types import RecordView


@dataclass(frozen=True)
class Preparation:
    """The preparation of rows for training, test and scoring: values and labels become features and targets.

    Attributes
    ----------
    n_columns : int
    column_names : list of str or None
    dense : bool
        Whether rows are handed out dense, else as CSR.
    task : Task
        Task with the labels as they turned out to be.
    divide : float
        Divisor of every value.
    scale : {"none", "minmax"}
    encoded : bool
        Whether the store has cells of a table, of which an encoder makes features (:mod:`pipeline.rows.encoding`).
    weighted : bool
        Whether the data has weights of rows.
    label : str or None
        Name of the label column, where columns have names; None also in older runs.
    label_last : bool
        Whether that column was behind the features, which were all others.
    """

    n_columns: int
    column_names: list[str] | None
    dense: bool
    task: Task
    divide: float = 1.0
    scale: str = "none"
    encoded: bool = False
    weighted: bool = False
    label: str | None = None
    label_last: bool = False

    def features(self, X: Rows, scaling: tuple[np.ndarray, np.ndarray] | None) -> Rows:
        """Turn values as they were read into features."""
        if not isinstance(X, np.ndarray) and X.shape[1] != self.n_columns:
            X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], self.n_columns))
        if self.divide != 1.0:
            if isinstance(X, np.ndarray):
                X = X / self.divide
            else:  # SciPy would multiply with the reciprocal, and give other bits than for dense rows
                X = sp.csr_array((X.data / self.divide, X.indices, X.indptr), shape=X.shape)
        if self.dense:
            X = as_dense(X)
        if scaling is not None:
            low, width = scaling
            X = np.clip((X - low) / width, 0.0, 1.0)
        return X

    def as_json(self) -> JsonObject:
        """Return the preparation as JSON values."""
        return {**asdict(self), "task": self.task.as_json()}

    @classmethod
    def from_json(cls, values: RecordView) -> Self:
        """Return the preparation that :meth:`as_json` has made into JSON values.

        Raises
        ------
        InputError
            Its task is not known here.
        """
        values = dict(values)
        if "classes" in values:  # of a run that was made before there were tasks
            values["task"] = {"labels": values.pop("classes"), "two_class": values.pop("two_class")}
        try:
            return cls(**{**values, "task": task_from(values["task"])})
        except ValueError as error:
            raise InputError(str(error)) from None
