"""What only some tasks can do. Each capability is an abstract class that a stage asks for by :func:`capability`.

A kind of task has those that are known before a label is seen; a codec those that depend on the labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from ikmap.capability import capability
from ikmap.tasks.json_values import Json, Label
from ikmap.tasks.task import Codec, PartLabels, Task

if TYPE_CHECKING:
    import numpy as np


# Of a kind of task.


class AlertsRows(ABC):
    """Some rows are alerted of at once."""

    @abstractmethod
    def alerted(self, decision: np.ndarray) -> np.ndarray:
        """Return a mask of the rows to alert of; the first column of a decision says how far a row is from it."""


class WeighsRows(ABC):
    """Training rows count differently, by their targets."""

    @abstractmethod
    def sample_weight(self, codec: Codec, targets: np.ndarray) -> np.ndarray:
        """Return how much rows count, shape (n,), finite and >= 0.

        The weight of a row follows from its own target and from the codec, never from the rows beside it, since rows
        are weighted block by block.
        """


def sample_weight(task: Task, targets: np.ndarray) -> np.ndarray | None:
    """Return how much training rows count by their targets; None: all count the same."""
    weighs = capability(task, WeighsRows)
    return None if weighs is None else weighs.sample_weight(task.codec, targets)


class NeedsLoops(ABC):
    """The decisions of the task need compiled loops.

    Attributes
    ----------
    all_loops : frozenset of str
        All words for :mod:`ikmap._compiled` that the task may turn out to need.
    """

    all_loops: ClassVar[frozenset[str]]

    @abstractmethod
    def loops(self, codec: Codec) -> frozenset[str]:
        """Return the words that the task needs."""


def loops(task: Task) -> frozenset[str]:
    """Return the words for :mod:`ikmap._compiled` that a task needs."""
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
        """With two classes, a decision of that value or more means the second class."""

    def probabilities(self, decision: np.ndarray) -> np.ndarray:
        """Return the probability of each class, shape (n, classes)."""


class Calibratable(ABC):
    """Decisions can become probabilities."""

    @abstractmethod
    def evidence(self, task: Task, target: np.ndarray, decision: np.ndarray) -> Evidence:
        """Return what some rows that were not learned from say of how decisions are to be calibrated."""

    @abstractmethod
    def evidence_from(self, task: Task, values: Sequence[Json]) -> Evidence:
        """Return the sum of the evidence that :meth:`Evidence.as_json` has put into records."""

    @abstractmethod
    def calibrated(self, task: Task, calibration: Calibration | None) -> Task:
        """Return the task with a learner's calibration applied; with None, without any."""


class Thresholds(ABC):
    """A threshold can be chosen for decisions, by evidence that must not become too large."""

    @abstractmethod
    def threshold_refusal(self, codec: Codec) -> str:
        """Return why no threshold can be chosen, after "found"; empty if one can."""

    @abstractmethod
    def most_evidence(self, task: Task) -> int | None:
        """Return how many rows of a fold say enough; None: evidence of any number of rows is small."""


def calibrated(task: Task, calibration: Calibration | None) -> Task:
    """Return the task with a learner's calibration applied, if its decisions can be calibrated."""
    calibratable = capability(task, Calibratable)
    return task if calibratable is None else calibratable.calibrated(task, calibration)


@dataclass(frozen=True, eq=False)
class FewerClasses:
    """The task that the rows of a fold make by themselves, where some class is missing there.

    Attributes
    ----------
    task : Task
    targets : ndarray
        Of the rows, in that task.
    predictions, decisions : callable
        Turn predictions and decisions of that task into those of the task of all rows.
    constant : int or None
        The only prediction that there is, where there is nothing to learn.
    """

    task: Task
    targets: np.ndarray
    predictions: Callable[[np.ndarray], np.ndarray]
    decisions: Callable[[np.ndarray], np.ndarray]
    constant: int | None


class HasClasses(ABC):
    """Rows of a fold may lack classes."""

    @abstractmethod
    def narrowed(self, task: Task, targets: np.ndarray) -> FewerClasses:
        """Return the task of rows with these targets only."""


# Of a scorer.


class WeightedScorer(ABC):
    """Metrics of rows that count differently, beside the mean of the main metric."""

    @abstractmethod
    def weighted_terms(self, target: np.ndarray, decision: np.ndarray) -> dict[str, np.ndarray]:
        """Return what each row adds to sums, by name: float64 arrays, which are then weighted."""

    @abstractmethod
    def weighted_metrics(self, sums: Mapping[str, float]) -> dict[str, float | None]:
        """Return metrics from the weighted sums.

        Parameters
        ----------
        sums : mapping
            Of :meth:`weighted_terms`, and of the weights themselves, above 0, under
            :data:`~ikmap.tasks.weighted.WEIGHT`.
        """


# Of a codec.


class EncodesWords(ABC):
    """Words in a table can be encoded by what is learned from them."""

    @abstractmethod
    def encoding_outputs(self) -> tuple[Sequence[str], float]:
        """Return a suffix for the name of each target column of the encoder, and what a 1 in the columns stands for."""

    @abstractmethod
    def encoding_targets(self, targets: np.ndarray) -> np.ndarray:
        """Return whole numbers by whose means words are encoded, int64 of shape (n, K) for K outputs.

        They are integers so that sums over rows have the same bits however the rows are grouped.
        """


class Census(ABC):
    """Something is known of the targets of all training rows, beside their number."""

    @abstractmethod
    def census(self, targets: np.ndarray) -> Json:
        """Return what is known of the targets of some training rows."""

    @abstractmethod
    def counted(self, censuses: Sequence[Json]) -> dict[str, Json]:
        """Return what ``data`` in ``metrics.json`` says of all training rows.

        Raises
        ------
        ValueError
            Nothing can be learned from the rows.
        """

    @abstractmethod
    def missing(self, targets: np.ndarray) -> str:
        """Return what a learner that sees only these rows would miss, after "found no training row of "; or ""."""


def census_of(task: Task, targets: np.ndarray) -> Json:
    """Return what is known of the targets of some training rows, beside their number."""
    counts = capability(task, Census)
    return None if counts is None else counts.census(targets)


def counted(task: Task, censuses: Sequence[Json]) -> dict[str, Json]:
    """Return what ``data`` in ``metrics.json`` says of all training rows, from the census of each part.

    Raises
    ------
    ValueError
        Nothing can be learned from the rows.
    """
    counts = capability(task, Census)
    return {} if counts is None else counts.counted(censuses)


def missing_in(task: Task, targets: np.ndarray) -> str:
    """Return what a learner that sees only these rows would miss, after "found no training row of "; or ""."""
    counts = capability(task, Census)
    return "" if counts is None else counts.missing(targets)


class LearnsFromSome(ABC):
    """Only some of the training rows are learned from."""

    @abstractmethod
    def learned(self, targets: np.ndarray) -> np.ndarray | None:
        """Return a mask of the rows that are learned from, by their targets; None: all are."""


def learned_rows(task: Task, targets: np.ndarray) -> np.ndarray | None:
    """Return a mask of the training rows that are learned from, by their targets; None: all are."""
    some = capability(task, LearnsFromSome)
    return None if some is None else some.learned(targets)


class KnowsLabels(ABC):
    """Some labels are not known to the task."""

    @abstractmethod
    def unseen_labels(self, parts: Sequence[PartLabels]) -> list[Label]:
        """Return the labels in some parts that have no target."""


def unseen_labels(task: Task, parts: Sequence[PartLabels]) -> list[Label]:
    """Return the labels in some parts that have no target."""
    knows = capability(task, KnowsLabels)
    return [] if knows is None else knows.unseen_labels(parts)


class StoresOtherwise(ABC):
    """Targets in a store are kept in another form than their own."""

    @abstractmethod
    def settled(self) -> Codec:
        """Return the codec of rows of which the store holds targets, put there by :meth:`stored`."""

    @abstractmethod
    def stored(self, targets: np.ndarray) -> tuple[np.ndarray, PartLabels]:
        """Return what :meth:`Codec.targets` of the settled codec takes back."""


def settled(task: Task) -> Task:
    """Return the task for rows of which the store holds targets, put there by :func:`stored_targets`."""
    stores = capability(task, StoresOtherwise)
    return task if stores is None else task.kind.from_json(stores.settled().as_json())


def stored_targets(task: Task, targets: np.ndarray) -> tuple[np.ndarray, PartLabels]:
    """Return what the store keeps of targets: one value for each row, and what these values mean."""
    stores = capability(task, StoresOtherwise)
    return (targets, {}) if stores is None else stores.stored(targets)
