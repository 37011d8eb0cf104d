"""Throwaway learners by counts, as a stranger would write them: naive Bayes on cells, and means of classes on rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ikmap.learners.rows import Block
from ikmap.methods import CountsLearner, MethodOptions, Sample, option
from ikmap.methods.kinds import Real
from ikmap.model import Model
from ikmap.rows import as_dense


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


class SmoothOptions(MethodOptions):
    smooth: float = option(1.0, Real(0), help="added to every count of a cell")


class _NaiveBayes(CountsLearner):
    models = ("tests.throwaway.counting",)
    Options: ClassVar[type[MethodOptions]] = SmoothOptions

    def count(
        self,
        options: Any,  # noqa: ARG002
        value: float | None,  # noqa: ARG002
        block: Block,
        sample: Sample,
    ) -> dict[str, np.ndarray]:
        rows: Any = block.rows
        assert sample.offsets is not None
        cells = np.zeros((int(sample.offsets[-1]), sample.n_classes), dtype=np.int64)
        np.add.at(cells, (rows.codes + rows.offsets[:-1], block.y[:, None]), 1)
        return {"cells": cells, "rows": np.bincount(block.y, minlength=sample.n_classes)}

    def finish(
        self,
        options: Any,
        value: float | None,  # noqa: ARG002
        counts: dict[str, np.ndarray],
        sample: Sample,
    ) -> tuple[Any, dict[str, Any]]:
        assert sample.task is not None
        rows = counts["rows"] + options.smooth
        model = LogShares(np.log((counts["cells"] + options.smooth) / rows), np.log(rows), sample.task.codec.classes)
        return model, {"rows_counted": int(counts["rows"].sum())}


class _Means(CountsLearner):
    """With sums of fractions, which come out the same because blocks are always merged in the same order."""

    models = ("tests.throwaway.counting",)

    def count(
        self,
        options: Any,  # noqa: ARG002
        value: float | None,  # noqa: ARG002
        block: Block,
        sample: Sample,
    ) -> dict[str, np.ndarray]:
        X = as_dense(block.rows)  # type: ignore[arg-type]
        sums = np.stack([X[block.y == k].sum(axis=0) for k in range(sample.n_classes)])
        return {"sums": sums, "rows": np.bincount(block.y, minlength=sample.n_classes)}

    def finish(
        self,
        options: Any,  # noqa: ARG002
        value: float | None,  # noqa: ARG002
        counts: dict[str, np.ndarray],
        sample: Sample,
    ) -> tuple[Any, dict[str, Any]]:
        assert sample.task is not None
        means = counts["sums"] / np.maximum(counts["rows"], 1)[:, None]
        return Means(means, sample.task.codec.classes), {"rows_counted": int(counts["rows"].sum())}


NAIVE_BAYES = _NaiveBayes(name="naive-bayes", title="naive Bayes on cells", on="cells")
MEANS = _Means(name="means", title="nearest mean of a class", on="rows")
