"""Base models of sums, and of the race of an automatic choice: boosting, and linear models on the cells of a map."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ikmap.methods.boosting import Boosting
from ikmap.methods.forest import PSIS as FOREST_PSIS
from ikmap.methods.forest import Forest
from ikmap.methods.linear_on_cells import LogisticRegression
from ikmap.methods.map import PsiMap
from ikmap.methods.ridge import Ridge
from ikmap.methods.sample import Sample, Training

if TYPE_CHECKING:
    import numpy as np

    from ikmap.arrays import Floats, Int64s
    from ikmap.cells import Cells
    from ikmap.json_values import Json
    from ikmap.learners.cells_model import CellsModel
    from ikmap.learners.linear_model import LinearModel
    from ikmap.learners.stacking.blend import BlendLoss
    from ikmap.partitioners import Partitions

PSIS = (16, 64, 256, 1024, 4096)
"""Values of psi that are tried, ascending, until one is worse than the one before."""
SEARCH_T = 100
"""Partitionings, at most, with which psi and C are chosen; more change the choice little."""
MOST_C = 512.0
"""Largest C of classes that is tried: where they are nearly told apart, larger ones take long and change little."""
ENOUGH_ROWS = 1000
"""Number of held-out rows that is enough to choose psi and C by."""

type BaseMap = PsiMap | Forest
type Settings = tuple[int, float]
"""psi and C."""


def psis_of(kind: type[BaseMap], n_rows: int) -> list[int]:
    """Return the values of psi to try for a map that is fitted on so many rows, in ascending order.

    Rows that grew a tree by their labels are more alike in its cells than others are: they should be a few of all.
    """
    if issubclass(kind, Forest):
        return [psi for psi in FOREST_PSIS if 2 * psi <= n_rows] or [max(1, n_rows // 2)]
    return [psi for psi in PSIS if psi <= n_rows] or [max(1, n_rows)]


def loss_of(n_classes: int) -> BlendLoss:
    """Return the loss by which base models are compared: log loss of classes, squared error of numbers."""
    from ikmap.learners.stacking.blend import LogLoss, SquaredLoss

    return LogLoss() if n_classes else SquaredLoss()


def target_of(y: np.ndarray, n_classes: int) -> Floats:
    """Return the targets of decisions, shape (n, K): 1 for the class of a row and 0 for others, or the number."""
    import numpy as np

    if n_classes > 2:
        of_classes: Floats = np.equal.outer(y, np.arange(n_classes)).astype(np.float64)
        return of_classes
    return np.asarray(y, dtype=np.float64)[:, None]


@dataclass(frozen=True, eq=False)
class Part(ABC):
    """A part of a sum, which is also a candidate of a race.

    Attributes
    ----------
    training : Training
        All rows that some are taken of.
    """

    training: Training

    @property
    @abstractmethod
    def summary(self) -> dict[str, Json]:
        """Fields to report."""

    @abstractmethod
    def learn(self, training: Training) -> CellsModel:
        """Return the model that is learned from these rows."""

    def fit(self, numbers: Int64s, refit: int = 0) -> CellsModel:
        """Return the model that is learned from the rows of these numbers.

        Parameters
        ----------
        numbers : ndarray of int64
            Ascending numbers of rows.
        refit : int
            Which of several models of the same rows it is: each has a seed of its own, the first one that of the run.
        """
        from ikmap import seed_paths
        from ikmap.seeds import generator

        seed = self.training.seed
        if refit:
            seed = int(generator(seed, seed_paths.STACKING_REFITS, refit).integers(2**63))
        all_rows = numbers.size == self.training.y.size
        return self.learn(replace(self.training if all_rows else some_of(self.training, numbers), seed=seed))


@dataclass(frozen=True, eq=False)
class BoostingPart(Part):
    """Boosting as a part of a sum."""

    learner: Boosting

    @property
    def summary(self) -> dict[str, Json]:
        return {}

    def learn(self, training: Training) -> CellsModel:
        return self.learner.fit(training)[0]


@dataclass(frozen=True, eq=False)
class CellsPart(Part):
    """A linear model on the cells of a map, as a part of a sum: logistic regression, or ridge regression of numbers."""

    map: BaseMap
    C: float = 1.0

    @property
    def summary(self) -> dict[str, Json]:
        return {"psi": self.map.psi, "C": self.C}

    def learn(self, training: Training) -> CellsModel:
        from ikmap.learners.cells_model import CellsModel

        partitions = self.partitions(training)
        return CellsModel(partitions, next(self.path(partitions, training, [self.C])))

    def partitions(self, training: Training) -> Partitions:
        """Return the partitionings that are drawn from some rows."""
        from ikmap.tasks import CLASSIFICATION, REGRESSION

        rows, y = training.rows, training.y
        task = CLASSIFICATION.of(training.classes) if training.classes else REGRESSION.of()
        sample = Sample(y.size, rows.shape[1], task, rows.__getitem__, training.seed, targets=y.__getitem__)
        return self.map.fit(sample.seen_by(self.map.description), training.n_threads)

    def path(self, partitions: Partitions, training: Training, Cs: Sequence[float]) -> Iterator[LinearModel]:
        """Yield the linear model of some rows for each C in ascending order, when it is asked for."""
        cells = partitions.cells(training.rows, training.n_threads).packed()
        on_cells = replace(training, block=training.block._replace(rows=cells))
        yield from _logistic_path(cells, on_cells, Cs) if training.classes else Ridge().path(on_cells, Cs)


def _logistic_path(cells: Cells, training: Training, Cs: Sequence[float]) -> Iterator[LinearModel]:
    import warnings

    from ikmap.learners.dual.linear_svm import SVMParams, svm_model
    from ikmap.learners.dual.linear_svm_path import fit_linear_svm_path

    problem = LogisticRegression().problem
    params = SVMParams(loss="logistic", tol=problem.tol, seed=training.seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="duality gap")  # ConvergenceWarning: slow to import
        for fit in fit_linear_svm_path([training.block], len(training.classes), params, Cs):
            yield svm_model(fit, training.classes, params, divisor=math.sqrt(cells.n_partitions))


def some_of(training: Training, numbers: Int64s) -> Training:
    """Return the training rows of these numbers."""
    from ikmap.learners.rows import Block

    y, weight = training.y, training.block.sample_weight
    block = Block(training.rows[numbers], y[numbers], None if weight is None else weight[numbers])
    division = None if training.division is None else training.division.some(numbers)
    return replace(training, block=block, division=division)


def search(of_map: BaseMap, training: Training, outside: Training, psis: Sequence[int]) -> dict[Settings, float]:
    """Return the sum of losses on rows outside for each psi and C that is tried.

    From the second psi on, larger ones are tried until one is worse; if the second was the best, the smaller one is.
    C rises until the loss does. All maps have :data:`SEARCH_T` partitionings at most.

    Parameters
    ----------
    psis : sequence of int
        Values of psi, in ascending order.
    """
    losses: dict[Settings, float] = {}

    def least(psi: int) -> float:
        losses.update(_path_losses(with_few_partitionings(of_map, psi), training, outside))
        return min(loss for settings, loss in losses.items() if settings[0] == psi)

    climb(psis, 1, least)
    return losses


def climb(values: Sequence[int], start: int, loss: Callable[[int], float]) -> None:
    """Try values, larger ones until one is worse; if the first one was the best of them, smaller ones likewise."""
    start = min(start, len(values) - 1)
    best = first = loss(values[start])
    for value in values[start + 1 :]:
        if (own := loss(value)) > best:
            break
        best = own
    if best == first:
        for value in reversed(values[:start]):
            if (own := loss(value)) > best:
                break
            best = own


def _path_losses(of_map: BaseMap, training: Training, outside: Training) -> dict[Settings, float]:
    """Return the sum of losses on rows outside for each C, of one map."""
    from ikmap.model_selection import values_of_C

    n_classes = len(training.classes)
    loss, target = loss_of(n_classes), target_of(outside.y, n_classes)
    Cs = [C for C in values_of_C(n_classes) if not n_classes or C <= MOST_C]
    weight = outside.block.sample_weight
    part = CellsPart(training, of_map)
    partitions = part.partitions(training)
    cells = partitions.cells(outside.rows, training.n_threads).packed()
    losses: dict[Settings, float] = {}
    best = math.inf
    for C, model in zip(Cs, part.path(partitions, training, Cs), strict=False):
        of_rows = loss.rows(model.decision_function(cells), target)
        losses[of_map.psi, C] = own = float(of_rows.sum() if weight is None else weight @ of_rows)
        if own > best:
            break
        best = own
    return losses


def with_few_partitionings(of_map: BaseMap, psi: int) -> BaseMap:
    """Return a map with another psi, and with few partitionings."""
    return of_map.at({"psi": psi, "t": min(of_map.t, SEARCH_T)})


def best_settings(of_folds: Sequence[Mapping[Settings, float]]) -> Settings:
    """Return psi and C with the least sum of losses, of those that were tried on all folds, or on the most.

    Folds of few rows may have no psi in common, which then follows their numbers of rows.
    """
    folds = Counter(settings for losses in of_folds for settings in losses)
    most = max(folds.values())
    complete = [settings for settings in sorted(folds) if folds[settings] == most]
    return min(complete, key=lambda settings: sum(losses.get(settings, 0.0) for losses in of_folds))


def enough_folds(held_out: Sequence[int]) -> int:
    """Return on how many folds, the first ones, psi and C are chosen, by the number of rows that each holds out."""
    rows = 0
    for n_folds, size in enumerate(held_out, 1):
        rows += size
        if rows >= ENOUGH_ROWS:
            return n_folds
    return len(held_out)
