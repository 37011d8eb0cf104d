"""The codec of labels that are numbers: each is its own target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ikmap.json_values import Json, Label, labels_of, list_of, real_number, whole_numbers
from ikmap.tasks.bad_label import BadLabel
from ikmap.tasks.capabilities import Census, EncodesWords, KnowsLabels
from ikmap.tasks.exact_sums import ExactSum
from ikmap.tasks.score_histogram import ScoreHistogram, bins_of
from ikmap.tasks.task import Codec, LabelSummary, PartLabels

LARGEST = 1e150
"""Largest absolute label: squares of larger numbers leave the range of float64."""
LABEL_BITS = 10
"""Bits of the mantissa of labels in bins, which are narrower than a thousandth of a label, for their deciles."""
ENCODING_UNITS = float(1 << 30)
FAR = 256.0
"""Largest distance from the mean in the encoding of words, in deviations: the sum of 2**24 rows is below 2**63."""


@dataclass(frozen=True)
class NumberCodec(Codec, KnowsLabels, Census, EncodesWords):
    """Takes each label, a finite float64 number, as its own target, with NaN for a row without a label.

    Attributes
    ----------
    mean, deviation : float
        Moments of the labels of all rows of the training file, or of the first rows of a stream.
    deciles : list of float
        Nine numbers, or fewer if some are equal, that divide these labels into tenths.
    """

    dtype: ClassVar[str] = "float64"

    mean: float = 0.0
    deviation: float = 1.0
    deciles: list[float] = field(default_factory=list)

    @property
    def summary(self) -> LabelSummary:
        return LabelSummary({"target_mean": self.mean, "target_deviation": self.deviation}, "finite numbers")

    def targets(self, stored: np.ndarray, part: PartLabels) -> np.ndarray:
        if stored.dtype == np.float64:
            return stored
        return np.array(part["labels"], dtype=np.float64)[stored]  # stored before the task was known

    def encode(self, labels: np.ndarray | None, n: int) -> np.ndarray:
        if labels is None:
            return np.full(n, np.nan)
        if labels.dtype.kind not in "fO":
            return finite_numbers(labels)
        absent = labels == "" if labels.dtype.kind == "O" else np.isnan(labels)  # of rows without a label
        return np.where(absent, np.nan, finite_numbers(np.where(absent, 0.0, labels)))

    def unknown(self, targets: np.ndarray) -> np.ndarray:
        return np.isnan(targets)

    def unseen_labels(self, parts: Sequence[PartLabels]) -> list[Label]:
        """Return the labels that are words."""
        return [label for part in parts for label in labels_of(part.get("labels")) if isinstance(label, str)]

    def census(self, targets: np.ndarray) -> list[float] | None:
        """Return the smallest and the largest target."""
        return [float(targets.min()), float(targets.max())] if targets.size else None

    def counted(self, censuses: Sequence[Json]) -> dict[str, Json]:
        ends = [[real_number(end) for end in list_of(census)] for census in censuses if census is not None]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        if low == high:
            raise ValueError(
                f"found the same target {low:g} in all training rows, expected numbers that differ; give another "
                "--seed or split"
            )
        return {"target_range": [low, high]}

    def missing(self, targets: np.ndarray) -> str:  # noqa: ARG002
        return ""

    def encoding_outputs(self) -> tuple[list[str], float]:
        """Return one output, the distance of the target from the mean."""
        return [""], self.deviation / ENCODING_UNITS

    def encoding_targets(self, targets: np.ndarray) -> np.ndarray:
        """Return targets in small fractions of the deviation, so that sums are exact; distant targets are clipped."""
        far = np.clip((targets - self.mean) / self.deviation, -FAR, FAR)
        return np.rint(ENCODING_UNITS * far).astype(np.int64)[:, None]


def finite_numbers(labels: np.ndarray) -> np.ndarray:
    """Return labels as finite float64 numbers.

    Raises
    ------
    BadLabel
        A label is not a finite number, or is too large.
    """
    if labels.dtype == object:
        for row, label in enumerate(labels):
            try:
                float(label)
            except (TypeError, ValueError):
                raise BadLabel(row, f"found target {label!r}, expected a finite number") from None
        labels = labels.astype(np.float64)
    numbers = np.asarray(labels, dtype=np.float64)
    bad = np.flatnonzero(~(np.abs(numbers) <= LARGEST))
    if bad.size:
        expected = "a finite number" if not np.isfinite(numbers[bad[0]]) else f"a number of at most {LARGEST:g}"
        raise BadLabel(int(bad[0]), f"found target {float(numbers[bad[0]])!r}, expected {expected}")
    return numbers


def moments(numbers: np.ndarray, counts: np.ndarray) -> dict[str, Json]:
    """Return count, smallest and largest value, exact moments and a histogram of numbers with these counts."""
    if not numbers.size:
        return {"rows": 0}
    values = np.repeat(numbers, counts)
    bins, at = np.unique(bins_of(numbers, LABEL_BITS), return_inverse=True)
    in_bins = np.bincount(at, weights=counts).astype(np.int64)
    return {
        "rows": int(counts.sum()),
        "low": float(numbers.min()),
        "high": float(numbers.max()),
        "total": ExactSum.of(values).as_json(),
        "squares": ExactSum.of_squares(values).as_json(),
        "bins": ScoreHistogram(bins, in_bins[:, None]).as_json(),
    }


def moments_of(part: PartLabels) -> PartLabels:
    """Return the moments of a part, even if it was stored as labels and counts before the task was known."""
    if "rows" in part:
        return part
    labels = labels_of(part["labels"])
    if any(isinstance(label, str) for label in labels):
        raise ValueError(f"found target {next(x for x in labels if isinstance(x, str))!r}, expected numbers")
    return moments(
        finite_numbers(np.array(labels, dtype=np.float64)),
        np.array(whole_numbers(part["label_counts"]), dtype=np.int64),
    )
