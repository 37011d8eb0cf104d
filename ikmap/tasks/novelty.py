"""Novelty: which rows are unlike those that were learned from. No labels are needed; if given, they only evaluate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from ikmap.tasks.figure import AVERAGE_PRECISION, ROC_AUC, ROC_AUC_ERROR
from ikmap.tasks.sections import Section, Table, Text
from ikmap.tasks.task import Asked, Figure, Found, LearningTask, plain_label
from ikmap.tasks.verdict import NOTHING, Verdict, auc_by_chance

if TYPE_CHECKING:
    import numpy as np

    from ikmap.tasks.score_histogram import ScoreHistogram

MOST_LABELS = 1000
MOST_SAID = 5
MOST_ROWS = 20
"""Of the most novel rows, so many are shown."""
BITS = 10
"""Scores are counted in bins narrower than a thousandth of their distance from the threshold."""
NORMAL, NOVEL = 0, 1


@dataclass(frozen=True, eq=False)
class NoveltyTally:
    """Rows, those above the threshold, the scores of rows with a label, and the rows that score highest.

    Attributes
    ----------
    rows, alerts : int
    scores : ScoreHistogram
        Of rows with a label: normal ones and novel ones.
    first : list of (row number, score)
        The highest scores first, ties by row number; at most :data:`MOST_ROWS`.
    """

    rows: int
    alerts: int
    scores: ScoreHistogram
    first: list[list[Any]]

    def __add__(self, other: Self) -> Self:
        first = sorted([*self.first, *other.first], key=lambda found: (-found[1], found[0]))[:MOST_ROWS]
        return type(self)(self.rows + other.rows, self.alerts + other.alerts, self.scores + other.scores, first)

    def as_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "alerts": self.alerts, "scores": self.scores.as_json(), "first": self.first}


@dataclass(frozen=True)
class Novelty(LearningTask):
    """A decision is how far a row's score lies above the threshold: above 0, the row is novel.

    Targets are 1 for rows whose label says that they are anomalies, 0 for others, and -1 without a label. Labels are
    for evaluation. Which are normal, ``--inliers`` says, and only rows with one of these are learned from; without it,
    all rows are learned from, and the label with the fewest rows is that of the anomalies, the last of several such.

    Attributes
    ----------
    normal : list of labels, or None
        Those of rows that are no anomalies, where they were named.
    anomaly : label, or None
        The rarest, where none were named; None also where there are no labels.
    labels : list
        All that were found, and how many rows have each.
    """

    name: ClassVar[str] = "novelty"
    dtype: ClassVar[str] = "int32"
    predicted: ClassVar[str] = "int32"
    needs_labels: ClassVar[bool] = False
    takes_inliers: ClassVar[bool] = True
    tallies_streams: ClassVar[bool] = True
    alerts: ClassVar[bool] = True
    usual_learner: ClassVar[str] = "iforest-score"
    figure: ClassVar[Figure] = Figure(
        key="alert_rate",
        unit="share",
        of_test="share of {rows} test rows ({which}) above the threshold",
        of_stream="share of the rows of the stream that was above the threshold before it was learned from",
        so_far="Share of all rows up to here that was novel; each row is scored before it is learned from",
        lead="finds {value} of {rows} novel",
        lead_of_stream="found {value} of {rows} novel before it learned from them",
        table="Share of rows above the threshold",
        ranks=False,
    )

    told_of_labels: ClassVar[Mapping[str, Any]] = {
        "normal_labels": {
            "description": "Labels of rows that are no anomalies, as --inliers names them: only these rows are learned "
            "from. Null: all rows are learned from.",
            "type": ["array", "null"],
            "items": {"type": ["string", "number"]},
        },
        "anomaly_label": {
            "description": "The label with the fewest rows: by it, runs without --inliers are evaluated. Null: there "
            "are no labels, or --inliers says what they mean.",
            "type": ["string", "number", "null"],
        },
    }
    told_of_rows: ClassVar[Mapping[str, Any]] = {
        "anomalies_train": {
            "description": "Training rows whose label says that they are anomalies; null without labels.",
            "type": ["integer", "null"],
            "minimum": 0,
        },
        "rows_left_out": {
            "description": "Rows that would be training rows, but are not among the normal ones that --inliers names.",
            "type": "integer",
            "minimum": 0,
        },
    }
    told: ClassVar[Mapping[str, Any]] = {
        "alerts": {
            "description": "Test rows, or rows of a stream, above the threshold.",
            "type": "integer",
            "minimum": 0,
        },
        "roc_auc": ROC_AUC,
        "roc_auc_error": ROC_AUC_ERROR,
        "average_precision": AVERAGE_PRECISION,
        "rows_by_label": {
            "description": "Rows that are normal by their labels, and rows that are anomalies.",
            "type": "array",
            "items": {"type": "integer", "minimum": 0},
        },
        "most_novel": {
            "description": "The rows with the highest scores: number in their file, or as they came, "
            "from 0, and how far the score lies above the threshold.",
            "type": "array",
            "maxItems": MOST_ROWS,
            "items": {"type": "object", "properties": {"row": {"type": "integer"}, "score": {"type": "number"}}},
        },
    }

    normal: list[Any] | None = None
    anomaly: Any = None
    labels: list[list[Any]] = field(default_factory=list)

    # What labels become.

    @classmethod
    def store(cls, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, Found]:
        """Number of each label among those of the part, or -1 without labels; the labels, with the rows of each."""
        import numpy as np

        if labels is None or n == 0:
            return np.full(n, -1, dtype=np.int32), {"labels": [], "label_counts": []}
        values, codes = np.unique(labels, return_inverse=True)
        if values.size > MOST_LABELS:
            raise ValueError(
                f"found more than {MOST_LABELS} different labels, expected some that say which rows are anomalies; "
                "--label names another column, and a file without that column needs none"
            )
        plain = [plain_label(value) for value in values]
        return codes.astype(np.int32), {"labels": plain, "label_counts": np.bincount(codes).tolist()}

    @classmethod
    def find(cls, found: Sequence[Found], asked: Asked) -> Self:
        counts: Counter[Any] = Counter()
        for part in found:
            counts.update(dict(zip(part["labels"], part["label_counts"], strict=True)))
        labels = sorted(counts, key=lambda label: (isinstance(label, str), label))
        listed = [[label, counts[label]] for label in labels]
        if asked.inliers is not None:
            by_word = {str(label): label for label in labels}
            if not labels:
                raise ValueError("--inliers: found no labels, expected a column of labels; --label names it")
            for word in asked.inliers:
                if word not in by_word:
                    known = ", ".join(map(str, labels[:10])) + (", ..." if len(labels) > 10 else "")
                    raise ValueError(f"--inliers {word}: found no row with that label, expected some of {known}")
            return cls([by_word[word] for word in asked.inliers], None, listed)
        if len(labels) < 2:
            return cls(None, None, listed)
        fewest = min(counts.values())
        return cls(None, next(label for label in reversed(labels) if counts[label] == fewest), listed)

    @property
    def evaluates(self) -> bool:
        """Whether labels say which rows are anomalies."""
        return self.normal is not None or self.anomaly is not None

    def targets(self, stored: np.ndarray, found: Found) -> np.ndarray:
        import numpy as np

        by_code = np.array([self._target(label) for label in found["labels"]] + [-1], dtype=np.int32)
        return by_code[stored]

    def _target(self, label: Any) -> int:
        if not self.evaluates:
            return -1
        normal = label != self.anomaly if self.normal is None else label in self.normal
        return NORMAL if normal else NOVEL

    def settled(self) -> Self:
        if self.normal is not None:
            return type(self)([NORMAL], None, [])
        return type(self)(None, NOVEL, []) if self.anomaly is not None else type(self)()

    def store_targets(self, targets: np.ndarray) -> tuple[np.ndarray, Found]:
        return targets, {"labels": [NORMAL, NOVEL]}

    def encode(self, labels: np.ndarray | None, n: int) -> np.ndarray:
        import numpy as np

        if labels is None:
            return np.full(n, -1, dtype=np.int32)
        values, codes = np.unique(labels, return_inverse=True)  # however many
        return self.targets(codes, {"labels": [plain_label(value) for value in values]})

    def unknown(self, targets: np.ndarray) -> np.ndarray:
        return targets < 0

    def learned(self, targets: np.ndarray) -> np.ndarray | None:
        found: np.ndarray | None = targets == NORMAL if self.normal is not None else None
        return found

    @property
    def known(self) -> str:
        return "any"

    def about(self) -> dict[str, Any]:
        return {"normal_labels": self.normal, "anomaly_label": self.anomaly}

    @property
    def notes(self) -> Sequence[str]:
        if self.normal is not None:
            names = ", ".join(map(str, self.normal))
            return [f"rows with label {names} are learned from (--inliers); other labels are used for evaluation only"]
        if self.anomaly is not None:
            rows = dict(map(tuple, self.labels))[self.anomaly]
            return [
                f"labels are used for evaluation only: rows with label {self.anomaly}, the fewest ({rows:,}), count as "
                "anomalies; --inliers names the normal ones"
            ]
        return [f"all rows have the label {self.labels[0][0]}, which evaluates nothing"] if self.labels else []

    def census(self, targets: np.ndarray) -> int:
        """Anomalies."""
        return int((targets == NOVEL).sum())

    def counted(self, censuses: Sequence[Any]) -> dict[str, Any]:
        return {"anomalies_train": sum(censuses) if self.evaluates else None}

    # What decisions mean.

    def predict(self, decision: np.ndarray) -> np.ndarray:
        """1 for rows above the threshold, else 0."""
        import numpy as np

        return (decision[:, 0] > 0).astype(np.int32)

    def alerted(self, decision: np.ndarray) -> np.ndarray:
        return self.predict(decision) == NOVEL

    def decode(self, predictions: np.ndarray) -> np.ndarray:
        return predictions == NOVEL

    @property
    def label_type(self) -> Literal["bool"]:
        return "bool"

    @property
    def columns(self) -> dict[str, str]:
        return {"alert": "bool", "score": "float64"}

    def values(self, decision: np.ndarray) -> dict[str, np.ndarray]:
        """Whether a row is novel, and how far its score lies above the threshold."""
        return {"alert": self.decode(self.predict(decision)), "score": decision[:, 0]}

    # How good they are.

    def tally(self, target: np.ndarray, decision: np.ndarray) -> NoveltyTally:
        import numpy as np

        return self.tally_at(target, decision, np.arange(target.size))

    def tally_at(self, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray) -> NoveltyTally:
        import numpy as np

        from ikmap.tasks.score_histogram import ScoreHistogram

        score = decision[:, 0]
        first = np.lexsort((numbers, -score))[:MOST_ROWS]
        return NoveltyTally(
            target.size,
            int(self.predict(decision).sum()),
            ScoreHistogram.of(score, target, 2, BITS),
            [[int(numbers[k]), float(score[k])] for k in first],
        )

    def tally_from(self, values: Any) -> NoveltyTally:
        from ikmap.tasks.score_histogram import ScoreHistogram

        values = values or {"rows": 0, "alerts": 0, "scores": [], "first": []}
        scores = ScoreHistogram.from_json(values["scores"], 2)
        return NoveltyTally(values["rows"], values["alerts"], scores, list(values["first"]))

    def figures(self, tally: NoveltyTally) -> dict[str, Any]:
        """Share of alerts; where labels tell anomalies from others, how well scores do."""
        from ikmap.tasks.score_histogram import average_precision, roc_auc

        normal, novel = tally.scores.counts.T
        area, error = roc_auc(normal, novel) or (None, None)
        return {
            "alert_rate": tally.alerts / tally.rows if tally.rows else None,
            "alerts": tally.alerts,
            "roc_auc": area,
            "roc_auc_error": error,
            "average_precision": None if area is None else average_precision(normal, novel),
            "rows_by_label": [int(normal.sum()), int(novel.sum())],
            "most_novel": [{"row": row, "score": score} for row, score in tally.first],
        }

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Which rows are novel."""
        found: np.ndarray = predicted == NOVEL
        return found

    def losses(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """1 for novel rows: their share is watched."""
        return (predicted == NOVEL).astype(float)

    def score(self, total: Any, rows: Any) -> Any:
        return total / rows

    def spread(self, row_scores: np.ndarray) -> float:
        share = float(row_scores.mean())
        return float(1.96 * (share * (1 - share) / row_scores.size) ** 0.5)

    # How it is reported.

    @classmethod
    def facts(cls, figures: Mapping[str, Any]) -> Sequence[tuple[str, Any, str]]:
        return [
            ("ROC AUC", figures.get("roc_auc"), "number"),
            ("average precision", figures.get("average_precision"), "number"),
        ]

    @classmethod
    def more(cls, figures: Mapping[str, Any]) -> str:
        """Which rows are novel, the first few; by labels, how well scores tell them."""
        alerts, found = figures.get("alerts"), figures.get("most_novel")
        if not isinstance(alerts, int) or not isinstance(found, list):
            return ""
        rows = [str(row.get("row")) for row in found[: min(alerts, MOST_SAID)] if isinstance(row, Mapping)]
        said = [] if rows else ["No row is novel."]
        if rows and alerts == 1:
            said = [f"It is row {rows[0]} of the file, from 0."]
        elif rows:
            said = [f"Most novel of these {alerts:,} rows are {', '.join(rows)} (rows of the file, from 0)."]
        area, precision = figures.get("roc_auc"), figures.get("average_precision")
        if isinstance(area, int | float) and isinstance(precision, int | float):
            said.append(f"By the labels, ROC AUC is {area:.4f} and average precision {precision:.4f}.")
        return " ".join(said)

    @classmethod
    def verdicts(cls, name: str, figures: Mapping[str, Any], metrics: Mapping[str, Any]) -> Sequence[Verdict]:  # noqa: ARG003
        """Say whether the scores are no better than chance, by the labels."""
        area, rows = figures.get("roc_auc"), figures.get("rows_by_label")
        if not isinstance(area, int | float) or not isinstance(rows, list) or area > auc_by_chance(*rows):
            return ()
        what = f"by the labels, the scores of {name} are no better than chance"
        known = f"ROC AUC {area:.3f}, {rows[1]:,} anomalies among {sum(rows):,} rows"
        return [Verdict(NOTHING, f"{what} ({known}): give another --learner or --partitioner", name)]

    @classmethod
    def sections(cls, metrics: Mapping[str, Any]) -> Sequence[Section]:
        """The most novel rows of each learner."""
        learners = metrics.get("learners")
        parts: list[Any] = []
        for name, about in learners.items() if isinstance(learners, Mapping) else ():
            found = about.get("most_novel") if isinstance(about, Mapping) else None
            if isinstance(found, list) and found:
                data, listed = metrics.get("data"), [row for row in found if isinstance(row, Mapping)]
                column = str(data.get("id", "id")) if isinstance(data, Mapping) else "id"
                named = any("id" in row for row in listed)  # what tells rows apart comes first
                rows = [
                    (*((str(row.get("id", "")),) if named else ()), row.get("row"), row.get("score")) for row in listed
                ]
                head = (*((column,) if named else ()), "row", "score above the threshold")
                parts.append(Table(f"By {name}", head, rows))
        if not parts:
            return ()
        said = Text(
            "The rows with the highest scores. Rows are counted from 0, as they stand in their file; a row is "
            "novel if its score lies above the threshold. Of rows with the same score, the first ones are shown."
        )
        return [Section("novel", "Most novel rows", [said, *parts])]
