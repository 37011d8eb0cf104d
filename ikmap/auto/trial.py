"""One trial of a race: a candidate learns from some rows and decides on others."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from ikmap.arrays import Floats
from ikmap.auto.candidates import BOOSTING, Candidate, Options, T
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.stacking.stacking import Folds
from ikmap.methods import MAPS, method
from ikmap.methods.base_models import (
    BaseMap,
    BoostingPart,
    CellsPart,
    Part,
    Settings,
    best_settings,
    psis_of,
    search,
)
from ikmap.methods.boosting import Boosting
from ikmap.methods.forest import Forest
from ikmap.methods.learner import WholeLearner
from ikmap.methods.map import PsiMap
from ikmap.methods.sample import Training
from ikmap.methods.stacking import Stacking
from ikmap.rows import Rows, as_dense

if TYPE_CHECKING:
    from ikmap.learners.cells_model import CellsModel


type Fold = tuple[np.ndarray, np.ndarray]
"""Ascending numbers of the rows to learn from, and of those held out."""


@dataclass(frozen=True, eq=False)
class Decided:
    """Decisions of a candidate on rows from which it has not learned.

    Attributes
    ----------
    decisions : ndarray of float64, shape (n, K)
    fit_seconds, predict_seconds : float
        Seconds of learning, without those in which psi and C are chosen, and of deciding.
    seconds : float
        Seconds of the whole trial.
    rounds : int
        Rounds of boosting whose trees were kept.
    """

    decisions: Floats
    fit_seconds: float
    predict_seconds: float
    seconds: float
    rounds: int = 0


@dataclass(frozen=True)
class Searched:
    """Losses with several psi and C.

    Attributes
    ----------
    losses : mapping of (int, float) to float
        Sum of the losses of rows outside for each psi and C.
    seconds : float
    """

    losses: Mapping[Settings, float]
    seconds: float


@dataclass(frozen=True, eq=False)
class MinMax:
    """A scaling of each column to [0, 1] by the rows that were learned from; others are clipped.

    Attributes
    ----------
    low, width : ndarray of float64, shape (d,)
    """

    low: Floats
    width: Floats

    @classmethod
    def of(cls, rows: Rows) -> MinMax:
        """Return the scaling of these rows."""
        dense = as_dense(rows)
        low, high = dense.min(axis=0), dense.max(axis=0)
        return cls(low, np.where(high > low, high - low, 1.0))

    def __call__(self, rows: Rows) -> Rows:
        """Return the rows, scaled."""
        scaled: Floats = np.clip((as_dense(rows) - self.low) / self.width, 0.0, 1.0)
        return scaled


def folds_at_random(y: np.ndarray, seed: int, n_folds: int = Stacking().n_folds) -> list[Fold]:
    """Return the folds of a race of rows in any order, those of stacking."""
    folds = Folds.at_random(y, min(n_folds, y.size), seed)
    return [(fit, folds.held_out(k)) for k, fit in enumerate(folds.fits)]


def run_trial(
    candidate: Candidate,
    kind: str,
    training: Training,
    outside: Training,
    settings: Settings | None = None,
    smallest: int | None = None,
) -> Decided | Searched | str:
    """Do a trial of a race; return its result, or why there is none.

    Parameters
    ----------
    kind : {"pilot", "search", "fold"}
        To find psi and C, to decide with these, or both.
    training, outside : Training
        Rows to learn from, and rows to decide on.
    settings : (int, float), optional
        psi and C of a candidate on cells.
    smallest : int, optional
        Number of rows that the smallest fold learns from: psi that are tried fit all folds.
    """
    began = time.perf_counter()
    if candidate.scale == "minmax":
        scaling = MinMax.of(training.rows)
        training, outside = _scaled(training, scaling), _scaled(outside, scaling)
    try:
        if candidate.partitioner and settings is None:
            of_map = _map_of(candidate.partitioner, candidate.options)
            rows = training.y.size if smallest is None else min(training.y.size, smallest)
            losses = search(of_map, training, outside, psis_of(type(of_map), rows))
            if kind == "search":
                return Searched(losses, time.perf_counter() - began)
            settings = best_settings([losses])
        fitting = time.perf_counter()
        model = _fitted(candidate, training, settings)
    except (ValueError, ArithmeticError, MemoryError) as error:
        return str(error) or type(error).__name__
    fitted = time.perf_counter()
    if isinstance(model, LinearModel):
        decisions = model.decision_function(outside.rows)
    else:
        decisions = model.decision_function(outside.rows, training.n_threads)
    ended = time.perf_counter()
    rounds = 0
    if candidate.learner == BOOSTING and not isinstance(model, LinearModel):
        rounds = model.partitions.n_partitions // decisions.shape[1]
    return Decided(decisions, fitted - fitting, ended - fitted, ended - began, rounds)


def _scaled(training: Training, scaling: MinMax) -> Training:
    return replace(training, block=training.block._replace(rows=scaling(training.rows)))


def _map_of(name: str, options: Options) -> BaseMap:
    kind = MAPS[name]
    assert issubclass(kind, PsiMap | Forest)
    of_map = kind.of_record({"t": T, "psi": 1, **options})[0]
    assert isinstance(of_map, PsiMap | Forest)
    return of_map


def _part(candidate: Candidate, training: Training, settings: Settings | None) -> Part | None:
    """Return a candidate as a part of a sum; None if it is none."""
    if settings is not None:
        psi, C = settings
        return CellsPart(training, _map_of(candidate.partitioner, candidate.options).at({"psi": psi}), C)
    return BoostingPart(training, Boosting.of_record(candidate.options)[0]) if candidate.learner == BOOSTING else None


def _fitted(candidate: Candidate, training: Training, settings: Settings | None) -> CellsModel | LinearModel:
    if (part := _part(candidate, training, settings)) is not None:
        return part.learn(training)
    learner = method(candidate.learner).of_record(candidate.options)[0]
    assert isinstance(learner, WholeLearner)
    return cast("CellsModel | LinearModel", learner.fit(training)[0])


def fit_choice(
    learner: str, partitioner: str, options: Mapping[str, Options], training: Training
) -> CellsModel | LinearModel:
    """Return the model of all rows that a race has chosen."""
    own = options.get(learner, {})
    if not partitioner:
        return _fitted(Candidate(learner, learner, options=own), training, None)
    C, psi = own["C"], options[partitioner]["psi"]
    assert isinstance(C, int | float)
    assert isinstance(psi, int)
    return _fitted(Candidate(partitioner, learner, partitioner, options=options[partitioner]), training, (psi, C))
