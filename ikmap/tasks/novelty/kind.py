"""Novelty as a kind of task: labels are not needed, and serve for evaluation only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ikmap.json_values import JsonObject, Label, labels_of, list_of, plain_label, whole_number, whole_numbers
from ikmap.tasks.capabilities import AlertsRows
from ikmap.tasks.novelty.presenter import NoveltyPresenter
from ikmap.tasks.task import LabelRequest, LabelRules, PartLabels, Presenter, Task, TaskKind, Usual

if TYPE_CHECKING:
    import numpy as np

MOST_LABELS = 1000


class Novelty(TaskKind, AlertsRows):
    """Finds rows that are unlike the training rows."""

    name: ClassVar[str] = "novelty"
    labels: ClassVar[LabelRules] = LabelRules(needed=False, inliers=True)
    usual: ClassVar[Usual] = Usual(learner="iforest-score")
    presenter: ClassVar[Presenter] = NoveltyPresenter()

    def of(
        self,
        normal: Sequence[Label] | None = None,
        anomaly: Label | None = None,
        labels: Sequence[tuple[Label, int]] = (),
    ) -> Task:
        """Return the task of given labels of normal rows, or of the label of anomalies.

        Parameters
        ----------
        normal, anomaly, labels
            The attributes of :class:`~ikmap.tasks.novelty.codec.NoveltyCodec`.
        """
        from ikmap.tasks.novelty.codec import NoveltyCodec
        from ikmap.tasks.novelty.decisions import NoveltyDecisions
        from ikmap.tasks.novelty.scorer import NoveltyScorer

        codec = NoveltyCodec(None if normal is None else list(normal), anomaly, list(labels))
        return Task(self, codec, NoveltyDecisions(), NoveltyScorer())

    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:
        """Return the number of each label among the labels of the part, or -1, and these labels with their counts."""
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

    def find(self, parts: Sequence[PartLabels], request: LabelRequest) -> Task:
        counts: Counter[Label] = Counter()
        for part in parts:
            counts.update(dict(zip(labels_of(part["labels"]), whole_numbers(part["label_counts"]), strict=True)))
        labels = sorted(counts, key=lambda label: (isinstance(label, str), label))
        listed = [(label, counts[label]) for label in labels]
        if request.inliers is not None:
            by_word = {str(label): label for label in labels}
            if not labels:
                raise ValueError("--inliers: found no labels, expected a column of labels; --label names it")
            for word in request.inliers:
                if word not in by_word:
                    known = ", ".join(map(str, labels[:10])) + (", ..." if len(labels) > 10 else "")
                    raise ValueError(f"--inliers {word}: found no row with that label, expected some of {known}")
            return self.of([by_word[word] for word in request.inliers], None, listed)
        if len(labels) < 2:
            return self.of(None, None, listed)
        fewest = min(counts.values())
        return self.of(None, next(label for label in reversed(labels) if counts[label] == fewest), listed)

    def from_json(self, values: JsonObject) -> Task:
        normal, anomaly = values.get("normal"), labels_of([values.get("anomaly")])
        pairs = [list_of(pair) for pair in list_of(values.get("labels"))]
        labels = [(labels_of([label])[0], whole_number(rows)) for label, rows in pairs]
        return self.of(None if normal is None else labels_of(normal), anomaly[0] if anomaly else None, labels)

    def alerted(self, decision: np.ndarray) -> np.ndarray:
        return decision[:, 0] > 0


NOVELTY = Novelty()
