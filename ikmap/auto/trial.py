"""One trial of a race: a candidate learns from some rows and decides on others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ikmap.arrays import Floats
from ikmap.auto.candidates import Candidate
from ikmap.json_values import Json
from ikmap.learners.stacking.blend import BlendLoss, LogLoss, SquaredLoss
from ikmap.methods import MAPS, method
from ikmap.methods.learner import WholeLearner
from ikmap.methods.map import PsiMap
from ikmap.methods.sample import Training
from ikmap.methods.stacking import CellsPart
from ikmap.model_selection import values_of_C
from ikmap.rows import Rows

T = 300
"""Partitionings of a map."""
SEARCH_T = 100
"""Partitionings with which psi and C are chosen; more change the choice little."""
PSIS = (64, 256, 1024, 4096)
"""Values of psi that are tried, ascending, until one is worse than the one before."""


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


def loss_of(n_classes: int) -> BlendLoss:
    """Return the loss by which candidates are compared: log loss of classes, squared error of numbers."""
    return LogLoss() if n_classes else SquaredLoss()


def target_of(y: np.ndarray, n_classes: int) -> Floats:
    """Return the targets of decisions, shape (n, K): 1 for the class of a row and 0 for others, or the number."""
    if n_classes > 2:
        return np.equal.outer(y, np.arange(n_classes)).astype(np.float64)
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
        Targets of the rows outside, by which psi and C of a candidate on cells are chosen.
    settings : mapping, optional
        psi and C, where they are known.
    """
    began = time.perf_counter()
    inside = training.rows
    if candidate.scale == "minmax":
        assert isinstance(inside, np.ndarray)
        assert isinstance(outside, np.ndarray)
        low, high = inside.min(axis=0), inside.max(axis=0)
        width = np.where(high > low, high - low, 1.0)
        inside, outside = (np.clip((rows - low) / width, 0.0, 1.0) for rows in (inside, outside))
        training = replace(training, block=training.block._replace(rows=inside))
    if not candidate.partitioner:
        kind = method(candidate.learner)
        assert issubclass(kind, WholeLearner)
        fitted = time.perf_counter()
        learner, _ = kind.of_record(candidate.options)
        assert isinstance(learner, WholeLearner)
        model = learner.fit(training)[0]
    else:
        if settings is None:
            settings = choose_settings(candidate, training, outside, outside_y)
        fitted = time.perf_counter()
        part = _part(candidate, training, T, settings)
        model = part.fit(np.arange(training.y.size))
    learned = time.perf_counter()
    decisions = np.asarray(model.decision_function(outside, training.n_threads), dtype=np.float64)
    ended = time.perf_counter()
    return Decided(decisions, dict(settings or {}), learned - fitted, ended - learned, ended - began)


def _part(candidate: Candidate, training: Training, t: int, settings: Mapping[str, Json]) -> CellsPart:
    kind = MAPS[candidate.partitioner]
    assert issubclass(kind, PsiMap)
    psi, C = settings["psi"], settings.get("C", 1.0)
    assert isinstance(psi, int)
    assert isinstance(C, int | float)
    return CellsPart(kind(t=t, psi=psi, **candidate.options), training, float(C))


def choose_settings(
    candidate: Candidate, training: Training, outside: Rows, outside_y: np.ndarray, psis: Sequence[int] = PSIS
) -> dict[str, Json]:
    """Return psi and C with the least loss on rows outside; larger values are tried until one is worse."""
    n_classes = len(training.classes)
    loss, target = loss_of(n_classes), target_of(outside_y, n_classes)
    best: tuple[float, dict[str, Json]] | None = None
    for psi in [psi for psi in psis if psi <= training.y.size] or [training.y.size]:
        part = _part(candidate, training, SEARCH_T, {"psi": psi})
        partitions = part.partitions(training)
        cells = partitions.cells(outside, training.n_threads).packed()
        of_psi: tuple[float, dict[str, Json]] | None = None
        Cs = values_of_C(n_classes)
        for C, model in zip(Cs, part.path(partitions, training, Cs), strict=False):
            own = loss.mean(model.decision_function(cells), target)
            if of_psi is not None and own > of_psi[0]:
                break
            of_psi = own, {"psi": psi, "C": C}
        assert of_psi is not None
        if best is not None and of_psi[0] > best[0]:
            break
        best = of_psi
    assert best is not None
    return best[1]
