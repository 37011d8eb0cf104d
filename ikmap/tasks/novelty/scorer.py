"""Metrics of a learner of novelty, accumulated so that they add up over shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ikmap.json_values import Json, list_of, mapping_of, real_number, whole_number, whole_numbers
from ikmap.tasks.novelty.presenter import MOST_ROWS
from ikmap.tasks.score_histogram import ScoreHistogram, average_precision, roc_auc
from ikmap.tasks.task import Scorer

BITS = 10
"""Bits of the mantissa of scores in bins, which are narrower than a thousandth of the distance from the threshold."""
GROUPS = 2
"""Number of groups of rows: normal and novel ones, by their label."""


@dataclass(frozen=True, eq=False)
class NoveltyState:
    """Counts of rows and alerts, the scores of rows with a label, and the rows with the highest scores.

    Attributes
    ----------
    rows, alerts : int
    scores : ScoreHistogram
        Scores of normal and of novel rows, by their label.
    first : list of (row number, score)
        At most :data:`MOST_ROWS` rows, the highest scores first, ties by row number.
    """

    rows: int
    alerts: int
    scores: ScoreHistogram
    first: list[tuple[int, float]]

    def __add__(self, other: Self) -> Self:
        first = sorted([*self.first, *other.first], key=lambda row: (-row[1], row[0]))[:MOST_ROWS]
        return type(self)(self.rows + other.rows, self.alerts + other.alerts, self.scores + other.scores, first)

    def as_json(self) -> dict[str, Json]:
        """Return the state for a record."""
        first = [list(row) for row in self.first]
        return {"rows": self.rows, "alerts": self.alerts, "scores": self.scores.as_json(), "first": first}

    def metrics(self) -> dict[str, Json]:
        """Return the share of alerts, and if labels mark anomalies, how well scores rank them."""
        normal, novel = self.scores.counts.T
        area, error = roc_auc(normal, novel) or (None, None)
        return {
            "alert_rate": self.alerts / self.rows if self.rows else None,
            "alerts": self.alerts,
            "roc_auc": area,
            "roc_auc_error": error,
            "average_precision": None if area is None else average_precision(normal, novel),
            "rows_by_label": [int(normal.sum()), int(novel.sum())],
            "most_novel": [{"row": row, "score": score} for row, score in self.first],
        }


@dataclass(frozen=True)
class NoveltyScorer(Scorer):
    """Accumulates the metrics of a learner of novelty."""

    def accumulate(self, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray | None = None) -> NoveltyState:
        score = decision[:, 0]
        places = np.arange(target.size) if numbers is None else numbers
        first = np.lexsort((places, -score))[:MOST_ROWS]
        return NoveltyState(
            target.size,
            int((score > 0).sum()),
            ScoreHistogram.of(score, target, GROUPS, BITS),
            [(int(places[k]), float(score[k])) for k in first],
        )

    def state_from(self, values: Json) -> NoveltyState:
        if values is None:
            return NoveltyState(0, 0, ScoreHistogram.from_json([], GROUPS), [])
        record = mapping_of(values)
        scores = ScoreHistogram.from_json([whole_numbers(row) for row in list_of(record["scores"])], GROUPS)
        pairs = map(list_of, list_of(record["first"]))
        first = [(whole_number(row), real_number(score)) for row, score in pairs]
        return NoveltyState(whole_number(record["rows"]), whole_number(record["alerts"]), scores, first)
