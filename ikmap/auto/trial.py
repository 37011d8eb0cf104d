"""One trial of a race: a candidate learns from some rows and decides on others."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from ikmap.arrays import Floats
from ikmap.auto.candidates import Candidate
from ikmap.cells import Cells
from ikmap.json_values import Json
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.rows import Block
from ikmap.learners.stacking.blend import BlendLoss, LogLoss, SquaredLoss
from ikmap.methods import MAPS, method
from ikmap.methods.learner import WholeLearner
from ikmap.methods.map import PsiMap
from ikmap.methods.sample import Training
from ikmap.methods.stacking import CellsPart
from ikmap.model_selection import values_of_C
from ikmap.rows import Rows, as_dense

if TYPE_CHECKING:
    from ikmap.learners.cells_model import CellsModel

T = 300
"""Partitionings of a map."""
SEARCH_T = 100
"""Partitionings with which psi and C are chosen; more change the choice little."""
PSIS = (16, 64, 256, 1024, 4096)
"""Values of psi that are tried, ascending, until one is worse than the one before."""

type Settled = tuple[int, float, float]
"""psi, C, and the sum of the losses of rows outside with them."""


@dataclass(frozen=True, eq=False)
class Decided:
    """Decisions of a candidate on rows from which it has not learned.

    Attributes
    ----------
    decisions : ndarray of float64, shape (n, K)
    settings : mapping
        psi and C of a candidate on cells.
    fit_seconds, predict_seconds : float
        Seconds of learning, without those in which psi and C are chosen, and of deciding.
    seconds : float
        Seconds of the whole trial.
    """

    decisions: Floats
    settings: Mapping[str, Json]
    fit_seconds: float
    predict_seconds: float
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


@dataclass(frozen=True)
class Searched:
    """Losses with several psi and C.

    Attributes
    ----------
    tried : sequence of (int, float, float)
        psi, C, and the sum of the losses of rows outside with them.
    seconds : float
    """

    tried: Sequence[Settled]
    seconds: float


def run_trial(
    own: Candidate, kind: str, training: Training, outside: Block, settings: Mapping[str, Json] | None = None
) -> Decided | Searched | str:
    """Do a trial of a race; return its result, or why there is none.

    Parameters
    ----------
    kind : {"pilot", "search", "fold"}
    """
    assert not isinstance(outside.rows, Cells)
    try:
        if kind != "search":
            return trial(own, training, outside.rows, outside.y, settings)
        began = time.perf_counter()
        return Searched(search(own, training, outside.rows, outside.y), time.perf_counter() - began)
    except (ValueError, MemoryError) as error:
        return str(error) or type(error).__name__


def loss_of(n_classes: int) -> BlendLoss:
    """Return the loss by which candidates are compared: log loss of classes, squared error of numbers."""
    return LogLoss() if n_classes else SquaredLoss()


def target_of(y: np.ndarray, n_classes: int) -> Floats:
    """Return the targets of decisions, shape (n, K): 1 for the class of a row and 0 for others, or the number."""
    if n_classes > 2:
        of_classes: Floats = np.equal.outer(y, np.arange(n_classes)).astype(np.float64)
        return of_classes
    return np.asarray(y, dtype=np.float64)[:, None]


def trial(
    candidate: Candidate,
    training: Training,
    outside: Rows,
    outside_y: np.ndarray,
    settings: Mapping[str, Json] | None = None,
) -> Decided:
    """Let a candidate learn, and decide on rows outside.

    Parameters
    ----------
    outside_y : ndarray, shape (n,)
        Targets of the rows outside, by which psi and C of a candidate on cells are chosen if they are not known.
    settings : mapping, optional
        psi and C, where they are known.
    """
    began = time.perf_counter()
    training, outside = _scaled(candidate, training, outside)
    if not candidate.partitioner:
        kind = method(candidate.learner)
        assert issubclass(kind, WholeLearner)
        fitted = time.perf_counter()
        learner, _ = kind.of_record(candidate.options)
        assert isinstance(learner, WholeLearner)
        model = cast("CellsModel | LinearModel", learner.fit(training)[0])
    else:
        if settings is None:
            settings = best_settings([search(candidate, training, outside, outside_y)])
        fitted = time.perf_counter()
        part = _part(candidate, training, T, settings)
        model = part.fit(np.arange(training.y.size))
    learned = time.perf_counter()
    if isinstance(model, LinearModel):
        decisions = model.decision_function(outside)
    else:
        decisions = model.decision_function(outside, training.n_threads)
    ended = time.perf_counter()
    return Decided(decisions, dict(settings or {}), learned - fitted, ended - learned, ended - began)


def _scaled(candidate: Candidate, training: Training, outside: Rows) -> tuple[Training, Rows]:
    if candidate.scale == "none":
        return training, outside
    scaling = MinMax.of(training.rows)
    return replace(training, block=training.block._replace(rows=scaling(training.rows))), scaling(outside)


def _part(candidate: Candidate, training: Training, t: int, settings: Mapping[str, Json]) -> CellsPart:
    kind = MAPS[candidate.partitioner]
    assert issubclass(kind, PsiMap)
    psi, C = settings["psi"], settings.get("C", 1.0)
    assert isinstance(psi, int)
    assert isinstance(C, int | float)
    return CellsPart(kind(t=t, psi=psi, **candidate.options), training, float(C))


def search(
    candidate: Candidate, training: Training, outside: Rows, outside_y: np.ndarray, psis: Sequence[int] = PSIS
) -> list[Settled]:
    """Return the loss on rows outside with each psi and C; larger values are tried until one is worse."""
    training, outside = _scaled(candidate, training, outside)
    n_classes = len(training.classes)
    loss, target, Cs = loss_of(n_classes), target_of(outside_y, n_classes), values_of_C(n_classes)
    tried: list[Settled] = []
    best_before = math.inf
    for psi in [psi for psi in psis if psi <= training.y.size] or [training.y.size]:
        part = _part(candidate, training, SEARCH_T, {"psi": psi})
        partitions = part.partitions(training)
        cells = partitions.cells(outside, training.n_threads).packed()
        best = math.inf
        for C, model in zip(Cs, part.path(partitions, training, Cs), strict=False):
            own = loss.mean(model.decision_function(cells), target)
            tried.append((psi, C, own * len(target)))
            if own > best:
                break
            best = own
        if best > best_before:
            break
        best_before = best
    return tried


def best_settings(of_folds: Sequence[Sequence[Settled]]) -> dict[str, Json]:
    """Return psi and C with the least sum of losses, of those that all folds have tried."""
    sums: dict[tuple[int, float], list[float]] = {}
    for tried in of_folds:
        for psi, C, own in tried:
            sums.setdefault((psi, C), []).append(own)
    complete = {key: sum(own) for key, own in sums.items() if len(own) == len(of_folds)}
    psi, C = min(complete, key=lambda key: (complete[key], key))
    return {"psi": psi, "C": C}


def fit_choice(
    learner: str, partitioner: str, options: Mapping[str, Mapping[str, Json]], training: Training
) -> CellsModel:
    """Return the model of all rows that a race has chosen."""
    settings = dict(options.get(learner, {}))
    if partitioner:
        of_map = MAPS[partitioner].of_record(options[partitioner])[0]
        C = settings["C"]
        assert isinstance(of_map, PsiMap)
        assert isinstance(C, int | float)
        return CellsPart(of_map, training, float(C)).fit(np.arange(training.y.size))
    configured, _ = method(learner).of_record(settings)
    assert isinstance(configured, WholeLearner)
    return cast("CellsModel", configured.fit(training)[0])
