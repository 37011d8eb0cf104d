"""A learner that forgets: gradient steps on cells whose weights all decay, by a factor that is kept apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from annotated_types import Gt

from ikmap.cells import Cells, in_wider_layout
from ikmap.json_values import JsonObject
from ikmap.learners.rows import Rows
from ikmap.methods import Doc, LearnerAbout, Sample
from ikmap.methods.learner import GradientLearner


class Step(NamedTuple):
    predicted: np.ndarray


@dataclass
class Forgetting:
    """Two classes; weights are ``scale * weights``."""

    weights: np.ndarray
    eta: float
    forget: float
    scale: float = 1.0
    n_seen: int = 0
    n_support: int = 0
    divisor: float = 1.0

    def partial_fit(self, rows: Rows, y: np.ndarray) -> Step:
        from tests.plugins.forgetting_loops import forgetting_pass

        assert isinstance(rows, Cells)
        predicted, columns = np.empty(y.size, np.int32), np.ascontiguousarray(rows.columns(), dtype=np.int64)
        kept, classes = 1.0 - self.eta * self.forget, y.astype(np.int32)
        self.scale, steps = forgetting_pass(columns, classes, self.weights, self.scale, self.eta, kept, predicted)
        self.n_seen += y.size
        self.n_support += steps
        return Step(predicted)

    def decision_function(self, rows: Rows) -> np.ndarray:
        found: np.ndarray = self.model([0, 1]).decision_function(rows)
        return found

    def model(self, classes: list[Any], params: JsonObject | None = None) -> Any:
        from ikmap.learners.linear_model import LinearModel

        coef = (self.scale * self.weights)[:, None]
        return LinearModel(coef, np.zeros(1), self.divisor, "forgetting", classes, params or {})

    def traces(self) -> dict[str, float]:
        return {"norm": self.scale * float(np.linalg.norm(self.weights)), "steps": float(self.n_support)}

    def grow(self, old: np.ndarray, new: np.ndarray) -> None:
        self.weights = in_wider_layout(self.weights, old, new)

    def checkpoint(self) -> dict[str, np.ndarray]:
        counts = np.array([self.n_seen, self.n_support])
        return {"weights": self.weights.copy(), "scale": np.array(self.scale), "counts": counts}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        seen, support = map(int, arrays["counts"])
        return replace(
            self, weights=arrays["weights"].copy(), scale=float(arrays["scale"]), n_seen=seen, n_support=support
        )


class Forgets(GradientLearner):
    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="forgetting",
        title="gradient descent on cells that forgets",
        loops=("tests.plugins.forgetting_loops",),
    )
    grows: ClassVar[bool] = True
    traced: ClassVar[Mapping[str, str]] = {"norm": "Norm of the weights", "steps": "Rows stepped on"}
    forget: Annotated[float, Gt(0), Doc("rate at which weights decay, beside the step size")] = 0.01

    def start(self, sample: Sample, n_threads: int = 1) -> Forgetting:
        assert sample.offsets is not None
        t = sample.offsets.size - 1
        return Forgetting(np.zeros(int(sample.offsets[-1])), self.eta, self.forget, divisor=float(t))
