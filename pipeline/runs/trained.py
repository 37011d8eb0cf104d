"""The model of a finished run in Python, for rows in memory; ``flows.score`` does the same for files of any size."""

from __future__ import annotations

import os

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Matrix
from ikmap.rows import Rows, as_dense, as_rows, check_finite
from ikmap.tables.column_plan import DROP
from ikmap.tables.frames import Frame, is_frame, table_by_name, table_of_columns
from ikmap.tables.raw import Levels
from pipeline.errors import Damaged, InputError
from pipeline.runs.trained_model import TrainedModel, decisions, open_run


class RunModel:
    """The model of a finished run, as :func:`load_run` returns it.

    Attributes
    ----------
    learner : str
        Name of the learner.
    task : Task
        Task that it has learned.
    classes_ : ndarray
        Labels that it can predict, as they stood in the training data; empty if it predicts no classes.
    n_features_in_ : int
        Number of columns of the training data.
    feature_names_in_ : list of str or None
        Names of the columns of the table, before they were encoded; None if the training data had no names.
    """

    def __init__(self, model: TrainedModel) -> None:
        self._model, self._preparation = model, model.preparation()
        self.learner = model.learner
        self.task = model.task()
        self.classes_ = self.task.codec.decode(np.arange(len(self.task.codec.classes)))
        self._columns = model.columns()
        self.n_features_in_ = self._preparation.n_columns if self._columns is None else len(self._columns)
        self.feature_names_in_ = None if self._columns is None else [column.name for column in self._columns]

    def predict(self, X: Matrix | Frame) -> np.ndarray:
        """Predict the label of each row, as ``python -m flows.score`` does.

        Parameters
        ----------
        X : DataFrame, Arrow table, array-like or sparse matrix, shape (n, n_features_in_)
            Values as they stand in a file: they are encoded, scaled and divided as in the run. A table with names may
            have its columns in any order, further columns, and lack those that the model left out; without names they
            stand in the order of the training data.

        Returns
        -------
        ndarray, shape (n,)
            Labels, from :attr:`classes_` if it predicts classes.

        Raises
        ------
        ValueError
            X lacks a column, or has a value that the training data could not have had.
        """
        return self.task.codec.decode(self.task.decisions.predict(self._decide(X)))

    def decision_function(self, X: Matrix | Frame) -> np.ndarray:
        """Return the decision values from which :meth:`predict` takes the class.

        Parameters
        ----------
        X : DataFrame, Arrow table, array-like or sparse matrix, shape (n, n_features_in_)
            As for :meth:`predict`.

        Returns
        -------
        ndarray of float64
            Of shape (n,) if there is one output: with two classes, positive for the second one. With more classes of
            shape (n, classes), the largest for the predicted class. They are no probabilities.

        Raises
        ------
        ValueError
            As :meth:`predict`.
        """
        decisions_of_rows = self._decide(X)
        return decisions_of_rows[:, 0] if decisions_of_rows.shape[1] == 1 else decisions_of_rows

    def predict_proba(self, X: Matrix | Frame) -> np.ndarray:
        """Return the probability of each class, in the order of :attr:`classes_`.

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
        probabilities = self.task.decisions.probabilities(self._decide(X))
        if probabilities is None:
            raise AttributeError(
                f"learner {self.learner} of this run has no probabilities; run flows.batch with --calibration platt or "
                "isotonic, with --learner logistic or boosting, or without a --learner"
            )
        return probabilities

    def _decide(self, X: Matrix | Frame) -> np.ndarray:
        """Return the decision values, shape (n, K)."""
        rows, levels = self._rows(X)
        try:
            features = self._model.features(rows, levels, "row {}".format)
        except Damaged:
            raise
        except InputError as error:
            raise ValueError(str(error)) from None
        values_of_rows = np.empty((features.shape[0], self.task.decisions.outputs))
        for rows, values in decisions(self._model, features, self._preparation, "row {}".format, n_threads=None):
            values_of_rows[rows] = values
        return values_of_rows

    def get_feature_names_out(self) -> np.ndarray:
        """Return the names of the features that the columns became, which maps and learners were given."""
        names = self._preparation.column_names or [str(j) for j in range(self._preparation.n_columns)]
        return np.array(names, dtype=object)

    def _rows(self, X: Matrix | Frame) -> tuple[Rows, Levels | None]:
        """Return X as the readers would have read it: values, and the words of its columns."""
        named = is_frame(X) and self._columns is not None
        if named or self._preparation.encoded:
            columns = self._columns or []
            names = [column.name for column in columns]
            kinds = [DROP if column.encoding == DROP else column.kind for column in columns]
            request = self._model.table
            missing, numbers = request.missing_cells, request.missing_numbers
            if named:
                table = table_by_name(X, names, kinds, missing, numbers)
            else:
                given = as_dense(as_rows(X)) if sp.issparse(X) else X
                array = np.array(given, dtype=object) if isinstance(given, list | tuple) else np.asarray(given)
                if array.ndim != 2 or array.shape[1] != len(names):
                    raise ValueError(f"X: found the shape {array.shape}, expected (n, {len(names)})")
                table = table_of_columns(list(array.T), names, kinds, missing, numbers)[0]
            plain = all(words is None for words in table.levels) and not np.isnan(table.values).any()
            return table.values, None if plain else table.levels
        names_of_X = getattr(X, "columns", None)
        if names_of_X is not None and self.feature_names_in_ is not None and list(names_of_X) != self.feature_names_in_:
            wanted = ", ".join(self.feature_names_in_)  # it has names, but no columns by name
            raise ValueError(f"X: found the columns {', '.join(map(str, names_of_X))}, expected in this order {wanted}")
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
        Learner of the run; default: the first one.

    Raises
    ------
    InputError
        There is no run, it is unfinished or damaged, or it has no such learner.
    """
    return RunModel(_opened(path, learner))


def load_predictions(path: str | os.PathLike[str], learner: str | None = None) -> np.ndarray:
    """Load the predictions of a learner of a finished run of ``flows.online``, made before it learned from each row.

    Parameters
    ----------
    path : path
        Directory of the run.
    learner : str, optional
        Learner of the run; default: the first one.

    Returns
    -------
    ndarray
        Labels, as they stood in the data, in the order of the stream.

    Raises
    ------
    InputError
        There is no run, it is unfinished or damaged, it has no such learner, or it was not a run on a stream.
    """
    model = _opened(path, learner)
    return model.task().codec.decode(model.predictions())


def _opened(path: str | os.PathLike[str], learner: str | None) -> TrainedModel:
    """Find the model of a run."""
    try:
        return open_run(os.fspath(path), learner)
    except Damaged:
        raise
    except InputError as error:
        # The line begins with the option of a command, which was not typed here.
        raise InputError(str(error).removeprefix("--model ").removeprefix("--learner ")) from None
