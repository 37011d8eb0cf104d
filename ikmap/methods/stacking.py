"""Stacking: boosting and cells of maps in one sum, whose weights are chosen by rows that they have not learned from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge

from ikmap.methods.about import LearnerAbout
from ikmap.methods.boosting import Boosting, BoostingFields
from ikmap.methods.capabilities import LearnsOutOfFold
from ikmap.methods.fields import Doc, fields_of
from ikmap.methods.iforest import IForest
from ikmap.methods.kinds import Choice, Kind, Names
from ikmap.methods.learner import WholeLearner
from ikmap.methods.linear_on_cells import LogisticRegression
from ikmap.methods.map import PSI_DOC, PsiMap, RowsInfo, T
from ikmap.methods.ridge import Ridge
from ikmap.methods.sample import Sample, Shape, Training

if TYPE_CHECKING:
    from ikmap.arrays import Floats, Int64s
    from ikmap.cells import Cells
    from ikmap.json_values import Json
    from ikmap.learners.cells_model import CellsModel
    from ikmap.learners.linear_model import LinearModel
    from ikmap.learners.out_of_fold import OutOfFold
    from ikmap.learners.stacking.blend import BlendLoss
    from ikmap.learners.stacking.stacking import Folds
    from ikmap.methods.learner import Summary
    from ikmap.partitioners import Partitions

METRICS_SCHEMA: Mapping[str, Mapping[str, Json]] = {
    "base_models": {
        "description": "Parts of the sum that stacking made, by name.",
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "required": ["weight", "loss"],
            "properties": {
                "weight": {
                    "description": "Weight in the sum; 0 for a part that adds nothing and was left out.",
                    "type": "number",
                    "minimum": 0,
                },
                "loss": {
                    "description": "Mean loss of the part by itself on rows from which it has not learned.",
                    "type": "number",
                    "minimum": 0,
                },
                "psi": {"description": "Cells of a partitioning.", "type": "integer", "minimum": 1},
                "C": {"description": "Weight of the errors of its model.", "type": "number", "exclusiveMinimum": 0},
            },
        },
    },
    "loss_out_of_fold": {
        "description": "Mean loss of the sum on rows from which neither its parts nor the weights have learned.",
        "type": "number",
        "minimum": 0,
    },
}
"""JSON Schema of the fields that the learner reports."""
PSIS = (64, 256, 1024, 4096)
"""Numbers of cells of a partitioning that are tried."""
MOST_ROWS = 20_000
"""Most rows that are learned from to choose psi and C."""
ENOUGH_ROWS = 4000
"""Number of held-out rows that is enough to choose psi and C by."""


class BaseModel(Choice):
    """Boosting, or a map that draws psi points without labels and is registered by now."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def known(self) -> tuple[str, ...]:
        from ikmap.methods.registry import MAPS

        return Boosting.about.name, *(name for name, kind in MAPS.items() if issubclass(kind, PsiMap))


class BaseModels(Kind):
    """Names of base models with commas between (in TOML also an array), as a text: "boosting,iforest"."""

    metavar = "NAME,..."

    @property
    def schema(self) -> dict[str, Json]:
        name = "|".join(BaseModel().known)
        return {"type": "string", "pattern": rf"^\s*({name})\s*(,\s*({name})\s*)*$"}

    def check(self, value: object) -> str:
        return ",".join(Names(BaseModel()).check(value))


class Stacking(BoostingFields, WholeLearner, LearnsOutOfFold):
    """A sum of models on cells: boosting, and linear models on the cells of maps.

    The rows are divided into folds, and each part of the sum learns from all folds but one, for each fold. Weights >= 0
    of the parts are those with the least loss on the rows that were held out, and a part decides as the mean of its
    models does. Parts that add nothing are left out. Classes go by the logistic loss, numbers by squared error.

    Folds keep rows of a group together if the run does. In order of time, a fold is held out from models of earlier
    rows, and a part learns from all rows in the end.
    """

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="stacking",
        title="stacking: boosting and cells in one sum",
        on="rows",
        tasks=frozenset({"classification", "regression"}),
        models=("ikmap.learners.cells_model", "ikmap.learners.out_of_fold"),
        loop_words=frozenset({
            Boosting.about.name, IForest.about.name, LogisticRegression.about.name, Ridge.about.name, "cells-batch",
        }),
        metrics_schema=METRICS_SCHEMA,
    )  # fmt: skip

    base_models: Annotated[
        str, BaseModels(), Doc("parts of the sum that stacking makes: boosting, and maps, with linear models on cells")
    ] = "boosting,iforest"
    t: T = 300
    psi: Annotated[int | Literal["auto"], Ge(1), Doc(PSI_DOC)] = "auto"
    n_folds: Annotated[
        int, Ge(2), Doc("folds of stacking, each held out once from the learning of the parts of the sum")
    ] = 5

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(self.base_models.split(","))

    def fit(self, training: Training) -> tuple[CellsModel, Summary]:
        model, summary, _ = self.fit_out_of_fold(training)
        return model, summary

    def fit_out_of_fold(self, training: Training) -> tuple[CellsModel, Summary, OutOfFold]:
        import numpy as np

        from ikmap.learners.out_of_fold import OutOfFold
        from ikmap.learners.stacking.blend import LogLoss, SquaredLoss
        from ikmap.learners.stacking.stacking import stack

        n_classes, y = len(training.classes), training.y
        if y.size < 2:
            raise ValueError(f"stacking: found n_samples = {y.size}, expected at least 2, which are divided into folds")
        if n_classes > 2:
            target = np.equal.outer(y, np.arange(n_classes)).astype(np.float64)
        else:
            target = np.asarray(y, dtype=np.float64)[:, None]
        loss = LogLoss() if n_classes else SquaredLoss()
        folds = self._folds(training)
        parts = [self._part(name, training, target, folds, loss) for name in self.names]
        stacked = stack(
            [part.fit for part in parts],
            training.rows,
            target,
            folds,
            loss,
            learner=self.about.name,
            n_threads=training.n_threads,
            sample_weight=training.block.sample_weight,
        )
        figures = zip(parts, stacked.blend.weights.tolist(), stacked.blend.alone, strict=True)
        summary: Summary = {
            "base_models": {
                name: {**part.summary, "weight": weight, "loss": own_loss}
                for name, (part, weight, own_loss) in zip(self.names, figures, strict=True)
            },
            "loss_out_of_fold": stacked.blend.loss,
        }
        blended, rows_learned = stacked.blend, folds.fits[-1 if folds.in_time else 0].size
        out_of_fold = OutOfFold(blended.decisions, folds.n_folds, int(rows_learned), blended.weights)
        return stacked.model, summary, out_of_fold

    def takes_weights(self, task: str) -> bool:
        return True

    def _folds(self, training: Training) -> Folds:
        import numpy as np

        from ikmap.learners.stacking.stacking import Folds

        division, y = training.division, training.y
        if division is None:
            return Folds.at_random(y, min(self.n_folds, y.size), training.seed)
        return Folds.following(division, max(2, min(self.n_folds, np.unique(division.keys).size)))

    def _part(
        self, name: str, training: Training, target: Floats, folds: Folds, loss: BlendLoss
    ) -> BoostingPart | CellsPart:
        if name == Boosting.about.name:
            return BoostingPart(self._boosting, training)
        maps = self._maps(name, min(fit.size for fit in folds.fits))
        return chosen([CellsPart(of_map, training) for of_map in maps], target, folds, loss)

    @property
    def _boosting(self) -> Boosting:
        return Boosting(**{name: getattr(self, name) for name in fields_of(BoostingFields)})

    def _maps(self, name: str, most: int) -> list[PsiMap]:
        """Return the maps of that name among which one is chosen: by psi, of at most as many as there are rows."""
        from ikmap.methods.registry import MAPS

        kind = MAPS[name]
        assert issubclass(kind, PsiMap)
        psis = [self.psi] if isinstance(self.psi, int) else PSIS
        psis = [psi for psi in psis if psi <= most] or [most]
        return [kind(t=self.t, psi=psi) for psi in psis]

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        row_bytes = shape.rows_bytes / max(1, shape.n)
        info = RowsInfo(shape.n, shape.d, row_bytes, shape.nnz is None)
        # The rows of a fold; decisions of all parts and of their sum, targets and what weighs them.
        held = shape.rows_bytes + 8 * shape.n * shape.outputs * (2 * len(self.names) + 8)
        learning, models = 0.0, 0.0
        for name in self.names:
            if name == Boosting.about.name:
                learning = max(learning, self._boosting.memory(shape))
                models += self.rounds * shape.outputs * self.max_leaves * (40 + 8 * shape.outputs)
                continue
            of_map = self._maps(name, max(1, shape.n - -(-shape.n // min(self.n_folds, max(1, shape.n)))))[-1]
            of_rows, cells = of_map.memory(info), of_map.t * of_map.n_cells()
            # Cells as they are found and packed; variables of the dual problem; weights.
            of_cells = shape.n * of_map.t * 6 + shape.n * shape.outputs * 24 + 4 * 8 * cells * shape.outputs
            learning = max(learning, of_rows.model + of_rows.scratch + of_cells)
            models += of_rows.model + 8 * cells * shape.outputs
        # Models of all folds, and their sum.
        return int(held + learning + 2 * self.n_folds * models)


@dataclass(frozen=True, eq=False)
class BoostingPart:
    """Boosting as a part of a sum."""

    learner: Boosting
    training: Training

    @property
    def summary(self) -> dict[str, Json]:
        """Fields to report."""
        return {}

    def fit(self, numbers: Int64s) -> CellsModel:
        """Return the model that is learned from the rows of these numbers."""
        return self.learner.fit(_some(self.training, numbers))[0]


@dataclass(frozen=True, eq=False)
class CellsPart:
    """A linear model on the cells of a map, as a part of a sum: logistic regression, or ridge regression of numbers."""

    map: PsiMap
    training: Training
    C: float = 1.0

    @property
    def summary(self) -> dict[str, Json]:
        """Fields to report."""
        return {"psi": self.map.psi, "C": self.C}

    def fit(self, numbers: Int64s) -> CellsModel:
        """Return the model that is learned from the rows of these numbers."""
        from ikmap.learners.cells_model import CellsModel

        training = _some(self.training, numbers)
        partitions = self.partitions(training)
        return CellsModel(partitions, next(self.path(partitions, training, [self.C])))

    def partitions(self, training: Training) -> Partitions:
        """Return the partitionings that are drawn from some rows."""
        rows, n_threads = training.rows, training.n_threads
        sample = Sample(training.y.size, rows.shape[1], None, rows.__getitem__, training.seed)
        return self.map.fit(sample, n_threads)

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


def _some(training: Training, numbers: Int64s) -> Training:
    """Return the training rows of these numbers."""
    from ikmap.learners.rows import Block

    y, weight = training.y, training.block.sample_weight
    block = Block(training.rows[numbers], y[numbers], None if weight is None else weight[numbers])
    division = None if training.division is None else training.division.some(numbers)
    return replace(training, block=block, division=division)


def chosen(parts: Sequence[CellsPart], target: Floats, folds: Folds, loss: BlendLoss) -> CellsPart:
    """Return the part, of several maps, and C with the least loss on rows of folds that are held out.

    As many folds are held out, one after the other, as have enough rows; in order of time, the last ones. Of many other
    rows, some are learned from.
    """
    import numpy as np

    from ikmap import seed_paths
    from ikmap.model_selection import values_of_C
    from ikmap.seeds import generator

    training = parts[0].training
    Cs, losses, n_held_out = values_of_C(len(training.classes)), dict[tuple[int, float], list[float]](), 0
    for k in reversed(range(folds.n_folds)) if folds.in_time else range(folds.n_folds):
        fit, held_out = folds.fits[k], folds.held_out(k)
        if fit.size > MOST_ROWS:
            random = generator(training.seed, seed_paths.STACKING_CHOICE, k)
            fit = np.sort(random.choice(fit, MOST_ROWS, replace=False))
        learned, tested = _some(training, fit), _some(training, held_out)
        weight = tested.block.sample_weight
        size = held_out.size if weight is None else float(weight.sum())
        for i, part in enumerate(parts):
            partitions = part.partitions(learned)
            outside = partitions.cells(tested.rows, training.n_threads).packed()
            before = math.inf
            for C, model in zip(Cs, part.path(partitions, learned, Cs), strict=False):
                own = loss.mean(model.decision_function(outside), target[held_out], weight)
                losses.setdefault((i, C), []).append(own * size)
                if own > before:
                    break
                before = own
        n_held_out += held_out.size
        if n_held_out >= ENOUGH_ROWS:
            break
    n_folds = max(map(len, losses.values()))
    complete = {key: sum(own) for key, own in losses.items() if len(own) == n_folds}
    i, C = min(complete, key=complete.__getitem__)
    return replace(parts[i], C=C)
