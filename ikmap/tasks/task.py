"""What is learned from labels: what a label becomes, what a decision means, how good it is, and how that is said.

A run asks its task for everything that has to do with labels, and knows none by name. A task has two sides: the class
says what holds before a label was seen; an object of it holds what the labels have turned out to be (the classes), is
small, and travels with what is prepared from the data. Nothing heavy is imported before it is used, for ``--help``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from ikmap.tasks.encodes_words import EncodesWords
from ikmap.tasks.figure import Figure, Judge, Tally
from ikmap.tasks.weighted import Weighed

if TYPE_CHECKING:
    import numpy as np

    from ikmap.tasks.sections import Section
    from ikmap.tasks.verdict import Verdict

type Found = Mapping[str, Any]
"""JSON values that stand for the labels of some rows, beside an array of one value a row."""


@dataclass(frozen=True)
class Asked:
    """What was asked of the labels, by option or in the description of a data set.

    Attributes
    ----------
    word : str
        As of ``--task``: "auto", the name of a task, or one of its :attr:`LearningTask.words`.
    said : str
        Who says so, for messages: an option, or the description of a data set.
    two_class : pair of sequences of labels, or None
        Labels that count as +1 and as -1.
    inliers : sequence of str, or None
        Labels, as words, of the rows that are normal.
    """

    word: str = "auto"
    said: str = ""
    two_class: Sequence[Sequence[Any]] | None = None
    inliers: Sequence[str] | None = None


@dataclass(frozen=True)
class LearningTask(EncodesWords, Weighed):
    """Base of all tasks.

    Attributes
    ----------
    name : str
        For ``--task``, and in a store.
    words : tuple of str
        What ``--task`` takes beside the name.
    dtype : str
        Of targets, in memory and in the store.
    predicted : str
        Of predictions.
    needs_labels : bool
        Whether there is nothing to learn without labels.
    takes_inliers : bool
        Whether labels of normal rows can be named (:attr:`Asked.inliers`).
    tallies_streams : bool
        Whether a stream counts all that :meth:`figures` says of its rows, beside the sums of their scores.
    alerts : bool
        Whether rows may be such that somebody is to be told at once (:meth:`alerted`).
    by_labels : bool
        Whether ``--task auto`` may choose it, by the labels (:mod:`ikmap.tasks.by_labels`).
    undecided : bool
        Whether it only stands for a task that :meth:`find` finds.
    usual_learner : str
        Name of the learner of a run that names none (``--learner auto``); empty: one has to be named.
    criteria : tuple of str
        What else than :attr:`figure` a search may go by (:meth:`judge`).
    usual_criterion : str
        What a search goes by where nothing is named (``--select-by auto``): one of :attr:`criteria`; empty: the figure.
    figure : Figure
    told_of_labels, told_of_rows, told : mapping of str to mapping
        What :meth:`about`, :meth:`counted` and, beside the figure, :meth:`figures` say in ``metrics.json``: the JSON
        Schema of each field.
    compiled : frozenset of str
        All words for :mod:`ikmap._compiled` that it may turn out to need; :attr:`loops` are those that it does.
    """

    name: ClassVar[str]
    words: ClassVar[tuple[str, ...]] = ()
    dtype: ClassVar[str]
    predicted: ClassVar[str]
    needs_labels: ClassVar[bool] = True
    takes_inliers: ClassVar[bool] = False
    tallies_streams: ClassVar[bool] = False
    alerts: ClassVar[bool] = False
    by_labels: ClassVar[bool] = False
    undecided: ClassVar[bool] = False
    usual_learner: ClassVar[str] = ""
    criteria: ClassVar[tuple[str, ...]] = ()
    usual_criterion: ClassVar[str] = ""
    figure: ClassVar[Figure]
    told_of_labels: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    told_of_rows: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    told: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    compiled: ClassVar[frozenset[str]] = frozenset()

    # What labels become.

    @classmethod
    def store(cls, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, Found]:
        """What stands for the labels of n rows in the store: a value a row, and what there is to know of these values.

        Parameters
        ----------
        labels : float64 ndarray or object ndarray of str, or None
            As read; None where the source has none.

        Raises
        ------
        ValueError
            They cannot be labels of this task; a ``BadLabel`` where one of them is at fault.
        """
        raise NotImplementedError

    @classmethod
    def find(cls, found: Sequence[Found], asked: Asked) -> LearningTask:
        """The task that the labels of all parts make.

        Raises
        ------
        ValueError
            Nothing can be learned from them.
        """
        raise NotImplementedError

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """What :meth:`as_json` made these values of."""
        return cls(**{key: value for key, value in values.items() if key != "name"})

    def as_json(self) -> dict[str, Any]:
        """Name, and what was found."""
        return {"name": self.name, **asdict(self)}

    def targets(self, stored: np.ndarray, found: Found) -> np.ndarray:
        """Targets of rows of which :meth:`store` made these; of a label that has none, the one of :meth:`unknown`."""
        raise NotImplementedError

    def settled(self) -> Self:
        """The same task for rows of which the store holds targets, made by :meth:`store_targets`."""
        return self

    def store_targets(self, targets: np.ndarray) -> tuple[np.ndarray, Found]:
        """What :meth:`targets` of the settled task takes back."""
        return targets, {}

    def encode(self, labels: np.ndarray | None, n: int) -> np.ndarray:
        """Targets of n rows by their labels as read."""
        return self.targets(*self.store(labels, n))

    def unknown(self, targets: np.ndarray) -> np.ndarray:
        """Mask of the targets that are none: of rows without a label, or with one that was not there before."""
        raise NotImplementedError

    def strangers(self, found: Sequence[Found]) -> list[Any]:  # noqa: ARG002
        """Labels in these parts that have no target."""
        return []

    def learned(self, targets: np.ndarray) -> np.ndarray | None:  # noqa: ARG002
        """Mask of the training rows that are learned from, by their targets; None: all are."""
        return None

    @property
    def notes(self) -> Sequence[str]:
        """What a run says of the labels that it has found, a line each."""
        return ()

    @property
    def known(self) -> str:
        """What labels may be, for people."""
        return "numbers"

    @property
    def classes(self) -> list[Any]:
        """Labels by class number, as JSON values; empty where targets are no classes."""
        return []

    @property
    def outputs(self) -> int:
        """Columns of decisions."""
        return 1

    @property
    def loops(self) -> frozenset[str]:
        """Words for :mod:`ikmap._compiled`."""
        return frozenset()

    def about(self) -> dict[str, Any]:
        """What ``data`` in ``metrics.json`` says of the labels."""
        return {}

    def census(self, targets: np.ndarray) -> Any:  # noqa: ARG002
        """What there is to know of the targets of some training rows, beside their number: JSON."""
        return None

    def counted(self, censuses: Sequence[Any]) -> dict[str, Any]:  # noqa: ARG002
        """What ``data`` in ``metrics.json`` says of all training rows.

        Raises
        ------
        ValueError
            Nothing can be learned from them.
        """
        return {}

    def lacking(self, targets: np.ndarray) -> str:  # noqa: ARG002
        """What a learner that sees these rows only would miss, after "found no training row of "; mostly nothing."""
        return ""

    def weights(self, targets: np.ndarray) -> np.ndarray | None:  # noqa: ARG002
        """How much training rows with these targets count, shape (n,), finite and >= 0; None: all the same.

        What a row weighs follows from its own target and from what this object holds, never from the rows beside it:
        it is asked block by block.
        """
        return None

    @classmethod
    def has_weights(cls) -> bool:
        """Whether rows may weigh differently, as far as can be said before a label was seen: it has :meth:`weights`."""
        return cls.weights is not LearningTask.weights

    # What decisions mean.

    def predict(self, decision: np.ndarray) -> np.ndarray:
        """Predictions, shape (n,), from decisions, shape (n, K)."""
        raise NotImplementedError

    def decode(self, predictions: np.ndarray) -> np.ndarray:
        """Predictions, or targets, as labels of one type, that of :attr:`label_type`."""
        return predictions

    @property
    def label_type(self) -> Literal["int64", "float64", "string", "bool"]:
        """Of labels as users see them."""
        return "float64"

    @property
    def columns(self) -> dict[str, str]:
        """Columns that scoring writes for each row: name and type, the prediction first."""
        return {"prediction": self.label_type}

    def values(self, decision: np.ndarray) -> dict[str, np.ndarray]:
        """What these columns hold."""
        return {"prediction": self.decode(self.predict(decision))}

    def alerted(self, decision: np.ndarray) -> np.ndarray | None:  # noqa: ARG002
        """Mask of the rows to alert of, by decisions whose first column says how far they are from it; None: none."""
        return None

    # How decisions are read: as probabilities, and by which threshold.

    @property
    def reads(self) -> str:
        """Why its decisions become no probabilities, after "found"; empty: they may."""
        return f"--task {self.name}, which has no classes"

    def decided_by_threshold(self) -> str:
        """Why no threshold can be chosen, after "found"; empty: one can."""
        return self.reads

    @property
    def weighed_by(self) -> tuple[str, ...]:
        """Figures by which columns are weighed; all are larger where predictions are better, and the last decides."""
        return (self.figure.key,)

    def responses(self, decision: np.ndarray) -> dict[str, np.ndarray]:  # noqa: ARG002
        """What a learner says of each row, by names for people."""
        return {}

    @property
    def most_evidence(self) -> int | None:
        """How many rows of a fold say enough; None: any number is taken."""
        return None

    def evidence(self, target: np.ndarray, decision: np.ndarray) -> Tally:
        """What some rows that were not learned from say of how decisions are to be read."""
        raise NotImplementedError

    def evidence_from(self, values: Sequence[Any]) -> Tally:
        """The sum of what :meth:`Tally.as_json` has made of some evidence."""
        raise NotImplementedError

    def read_by(self, reading: Any) -> Self:  # noqa: ARG002
        """The same task with decisions read so (a :class:`~ikmap.tasks.reading.Reading`); None: as they are."""
        return self

    def probabilities(self, decision: np.ndarray) -> np.ndarray | None:  # noqa: ARG002
        """Probability of each class, shape (n, classes); None: there are none."""
        return None

    # How good they are.

    def judge(self, by: str = "") -> Judge:
        """What a search goes by: :attr:`figure`, or one of :attr:`criteria`."""
        assert not by or by == self.figure.key
        return self

    @classmethod
    def figure_of(cls, by: str) -> Figure:  # noqa: ARG003
        """That of :meth:`judge`."""
        return cls.figure

    def tally(self, target: np.ndarray, decision: np.ndarray) -> Tally:
        """What some rows say of the learner that made these decisions, shape (n, K)."""
        raise NotImplementedError

    def tally_at(self, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray) -> Tally:  # noqa: ARG002
        """The same of a task that remembers single rows: `numbers` are those of the rows, from 0, shape (n,)."""
        return self.tally(target, decision)

    def tally_from(self, values: Any) -> Tally:
        """Return the tally of which :meth:`Tally.as_json` made this; of None that of no rows."""
        raise NotImplementedError

    def total(self, tallies: Sequence[Any]) -> Any:
        """The sum of what :meth:`Tally.as_json` has made of some tallies, in their order."""
        total = self.tally_from(None)
        for values in tallies:
            total = total + self.tally_from(values)
        return total

    def figures(self, tally: Any) -> dict[str, Any]:
        """What ``learners.NAME`` in ``metrics.json`` says, the value of :attr:`figure` among it, which may be None."""
        raise NotImplementedError

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """How good each prediction is, bool or float64: larger is better, and they add up.

        A race of candidates compares them row by row.
        """
        raise NotImplementedError

    def losses(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """How bad each prediction is, in [0, 1], by which drift is noticed: scores below 0 go to 1 as they fall."""
        import numpy as np

        scores = self.row_scores(target, predicted)
        if scores.dtype == np.bool_:
            return 1.0 - scores
        off = np.maximum(0.0, -scores)
        found: np.ndarray = off / (1.0 + off)
        return found

    def score(self, total: Any, rows: Any) -> Any:
        """The value of :attr:`figure` for rows whose scores add up to `total`; both may be arrays."""
        raise NotImplementedError

    def implied(self, score: float) -> dict[str, Any]:  # noqa: ARG002
        """What else of :attr:`told` follows from a value of :meth:`score`, as of the rows of a stream."""
        return {}

    def spread(self, row_scores: np.ndarray) -> float:
        """Half the width of a 95% interval of :meth:`score` over so many rows."""
        raise NotImplementedError

    def narrowed(self, targets: np.ndarray) -> tuple[Self, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """The task that these rows make by themselves, their targets there, and what turns predictions there into ours.

        A fold may not have every class.
        """
        return self, targets, lambda predicted: predicted

    @property
    def constant(self) -> np.ndarray | None:
        """The one prediction that there is, shape (1,), where there is nothing to learn."""
        return None

    # How it is reported.

    @classmethod
    def facts(cls, figures: Mapping[str, Any]) -> Sequence[tuple[str, Any, str]]:  # noqa: ARG003
        """Name, value and unit of what a table of learners shows beside :attr:`figure`, of what ``learners.NAME`` has.

        Units are those of a :class:`Figure`; what is no finite number is left out.
        """
        return ()

    @classmethod
    def more(cls, figures: Mapping[str, Any]) -> str:  # noqa: ARG003
        """A sentence that follows the first one of a report, on the learner that this one is about."""
        return ""

    @classmethod
    def verdicts(
        cls,
        name: str,  # noqa: ARG003
        figures: Mapping[str, Any],  # noqa: ARG003
        metrics: Mapping[str, Any],  # noqa: ARG003
    ) -> Sequence[Verdict]:
        """Return what a reader has to be told first of a learner, such as that it is no better than a constant.

        Parameters
        ----------
        name : str
            The learner.
        figures, metrics : mapping
            ``learners.NAME`` of ``metrics.json``, and all of it.
        """
        return ()

    @classmethod
    def sections(cls, metrics: Mapping[str, Any]) -> Sequence[Section]:  # noqa: ARG003
        """What a report shows beside the figures of the learners; any part of the metrics may be missing."""
        return ()


def plain_label(value: Any) -> Any:
    """Return a label as a JSON value: 3.0 is 3."""
    if isinstance(value, str):
        return value
    return int(value) if float(value).is_integer() else float(value)
