"""Throwaway learners by counts, as a stranger would write them: naive Bayes on cells, and means of classes on rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt

from ikmap.learners.rows import Block
from ikmap.methods import CountsLearner, Doc, LearnerAbout, Sample
from ikmap.model import Model
from ikmap.rows import as_dense

if TYPE_CHECKING:
    from ikmap.methods.learner import Counts, Summary


def both_sides(decision: np.ndarray) -> np.ndarray:
    """Decisions of shape (n, K): of two classes how far the second is ahead."""
    return decision[:, 1:] - decision[:, :1] if decision.shape[1] == 2 else decision


@dataclass(frozen=True, eq=False)
class LogShares(Model):
    kind: ClassVar[str] = "throwaway-log-shares"

    shares: np.ndarray
    prior: np.ndarray
    classes: list[Any]

    def decision_function(self, rows: Any) -> np.ndarray:
        return both_sides(self.prior + self.shares[rows.codes + rows.offsets[:-1]].sum(axis=1))


@dataclass(frozen=True, eq=False)
class Means(Model):
    kind: ClassVar[str] = "throwaway-means"

    means: np.ndarray
    classes: list[Any]

    def decision_function(self, rows: Any) -> np.ndarray:
        X = as_dense(rows)
        return both_sides(-((X[:, None, :] - self.means) ** 2).sum(axis=2))


class NaiveBayes(CountsLearner):
    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="naive-bayes", title="naive Bayes on cells", models=("tests.plugins.counting",)
    )
    smooth: Annotated[float, Gt(0), Doc("added to every count of a cell")] = 1.0

    def count(self, block: Block, sample: Sample) -> Counts:
        rows: Any = block.rows
        assert sample.offsets is not None
        cells = np.zeros((int(sample.offsets[-1]), sample.n_classes), dtype=np.int64)
        np.add.at(cells, (rows.codes + rows.offsets[:-1], block.y[:, None]), 1)
        return {"cells": cells, "rows": np.bincount(block.y, minlength=sample.n_classes)}

    def finish(self, counts: Counts, sample: Sample) -> tuple[Model, Summary]:
        assert sample.task is not None
        rows = counts["rows"] + self.smooth
        model = LogShares(np.log((counts["cells"] + self.smooth) / rows), np.log(rows), sample.task.codec.classes)
        return model, {"rows_counted": int(counts["rows"].sum())}


class NearestMean(CountsLearner):
    """With sums of fractions, which come out the same because blocks are always merged in the same order."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="means", title="nearest mean of a class", on="rows", models=("tests.plugins.counting",)
    )

    def count(self, block: Block, sample: Sample) -> Counts:
        X = as_dense(block.rows)
        sums = np.stack([X[block.y == k].sum(axis=0) for k in range(sample.n_classes)])
        return {"sums": sums, "rows": np.bincount(block.y, minlength=sample.n_classes)}

    def finish(self, counts: Counts, sample: Sample) -> tuple[Model, Summary]:
        assert sample.task is not None
        means = counts["sums"] / np.maximum(counts["rows"], 1)[:, None]
        return Means(means, sample.task.codec.classes), {"rows_counted": int(counts["rows"].sum())}
