"""Gradient boosting: trees that are grown one after the other, each by what those before it have left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from ikmap.methods.about import LearnerAbout
from ikmap.methods.capabilities import DecidesOtherwise
from ikmap.methods.fields import Doc, FieldError
from ikmap.methods.forest import MinLeaf
from ikmap.methods.learner import Learner, RoundsLearner
from ikmap.methods.sample import Sample, Shape, Training
from ikmap.tasks.regression.quantiles_schema import QUANTILES

if TYPE_CHECKING:
    from ikmap.json_values import Json, Label
    from ikmap.learners.boosting.boosting import Boosted, Problem
    from ikmap.learners.boosting.losses import Loss
    from ikmap.learners.cells_model import CellsModel
    from ikmap.learners.rows import PieceRows
    from ikmap.methods.learner import Arrays, RoundState, Summary, SumsOf
    from ikmap.tasks import Task

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
BYTE_BINS, MOST_BINS = 256, 1 << 16
"""Largest number of bins of a column whose numbers are kept in a byte, or in two."""
MOST_LEAVES = 1 << 16
"""Largest number of leaves of a tree whose numbers are kept in two bytes."""
ROW_BYTES = 64
"""Bytes of a row beside its bins: margin, target, gradient, hessian, their words, and places in the order of leaves."""
READ_BYTES = 64 << 20
"""Bytes of rows that are read, and made bins of, at a time."""


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
    l2: Annotated[float, Ge(0.0), Doc("weight of the squared values of leaves of boosting")] = 1.0
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
    max_bins: Annotated[
        int,
        Ge(2),
        Le(MOST_BINS),
        Doc("most bins of a column, between which boosting splits; more than 256 take longer, and twice the memory"),
    ] = BYTE_BINS
    backfit: Annotated[
        int,
        Ge(0),
        Doc(
            "rounds after which boosting estimates the values of the leaves of all its trees anew, one tree after the "
            "other, in memory; 0: never"
        ),
    ] = 0
    backfit_l2: Annotated[float, Ge(0.0), Doc("weight of the squared values of leaves that {backfit} estimates")] = (
        300.0
    )

    @property
    def log_odds(self) -> bool:
        return True


class Boosting(BoostingFields, RoundsLearner, DecidesOtherwise):
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
        metrics_schema={**METRICS_SCHEMA, **QUANTILES},
    )

    solver: Annotated[
        Literal["auto", "memory", "block", "distributed"],
        Doc(
            "how boosting grows its trees, with the same result: with the bins of all rows in the memory of one "
            "worker, in files, or in pieces by many workers; auto goes by size"
        ),
    ] = "auto"
    quantile_level: Annotated[
        float | None, Gt(0.0), Lt(1.0), Doc("quantile that boosting predicts, in place of the mean (regression only)")
    ] = None

    small_orders: ClassVar[bool] = True
    most_in_memory: ClassVar[int] = 256 << 20

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        if self.quantile_level is not None and self.solver not in ("auto", "memory"):
            instead = (
                "the quantile of a leaf is found among all of its rows; leave {solver} out or give {solver} memory"
            )
            raise FieldError(
                "quantile_level", f"{{solver}} {self.solver}", "memory", value=self.quantile_level, instead=instead
            )

        if self.backfit and self.solver not in ("auto", "memory"):
            instead = "the leaves of all rows are held in memory; leave {solver} out or give {solver} memory"
            raise FieldError("backfit", f"{{solver}} {self.solver}", "memory", value=self.backfit, instead=instead)
        if self.backfit and self.max_leaves > MOST_LEAVES:
            raise FieldError(
                "backfit", f"{{max_leaves}} {self.max_leaves}", f"at most {MOST_LEAVES:,}", value=self.backfit
            )
        if self.backfit and self.quantile_level is not None:
            raise FieldError("backfit", f"{{quantile_level}} {self.quantile_level}", "0", value=self.backfit)

    def check_task(self, task: str) -> None:
        if self.quantile_level is not None and task not in ("auto", "regression"):
            raise FieldError("quantile_level", f"task {task}", "regression", value=self.quantile_level)

    def decision_task(self, task: Task) -> Task:
        if self.quantile_level is None:
            return task
        from ikmap.tasks.regression.quantiles import with_quantiles

        return with_quantiles(task, [self.quantile_level])

    def takes_weights(self, task: str) -> bool:
        # The quantile of a leaf is one of its rows.
        return self.quantile_level is None

    def choose_solver(self, held_bytes: int) -> str:
        return "memory" if self.quantile_level is not None or self.backfit else super().choose_solver(held_bytes)

    def _problem(self, seed: int, n_rows: int, n_columns: int, n_classes: int) -> Problem:
        from ikmap.learners.boosting.boosting import BoostingSettings, Problem
        from ikmap.learners.boosting.growth import TreeSettings

        settings = BoostingSettings(
            self.rounds,
            self.shrinkage,
            TreeSettings(self.max_leaves, self.min_leaf, self.l2),
            self.row_share,
            self.column_share,
            self.held_out,
            self.patience,
            self.max_bins,
            self.backfit,
            self.backfit_l2,
        )
        n_outputs = n_classes if n_classes > 2 else 1
        return Problem(settings, self._loss(n_classes), seed, n_rows, n_columns, n_outputs)

    def _problem_of(self, sample: Sample) -> Problem:
        return self._problem(sample.seed, sample.n_rows, sample.n_columns, sample.n_classes)

    def begin(self, sample: Sample, arrays: Arrays | None = None) -> RoundState:
        import numpy as np

        from ikmap.learners.boosting.boosting import Boosting as State

        problem = self._problem_of(sample)
        if sample.division is not None and not arrays:
            problem = problem.divided(sample.division(np.arange(sample.n_rows)))
        return State(problem) if arrays is None else State.restore(problem, arrays)

    def pieces(self, sample: Sample, n_pieces: int) -> list[tuple[int, int]]:
        from itertools import pairwise

        from ikmap.learners.boosting.piece import SUM_ROWS

        # All but the last are whole blocks of rows whose losses are added up.
        n_blocks = -(-sample.n_rows // SUM_ROWS)
        n_pieces = min(n_pieces, n_blocks)
        ends = [min(sample.n_rows, SUM_ROWS * (n_blocks * k // n_pieces)) for k in range(n_pieces + 1)]
        return list(pairwise(ends))

    def hold(self, rows: PieceRows, sample: Sample) -> SumsOf:
        import numpy as np

        from ikmap.learners.boosting.piece import Piece

        problem, places = self._problem_of(sample), None
        if sample.division is not None and self.held_out:
            places = problem.places(sample.division(np.arange(rows.start, rows.stop)))
        return Piece(rows, problem.drawn, places).sums

    def rests(self, state: RoundState) -> bool:
        from ikmap.learners.boosting.boosting import Boosting as State

        assert isinstance(state, State)
        return state.rests

    def row_bytes(self, columns: int, outputs: int) -> int:
        return columns * (1 if self.max_bins <= BYTE_BINS else 2) + ROW_BYTES + 8 * (outputs - 1)

    def finish(self, state: RoundState, sample: Sample) -> tuple[CellsModel, Summary]:
        from ikmap.learners.boosting.boosting import Boosting as State

        assert isinstance(state, State)
        return self._model(state.boosted(), sample.task.codec.classes if sample.task else [])

    def fit(self, training: Training) -> tuple[CellsModel, Summary]:
        from ikmap.learners.boosting.boosting import boost

        n, d = training.rows.shape
        problem, weight = self._problem(training.seed, n, d, len(training.classes)), training.block.sample_weight
        if weight is not None and self.quantile_level is not None:
            raise ValueError("boosting of a quantile: found weights of rows, expected none")
        boosted = boost(
            training.rows,
            training.y,
            problem,
            training.n_threads,
            sample_weight=weight,
            division=training.division,
        )
        return self._model(boosted, training.classes)

    def _model(self, boosted: Boosted, classes: list[Label]) -> tuple[CellsModel, Summary]:
        from ikmap.learners.cells_model import CellsModel
        from ikmap.learners.linear_model import LinearModel

        params: dict[str, Json] = {"shrinkage": self.shrinkage, "max_leaves": self.max_leaves}
        linear = LinearModel(boosted.coef, boosted.intercept, 1.0, self.about.name, classes, params)
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
        # The rows that edges are taken from, and their copy in one array. Then the pieces with what is kept of their
        # rows; the histograms of all leaves that grow, and of those that are asked for at once; trees and their
        # weights. Rows are read for either.
        from ikmap.learners.boosting.bins import n_edge_rows

        edges = 2 * n_edge_rows(shape.n, shape.d) * shape.rows_bytes // max(1, shape.n)
        held = shape.n * self.row_bytes(shape.d, shape.outputs)
        solver = self.choose_solver(held)
        if solver != "memory":
            held = min(held, self.piece_bytes)
        leaves = self.max_leaves + 1 if solver != "distributed" else 3 * (self.max_leaves + 1)
        histograms = 16 * self.max_bins * shape.d * leaves
        trees = self.rounds * shape.outputs * self.max_leaves * (40 + 8 * shape.outputs)
        leaves_of_rows = 4 * shape.n * shape.outputs * self.rounds if self.backfit else 0  # they grow by doubling
        growing = held + histograms + trees + leaves_of_rows
        return max(edges, growing) + min(shape.rows_bytes, READ_BYTES)
