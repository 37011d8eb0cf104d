"""Errors of single labels."""

from __future__ import annotations

from ikmap.json_values import Label

EXACT = 2**53
"""All whole numbers below this one are float64 numbers."""


class BadLabel(ValueError):
    """A label that the task cannot have.

    Attributes
    ----------
    row : int
        Number of the row of the label, from 0, among the rows that were read.
    """

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def refuse_rounded(labels: list[Label]) -> list[Label]:
    """Return the labels, none of which may be so large a whole number that float64 rounds it.

    Raises
    ------
    ValueError
        A label is too large.
    """
    for label in labels:
        if isinstance(label, int) and abs(label) >= EXACT:
            raise ValueError(
                f"found label {label}, a whole number beyond 2^53, which cannot be told from its neighbours; expected "
                "smaller numbers, or words"
            )
    return labels
