"""What is wrong with a single label."""

from __future__ import annotations


class BadLabel(ValueError):
    """A label cannot be one of the task.

    Attributes
    ----------
    row : int
        Number of its row, from 0, among those that were given.
    """

    def __init__(self, row: int, said: str) -> None:
        super().__init__(said)
        self.row = row
