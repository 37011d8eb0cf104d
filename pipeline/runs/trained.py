"""The model of a finished run in Python, for rows in memory; ``flows.score`` does the same for files of any size."""

from __future__ import annotations

import os

import numpy as np

from ikmap.arrays import Matrix
from ikmap.rows import Rows, as_rows, check_finite
from ikmap.tables.frames import Frame, is_frame, table_by_name, table_of_columns
from ikmap.tables.raw import Levels
from pipeline.errors import Damaged, InputError
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
        Their names, where the training data had any: columns of the table, before they were encoded.
    """

    def __init__(self, model: TrainedModel) -> None:
        self._model, self._preparation = model, model.preparation()
        self.learner = model.learner
        self.task = model.task()
        self.classes_ = self.task.decode(np.arange(len(self.task.classes)))
        self._columns = model.columns()
        self.n_features_in_ = self._preparation.n_columns if self._columns is None else len(self._columns)
        self.feature_names_in_ = None if self._columns is None else [column.name for column in self._columns]

    def predict(self, X: Matrix | Frame) -> np.ndarray:
        """The label of each row, the one that ``python -m flows.score`` predicts.

        Parameters
        ----------
        X : DataFrame, Arrow table, array-like or sparse matrix, shape (n, n_features_in_)
            Values as they stand in a file: what the run did with them (encoding, scaling, dividing) is done here too.
            A table with names may have its columns in any order, and others beside them; without names they stand in
            the order of the training data's.

        Returns
        -------
        ndarray, shape (n,)
            Labels: of :attr:`classes_`, where it predicts classes.

        Raises
        ------
        ValueError
            X lacks a column, or has a value that the training data could not have had.
        """
        return self.task.decode(self.task.predict(self._decide(X)))

    def decision_function(self, X: Matrix | Frame) -> np.ndarray:
        """The decision values from which :meth:`predict` takes the class.

        Parameters
        ----------
        X : DataFrame, Arrow table, array-like or sparse matrix, shape (n, n_features_in_)
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

    def predict_proba(self, X: Matrix | Frame) -> np.ndarray:
        """Probability of each class, in the order of :attr:`classes_`.

        Parameters
        ----------
        X : DataFrame, Arrow table, array-like or sparse matrix, shape (n, n_features_in_)
            As for :meth:`predict`.

        Returns
        -------
        ndarray of float64, shape (n, classes)

        Raises
        ------
        AttributeError
            The run's decisions are no probabilities: it predicts no classes, or ran without ``--calibration``.
        ValueError
            As :meth:`predict`.
        """
        found = self.task.probabilities(self._decide(X))
        if found is None:
            raise AttributeError(
                f"learner {self.learner} of this run has no probabilities; run flows.batch with --calibration platt or "
                "isotonic, or --learner logistic"
            )
        return found

    def _decide(self, X: Matrix | Frame) -> np.ndarray:
        """Decision values, shape (n, K)."""
        rows, levels = self._rows(X)
        try:
            features = self._model.features(rows, levels, "row {}".format)
        except Damaged:
            raise
        except InputError as error:
            raise ValueError(str(error)) from None
        found = np.empty((features.shape[0], self.task.outputs))
        for rows, values in decisions(self._model, features, self._preparation, "row {}".format, n_threads=None):
            found[rows] = values
        return found

    def get_feature_names_out(self) -> np.ndarray:
        """Names of the features that the columns became: what maps and learners were given."""
        names = self._preparation.column_names or [str(j) for j in range(self._preparation.n_columns)]
        return np.array(names, dtype=object)

    def _rows(self, X: Matrix | Frame) -> tuple[Rows, Levels | None]:
        """X as the readers would have given it: values, and the words of its columns."""
        named = is_frame(X) and self._columns is not None
        if named or self._preparation.encoded:
            columns = self._columns or []
            names, kinds = [column.name for column in columns], [column.kind for column in columns]
            if named:
                table = table_by_name(X, names, kinds, {"", *self._model.table.missing})
            else:
                array = np.asarray(X)
                if array.ndim != 2 or array.shape[1] != len(names):
                    raise ValueError(f"X: found the shape {array.shape}, expected (n, {len(names)})")
                table = table_of_columns(list(array.T), names, list(kinds))[0]
            plain = all(words is None for words in table.levels) and not np.isnan(table.values).any()
            return table.values, None if plain else table.levels
        there = getattr(X, "columns", None)
        if there is not None and self.feature_names_in_ is not None and list(there) != self.feature_names_in_:
            wanted = ", ".join(self.feature_names_in_)  # it has names, but no columns by name
            raise ValueError(f"X: found the columns {', '.join(map(str, there))}, expected in this order {wanted}")
        rows = as_rows(X)
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise ValueError(f"X: found the shape {rows.shape}, expected (n, {self.n_features_in_})")
        check_finite(rows)
        return rows, None

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
    return RunModel(_opened(path, learner))


def load_predictions(path: str | os.PathLike[str], learner: str | None = None) -> np.ndarray:
    """Load what a learner of a finished run of ``flows.online`` predicted of each row, before it learned from it.

    Parameters
    ----------
    path : path
        Directory of the run.
    learner : str, optional
        Which of the run's learners; default: the first one.

    Returns
    -------
    ndarray
        Labels, as they stood in the data, in the order of the stream.

    Raises
    ------
    InputError
        There is no run, it is unfinished or damaged, it has no such learner, or it was not on a stream.
    """
    model = _opened(path, learner)
    return model.task().decode(model.predictions())


def _opened(path: str | os.PathLike[str], learner: str | None) -> TrainedModel:
    """Find the model of a run."""
    try:
        return open_run(os.fspath(path), learner)
    except Damaged:
        raise
    except InputError as error:
        # The line begins with the option of a command that nobody has typed here.
        raise InputError(str(error).removeprefix("--model ").removeprefix("--learner ")) from None
