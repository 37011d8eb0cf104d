"""scikit-learn estimators that choose a model by themselves: candidates are raced on folds, within a budget."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ikmap import seed_paths
from ikmap.arrays import Array, Floats
from ikmap.auto.candidates import candidates
from ikmap.auto.race import Choice, Race, sample_size
from ikmap.auto.trial import MinMax, fit_choice, folds_at_random, run_trial
from ikmap.estimators.base import Classifier, RandomState, Regressor, Table
from ikmap.estimators.kernels import RowsEstimator
from ikmap.estimators.parameters import POSITIVE, checked
from ikmap.estimators.probabilities import probabilities
from ikmap.json_values import Json, Label
from ikmap.learners.cells_model import CellsModel
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.rows import Block, Rows, n_columns
from ikmap.methods import Training
from ikmap.methods.capabilities import DoesNotFit
from ikmap.methods.fields import with_options
from ikmap.methods.kinds import Integer
from ikmap.rows import nbytes_of
from ikmap.seeds import generator


class AutoEstimator(RowsEstimator):
    """Base of estimators that choose a model by themselves.

    Attributes
    ----------
    model_ : CellsModel or LinearModel
    choice_ : Choice
        The model that was chosen, as options of the command line.
    leaderboard_ : list of dict
        What was tried: name, loss, standard error, folds, seconds of fitting, seconds of a row, and a note.
    """

    methods: ClassVar = ()

    model_: CellsModel | LinearModel
    choice_: Choice
    leaderboard_: list[dict[str, Json]]

    def __init__(
        self,
        budget: float | None = None,
        *,
        cv: int = 5,
        max_rows: int | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.budget = budget
        self.cv = cv
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _rows(self, X: Table, reset: bool, y: ArrayLike | None = None) -> Rows:
        rows = super()._rows(X, reset, y)
        if reset:
            self._scaling: MinMax | None = None
        return rows if self._scaling is None else self._scaling(rows)

    def _choose(self, rows: Rows, y: Array, sample_weight: Floats | None, labels: Array | None = None) -> None:
        """Race the candidates, and fit the model that was chosen."""
        n_folds = checked("cv", self.cv, Integer(2))
        if self.budget is not None:
            checked("budget", self.budget, POSITIVE)
        if self.max_rows is not None:
            checked("max_rows", self.max_rows, Integer(2))
        seed, n = self._draw_seed(), y.size
        if n < 2:
            raise ValueError(f"{type(self).__name__}: found n_samples = {n}, expected at least 2, for two folds")
        classes = [] if labels is None else labels.tolist()
        block = Block(rows, y, sample_weight)
        sample = np.arange(n)
        most = sample_size(n, nbytes_of(rows) / n) if self.max_rows is None else self.max_rows
        if n > most:
            random = generator(seed, seed_paths.CANDIDATE_ROWS)
            sample = np.sort(random.choice(n, most, replace=False, shuffle=False))
        some = _taken(block, sample)
        all_folds = folds_at_random(some.y, seed, n_folds)
        dense = isinstance(rows, np.ndarray)
        race = Race(
            candidates(classes=labels is not None, dense=dense),
            some.y,
            len(classes),
            all_folds,
            n,
            n_columns(rows),
            self.budget,
            sample_weight=some.sample_weight,
        )
        smallest = min(fit.size for fit, _ in all_folds)
        while trials := race.next_round():
            results = []
            for own in trials:
                fit, held_out = own.rows(all_folds[own.fold])
                inside, outside = (
                    Training(_taken(some, numbers), classes, seed, self._n_threads) for numbers in (fit, held_out)
                )
                found = run_trial(own.candidate, own.kind, inside, outside, own.settings, smallest)
                results.append((own, with_options(found) if isinstance(found, str) else found))
            race.add_round(results)
        self.choice_, self.model_ = self._fit_best(race, block, classes, seed)
        self.leaderboard_ = [
            {
                "name": entry.name,
                "loss": entry.loss,
                "standard_error": entry.error,
                "folds": entry.folds,
                "fit_seconds": entry.fit_seconds,
                "row_seconds": entry.row_seconds,
                "note": entry.note,
            }
            for entry in race.leaderboard()
        ]

    def _fit_best(
        self, race: Race, block: Block, classes: list[Label], seed: int
    ) -> tuple[Choice, CellsModel | LinearModel]:
        """Return the best choice of which a model of all rows fits into memory, and the model."""
        refused: dict[str, str] = {}
        while True:
            choice = race.choice(lambda own: refused.get(own.entry.name, ""))
            if choice.entry.name in refused:  # it is all the same to the race where nothing fits
                raise ValueError(refused[choice.entry.name])
            self._scaling = MinMax.of(block.rows) if choice.scale == "minmax" else None
            rows = block.rows if self._scaling is None else self._scaling(block.rows)
            training = Training(block._replace(rows=rows), classes, seed, self._n_threads)
            try:
                return choice, fit_choice(choice.learner, choice.partitioner, choice.options, training)
            except DoesNotFit as error:
                refused[choice.entry.name] = with_options(str(error))


def _taken(block: Block, rows: np.ndarray) -> Block:
    weight = block.sample_weight
    return Block(block.rows[rows], block.y[rows], None if weight is None else weight[rows])


class AutoClassifier(Classifier, AutoEstimator):
    """The best of several classifiers: cells of maps with logistic regression, boosting, or their sum.

    Candidates learn from some folds of a sample of the rows and are compared by log loss on the others. The model is
    then fitted to all rows.

    Parameters
    ----------
    budget : float or None, default=None
        Seconds for the comparison and the model together, about; None: a minute for 100,000 rows, fewer where less is
        enough. Where the budget ends the comparison, other machines may choose otherwise.
    cv : int, default=5
        Number of folds.
    max_rows : int or None, default=None
        Largest number of rows on which candidates are compared; None: 20,000, or a fifth of many more, and fewer of
        rows with very many columns.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None
        Seed.

    Attributes
    ----------
    model_ : CellsModel or LinearModel
    choice_ : Choice
        The model that was chosen, as options of the command line.
    leaderboard_ : list of dict
        What was tried, the best first.
    classes_ : ndarray
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from ikmap import AutoClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AutoClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    def fit(self, X: Table, y: ArrayLike) -> Self:
        """Compare the candidates, and fit the best one to all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of labels, shape (n,)

        Raises
        ------
        ValueError
            A parameter is out of range, or rows or labels are not valid.
        """
        rows, labels, weight = self._training(X, y)
        self._set_classes(labels)
        self._choose(rows, self._encode(labels), weight, self.classes_)
        return self

    def predict_proba(self, X: Table) -> Floats:
        """Return the probability of each class, shape (n, n_classes)."""
        return probabilities(self.decision_function(X))


class AutoRegressor(Regressor, AutoEstimator):
    """The best of several regressors: cells of maps with ridge regression, boosting, or their sum.

    Candidates learn from some folds of a sample of the rows and are compared by squared error on the others. The model
    is then fitted to all rows.

    Parameters
    ----------
    budget : float or None, default=None
        Seconds for the comparison and the model together, about; None: a minute for 100,000 rows, fewer where less is
        enough. Where the budget ends the comparison, other machines may choose otherwise.
    cv : int, default=5
        Number of folds.
    max_rows : int or None, default=None
        Largest number of rows on which candidates are compared; None: 20,000, or a fifth of many more, and fewer of
        rows with very many columns.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None
        Seed.

    Attributes
    ----------
    model_ : CellsModel or LinearModel
    choice_ : Choice
        The model that was chosen, as options of the command line.
    leaderboard_ : list of dict
        What was tried, the best first.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ikmap import AutoRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AutoRegressor(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.3)
    True
    """

    def fit(self, X: Table, y: ArrayLike) -> Self:
        """Compare the candidates, and fit the best one to all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of finite numbers, shape (n,)

        Raises
        ------
        ValueError
            A parameter is out of range, or rows or targets are not valid.
        """
        rows, targets, weight = self._training(X, y)
        self._choose(rows, targets, weight)
        return self
