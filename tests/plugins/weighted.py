"""Throwaway tasks whose rows weigh: numbers with two outputs, and a ridge regression for them; classes, and an SVM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt

from ikmap.learners.rows import Block
from ikmap.methods import CountsLearner, Doc, LearnerAbout, Sample
from ikmap.methods.linear_on_cells import LinearSVM
from ikmap.model import Model
from ikmap.tasks import Classification, Task
from ikmap.tasks.capabilities import WeighsRows
from ikmap.tasks.regression.decisions import NumberDecisions
from ikmap.tasks.task import Codec
from tests.plugins.number_task import Numbers, NumbersCodec, columns_of

if TYPE_CHECKING:
    from ikmap.methods.learner import Counts, Summary


class TwoColumns(NumberDecisions):
    """Decisions for a number and its square; the number is the prediction."""

    @property
    def outputs(self) -> int:
        return 2


class Curved(Numbers, WeighsRows):
    """A number and its square are learned; rows far from the mean weigh little."""

    name: ClassVar[str] = "curved"

    def of(self, mean: float) -> Task:
        return replace(super().of(mean), decisions=TwoColumns())

    def sample_weight(self, codec: Codec, targets: np.ndarray) -> np.ndarray:
        assert isinstance(codec, NumbersCodec)
        return 1 / (1 + (targets - codec.mean) ** 2)

    def columns_of(self, targets: np.ndarray) -> np.ndarray:
        """Return what decisions are to be, shape (n, 2)."""
        return np.column_stack([targets, targets**2])


class Heavy(Classification, WeighsRows):
    """A row of class k weighs as much as k + 1 rows."""

    name: ClassVar[str] = "heavy"
    words: ClassVar[tuple[str, ...]] = ()

    def sample_weight(self, codec: Codec, targets: np.ndarray) -> np.ndarray:
        return targets + 1.0


class OneClass(Heavy):
    """Only rows of the second class weigh anything."""

    name: ClassVar[str] = "one-class"

    def sample_weight(self, codec: Codec, targets: np.ndarray) -> np.ndarray:
        return (targets == 1) * 1.0


@dataclass(frozen=True, eq=False)
class CellWeights(Model):
    """Weights for each cell, one for each output: decisions are their sums over the cells of a row."""

    kind: ClassVar[str] = "throwaway-cell-weights"

    weights: np.ndarray

    def decision_function(self, rows: Any) -> np.ndarray:
        return self.weights[columns_of(rows)].sum(axis=1)


class CurvedRidge(CountsLearner):
    """By the normal equations."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="curved-ridge",
        title="ridge regression on cells",
        tasks=frozenset({Curved.name}),
        models=("tests.plugins.weighted",),
    )
    ridge: Annotated[float, Gt(0), Doc("how much large weights cost")] = 0.5

    def takes_weights(self, task: str) -> bool:
        return True

    def count(self, block: Block, sample: Sample) -> Counts:
        rows: Any = block.rows
        assert sample.task is not None
        kind = sample.task.kind
        assert isinstance(kind, Curved)
        weight = np.ones(block.y.size) if block.sample_weight is None else block.sample_weight
        X = rows.to_csr(normalize=False)
        weighted = X.multiply(weight[:, None]).T.tocsr()
        return {"cells": (weighted @ X).toarray(), "targets": weighted @ kind.columns_of(block.y)}

    def finish(self, counts: Counts, sample: Sample) -> tuple[Model, Summary]:
        cells = counts["cells"]
        weights = np.linalg.solve(cells + self.ridge * np.eye(cells.shape[0]), counts["targets"])
        return CellWeights(weights), {"cells_seen": int(np.count_nonzero(cells.diagonal()))}


class HeavySVM(LinearSVM):
    about: ClassVar[LearnerAbout] = replace(
        LinearSVM.about, name="heavy-svm", tasks=frozenset({Heavy.name, OneClass.name})
    )
