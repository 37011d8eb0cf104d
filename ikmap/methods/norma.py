"""NORMA on cells: regularised online learning of classes, numbers or what is usual, with the isolation kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ikmap.methods.learners import StreamLearner
from ikmap.methods.map import Map, Value
from ikmap.methods.norma_options import NormaOptions, for_task, rule_of, target_unit, unsuited, usual_loss
from ikmap.methods.options import MethodOptions
from ikmap.methods.sample import Sample

PSI, ROWS_PER_CELL = 32, 4
"""Cells of a partitioning for novelty, where --psi does not say, and no more than one for so many rows."""
SHARE = "Share beyond the threshold (alerts, margin errors, large errors) among the last 1000 rows or so, and ν"
TRACED = {
    "beyond": SHARE,
    "nu": SHARE,
    "rho": "Margin ρ of the last function",
    "level": "Level of alerts, a share of the largest value that the mean function can have",
    "epsilon": "Width ε, in the unit of the target: smaller errors cost nothing",
    "sigma": "Size σ, in the unit of the target: larger errors count no more than in proportion",
}


class NormaLearner(StreamLearner):
    """Base of both forms."""

    Options: ClassVar[type[MethodOptions]] = NormaOptions
    traced: ClassVar[Mapping[str, str]] = TRACED
    models: ClassVar[tuple[str, ...]] = ("ikmap.learners.linear_model",)
    told: ClassVar[Mapping[str, Any]] = {
        "loss": {"description": "What was minimised.", "type": "string"},
        "nu": {"description": "The share beyond the threshold that was asked for.", "type": ["number", "null"]},
    }

    def for_task(self, options: Any, task: str) -> Any:
        return for_task(options, task)

    def unsuited(self, options: Any, task: str) -> str | None:
        return unsuited(self.name, options, task, 1.0)

    def facts(self, state: Any) -> dict[str, Any]:
        return {"loss": state.rule.loss, "nu": state.rule.nu if state.rule.learns_threshold else None}


class _Norma(NormaLearner):
    grows = True
    carries = True

    def width(self, options: Any, of_map: Map, map_options: Any, n_rows: int) -> Value | None:
        if options.loss != "novelty":
            return super().width(options, of_map, map_options, n_rows)
        return of_map.unsearched(map_options, max(1, min(PSI, n_rows // ROWS_PER_CELL)), n_rows)

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.learners.online.norma import NormaState

        assert sample.offsets is not None
        assert sample.task is not None
        if wrong := self.unsuited(options, sample.task.name):
            raise ValueError(wrong)
        rule = rule_of(options, usual_loss(options, sample.task.name), sample.n_rows)
        t, of = float(sample.offsets.size - 1), target_unit(rule, sample)
        return NormaState.start(rule, int(sample.offsets[-1]), t, sample.n_classes or 2, learner=self.name, **of)


NORMA = _Norma(
    name="norma",
    title="regularised online learning on cells (NORMA)",
    on="cells",
    tasks=frozenset({"classification", "novelty", "regression"}),
)
