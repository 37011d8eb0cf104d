"""How words in a table may be encoded by what is learned from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


class EncodesWords:
    """What a task offers to the encoding of words by targets; by default nothing."""

    def encoding_outputs(self) -> tuple[list[str], float]:
        """What tells the columns of :meth:`encoding_targets` apart, for names; and what a 1 in them stands for."""
        return [], 1.0

    def encoding_targets(self, targets: np.ndarray) -> np.ndarray:
        """Whole numbers by whose means words are encoded, int64 (n, K), where :meth:`encoding_outputs` names K.

        Integers, so that sums over rows have the same bits however the rows are grouped.
        """
        raise NotImplementedError
