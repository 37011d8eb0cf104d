"""Capabilities: abstract classes for what only some tasks can do, asked for by :func:`capability`.

A kind of task has the capabilities that are known before a label is seen; a codec has those that depend on the labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from ikmap.capability import capability
from ikmap.json_values import Json, Label
from ikmap.tasks.task import Codec, PartLabels, Task

if TYPE_CHECKING:
    import numpy as np


# Capabilities of a kind of task


class AlertsRows(ABC):
    """Raises alerts of single rows while a stream runs."""

    @abstractmethod
    def alerted(self, decision: np.ndarray) -> np.ndarray:
        """Return a mask of the rows to alert of, from decisions of shape (n, K)."""


class WeighsRows(ABC):
    """Gives training rows a sample weight that follows from their targets."""

    @abstractmethod
    def sample_weight(self, codec: Codec, targets: np.ndarray) -> np.ndarray:
        """Return the sample weights of rows, shape (n,), finite and >= 0.

        The weight of a row follows from its own target and from the codec, never from the rows beside it, since rows
        are weighted block by block.
        """


def sample_weight(task: Task, targets: np.ndarray) -> np.ndarray | None:
    """Return the sample weights of training rows by their targets, or None if all rows count the same."""
    weighing = capability(task, WeighsRows)
    return None if weighing is None else weighing.sample_weight(task.codec, targets)


class NeedsLoops(ABC):
    """Needs compiled loops for its decisions.

    Attributes
    ----------
    all_loops : frozenset of str
        All words for :mod:`ikmap.compiled` that the task may need, whatever its labels are.
    """

    all_loops: ClassVar[frozenset[str]]

    @abstractmethod
    def loops(self, codec: Codec) -> frozenset[str]:
        """Return the words that the task needs."""


def loops(task: Task) -> frozenset[str]:
    """Return the words for :mod:`ikmap.compiled` that a task needs."""
    needs = capability(task, NeedsLoops)
    return frozenset() if needs is None else needs.loops(task.codec)


class Evidence(Protocol):
    """Decision values of rows that were not learned from, to calibrate by. Evidence adds up over blocks."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def __add__(self, other: Self) -> Self: ...

    def as_json(self) -> Json:
        """Return the evidence for a record."""


class Calibration(Protocol):
    """Turns decisions into probabilities, and has the threshold between two classes."""

    @property
    def has_probabilities(self) -> bool:
        """True if decisions become probabilities."""

    @property
    def threshold(self) -> float:
        """Smallest decision that means the second of two classes."""

    def probabilities(self, decision: np.ndarray) -> np.ndarray:
        """Return the probability of each class, shape (n, classes)."""


class Calibratable(ABC):
    """Turns decisions into probabilities by a calibration."""

    @abstractmethod
    def evidence(self, task: Task, target: np.ndarray, decision: np.ndarray) -> Evidence:
        """Return the evidence of some rows that were not learned from."""

    @abstractmethod
    def evidence_from(self, task: Task, values: Sequence[Json]) -> Evidence:
        """Return the sum of the evidence in some records, each made by :meth:`Evidence.as_json`."""

    @abstractmethod
    def calibrated(self, task: Task, calibration: Calibration | None) -> Task:
        """Return the task with a learner's calibration applied; None removes any calibration."""


class Thresholds(ABC):
    """Has decisions with a threshold that can be chosen, by evidence that must not become too large."""

    @abstractmethod
    def threshold_refusal(self, codec: Codec) -> str:
        """Return the reason why no threshold can be chosen, to follow "found", or "" if one can."""

    @abstractmethod
    def most_evidence(self, task: Task) -> int | None:
        """Return how many rows of a fold suffice as evidence, or None if all rows can be taken."""


def calibrated(task: Task, calibration: Calibration | None) -> Task:
    """Return the task with a learner's calibration applied, if its decisions can be calibrated."""
    calibratable = capability(task, Calibratable)
    return task if calibratable is None else calibratable.calibrated(task, calibration)


@dataclass(frozen=True, eq=False)
class FewerClasses:
    """The task that the rows of a fold make by themselves, if some class is missing among them.

    Attributes
    ----------
    task : Task
    targets : ndarray
        Targets of the rows, in that task.
    predictions, decisions : callable
        Turn predictions and decisions of that task into predictions and decisions of the task of all rows.
    constant : int or None
        The only possible prediction, if there is nothing to learn.
    """

    task: Task
    targets: np.ndarray
    predictions: Callable[[np.ndarray], np.ndarray]
    decisions: Callable[[np.ndarray], np.ndarray]
    constant: int | None


class HasClasses(ABC):
    """Has classes, of which some may be missing among the rows of a fold."""

    @abstractmethod
    def narrowed(self, task: Task, targets: np.ndarray) -> FewerClasses:
        """Return the task of rows with these targets only."""


# Capabilities of a scorer


class WeightedScorer(ABC):
    """Computes metrics of rows with sample weights, beside the weighted mean of the main metric."""

    @abstractmethod
    def weighted_terms(self, target: np.ndarray, decision: np.ndarray) -> dict[str, np.ndarray]:
        """Return the terms of each row, by name: float64 arrays of shape (n,), which are weighted and summed up."""

    @abstractmethod
    def weighted_metrics(self, sums: Mapping[str, float]) -> dict[str, float | None]:
        """Return metrics from the weighted sums.

        Parameters
        ----------
        sums : mapping
            Sums of the :meth:`weighted_terms`, and the sum of the weights, above 0, under
            :data:`~ikmap.tasks.weighted.WEIGHT`.
        """


# Capabilities of a codec


class EncodesWords(ABC):
    """Gives targets by which the words of a table are encoded."""

    @abstractmethod
    def encoding_outputs(self) -> tuple[Sequence[str], float]:
        """Return a suffix for the name of each target column of the encoder, and the value that a 1 stands for."""

    @abstractmethod
    def encoding_targets(self, targets: np.ndarray) -> np.ndarray:
        """Return whole numbers, int64 of shape (n, K) for K outputs, by whose means words are encoded.

        Sums of integers have the same bits however the rows are grouped.
        """


class Census(ABC):
    """Takes a census of the targets of all training rows."""

    @abstractmethod
    def census(self, targets: np.ndarray) -> Json:
        """Return the census of the targets of some training rows."""

    @abstractmethod
    def counted(self, censuses: Sequence[Json]) -> dict[str, Json]:
        """Return the fields of ``data`` in ``metrics.json`` on all training rows, from the census of each part.

        Raises
        ------
        ValueError
            Nothing can be learned from the rows.
        """

    @abstractmethod
    def missing(self, targets: np.ndarray) -> str:
        """Return what is missing among these targets, to follow "found no training row of ", or "" if nothing is."""


def census_of(task: Task, targets: np.ndarray) -> Json:
    """Return the census of the targets of some training rows, or None if the task takes none."""
    census = capability(task, Census)
    return None if census is None else census.census(targets)


def counted(task: Task, censuses: Sequence[Json]) -> dict[str, Json]:
    """Return the fields of ``data`` in ``metrics.json`` on all training rows, from the census of each part.

    Raises
    ------
    ValueError
        Nothing can be learned from the rows.
    """
    census = capability(task, Census)
    return {} if census is None else census.counted(censuses)


def missing_in(task: Task, targets: np.ndarray) -> str:
    """Return what is missing among these targets, to follow "found no training row of ", or "" if nothing is."""
    census = capability(task, Census)
    return "" if census is None else census.missing(targets)


class LearnsFromSome(ABC):
    """Learns from some of the training rows only."""

    @abstractmethod
    def learned(self, targets: np.ndarray) -> np.ndarray | None:
        """Return a mask of the rows to learn from, by their targets, or None for all rows."""


def learned_rows(task: Task, targets: np.ndarray) -> np.ndarray | None:
    """Return a mask of the training rows to learn from, by their targets, or None for all rows."""
    selective = capability(task, LearnsFromSome)
    return None if selective is None else selective.learned(targets)


class KnowsLabels(ABC):
    """Tells labels that have no target."""

    @abstractmethod
    def unseen_labels(self, parts: Sequence[PartLabels]) -> list[Label]:
        """Return the labels in some parts that have no target."""


def unseen_labels(task: Task, parts: Sequence[PartLabels]) -> list[Label]:
    """Return the labels in some parts that have no target."""
    knows = capability(task, KnowsLabels)
    return [] if knows is None else knows.unseen_labels(parts)


class StoresOtherwise(ABC):
    """Stores targets in another form than their own."""

    @abstractmethod
    def settled(self) -> Codec:
        """Return the codec of rows whose targets :meth:`stored` has put into the store."""

    @abstractmethod
    def stored(self, targets: np.ndarray) -> tuple[np.ndarray, PartLabels]:
        """Return values and labels to store, from which the settled codec makes the targets (:meth:`Codec.targets`)."""


def settled(task: Task) -> Task:
    """Return the task of rows whose targets :func:`stored_targets` has put into the store."""
    stores = capability(task, StoresOtherwise)
    return task if stores is None else task.kind.from_json(stores.settled().as_json())


def stored_targets(task: Task, targets: np.ndarray) -> tuple[np.ndarray, PartLabels]:
    """Return one stored value for each target, and the labels that the values stand for."""
    stores = capability(task, StoresOtherwise)
    return (targets, {}) if stores is None else stores.stored(targets)
