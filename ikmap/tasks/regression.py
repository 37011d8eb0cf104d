"""Regression: a number to predict for each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ikmap.tasks.bad_label import BadLabel
from ikmap.tasks.importance_sections import TOLD, importance_sections
from ikmap.tasks.sections import Lines, Section, Table, Text
from ikmap.tasks.task import Asked, Figure, Found, LearningTask
from ikmap.tasks.verdict import NOTHING, Verdict, r2_by_chance
from ikmap.tasks.weighted import WeighedNumbers

if TYPE_CHECKING:
    import numpy as np

    from ikmap.tasks.regression_tally import RegressionTally

LARGEST = 1e150
"""Squares of larger numbers are out of the range of float64."""
LABEL_BITS = 10
"""Deciles of the labels are found by bins narrower than a thousandth of the labels in them."""
GROUPS = 10
ENCODING_UNITS = float(1 << 30)
FAR = 256.0
"""Deviations from the mean, in the encoding of words: with these, the sum of 2**24 rows is below 2**63."""


@dataclass(frozen=True)
class Regression(WeighedNumbers, LearningTask):
    """Labels are finite numbers; a target is the label itself, float64, and NaN where there is none.

    A decision has one column, the prediction. R2 of a curve, a search or a stream compares squared errors with the
    variance of the labels that the data began with, which is known before the rows are; R2 of test rows with the
    variance of these rows.

    Attributes
    ----------
    mean, deviation : float
        Of the labels of all rows of the training file, or of the first rows of a stream that has no end yet.
    deciles : list of float
        Nine numbers, or fewer where some are equal, that divide these labels into tenths.
    """

    name: ClassVar[str] = "regression"
    dtype: ClassVar[str] = "float64"
    predicted: ClassVar[str] = "float64"
    by_labels: ClassVar[bool] = True
    tallies_streams: ClassVar[bool] = True
    compiled: ClassVar[frozenset[str]] = frozenset({"numbers"})
    usual_learner: ClassVar[str] = "ridge"
    figure: ClassVar[Figure] = Figure(
        key="r2",
        unit="number",
        of_test="share of the variance of {rows} test rows ({which}) that is explained",
        of_stream="share of the variance of the rows of the stream that was explained before they were learned from",
        so_far="Share of the variance of the targets that the predictions explain up to here (R2); each row is "
        "predicted before it is learned from",
        lead="has R2 = {value} on {rows}",
        lead_of_stream="had R2 = {value} on {rows} right before it learned from them",
        table="R2, the share of the variance that is explained",
    )

    told_of_labels: ClassVar[Mapping[str, Any]] = {
        "target_mean": {"description": "Of the labels of all rows of the training file.", "type": "number"},
        "target_deviation": {
            "description": "Standard deviation of these labels.",
            "type": "number",
            "exclusiveMinimum": 0,
        },
    }
    told_of_rows: ClassVar[Mapping[str, Any]] = {
        "target_range": {"type": "array", "items": {"type": "number"}},
    }
    told: ClassVar[Mapping[str, Any]] = {
        **TOLD,
        "rmse": {
            "description": "On the test rows, or those of a stream; null where none was predicted.",
            "oneOf": [{"type": "null"}, {"type": "number"}],
        },
        "mae": {"type": "number"},
        "by_decile": {
            "description": "Test rows, or those of a stream, in the order of their targets, divided where the deciles "
            "of the training file are: how many, their mean target and mean prediction, and the errors.",
            "type": "array",
            "maxItems": GROUPS,
            "items": {
                "type": "object",
                "properties": {
                    "rows": {"type": "integer", "minimum": 1},
                    **{key: {"type": "number"} for key in ("target", "prediction", "rmse", "mae")},
                },
            },
        },
        "residuals": {
            "description": "Targets less predictions: middles of bins of equal width, and the share of the rows "
            "in each; the first and the last bin have what lies beyond them too.",
            "type": "object",
            "properties": {
                "middle": {"type": "array", "items": {"type": "number"}},
                "share": {"type": "array", "items": {"type": "number"}},
            },
        },
    }

    mean: float = 0.0
    deviation: float = 1.0
    deciles: list[float] = field(default_factory=list)

    # By what words of a table are encoded.

    def encoding_outputs(self) -> tuple[list[str], float]:
        """The target: its distance from the mean."""
        return [""], self.deviation / ENCODING_UNITS

    def encoding_targets(self, targets: np.ndarray) -> np.ndarray:
        """In small fractions of the deviation, so that sums are exact; what is very far off counts as less so."""
        import numpy as np

        far = np.clip((targets - self.mean) / self.deviation, -FAR, FAR)
        return np.rint(ENCODING_UNITS * far).astype(np.int64)[:, None]

    # What labels become.

    @classmethod
    def store(cls, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, Found]:
        """The labels, and their exact moments.

        Raises
        ------
        BadLabel
            One of them is no finite number.
        """
        import numpy as np

        if n == 0:
            labels = np.zeros(0)
        assert labels is not None
        numbers = _numbers(labels)
        return numbers, _found(numbers, np.ones(n, dtype=np.int64))

    @classmethod
    def find(cls, found: Sequence[Found], asked: Asked) -> Self:  # noqa: ARG003
        import numpy as np

        from ikmap.tasks.exact_sums import ExactSum
        from ikmap.tasks.score_histogram import ScoreHistogram, quantile_bin, upper_edge

        parts = [_of_labels(part) for part in found]
        parts = [part for part in parts if part["rows"]]
        rows = sum(part["rows"] for part in parts)
        low, high = min(part["low"] for part in parts), max(part["high"] for part in parts)
        total = sum((ExactSum.from_json(part["total"]) for part in parts), ExactSum()).fraction
        squares = sum((ExactSum.from_json(part["squares"]) for part in parts), ExactSum()).fraction
        deviation = math.sqrt(squares / rows - (total / rows) ** 2)
        if low == high or deviation == 0:
            raise ValueError(
                f"found the same target {low:g} in all rows, expected numbers that differ; --label names another column"
            )
        histogram = ScoreHistogram(np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.int64))
        for part in parts:
            histogram = histogram + ScoreHistogram.from_json(part["bins"], 1)
        counts = histogram.counts[:, 0]
        edges = [upper_edge(quantile_bin(histogram.bins, counts, 1 - k / GROUPS), LABEL_BITS) for k in range(1, GROUPS)]
        return cls(float(total / rows), deviation, [edge for edge in dict.fromkeys(edges) if edge < high])

    def targets(self, stored: np.ndarray, found: Found) -> np.ndarray:
        import numpy as np

        if stored.dtype == np.float64:
            return stored
        numbers: np.ndarray = np.array(found["labels"], dtype=np.float64)[stored]  # stored before the task was known
        return numbers

    def encode(self, labels: np.ndarray | None, n: int) -> np.ndarray:
        import numpy as np

        return np.full(n, np.nan) if labels is None else _numbers(labels)

    def unknown(self, targets: np.ndarray) -> np.ndarray:
        import numpy as np

        return np.isnan(targets)

    def strangers(self, found: Sequence[Found]) -> list[Any]:
        return [label for part in found for label in part.get("labels", ()) if isinstance(label, str)]

    @property
    def known(self) -> str:
        return "finite numbers"

    @property
    def loops(self) -> frozenset[str]:
        return self.compiled

    def about(self) -> dict[str, Any]:
        return {"target_mean": self.mean, "target_deviation": self.deviation}

    def census(self, targets: np.ndarray) -> list[float] | None:
        """The smallest and the largest."""
        return [float(targets.min()), float(targets.max())] if targets.size else None

    def counted(self, censuses: Sequence[Any]) -> dict[str, Any]:
        known = [census for census in censuses if census is not None]
        low, high = min(low for low, _ in known), max(high for _, high in known)
        if low == high:
            raise ValueError(
                f"found the same target {low:g} in all training rows, expected numbers that differ; give another "
                "--seed or split"
            )
        return {"target_range": [low, high]}

    # What decisions mean.

    def predict(self, decision: np.ndarray) -> np.ndarray:
        return decision[:, 0]

    def responses(self, decision: np.ndarray) -> dict[str, np.ndarray]:
        return {"prediction": decision[:, 0]}

    # How good they are.

    def tally(self, target: np.ndarray, decision: np.ndarray) -> RegressionTally:
        from ikmap.tasks.regression_tally import RegressionTally

        return RegressionTally.of(target, self.predict(decision), self.deciles, self.mean)

    def tally_from(self, values: Any) -> RegressionTally:
        from ikmap.tasks.regression_tally import RegressionTally

        return RegressionTally.from_json(values, len(self.deciles) + 1)

    def figures(self, tally: RegressionTally) -> dict[str, Any]:
        """R2, None where all targets are the same; errors, also by decile; and how residuals are distributed."""
        whole = tally.whole
        return {
            "r2": whole.r2,
            "rmse": whole.rmse,
            **({} if whole.mae is None else {"mae": whole.mae}),
            "by_decile": [
                {
                    "rows": group.rows,
                    "target": self.mean + group.mean_target,
                    "prediction": self.mean + group.mean_prediction,
                    "rmse": group.rmse,
                    "mae": group.mae,
                }
                for group in tally.groups
                if group.rows
            ],
            "residuals": tally.residuals_for_people(),
        }

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Squared errors, in units of the variance of the labels, below 0."""
        return -(((target - predicted) / self.deviation) ** 2)

    def score(self, total: Any, rows: Any) -> Any:
        return 1 + total / rows

    def implied(self, score: float) -> dict[str, Any]:
        return {"rmse": self.deviation * math.sqrt(max(0.0, 1 - score))}

    def spread(self, row_scores: np.ndarray) -> float:
        return float(1.96 * row_scores.std() / row_scores.size**0.5)

    # How it is reported.

    @classmethod
    def facts(cls, figures: Mapping[str, Any]) -> Sequence[tuple[str, Any, str]]:
        from ikmap.tasks.quantiles import interval_facts

        return [
            ("root of the mean squared error", figures.get("rmse"), "number"),
            ("mean absolute error", figures.get("mae"), "number"),
            *interval_facts(figures),
        ]

    @classmethod
    def more(cls, figures: Mapping[str, Any]) -> str:
        """How far off the predictions are, in the unit of the target."""
        from ikmap.tasks.quantiles import interval_sentence

        rmse, mae = figures.get("rmse"), figures.get("mae")
        if not isinstance(rmse, int | float):
            return ""
        if not isinstance(mae, int | float):
            return f"The root of the mean squared error (RMSE) is {rmse:.4g}."
        off = f"Its predictions are off by {mae:.4g} on average, by {rmse:.4g} as the root of the mean square (RMSE)."
        return f"{off} {interval_sentence(figures)}".rstrip()

    @classmethod
    def verdicts(cls, name: str, figures: Mapping[str, Any], metrics: Mapping[str, Any]) -> Sequence[Verdict]:  # noqa: ARG003
        """Say whether the learner is no better than the mean of the targets."""
        deciles, r2 = figures.get("by_decile"), figures.get("r2")
        rows = sum(group["rows"] for group in deciles) if isinstance(deciles, list) else 0
        if not rows or not isinstance(r2, int | float) or r2 > r2_by_chance(rows):
            return ()
        what = f"{name} is no better than always answering the mean (R2 {r2:.3g} on {rows:,} rows)"
        return [Verdict(NOTHING, f"{what}: it has learned nothing from these columns", name)]

    @classmethod
    def sections(cls, metrics: Mapping[str, Any]) -> Sequence[Section]:
        """Predicted against true values, errors by decile, and residuals, of all learners."""
        learners = metrics.get("learners")
        known = {
            str(name): about
            for name, about in (learners.items() if isinstance(learners, Mapping) else ())
            if isinstance(about, Mapping) and about.get("by_decile")
        }
        if not known:
            return ()
        from ikmap.tasks.quantiles import quantile_sections

        return [
            *quantile_sections(known),
            Section("predicted", "Predicted and true values", _predicted(known)),
            Section("residuals", "Residuals", _residuals(known)),
            *importance_sections(metrics, {"r2": "R2"}),
        ]


def _predicted(known: Mapping[str, Any]) -> list[Any]:
    lines: dict[str, Any] = {
        name: [(group["target"], group["prediction"]) for group in about["by_decile"]] for name, about in known.items()
    }
    ends = [x for line in lines.values() for x, _ in line]
    lines["true value"] = [(min(ends), min(ends)), (max(ends), max(ends))]
    note = "Each point is a tenth of the rows, by their true values: its mean, and the mean of the predictions."
    parts: list[Any] = [Lines("Predicted against true", "true value", "prediction", lines, note)]
    head = ("mean true value", "rows", "mean prediction", "RMSE", "mean absolute error")
    keys = ("target", "rows", "prediction", "rmse", "mae")
    for name, about in known.items():
        rows = [[_short(group[key]) for key in keys] for group in about["by_decile"]]
        parts.append(Table(f"Errors of {name} by tenths of the true values", head, rows))
    return parts


def _residuals(known: Mapping[str, Any]) -> list[Any]:
    lines: dict[str, Any] = {
        name: list(zip(about["residuals"]["middle"], about["residuals"]["share"], strict=True))
        for name, about in known.items()
        if about.get("residuals")
    }
    said = Text("True value less prediction: above 0 the prediction was too low.")
    note = "The first and the last point have all that lies beyond them."
    return [said, Lines("Residuals", "true value less prediction", "share of the rows", lines, note)]


def _short(value: float) -> Any:
    return value if isinstance(value, int) else float(f"{value:.5g}")


def _numbers(labels: np.ndarray) -> np.ndarray:
    """Labels as float64 numbers, all of them finite."""
    import numpy as np

    if labels.dtype == object:
        for row, label in enumerate(labels):
            try:
                float(label)
            except (TypeError, ValueError):
                raise BadLabel(row, f"found target {label!r}, expected a finite number") from None
        labels = labels.astype(np.float64)
    numbers: np.ndarray = np.asarray(labels, dtype=np.float64)
    bad = np.flatnonzero(~(np.abs(numbers) <= LARGEST))
    if bad.size:
        expected = "a finite number" if not np.isfinite(numbers[bad[0]]) else f"a number of at most {LARGEST:g}"
        raise BadLabel(int(bad[0]), f"found target {float(numbers[bad[0]])!r}, expected {expected}")
    return numbers


def _found(numbers: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    """What there is to know of numbers that occur so often."""
    import numpy as np

    from ikmap.tasks.exact_sums import ExactSum
    from ikmap.tasks.score_histogram import ScoreHistogram, bins_of

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


def _of_labels(part: Found) -> Found:
    """The same of a part that was stored before the task was known, as labels and how often there are."""
    import numpy as np

    if "rows" in part:
        return part
    if any(isinstance(label, str) for label in part["labels"]):
        raise ValueError(f"found target {next(x for x in part['labels'] if isinstance(x, str))!r}, expected numbers")
    return _found(_numbers(np.array(part["labels"], dtype=np.float64)), np.array(part["label_counts"], dtype=np.int64))
