"""Regression as a kind of task: labels are numbers to predict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ikmap.json_values import JsonObject, list_of, real_number, whole_number, whole_numbers
from ikmap.tasks.capabilities import NeedsLoops
from ikmap.tasks.regression.presenter import GROUPS, NumberPresenter
from ikmap.tasks.task import Codec, LabelRequest, LabelRules, PartLabels, Presenter, Task, TaskKind, Usual

if TYPE_CHECKING:
    import numpy as np


class Regression(TaskKind, NeedsLoops):
    """Predicts a number for each row. Labels are finite numbers.

    R2 of a curve, a search or a stream compares squared errors with the variance of the labels at the beginning of the
    data, which is known before the rows are; R2 of test rows compares them with the variance of these rows.
    """

    name: ClassVar[str] = "regression"
    labels: ClassVar[LabelRules] = LabelRules(choose=True)
    usual: ClassVar[Usual] = Usual(learner="ridge")
    presenter: ClassVar[Presenter] = NumberPresenter()
    all_loops: ClassVar[frozenset[str]] = frozenset({"numbers"})

    def of(self, mean: float = 0.0, deviation: float = 1.0, deciles: Sequence[float] = ()) -> Task:
        """Return the task of labels with this mean and deviation, which `deciles` divide into tenths."""
        from ikmap.tasks.regression.codec import NumberCodec
        from ikmap.tasks.regression.decisions import NumberDecisions
        from ikmap.tasks.regression.scorer import NumberScorer

        decisions, codec = NumberDecisions(), NumberCodec(mean, deviation, list(deciles))
        return Task(self, codec, decisions, NumberScorer(decisions, codec.mean, codec.deciles))

    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:
        """Return the labels, and their exact moments.

        Raises
        ------
        BadLabel
            A label is not a finite number.
        """
        import numpy as np

        from ikmap.tasks.regression.codec import finite_numbers, moments

        if n == 0:
            labels = np.zeros(0)
        assert labels is not None
        numbers = finite_numbers(labels)
        return numbers, moments(numbers, np.ones(n, dtype=np.int64))

    def find(self, parts: Sequence[PartLabels], request: LabelRequest) -> Task:  # noqa: ARG002
        import numpy as np

        from ikmap.tasks.exact_sums import ExactSum
        from ikmap.tasks.regression.codec import LABEL_BITS, moments_of
        from ikmap.tasks.score_histogram import ScoreHistogram, quantile_bin, upper_edge

        known = [part for part in map(moments_of, parts) if part["rows"]]
        rows = sum(whole_number(part["rows"]) for part in known)
        low = min(real_number(part["low"]) for part in known)
        high = max(real_number(part["high"]) for part in known)
        total, squares = (
            sum((ExactSum.from_json(list_of(part[key])) for part in known), ExactSum()).fraction
            for key in ("total", "squares")
        )
        deviation = math.sqrt(squares / rows - (total / rows) ** 2)
        if low == high or deviation == 0:
            raise ValueError(
                f"found the same target {low:g} in all rows, expected numbers that differ; --label names another column"
            )
        histogram = ScoreHistogram(np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.int64))
        for part in known:
            histogram = histogram + ScoreHistogram.from_json([whole_numbers(row) for row in list_of(part["bins"])], 1)
        counts = histogram.counts[:, 0]
        edges = [upper_edge(quantile_bin(histogram.bins, counts, 1 - k / GROUPS), LABEL_BITS) for k in range(1, GROUPS)]
        return self.of(float(total / rows), deviation, [edge for edge in dict.fromkeys(edges) if edge < high])

    def from_json(self, values: JsonObject) -> Task:
        deciles = [real_number(edge) for edge in list_of(values.get("deciles"))]
        return self.of(real_number(values["mean"]), real_number(values["deviation"]), deciles)

    def loops(self, codec: Codec) -> frozenset[str]:  # noqa: ARG002
        return self.all_loops


REGRESSION = Regression()
