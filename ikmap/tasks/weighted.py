"""How good predictions are where the data says how much each row counts: sums over rows, added up exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ikmap.tasks.sections import Section, Table, Text

if TYPE_CHECKING:
    import numpy as np

WEIGHT, SCORE = "weight", "score"
TITLES = {
    "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "log_loss": "log loss", "brier": "Brier score",
    "r2": "R2", "rmse": "root of the mean squared error", "mae": "mean absolute error",
}  # fmt: skip


class Weighed:
    """What a task says of rows that weigh differently. By default the mean of :meth:`LearningTask.row_scores`."""

    def weighed_terms(self, target: np.ndarray, decision: np.ndarray) -> dict[str, np.ndarray]:
        """What each row adds to sums, by name: float64 arrays, which are then weighted."""
        task: Any = self
        return {SCORE: task.row_scores(target, task.predict(decision))}

    def weighed_figures(self, sums: Mapping[str, float]) -> dict[str, float | None]:
        """Figures from the weighted sums, with that of the weights themselves; None where these are 0."""
        task: Any = self
        if not sums[WEIGHT]:
            return {task.figure.key: None}
        value = task.score(sums[SCORE], sums[WEIGHT])
        return {task.figure.key: value, **task.implied(value)}


class WeighedClasses(Weighed):
    """Of classes: accuracy and mean recall, and where there are probabilities both of their losses."""

    def weighed_terms(self, target: np.ndarray, decision: np.ndarray) -> dict[str, np.ndarray]:
        import numpy as np

        task: Any = self
        right = (task.predict(decision) == target).astype(np.float64)
        found = {SCORE: right}
        for k in range(len(task.classes)):
            there = target == k
            found |= {f"there {k}": there.astype(np.float64), f"right {k}": right * there}
        probability = task.probabilities(decision)
        if probability is not None:
            from ikmap.tasks.probability_tally import losses

            found["log_loss"], found["brier"] = losses(target, probability)
        return found

    def weighed_figures(self, sums: Mapping[str, float]) -> dict[str, float | None]:
        task: Any = self
        weight = sums[WEIGHT]
        if not weight:
            return {task.figure.key: None}
        known = [k for k in range(len(task.classes)) if sums[f"there {k}"] > 0]
        recall = sum(sums[f"right {k}"] / sums[f"there {k}"] for k in known) / len(known)
        means = {key: sums[key] / weight for key in ("log_loss", "brier") if key in sums}
        return {task.figure.key: sums[SCORE] / weight, "balanced_accuracy": recall, **means}


class WeighedNumbers(Weighed):
    """Of numbers: errors, and R2 with the weighted variance of these rows."""

    def weighed_terms(self, target: np.ndarray, decision: np.ndarray) -> dict[str, np.ndarray]:
        import numpy as np

        task: Any = self
        off, around = target - task.predict(decision), target - task.mean
        return {"squared": off * off, "absolute": np.abs(off), "around": around, "squares": around * around}

    def weighed_figures(self, sums: Mapping[str, float]) -> dict[str, float | None]:
        weight = sums[WEIGHT]
        if not weight:
            return {"r2": None}
        variance = sums["squares"] - sums["around"] ** 2 / weight
        return {
            "r2": 1 - sums["squared"] / variance if variance > 0 else None,
            "rmse": (sums["squared"] / weight) ** 0.5,
            "mae": sums["absolute"] / weight,
        }


def weighed_sections(metrics: Mapping[str, Any]) -> Sequence[Section]:
    """What a report shows where the data says how much rows count; any part of the metrics may be missing."""
    data, learners = metrics.get("data"), metrics.get("learners")
    column = data.get("weight") if isinstance(data, Mapping) else None
    known = {
        str(name): about["weighted"]
        for name, about in (learners.items() if isinstance(learners, Mapping) else ())
        if isinstance(about, Mapping) and isinstance(about.get("weighted"), Mapping)
    }
    if column is None or not known:
        return []
    keys = [key for key in TITLES if any(isinstance(of.get(key), int | float) for of in known.values())]
    rows = [(name, *("" if of.get(key) is None else of[key] for key in keys)) for name, of in known.items()]
    text = (
        f"Rows count by column {column}: in learning, in cross-validation and in the figures below. All other figures "
        "of this report count each row once."
    )
    return [Section("weighted", "Weighted figures", [Text(text), Table("", ("learner", *map(TITLES.get, keys)), rows)])]  # type: ignore[arg-type]
