"""Histograms of the decision values of each class, over its rows and over all other rows. They add up over shards."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from ikmap.json_values import Json, list_of, text_of
from ikmap.tasks.score_histogram import ScoreHistogram, average_precision, lower_edge, roc_auc, upper_edge

MOST_BITS, LEAST_BITS = 10, 4
BINS = 1 << 19
"""Approximate largest number of bins of all classes together."""
OCTAVES = 24
"""Assumed number of powers of two over which decision values of one sign spread."""
POINTS = 101
"""Largest number of points of a curve."""
OTHERS, OWN = 0, 1
"""Columns of the counts: rows of other classes, and of the class itself."""


def bits_for(outputs: int) -> int:
    """Return the number of bits of the mantissa that bins tell apart.

    With one output it is 10, so that bins are narrower than a thousandth of a score.
    """
    return int(np.clip(int(np.log2(BINS / (outputs * OCTAVES))), LEAST_BITS, MOST_BITS))


@dataclass(frozen=True, eq=False)
class ClassScores:
    """A histogram of each column of decisions. Two classes have a single one, of the second class against the first.

    Attributes
    ----------
    columns : tuple of ScoreHistogram
        Histograms of the rows of other classes, and of the class of the column.
    """

    columns: tuple[ScoreHistogram, ...]

    @classmethod
    def of(cls, target: np.ndarray, decision: np.ndarray) -> Self:
        """Count rows by class number and decisions of shape (n, K)."""
        outputs = decision.shape[1]
        bits = bits_for(outputs)
        own = target[:, None] == (np.arange(outputs) if outputs > 1 else np.array([1]))
        return cls(
            tuple(ScoreHistogram.of(decision[:, k], own[:, k].astype(np.int64), 2, bits) for k in range(outputs))
        )

    @classmethod
    def none(cls, outputs: int) -> Self:
        """Return the histograms of no rows."""
        return cls(tuple(ScoreHistogram.from_json([], 2) for _ in range(outputs)))

    def __add__(self, other: Self) -> Self:
        return type(self)(tuple(a + b for a, b in zip(self.columns, other.columns, strict=True)))

    @property
    def bits(self) -> int:
        """Number of bits of the mantissa that bins tell apart."""
        return bits_for(len(self.columns))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.columns[0].counts.sum())

    def as_json(self) -> list[list[str]]:
        """Return bins and counts of each column as text."""
        return [
            [_packed(np.diff(column.bins, prepend=0)), *(_packed(column.counts[:, kind]) for kind in (OTHERS, OWN))]
            for column in self.columns
        ]

    @classmethod
    def from_json(cls, values: Json) -> Self:
        """Return the histograms from which :meth:`as_json` made these values."""
        columns = []
        for texts in list_of(values):
            steps, others, own = map(_unpacked, map(text_of, list_of(texts)))
            columns.append(ScoreHistogram(np.cumsum(steps), np.column_stack([others, own])))
        return cls(tuple(columns))

    def middles(self, k: int) -> np.ndarray:
        """Return the value in the middle of each bin of a column, float64."""
        bins, bits = self.columns[k].bins.tolist(), self.bits
        return np.array([(lower_edge(b, bits) + upper_edge(b, bits)) / 2 for b in bins], dtype=np.float64)

    def areas(self) -> tuple[float, float] | None:
        """Return the mean area under the ROC curves of the columns, and the largest possible error of it.

        A column whose rows are all of the class, or all of others, is left out; None is returned if no column is left.
        """
        areas = [area for column in self.columns if (area := roc_auc(*column.counts.T)) is not None]
        if not areas:
            return None
        return float(np.mean([area for area, _ in areas])), float(np.mean([error for _, error in areas]))

    def precision(self) -> float | None:
        """Return the mean of the average precision of the columns. Rows of a bin count as tied."""
        pairs = [column.counts.T for column in self.columns if column.counts.sum(axis=0).all()]
        values = [value for pair in pairs if (value := average_precision(*pair)) is not None]
        return float(np.mean(values)) if values else None

    def curves(self, k: int) -> dict[str, list[list[float]]] | None:
        """Return points of the ROC curve of a column and of precision over recall, from the highest score down."""
        others, own = self.columns[k].counts[::-1].T
        if not others.sum() or not own.sum():
            return None
        false, true = np.r_[0, np.cumsum(others)], np.r_[0, np.cumsum(own)]
        share_false, share_true = false / false[-1], true / true[-1]
        at = _spread(share_false + share_true)
        hits = np.flatnonzero(np.r_[False, own > 0])
        hits = hits[_spread(share_true[hits])]
        precision = true[hits] / (true[hits] + false[hits])
        return {
            "roc": np.column_stack([share_false[at], share_true[at]]).round(6).tolist(),
            "precision_recall": np.column_stack([share_true[hits], precision]).round(6).tolist(),
        }


def _spread(along: np.ndarray) -> np.ndarray:
    """Return the indices of at most :data:`POINTS` ascending values, evenly spread, with both ends."""
    wanted = np.linspace(along[0], along[-1], POINTS)
    at: np.ndarray = np.unique(np.r_[0, np.searchsorted(along, wanted).clip(0, along.size - 1), along.size - 1])
    return at


def _packed(numbers: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(numbers, dtype="<i8").tobytes(), 6)).decode()


def _unpacked(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i8").astype(np.int64)
