"""Stacking: boosting and cells of maps in one sum, whose weights are chosen by rows that they have not learned from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge

from ikmap.methods.about import LearnerAbout
from ikmap.methods.base_models import (
    BaseMap,
    BoostingPart,
    CellsPart,
    Settings,
    best_settings,
    enough_folds,
    loss_of,
    psis_of,
    search,
    some_of,
    target_of,
)
from ikmap.methods.boosting import Boosting, BoostingFields
from ikmap.methods.capabilities import LearnsOutOfFold
from ikmap.methods.fields import Doc, fields_of
from ikmap.methods.forest import Forest
from ikmap.methods.iforest import IForest
from ikmap.methods.kinds import Choice, Kind, Names, refuse
from ikmap.methods.learner import WholeLearner
from ikmap.methods.linear_on_cells import LogisticRegression
from ikmap.methods.map import PSI_DOC, PsiMap, RowsInfo, T
from ikmap.methods.ridge import Ridge
from ikmap.methods.sample import Shape, Training

if TYPE_CHECKING:
    from ikmap.json_values import Json
    from ikmap.learners.cells_model import CellsModel
    from ikmap.learners.out_of_fold import OutOfFold
    from ikmap.learners.stacking.stacking import Folds
    from ikmap.methods.learner import Summary

METRICS_SCHEMA: Mapping[str, Mapping[str, Json]] = {
    "base_models": {
        "description": "Parts of the sum that stacking made, by name.",
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "required": ["weight", "loss"],
            "properties": {
                "weight": {
                    "description": "Weight in the sum; 0 for a part that adds nothing and was left out.",
                    "type": "number",
                    "minimum": 0,
                },
                "loss": {
                    "description": "Mean loss of the part by itself on rows from which it has not learned.",
                    "type": "number",
                    "minimum": 0,
                },
                "psi": {"description": "Cells of a partitioning.", "type": "integer", "minimum": 1},
                "C": {"description": "Weight of the errors of its model.", "type": "number", "exclusiveMinimum": 0},
            },
        },
    },
    "loss_out_of_fold": {
        "description": "Mean loss of the sum on rows from which neither its parts nor the weights have learned.",
        "type": "number",
        "minimum": 0,
    },
}
"""JSON Schema of the fields that the learner reports."""
MOST_ROWS = 10_000
"""Most rows that are learned from to choose psi and C."""


class BaseModel(Choice):
    """Boosting, or a map whose psi is chosen and that is registered by now."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def known(self) -> tuple[str, ...]:
        from ikmap.methods.registry import MAPS

        return Boosting.about.name, *(name for name, kind in MAPS.items() if issubclass(kind, PsiMap | Forest))


class BaseModels(Kind):
    """Base models with commas between (in TOML also an array), as a text: "boosting,iforest" or "iforest:256:8"."""

    metavar = "NAME[:PSI:C],..."

    @property
    def schema(self) -> dict[str, Json]:
        names = "|".join(BaseModel().known)
        word = rf"({names})(:\d+:\d*\.?\d+(e[+-]?\d+)?)?"
        return {"type": "string", "pattern": rf"^\s*{word}\s*(,\s*{word}\s*)*$"}

    def check(self, value: object) -> str:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            refuse(value, "names with commas between")
        own = [word.strip().partition(":") for word in words]
        Names(BaseModel()).check([name for name, _, _ in own])
        settings: dict[str, Settings | None] = {}
        for name, _, text in own:
            found = _settings_of(name, text)
            if settings.setdefault(name, found) != found:
                refuse(f"{name}:{text}" if text else name, f"{name} once, with one psi and one C")
        return words_of(settings)


def _settings_of(name: str, text: str) -> Settings | None:
    """Return the psi and C that the word of a base model has; None: they are chosen."""
    if not text:
        return None
    psi, _, C = text.partition(":")
    if name == Boosting.about.name:
        refuse(f"{name}:{text}", f"{name} alone, which has no psi and C")
    try:
        settings = int(psi), float(C)
    except ValueError:
        refuse(f"{name}:{text}", f"a psi and a C such as {name}:256:8")
    if settings[0] < 1 or not 0 < settings[1] < math.inf:
        refuse(f"{name}:{text}", "a psi >= 1 and a C > 0")
    return settings


def _worded(name: str, settings: Settings | None) -> str:
    """Return a base model as a word: its name, and its psi and C if they are given."""
    return name if settings is None else f"{name}:{settings[0]}:{str(settings[1]).removesuffix('.0')}"


def words_of(base_models: Mapping[str, Settings | None]) -> str:
    """Return base models, by name with their psi and C, as the text of ``--base-models``."""
    return ",".join(_worded(name, settings) for name, settings in base_models.items())


class Stacking(BoostingFields, WholeLearner, LearnsOutOfFold):
    """A sum of models on cells: boosting, and linear models on the cells of maps.

    The rows are divided into folds, and each part of the sum learns from all folds but one, for each fold. Weights >= 0
    of the parts are those with the least loss on the rows that were held out, and a part decides as the mean of its
    models does. Parts that add nothing are left out. Classes go by the logistic loss, numbers by squared error.

    Folds keep rows of a group together if the run does. In order of time, a fold is held out from models of earlier
    rows, and a part learns from all rows in the end.
    """

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="stacking",
        title="stacking: boosting and cells in one sum",
        on="rows",
        tasks=frozenset({"classification", "regression"}),
        models=("ikmap.learners.cells_model", "ikmap.learners.out_of_fold"),
        loop_words=frozenset({
            Boosting.about.name, IForest.about.name, LogisticRegression.about.name, Ridge.about.name, "cells-batch",
        }),
        metrics_schema=METRICS_SCHEMA,
    )  # fmt: skip

    base_models: Annotated[
        str,
        BaseModels(),
        Doc(
            "parts of the sum that stacking makes: boosting, and maps with linear models on their cells, whose psi and "
            "C are chosen unless they are given, as in iforest:256:8"
        ),
    ] = "boosting,iforest"
    t: T = 300
    psi: Annotated[int | Literal["auto"], Ge(1), Doc(PSI_DOC)] = "auto"
    n_folds: Annotated[
        int, Ge(2), Doc("folds of stacking, each held out once from the learning of the parts of the sum")
    ] = 5

    @property
    def parts(self) -> dict[str, Settings | None]:
        """Names of the parts, and their psi and C if they are given."""
        own = [word.partition(":") for word in self.base_models.split(",")]
        return {name: _settings_of(name, text) for name, _, text in own}

    def fit(self, training: Training) -> tuple[CellsModel, Summary]:
        model, summary, _ = self.fit_out_of_fold(training)
        return model, summary

    def fit_out_of_fold(self, training: Training) -> tuple[CellsModel, Summary, OutOfFold]:
        from ikmap.learners.out_of_fold import OutOfFold
        from ikmap.learners.stacking.stacking import stack

        n_classes, y = len(training.classes), training.y
        if y.size < 2:
            raise ValueError(f"stacking: found n_samples = {y.size}, expected at least 2, which are divided into folds")
        target, loss = target_of(y, n_classes), loss_of(n_classes)
        folds = self._folds(training)
        parts = [self._part(name, training, folds) for name in self.parts]
        stacked = stack(
            [part.fit for part in parts],
            training.rows,
            target,
            folds,
            loss,
            learner=self.about.name,
            n_threads=training.n_threads,
            sample_weight=training.block.sample_weight,
        )
        figures = zip(parts, stacked.blend.weights.tolist(), stacked.blend.alone, strict=True)
        summary: Summary = {
            "base_models": {
                name: {**part.summary, "weight": weight, "loss": own_loss}
                for name, (part, weight, own_loss) in zip(self.parts, figures, strict=True)
            },
            "loss_out_of_fold": stacked.blend.loss,
        }
        blended, rows_learned = stacked.blend, folds.fits[-1 if folds.in_time else 0].size
        out_of_fold = OutOfFold(blended.decisions, folds.n_folds, int(rows_learned), blended.weights)
        return stacked.model, summary, out_of_fold

    def takes_weights(self, task: str) -> bool:
        return True

    def _folds(self, training: Training) -> Folds:
        import numpy as np

        from ikmap.learners.stacking.stacking import Folds

        division, y = training.division, training.y
        if division is None:
            return Folds.at_random(y, min(self.n_folds, y.size), training.seed)
        return Folds.following(division, max(2, min(self.n_folds, np.unique(division.keys).size)))

    def _part(self, name: str, training: Training, folds: Folds) -> BoostingPart | CellsPart:
        return (
            BoostingPart(training, self._boosting)
            if name == Boosting.about.name
            else self._cells(name, training, folds)
        )

    def _cells(self, name: str, training: Training, folds: Folds) -> CellsPart:
        """Return a map with the psi, and the C, that are given, or have the least loss on rows that are held out.

        As many folds are held out, one after the other, as have enough rows; in order of time, the last ones. Of many
        other rows, some are learned from.
        """
        import numpy as np

        from ikmap import seed_paths
        from ikmap.seeds import generator

        kind, smallest = _map_kind(name), min(fit.size for fit in folds.fits)
        if (settings := self.parts[name]) is not None:
            return CellsPart(training, kind(t=self.t, psi=min(settings[0], smallest)), settings[1])
        psis = self._psis(kind, smallest)
        of_map, tried = kind(t=self.t, psi=psis[0]), list[dict[Settings, float]]()
        order = list(reversed(range(folds.n_folds)) if folds.in_time else range(folds.n_folds))
        for k in order[: enough_folds([folds.held_out(k).size for k in order])]:
            fit = folds.fits[k]
            if fit.size > MOST_ROWS:
                random = generator(training.seed, seed_paths.STACKING_CHOICE, k)
                fit = np.sort(random.choice(fit, MOST_ROWS, replace=False))
            tried.append(search(of_map, some_of(training, fit), some_of(training, folds.held_out(k)), psis))
        psi, C = best_settings(tried)
        return CellsPart(training, of_map.at({"psi": psi}), C)

    @property
    def _boosting(self) -> Boosting:
        return Boosting(**{name: getattr(self, name) for name in fields_of(BoostingFields)})

    def _psis(self, kind: type[BaseMap], n_rows: int) -> list[int]:
        """Return the values of psi to try where a map is fitted on so many rows."""
        return [min(self.psi, n_rows)] if isinstance(self.psi, int) else psis_of(kind, n_rows)

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        row_bytes = shape.rows_bytes / max(1, shape.n)
        info = RowsInfo(shape.n, shape.d, row_bytes, shape.nnz is None)
        # The rows of a fold; decisions of all parts and of their sum, targets and what weighs them.
        held = shape.rows_bytes + 8 * shape.n * shape.outputs * (2 * len(self.parts) + 8)
        learning, models = 0.0, 0.0
        for name, settings in self.parts.items():
            if name == Boosting.about.name:
                learning = max(learning, self._boosting.memory(shape))
                models += self.rounds * shape.outputs * self.max_leaves * (40 + 8 * shape.outputs)
                continue
            kind = _map_kind(name)
            psis = self._psis(kind, max(1, shape.n - -(-shape.n // min(self.n_folds, max(1, shape.n)))))
            of_map = kind(t=self.t, psi=psis[-1] if settings is None else min(settings[0], shape.n))
            of_rows, cells = of_map.memory(info), of_map.t * of_map.n_cells()
            # Cells as they are found and packed; variables of the dual problem; weights.
            of_cells = shape.n * of_map.t * 6 + shape.n * shape.outputs * 24 + 4 * 8 * cells * shape.outputs
            learning = max(learning, of_rows.model + of_rows.scratch + of_cells)
            models += of_rows.model + 8 * cells * shape.outputs
        # Models of all folds, and their sum.
        return int(held + learning + 2 * self.n_folds * models)


def _map_kind(name: str) -> type[BaseMap]:
    from ikmap.methods.registry import MAPS

    kind = MAPS[name]
    assert issubclass(kind, PsiMap | Forest)
    return kind
