"""The rule of ``--split-by``. It is read with the standard library alone, as all options are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ikmap.methods.kinds import unquoted
from pipeline.errors import InputError

if TYPE_CHECKING:
    from ikmap.tasks import Task

TIME, GROUP, STRATIFIED = "time", "group", "stratified"
EXPECTED = "time:COLUMN, group:COLUMN or stratified"


@dataclass(frozen=True)
class SplitRule:
    """The rule by which rows are split.

    Attributes
    ----------
    rule : {"time", "group", "stratified"}
    column : str
        Name of the column; means nothing where rows are split by their targets.
    seed : int
    """

    rule: str
    column: str = ""
    seed: int = 0

    @classmethod
    def parse(cls, word: str, seed: int = 0) -> SplitRule:
        """Return the rule of a word of ``--split-by``.

        Raises
        ------
        ValueError
            There is no such rule.
        """
        rule, _, column = word.partition(":")
        if (rule in (TIME, GROUP)) != bool(column) or rule not in (TIME, GROUP, STRATIFIED):
            raise ValueError(f"found {word!r}, expected {EXPECTED}")
        return cls(rule, unquoted(column), seed)

    @property
    def test_rows(self) -> str:
        """Kind of the test rows, as a word of ``metrics.json``."""
        return {TIME: "later", GROUP: "groups"}.get(self.rule, self.rule)

    def refuse(self, task: Task, inliers: Sequence[str] | None = None) -> None:
        """Refuse to split by classes where targets are no classes, and to leave out rows besides.

        Raises
        ------
        InputError
        """
        if self.rule == STRATIFIED and not task.codec.classes:
            raise InputError(f"--split-by {STRATIFIED}: found --task {task.name}, expected classes")
        if inliers is not None:
            raise InputError(f"--split-by {self.rule}: found --inliers too, expected one of them")


def keeps_groups(word: str | None) -> bool:
    """Return whether a word of ``--split-by``, or None, keeps rows of a group together."""
    return word is not None and SplitRule.parse(word).rule == GROUP


def goes_by_time(word: str | None) -> bool:
    """Return whether a word of ``--split-by``, or None, has test rows come last."""
    return word is not None and SplitRule.parse(word).rule == TIME
