"""The model of a finished run in Python, for rows in memory; ``flows.score`` does the same for files of any size."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ikmap.rows import Rows, as_rows, check_finite
from pipeline.errors import InputError
from pipeline.rows.prepared import load_scaling
from pipeline.runs.trained_model import TrainedModel, decisions, open_run


class RunModel:
    """The model of a finished run: what :func:`load_run` returns.

    Attributes
    ----------
    learner : str
        Name of the learner.
    task : LearningTask
        What it has learned.
    classes_ : ndarray
        The labels that it can predict, as they stood in the training data; empty where it predicts no classes.
    n_features_in_ : int
        Columns of the training data.
    feature_names_in_ : list of str or None
        Their names, where the training data had any.
    """

    def __init__(self, model: TrainedModel) -> None:
        self._model, self._preparation = model, model.preparation()
        self._scaling = load_scaling(model.store) if self._preparation.scale == "minmax" else None
        self.learner = model.learner
        self.task = model.task()
        self.classes_ = self.task.decode(np.arange(len(self.task.classes)))
        self.n_features_in_ = self._preparation.n_columns
        self.feature_names_in_ = self._preparation.column_names

    def predict(self, X: Any) -> np.ndarray:
        """The label of each row, the one that ``python -m flows.score`` predicts.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, n_features_in_)
            Values as they stand in a file, in the order of the training data's columns: what the run did with them
            (scaling, dividing) is done here too.

        Returns
        -------
        ndarray, shape (n,)
            Labels: of :attr:`classes_`, where it predicts classes.

        Raises
        ------
        ValueError
            X has other columns, or a value that is not finite.
        """
        return self.task.decode(self.task.predict(self._decide(X)))

    def decision_function(self, X: Any) -> np.ndarray:
        """The decision values from which :meth:`predict` takes the class.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, n_features_in_)
            As for :meth:`predict`.

        Returns
        -------
        ndarray of float64
            Of shape (n,) where there is one output: with two classes, positive for the second one. With more classes
            of shape (n, classes), the largest for the one predicted. No probabilities.

        Raises
        ------
        ValueError
            As :meth:`predict`.
        """
        found = self._decide(X)
        return found[:, 0] if found.shape[1] == 1 else found

    def _decide(self, X: Any) -> np.ndarray:
        """Decision values, shape (n, K)."""
        features = self._preparation.features(self._rows(X), self._scaling)
        found = np.empty((features.shape[0], self.task.outputs))
        for rows, values in decisions(self._model, features, self._preparation, "row {}".format, n_threads=None):
            found[rows] = values
        return found

    def _rows(self, X: Any) -> Rows:
        """X as the readers would have given it."""
        names = getattr(X, "columns", None)
        if names is not None and self.feature_names_in_ is not None and list(names) != self.feature_names_in_:
            wanted = ", ".join(self.feature_names_in_)
            raise ValueError(f"X: found the columns {', '.join(map(str, names))}, expected in this order {wanted}")
        rows = as_rows(X)
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise ValueError(f"X: found the shape {rows.shape}, expected (n, {self.n_features_in_})")
        check_finite(rows)
        return rows

    def __repr__(self) -> str:
        return f"RunModel({self._model.store.path}, learner={self.learner!r}, classes={len(self.classes_)})"


def load_run(path: str | os.PathLike[str], learner: str | None = None) -> RunModel:
    """Load the model of a finished run of ``flows.batch`` or ``flows.online``.

    Parameters
    ----------
    path : path
        Directory of the run.
    learner : str, optional
        Which of the run's learners; default: the first one.

    Raises
    ------
    InputError
        There is no run, it is unfinished or damaged, or it has no such learner.
    """
    try:
        return RunModel(open_run(os.fspath(path), learner))
    except InputError as error:
        # The line begins with the option of a command that nobody has typed here.
        raise InputError(str(error).removeprefix("--model ").removeprefix("--learner ")) from None
