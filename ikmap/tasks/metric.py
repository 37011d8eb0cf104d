"""A metric: its name, its unit, and the sentences by which reports describe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ikmap.json_values import Json, JsonObject

ROC_AUC: JsonObject = {
    "description": "Area under the ROC curve of the test rows with a label; of more than two classes the mean over "
    "each against the rest. Null where all rows are alike.",
    "type": ["number", "null"],
    "minimum": 0,
    "maximum": 1,
}
ROC_AUC_ERROR: JsonObject = {
    "description": "The area is that far off at most, as scores are counted in bins.",
    "type": ["number", "null"],
    "minimum": 0,
}
AVERAGE_PRECISION: JsonObject = {"type": ["number", "null"], "minimum": 0, "maximum": 1}


@dataclass(frozen=True)
class Sentences:
    """Sentences by which a report describes a metric.

    Attributes
    ----------
    of_test, of_stream : str
        Description of the metric, to follow "accuracy: ": on {rows} test rows ({which}), and on a stream.
    so_far : str
        Description of the curve of the metric along the rows.
    lead, lead_of_stream : str
        Result of a learner, to follow its name, with {value} and with {rows} such as "12 test rows".
    table : str
        Heading of a table.
    """

    of_test: str
    of_stream: str
    so_far: str
    lead: str
    lead_of_stream: str
    table: str

    @classmethod
    def about(cls, words: str) -> Sentences:
        """Return plain sentences on a metric that is described by some words, such as "Mean log loss"."""
        lower = words[:1].lower() + words[1:]
        return cls(
            of_test=f"{lower} on {{rows}} test rows ({{which}})",
            of_stream=f"{lower} on the rows of the stream",
            so_far=words,
            lead=f"has a {lower} of {{value}} on {{rows}}",
            lead_of_stream=f"had a {lower} of {{value}} on {{rows}}",
            table=words,
        )


@dataclass(frozen=True)
class Metric:
    """A metric of predictions, such as accuracy.

    Attributes
    ----------
    key : str
        The field in ``metrics.json``, and the word for ``--select-by``.
    unit : {"share", "number"}
        A share lies in [0, 1]; a number is shown as it is.
    sentences : Sentences
    higher_is_better : bool
    ranks : bool
        True if the learner with the best value is the best; otherwise the first learner of a run comes first in its
        report.
    name : str
        Name for people; by default the key.
    """

    key: str
    unit: Literal["share", "number"]
    sentences: Sentences
    higher_is_better: bool = True
    ranks: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.key.replace("_", " "))

    @property
    def schema(self) -> dict[str, Json]:
        """JSON Schema of a value."""
        return {"type": "number", **({"minimum": 0, "maximum": 1} if self.unit == "share" else {})}

    def line(self, value: float) -> str:
        """Return name and value: "accuracy 0.8412"."""
        return f"{self.name} {value:.4f}"


def nullable(metric: Metric) -> dict[str, Json]:
    """Return the JSON Schema of a metric that may be missing."""
    return {"oneOf": [{"type": "null"}, metric.schema]}
