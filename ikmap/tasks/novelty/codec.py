"""The codec of labels that mark anomalies, for evaluation and to leave anomalies out of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ikmap.json_values import Json, Label, labels_of, whole_number
from ikmap.tasks.capabilities import Census, LearnsFromSome, StoresOtherwise
from ikmap.tasks.int_codec import IntCodec
from ikmap.tasks.known_label import known_label
from ikmap.tasks.task import LabelSummary, PartLabels

NORMAL, NOVEL = 0, 1


@dataclass(frozen=True)
class NoveltyCodec(IntCodec, LearnsFromSome, StoresOtherwise, Census):
    """Turns labels into 1 for anomalies, 0 for other rows, and -1 for rows without a label.

    If labels of normal rows are named, only rows with one of these labels are learned from. Otherwise all rows are
    learned from, and the label with the fewest rows, in a tie the last one, marks the anomalies.

    Attributes
    ----------
    normal : list of labels, or None
        Labels of normal rows, if they were named.
    anomaly : label, or None
        The rarest label, if no labels were named and there are labels.
    labels : list of (label, number of rows)
        All labels with their counts.
    """

    normal: list[Label] | None = None
    anomaly: Label | None = None
    labels: list[tuple[Label, int]] = field(default_factory=list)

    @property
    def evaluates(self) -> bool:
        """True if labels mark the anomalies."""
        return self.normal is not None or self.anomaly is not None

    @property
    def summary(self) -> LabelSummary:
        return LabelSummary({"normal_labels": self.normal, "anomaly_label": self.anomaly}, "any", self._notes())

    def _notes(self) -> list[str]:
        if self.normal is not None:
            names = ", ".join(map(str, self.normal))
            return [f"rows with label {names} are learned from (--inliers); other labels are used for evaluation only"]
        if self.anomaly is not None:
            rows = dict(self.labels)[self.anomaly]
            return [
                f"labels are used for evaluation only: rows with label {self.anomaly}, the fewest ({rows:,}), count as "
                "anomalies; --inliers names the normal ones"
            ]
        return [f"all rows have the label {self.labels[0][0]}, which evaluates nothing"] if self.labels else []

    def targets(self, stored: np.ndarray, part: PartLabels) -> np.ndarray:
        by_code = [self._target(label) for label in labels_of(part["labels"])]
        return np.array([*by_code, -1], dtype=np.int32)[stored]

    def _target(self, label: Label) -> int:
        if not self.evaluates or label == "" or label != label:  # NaN: of a row without a label
            return -1
        if self.normal is not None:
            return NORMAL if known_label(label, self.normal) in self.normal else NOVEL
        normal = self.anomaly is None or known_label(label, [self.anomaly]) != self.anomaly
        return NORMAL if normal else NOVEL

    def decode(self, targets: np.ndarray) -> np.ndarray:
        return targets == NOVEL

    def as_json(self) -> dict[str, Json]:
        return {"normal": self.normal, "anomaly": self.anomaly, "labels": [list(pair) for pair in self.labels]}

    def learned(self, targets: np.ndarray) -> np.ndarray | None:
        return targets == NORMAL if self.normal is not None else None

    def settled(self) -> NoveltyCodec:
        if self.normal is not None:
            return type(self)([NORMAL], None, [])
        return type(self)(None, NOVEL, []) if self.anomaly is not None else type(self)()

    def stored(self, targets: np.ndarray) -> tuple[np.ndarray, PartLabels]:
        return targets, {"labels": [NORMAL, NOVEL]}

    def census(self, targets: np.ndarray) -> int:
        """Return the number of anomalies."""
        return int((targets == NOVEL).sum())

    def counted(self, censuses: Sequence[Json]) -> dict[str, Json]:
        return {"anomalies_train": sum(map(whole_number, censuses)) if self.evaluates else None}

    def missing(self, targets: np.ndarray) -> str:  # noqa: ARG002
        return ""
