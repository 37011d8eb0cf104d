"""Gradient boosting: trees that are grown one after the other, each by what those before it have left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Gt, Le, Lt

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc, FieldError
from ikmap.methods.forest import MinLeaf
from ikmap.methods.learner import Learner, WholeLearner
from ikmap.methods.sample import Shape, Training

if TYPE_CHECKING:
    from ikmap.json_values import Json
    from ikmap.learners.boosting.losses import Loss
    from ikmap.learners.cells_model import CellsModel
    from ikmap.methods.learner import Summary

METRICS_SCHEMA: Mapping[str, Mapping[str, Json]] = {
    "trees": {"description": "Trees that the model keeps.", "type": "integer", "minimum": 1},
    "rounds_made": {
        "description": "Rounds of boosting that were made, of which the model keeps those up to the best.",
        "type": "integer",
        "minimum": 1,
    },
    "leaves": {"description": "Cells of all trees of the model.", "type": "integer", "minimum": 1},
}
"""JSON Schema of the fields that the learner reports."""
BINS = 256
"""Largest number of bins of a column."""


class BoostingFields(Learner):
    """Base of learners that boost trees, with the options of rounds and trees."""

    rounds: Annotated[
        int, Ge(1), Doc("most rounds of boosting; each grows a tree, with more than two classes one for each")
    ] = 1000
    shrinkage: Annotated[
        float,
        Gt(0.0),
        Le(1.0),
        Doc("share of its best value that a leaf of boosting is given: less needs more {rounds}"),
    ] = 0.1
    max_leaves: Annotated[int, Ge(2), Doc("most leaves of a tree of boosting")] = 31
    min_leaf: MinLeaf = 20
    l2: Annotated[float, Ge(0.0), Doc("weight of the squared values of leaves of boosting")] = 0.0
    row_share: Annotated[float, Gt(0.0), Le(1.0), Doc("share of the rows that each tree of boosting is grown on")] = 1.0
    column_share: Annotated[
        float, Gt(0.0), Le(1.0), Doc("share of the columns that each tree of boosting is grown on")
    ] = 1.0
    held_out: Annotated[
        float,
        Ge(0.0),
        Lt(1.0),
        Doc("share of the rows that boosting holds out to end its rounds; 0: {rounds} are made"),
    ] = 0.1
    patience: Annotated[int, Ge(1), Doc("rounds without improvement on held-out rows after which boosting ends")] = 50

    @property
    def log_odds(self) -> bool:
        return True


class Boosting(BoostingFields, WholeLearner):
    """Gradient boosting on the rows, whose trees are cells and whose values of leaves are weights of the cells.

    Classes go by the logistic loss, more than two by one model of each class against the others; numbers go by squared
    error, or by the pinball loss of a quantile. A share of the rows, drawn by the seed, is held out and ends the rounds
    early.
    """

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="boosting",
        title="gradient boosting",
        on="rows",
        tasks=frozenset({"classification", "regression"}),
        models=("ikmap.learners.cells_model",),
        metrics_schema=METRICS_SCHEMA,
    )

    quantile_level: Annotated[
        float | None, Gt(0.0), Lt(1.0), Doc("quantile that boosting predicts, in place of the mean (regression only)")
    ] = None

    def check_task(self, task: str) -> None:
        if self.quantile_level is not None and task not in ("auto", "regression"):
            raise FieldError("quantile_level", f"task {task}", "regression", value=self.quantile_level)

    def fit(self, training: Training) -> tuple[CellsModel, Summary]:
        import numpy as np

        from ikmap.learners.boosting.boosting import BoostingSettings, boost
        from ikmap.learners.boosting.growth import TreeSettings
        from ikmap.learners.cells_model import CellsModel
        from ikmap.learners.linear_model import LinearModel

        y, n_classes = training.y, len(training.classes)
        if n_classes > 2:
            targets = np.equal.outer(y, np.arange(n_classes)).astype(np.float64)
        else:
            targets = np.asarray(y, dtype=np.float64)[:, None]
        settings = BoostingSettings(
            self.rounds,
            self.shrinkage,
            TreeSettings(self.max_leaves, self.min_leaf, self.l2),
            self.row_share,
            self.column_share,
            self.held_out,
            self.patience,
        )
        boosted = boost(training.rows, targets, self._loss(n_classes), settings, training.seed, training.n_threads)
        params: dict[str, Json] = {"shrinkage": self.shrinkage, "max_leaves": self.max_leaves}
        linear = LinearModel(boosted.coef, boosted.intercept, 1.0, self.about.name, training.classes, params)
        summary: Summary = {
            "trees": boosted.partitions.n_partitions,
            "rounds_made": boosted.rounds_made,
            "leaves": len(boosted.coef),
        }
        return CellsModel(boosted.partitions, linear), summary

    def _loss(self, n_classes: int) -> Loss:
        from ikmap.learners.boosting.losses import Logistic, Quantile, Squared

        level = self.quantile_level
        if n_classes:
            return Logistic()
        return Squared() if level is None else Quantile(level)

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        # Bins of all rows and of those to learn from; margins, targets, gradients, hessians and words of rows; the
        # histograms of all leaves that grow; trees and their weights.
        bins = 2 * shape.n * shape.d
        per_row = shape.n * (8 * 3 * shape.outputs + 8 * 6)
        histograms = 16 * BINS * shape.d * (self.max_leaves + 1)
        trees = self.rounds * shape.outputs * self.max_leaves * (40 + 8 * shape.outputs)
        return bins + per_row + histograms + trees + shape.rows_bytes
