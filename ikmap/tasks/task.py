"""A task: what is learned from labels, in a few small objects.

A run asks its task for everything that has to do with labels, and never asks for its name. A task has

- a kind (:class:`TaskKind`): everything that is known before a label is seen;
- a codec (:class:`Codec`): labels become targets, and targets labels;
- decisions (:class:`Decisions`): the meaning of the decision values of a learner;
- a scorer (:class:`Scorer`): metrics of predicted rows, accumulated so that they add up over shards.

Cross-validation compares candidates by a registered :class:`~ikmap.tasks.criteria.Criterion`; what only some tasks can
do is a capability (:mod:`ikmap.tasks.capabilities`). Nothing heavy is imported before it is used, so that ``--help`` is
fast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self

from ikmap.capability import Offers
from ikmap.json_values import Json, JsonObject, Label
from ikmap.tasks.metric import Metric
from ikmap.tasks.sections import Section
from ikmap.tasks.verdict import Verdict

if TYPE_CHECKING:
    import numpy as np

type PartLabels = JsonObject
"""Labels of some rows and their counts or moments, stored beside an array of one value for each row."""
type ColumnType = Literal["int64", "float64", "string", "bool"]
type SummaryLine = tuple[str, Json, str]
"""Name, value and unit of a further metric of a learner, for tables. Units are those of a :class:`Metric`."""


@dataclass(frozen=True)
class LabelRequest:
    """The wishes of a user on labels, by option or in the description of a data set.

    Attributes
    ----------
    word : str
        Value of ``--task``: "auto", the name of a task, or one of its :attr:`TaskKind.words`.
    source : str
        The option or the description of the data set with the word, for messages.
    two_class : pair of sequences of labels, or None
        Labels that count as +1 and as -1.
    inliers : sequence of str, or None
        Labels, as words, of the rows that are normal.
    initial : bool
        True if only the initial rows of a stream are known: how many rows have a label says nothing then.
    """

    word: str = "auto"
    source: str = ""
    two_class: Sequence[Sequence[Label]] | None = None
    inliers: Sequence[str] | None = None
    initial: bool = False


@dataclass(frozen=True)
class LabelRules:
    """The use that a kind of task makes of labels.

    Attributes
    ----------
    needed : bool
        True if nothing can be learned without labels.
    inliers : bool
        True if labels of normal rows can be named (:attr:`LabelRequest.inliers`).
    choose : bool
        True if ``--task auto`` can choose the kind by the labels (:mod:`ikmap.tasks.by_labels`).
    """

    needed: bool = True
    inliers: bool = False
    choose: bool = False


@dataclass(frozen=True)
class Usual:
    """The defaults of a run whose options are "auto".

    Attributes
    ----------
    learner : str
        Name of the learner (``--learner auto``), or "" if a learner has to be named.
    criterion : str
        Name of the metric that a search selects by (``--select-by auto``), or "" for the main metric of the task.
    """

    learner: str = ""
    criterion: str = ""


@dataclass(frozen=True)
class LabelSummary:
    """A summary of the labels of a run.

    Attributes
    ----------
    fields : mapping
        Fields of ``data`` in ``metrics.json``.
    expected : str
        Description of valid labels, for messages.
    notes : sequence of str
        Lines for the log of the run.
    """

    fields: JsonObject = field(default_factory=dict)
    expected: str = "numbers"
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class MetricsSchema:
    """JSON Schema of each field that a kind of task adds to ``metrics.json``.

    Attributes
    ----------
    labels : mapping of str to mapping
        Schemas of :attr:`LabelSummary.fields`.
    rows : mapping of str to mapping
        Schemas of the fields that :class:`~ikmap.tasks.capabilities.Census` adds.
    learner : mapping of str to mapping
        Schemas of the fields of :meth:`MetricState.metrics`, beside the main metric.
    """

    labels: Mapping[str, JsonObject] = field(default_factory=dict)
    rows: Mapping[str, JsonObject] = field(default_factory=dict)
    learner: Mapping[str, JsonObject] = field(default_factory=dict)


class Codec(ABC):
    """Turns labels into targets and back, once all labels have been seen.

    Attributes
    ----------
    dtype : {"int32", "float64"}
        Type of targets, in memory and in the store.
    """

    dtype: ClassVar[str]

    @property
    def classes(self) -> list[Label]:
        """Labels by class number; empty if targets are not classes."""
        return []

    @property
    def summary(self) -> LabelSummary:
        """Summary of the labels for a run."""
        return LabelSummary()

    @abstractmethod
    def targets(self, stored: np.ndarray, part: PartLabels) -> np.ndarray:
        """Return the targets of rows from the stored values of :meth:`TaskKind.read`.

        A label without a target becomes a target that :meth:`unknown` marks.
        """

    @abstractmethod
    def encode(self, labels: np.ndarray | None, n: int) -> np.ndarray:
        """Return the targets of n rows from their labels as read."""

    @abstractmethod
    def unknown(self, targets: np.ndarray) -> np.ndarray:
        """Return a mask of rows without a label, or with one that has no target."""

    def decode(self, targets: np.ndarray) -> np.ndarray:
        """Return targets, or predictions, as labels of one type."""
        return targets

    def as_json(self) -> dict[str, Json]:
        """Return the values that :meth:`TaskKind.from_json` needs, beside the name of the task."""
        return asdict(self)  # type: ignore[call-overload]


class Decisions(ABC):
    """The meaning of the decision values of a learner, float64 of shape (n, K).

    Attributes
    ----------
    dtype : {"int32", "float64"}
        Type of predictions.
    """

    dtype: ClassVar[str]

    @property
    def outputs(self) -> int:
        """Number of columns of decision values, K."""
        return 1

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        """Name and type of each column that scoring writes, the prediction first."""
        return {"prediction": "float64"}

    @abstractmethod
    def predict(self, decision: np.ndarray) -> np.ndarray:
        """Return the predicted target of each row, shape (n,)."""

    def values(self, decision: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return the values of :attr:`columns`."""
        return {"prediction": self.predict(decision)}

    def probabilities(self, decision: np.ndarray) -> np.ndarray | None:  # noqa: ARG002
        """Return the probability of each class, shape (n, classes), or None if there are no probabilities."""
        return None


class MetricState(Protocol):
    """Accumulated metrics of some rows. States add up over blocks and shards, in any grouping."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def __add__(self, other: Self) -> Self: ...

    def as_json(self) -> Json:
        """Return the state for a record."""

    def metrics(self) -> dict[str, Json]:
        """Return the fields of ``learners.NAME`` in ``metrics.json``; the main metric may be None."""


class Scorer(ABC):
    """Accumulates metrics of predicted rows."""

    @abstractmethod
    def accumulate(self, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray | None = None) -> MetricState:
        """Return the state of some rows.

        Parameters
        ----------
        target : ndarray, shape (n,)
        decision : ndarray of float64, shape (n, K)
        numbers : ndarray of int64, shape (n,), optional
            Numbers of the rows, from 0, for a state that names single rows.
        """

    @abstractmethod
    def state_from(self, values: Json) -> MetricState:
        """Return the state from which :meth:`MetricState.as_json` made these values; for None, the state of no rows."""


class Presenter:
    """Presents the learners of a task in a report. Parts of the metrics may be missing.

    Attributes
    ----------
    metric : Metric
        The main metric.
    schema : MetricsSchema
    """

    metric: ClassVar[Metric]
    schema: ClassVar[MetricsSchema] = MetricsSchema()

    def summary(self, learner: JsonObject) -> Sequence[SummaryLine]:  # noqa: ARG002
        """Return the metrics that tables of learners show beside the main one; only numbers are shown.

        Parameters
        ----------
        learner : mapping
            ``learners.NAME`` of ``metrics.json``.
        """
        return ()

    def sentence(self, learner: JsonObject) -> str:  # noqa: ARG002
        """Return a sentence on a learner, to follow the first sentence of a report."""
        return ""

    def quality(self, learner: JsonObject, metrics: JsonObject) -> str:  # noqa: ARG002
        """Return how good a learner is on the test rows, against a constant and with an interval; "" if not known.

        The words follow the name of the learner, and have ``{rows}`` where the rows are to be named: "is right on 93.1%
        of {rows} (95% interval 91.0% to 94.8%), always answering 1 would be on 50.2%".
        """
        return ""

    def verdicts(self, name: str, learner: JsonObject, metrics: JsonObject) -> Sequence[Verdict]:  # noqa: ARG002
        """Return the warnings that a reader has to see first, such as that a learner is no better than a constant.

        Parameters
        ----------
        name : str
            Name of the learner.
        learner, metrics : mapping
            ``learners.NAME`` of ``metrics.json``, and all of ``metrics.json``.
        """
        return ()

    def sections(self, metrics: JsonObject) -> Sequence[Section]:  # noqa: ARG002
        """Return further sections of a report, beside the metrics of the learners."""
        return ()


class TaskKind(ABC):
    """A kind of task, registered by name: everything that is known before a label is seen.

    Two objects of one class are equal.

    Attributes
    ----------
    name : str
        Name for ``--task`` and in a store.
    words : tuple of str
        Words that ``--task`` takes beside the name.
    labels : LabelRules
    usual : Usual
    presenter : Presenter
    """

    name: ClassVar[str]
    words: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[LabelRules] = LabelRules()
    usual: ClassVar[Usual] = Usual()
    presenter: ClassVar[Presenter]

    @abstractmethod
    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:
        """Return one value for each of n rows to store, and the labels that the values stand for.

        Parameters
        ----------
        labels : float64 ndarray or object ndarray of str, or None
            Labels as read, or None if the source has none.

        Raises
        ------
        ValueError
            The labels cannot be labels of this task; :class:`~ikmap.tasks.bad_label.BadLabel` if a single one is
            at fault.
        """

    @abstractmethod
    def find(self, parts: Sequence[PartLabels], request: LabelRequest) -> Task:
        """Return the task that the labels of all parts make.

        Raises
        ------
        ValueError
            Nothing can be learned from the labels.
        """

    @abstractmethod
    def from_json(self, values: JsonObject) -> Task:
        """Return the task from which :meth:`Task.as_json` made these values."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


@dataclass(frozen=True)
class Task(Offers):
    """A task, once all labels have been seen. It is small, and travels with the prepared data."""

    kind: TaskKind
    codec: Codec
    decisions: Decisions
    scorer: Scorer

    def offered[C](self, kind: type[C]) -> C | None:
        parts = (self.kind, self.codec, self.decisions, self.scorer)
        return next((part for part in parts if isinstance(part, kind)), None)

    @property
    def name(self) -> str:
        """Name of the kind."""
        return self.kind.name

    def as_json(self) -> dict[str, Json]:
        """Return name and codec for a store. The calibration of a learner is stored with its model."""
        return {"name": self.kind.name, **self.codec.as_json()}
