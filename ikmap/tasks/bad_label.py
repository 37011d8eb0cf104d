"""What is wrong with a single label."""

from __future__ import annotations

from ikmap.tasks.json_values import Label

EXACT = 2**53
"""All whole numbers below this one are float64 numbers."""


class BadLabel(ValueError):
    """A label cannot be one of the task.

    Attributes
    ----------
    row : int
        Number of its row, from 0, among those that were given.
    """

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def refuse_rounded(labels: list[Label]) -> list[Label]:
    """Return the labels, unless some are whole numbers so large that two of them may have become one.

    Raises
    ------
    ValueError
    """
    for label in labels:
        if isinstance(label, int) and abs(label) >= EXACT:
            raise ValueError(
                f"found label {label}, a whole number beyond 2^53, which cannot be told from its neighbours; expected "
                "smaller numbers, or words"
            )
    return labels
