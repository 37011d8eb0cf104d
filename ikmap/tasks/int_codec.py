"""The base of codecs of classes and anomalies, whose targets are whole numbers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ikmap.json_values import plain_label
from ikmap.tasks.task import Codec


class IntCodec(Codec):
    """Turns labels into int32 targets, with -1 for a row without a label, or with one that has no target."""

    dtype: ClassVar[str] = "int32"

    def encode(self, labels: np.ndarray | None, n: int) -> np.ndarray:
        if labels is None:
            return np.full(n, -1, dtype=np.int32)
        values, codes = np.unique(labels, return_inverse=True)  # however many
        return self.targets(codes, {"labels": [plain_label(value) for value in values]})

    def unknown(self, targets: np.ndarray) -> np.ndarray:
        return targets < 0
