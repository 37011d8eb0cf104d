"""A throwaway task, numbers to predict, with two throwaway learners: what a stranger would write, in a file of its own.

Proof that the pipeline and the command lines know no task: :func:`known` makes them known, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.rows import Rows
from ikmap.methods import LEARNERS, Learner, LearnerAbout, Sample, StreamLearner, Training, WholeLearner
from ikmap.model import Model
from ikmap.tasks import Criterion, Json, LabelRequest, Metric, Sentences, Task, TaskKind, register, unregister
from ikmap.tasks.capabilities import Census
from ikmap.tasks.regression.decisions import NumberDecisions
from ikmap.tasks.sections import Lines, Section, Table, Text
from ikmap.tasks.task import Codec, MetricsSchema, PartLabels, Presenter, Scorer, SummaryLine

if TYPE_CHECKING:
    from ikmap.methods.learner import Summary


@dataclass(frozen=True)
class Errors:
    """Sums over rows: of squared and of absolute errors, of targets and of their squares."""

    rows: int = 0
    squared: float = 0.0
    absolute: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    def __add__(self, other: Self) -> Self:
        return type(self)(*(a + b for a, b in zip(self.as_json(), other.as_json(), strict=True)))

    def as_json(self) -> list[Any]:
        return [self.rows, self.squared, self.absolute, self.total, self.squares]

    def metrics(self) -> dict[str, Json]:
        if not self.rows:
            return {"rmse": None}
        around = self.squares - self.total**2 / self.rows
        rmse, mae = (self.squared / self.rows) ** 0.5, self.absolute / self.rows
        return {"rmse": rmse, "mae": mae, "r2": 1 - self.squared / around}


@dataclass(frozen=True)
class NumbersCodec(Codec, Census):
    """A target is a float64, or NaN."""

    dtype: ClassVar[str] = "float64"
    mean: float = 0.0

    def targets(self, stored: np.ndarray, part: PartLabels) -> np.ndarray:
        return stored

    def encode(self, labels: np.ndarray | None, n: int) -> np.ndarray:
        return KIND.read(labels, n)[0]

    def unknown(self, targets: np.ndarray) -> np.ndarray:
        return np.isnan(targets)

    def census(self, targets: np.ndarray) -> list[float]:
        return [float(targets.min()), float(targets.max())]

    def counted(self, censuses: Sequence[Any]) -> dict[str, Json]:
        return {"target_range": [min(low for low, _ in censuses), max(high for _, high in censuses)]}

    def missing(self, targets: np.ndarray) -> str:
        return ""


class ErrorScorer(Scorer):
    def accumulate(self, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray | None = None) -> Errors:
        off = target - decision[:, 0]
        sums = ((off**2).sum(), np.abs(off).sum(), target.sum(), (target**2).sum())
        return Errors(target.size, *map(float, sums))

    def state_from(self, values: Any) -> Errors:
        return Errors(*values or ())


class Rmse(Criterion):
    metric = Metric("rmse", "number", Sentences.about("Root of the mean squared error"), higher_is_better=False)
    tasks = frozenset({"numbers"})

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return -((target - predicted) ** 2)

    def score(self, total: Any, rows: Any) -> Any:
        return np.sqrt(-total / rows)

    def spread(self, row_scores: np.ndarray) -> float:
        return super().spread(row_scores) / max(2 * np.sqrt(-row_scores.mean()), 1e-12)


class NumbersPresenter(Presenter):
    metric = Rmse.metric
    schema = MetricsSchema(
        rows={"target_range": {"type": "array", "items": {"type": "number"}}},
        learner={"mae": {"type": "number"}, "r2": {"type": "number"}},
    )

    def summary(self, learner: Mapping[str, Json]) -> Sequence[SummaryLine]:
        return [("mean absolute error", learner.get("mae"), "number"), ("R2", learner.get("r2"), "share")]

    def sections(self, metrics: Mapping[str, Any]) -> Sequence[Section]:
        learners = metrics.get("learners", {})
        rows = [(name, about["mae"]) for name, about in learners.items() if "mae" in about]
        line = Lines("Off by", "learner", "mae", {"all": [(k, mae) for k, (_, mae) in enumerate(rows)]})
        text = Text("Errors <of> the learners.")
        return [Section("off", "Off by how much", [text, Table("Off", ("", "mae"), rows), line])]


class Numbers(TaskKind):
    """Labels are numbers to predict."""

    name = "numbers"
    presenter = NumbersPresenter()

    def of(self, mean: float) -> Task:
        return Task(self, NumbersCodec(mean), NumberDecisions(), ErrorScorer())

    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:
        if labels is None:
            return np.full(n, np.nan), {"rows": 0, "total": 0.0}
        if labels.dtype == object:
            raise ValueError(f"found label {labels[0]!r}, expected numbers")
        return labels.astype(np.float64), {"rows": n, "total": float(labels.sum())}

    def find(self, parts: Sequence[Any], request: LabelRequest) -> Task:
        return self.of(sum(part["total"] for part in parts) / sum(part["rows"] for part in parts))

    def from_json(self, values: Mapping[str, Any]) -> Task:
        return self.of(values["mean"])


KIND = Numbers()


@dataclass(frozen=True, eq=False)
class CellSums(Model):
    """A weight for each cell: the prediction is the base and the mean weight of a row's cells."""

    kind: ClassVar[str] = "throwaway-cell-sums"

    weights: np.ndarray
    base: float
    learner: str

    def decision_function(self, rows: Cells) -> np.ndarray:
        return self.base + self.weights[columns_of(rows)].mean(axis=1)[:, None]


def columns_of(rows: Cells) -> np.ndarray:
    return rows.codes + rows.offsets[:-1]


class ByCounts(WholeLearner):
    """Means of cells, drawn towards the mean of all rows, as ridge regression does with so many rows in each."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="by-counts", title="means of cells", tasks=frozenset({Numbers.name})
    )

    def fit(self, training: Training) -> tuple[Model, Summary]:
        rows, y = training.cells, training.y
        base, columns = float(y.mean()), columns_of(rows)
        size = int(rows.offsets[-1])
        sums = np.bincount(columns.ravel(), weights=np.repeat(y - base, columns.shape[1]), minlength=size)
        counts = np.bincount(columns.ravel(), minlength=size)
        return CellSums(sums / (counts + 1.0), base, self.about.name), {"cells_seen": int((counts > 0).sum())}


class Step(NamedTuple):
    predicted: np.ndarray


@dataclass
class Following:
    """Gradient steps on the squared error, row after row."""

    weights: np.ndarray
    base: float
    n_seen: int = 0

    @property
    def n_support(self) -> int:
        return 0

    def partial_fit(self, rows: Rows, y: np.ndarray) -> Step:
        assert isinstance(rows, Cells)
        predicted = np.empty(y.size)
        for i, columns in enumerate(columns_of(rows)):
            predicted[i] = self.base + self.weights[columns].mean()
            self.weights[columns] += 0.5 * (y[i] - predicted[i])
        self.n_seen += y.size
        return Step(predicted)

    def decision_function(self, rows: Rows) -> np.ndarray:
        assert isinstance(rows, Cells)
        return self.model([]).decision_function(rows)

    def model(self, classes: list[Any], params: Any = None) -> CellSums:
        assert classes == []
        return CellSums(self.weights.copy(), self.base, "following")

    def checkpoint(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights.copy(), "n_seen": np.array(self.n_seen)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        return replace(self, weights=arrays["weights"], n_seen=int(arrays["n_seen"]))


class Follows(StreamLearner):
    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="follows", title="means of cells that follow the rows", tasks=frozenset({Numbers.name})
    )

    def start(self, sample: Sample, n_threads: int = 1) -> Following:
        assert sample.offsets is not None
        assert sample.task is not None
        assert isinstance(sample.task.codec, NumbersCodec)
        return Following(np.zeros(int(sample.offsets[-1])), sample.task.codec.mean)


@contextmanager
def known() -> Iterator[None]:
    """Have the task and its learners known by their names."""
    kinds: tuple[type[Learner], ...] = (ByCounts, Follows)
    register(KIND)
    register(Rmse)
    LEARNERS.update({kind.about.name: kind for kind in kinds})
    try:
        yield
    finally:
        unregister(Numbers.name)
        unregister(Rmse.metric.key)
        for kind in kinds:
            del LEARNERS[kind.about.name]
