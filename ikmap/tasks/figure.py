"""The figure of a task that comes first, what a search goes by, and figures that several tasks have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

if TYPE_CHECKING:
    import numpy as np

ROC_AUC: Mapping[str, Any] = {
    "description": "Area under the ROC curve of the test rows with a label; of more than two classes the mean over "
    "each against the rest. Null where all rows are alike.",
    "type": ["number", "null"],
    "minimum": 0,
    "maximum": 1,
}
ROC_AUC_ERROR: Mapping[str, Any] = {
    "description": "The area is that far off at most, as scores are counted in bins.",
    "type": ["number", "null"],
    "minimum": 0,
}
AVERAGE_PRECISION: Mapping[str, Any] = {"type": ["number", "null"], "minimum": 0, "maximum": 1}


@dataclass(frozen=True)
class Figure:
    """The figure of a task that comes first: in tables, curves, one-line results, and what a search goes by.

    Attributes
    ----------
    key : str
        In ``metrics.json``.
    unit : {"share", "number"}
        A share lies in [0, 1]; a number is shown as it is.
    of_test, of_stream : str
        What it is, after "accuracy: ", of {rows} test rows ({which}) and of a stream.
    so_far : str
        A sentence on what its curve along the rows shows.
    lead, lead_of_stream : str
        What a learner did, after its name: with {value} and {rows}, as "12 test rows".
    table : str
        For the heading of a table.
    higher_is_better : bool
    ranks : bool
        Whether the learner with the best one is the best; else the first of a run comes first in its report.
    name : str
        For people; default: the key.
    """

    key: str
    unit: Literal["share", "number"]
    of_test: str
    of_stream: str
    so_far: str
    lead: str
    lead_of_stream: str
    table: str
    higher_is_better: bool = True
    ranks: bool = True
    name: str = ""

    @property
    def title(self) -> str:
        """For a heading."""
        return self.words[:1].upper() + self.words[1:]

    @property
    def words(self) -> str:
        """Its name for people."""
        return self.name or self.key.replace("_", " ")

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its values."""
        return {"type": "number", **({"minimum": 0, "maximum": 1} if self.unit == "share" else {})}

    def line(self, value: float) -> str:
        """Name and value: "accuracy 0.8412"."""
        return f"{self.words} {value:.4f}"


class Tally(Protocol):
    """What some rows say of a learner: adds up over blocks, shards and pieces, in any grouping for whole numbers."""

    @property
    def rows(self) -> int:
        """How many rows are in it."""

    def __add__(self, other: Self) -> Self: ...

    def as_json(self) -> Any:
        """For the record of a task; :meth:`ikmap.tasks.LearningTask.tally_from` takes it back."""


class Judge(Protocol):
    """What a search goes by; a task is one itself, by its :attr:`~ikmap.tasks.LearningTask.figure`."""

    @property
    def figure(self) -> Figure:
        """What is compared."""

    def predict(self, decision: np.ndarray) -> np.ndarray:
        """What rows are judged by, of decisions of shape (n, K): predictions, or the decisions themselves."""

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """As of :meth:`ikmap.tasks.LearningTask.row_scores`, of all rows of a fold together."""

    def score(self, total: Any, rows: Any) -> Any:
        """As of :meth:`ikmap.tasks.LearningTask.score`."""

    def spread(self, row_scores: np.ndarray) -> float:
        """As of :meth:`ikmap.tasks.LearningTask.spread`."""

    def narrowed(self, targets: np.ndarray) -> tuple[Any, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """As of :meth:`ikmap.tasks.LearningTask.narrowed`: a judge, and what turns what it judges by into ours."""

    @property
    def constant(self) -> np.ndarray | None:
        """As of :attr:`ikmap.tasks.LearningTask.constant`."""

    @property
    def classes(self) -> list[Any]:
        """As of :attr:`ikmap.tasks.LearningTask.classes`."""
