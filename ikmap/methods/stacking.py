"""Stacking: boosting and cells of maps in one sum, whose weights are chosen by rows that they have not learned from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

from annotated_types import Ge

from ikmap.capability import Offers
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
from ikmap.methods.capabilities import LearnsOutOfFold, LearnsSeparately
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
    from ikmap.model import Model

METRICS_SCHEMA: Mapping[str, Mapping[str, Json]] = {
    "base_models": {
        "description": "Parts of the sum that stacking made, by name, of boosting also by options of its own.",
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "required": ["weight"],
            "properties": {
                "weight": {
                    "description": "Weight in the sum; 0 for a part that adds nothing and was left out.",
                    "type": "number",
                    "minimum": 0,
                },
                "loss": {
                    "description": "Mean loss of the part by itself on rows from which it has not learned; not there "
                    "if weights are given.",
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


@dataclass(frozen=True)
class PartWord:
    """A part of a sum as a word: its name, and what is given of its settings.

    Attributes
    ----------
    name : str
        "boosting", or the name of a map.
    settings : (int, float) or None
        psi and C of a map; None: they are chosen.
    options : mapping of str to value
        Options of boosting that differ from those of the sum.
    weight : float or None
        Weight in the sum, > 0; None: it is found by rows that are held out.
    """

    name: str
    settings: Settings | None = None
    options: Mapping[str, Json] = field(default_factory=dict)
    weight: float | None = None

    @classmethod
    def parse(cls, word: str) -> PartWord:
        """Return the part that a word describes.

        Raises
        ------
        ValueError
            The word has something that is no setting of such a part.
        """
        part, sign, weight = word.strip().partition("@")
        name, _, text = (each.strip() for each in part.partition(":"))
        own = cls(name, weight=_weight_of(word, weight) if sign else None)
        if not text:
            return own
        if name == Boosting.about.name:
            return replace(own, options=_options_of(text))
        return replace(own, settings=_settings_of(name, text))

    @property
    def label(self) -> str:
        """Name that no other part of a sum has."""
        return ":".join((self.name, *(f"{option}={value}" for option, value in self.options.items())))

    def __str__(self) -> str:
        text = self.label
        if self.settings is not None:
            text += f":{self.settings[0]}:{_shown(self.settings[1])}"
        return text if self.weight is None else f"{text}@{_shown(self.weight)}"


def _shown(number: float) -> str:
    return str(number).removesuffix(".0")


def _weight_of(word: str, text: str) -> float:
    weight = _number(text)
    if not isinstance(weight, int | float) or not 0 < weight < math.inf:
        refuse(word, "a weight > 0 after @, such as boosting@0.4,forest:4096:8@0.6")
    return float(weight)


def _settings_of(name: str, text: str) -> Settings:
    psi, _, C = text.partition(":")
    try:
        settings = int(psi), float(C)
    except ValueError:
        refuse(f"{name}:{text}", f"a psi and a C such as {name}:256:8")
    if settings[0] < 1 or not 0 < settings[1] < math.inf:
        refuse(f"{name}:{text}", "a psi >= 1 and a C > 0")
    return settings


def _options_of(text: str) -> dict[str, Json]:
    """Return the options of boosting in such words as shrinkage=0.05:max_leaves=12, in their own types and in order."""
    pairs = [tuple(part.strip() for part in word.partition("=")) for word in text.split(":")]
    texts = {name: value for name, _, value in pairs}
    if len(texts) < len(pairs) or not all(name and sign and value for name, sign, value in pairs):
        refuse(f"boosting:{text}", "options of boosting, each once, such as boosting:shrinkage=0.05:max_leaves=12")
    if unknown := texts.keys() - fields_of(BoostingFields).keys():
        refuse(f"boosting:{text}", f"options of boosting ({min(unknown)} is none), such as boosting:shrinkage=0.05")
    try:
        boosting = Boosting.of_record({name: _number(value) for name, value in texts.items()})[0]
    except ValueError as error:
        refuse(f"boosting:{text}", f"options of boosting ({error})")
    return {name: cast("Json", boosting.record()[name]) for name in sorted(texts)}


def _number(text: str) -> object:
    """Return the number that a text is, or the text for the option to refuse."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


class BaseModels(Kind):
    """Parts of a sum with commas between (in TOML also an array), as a text.

    A map may have psi and C, as in "boosting,iforest:256:8"; boosting may be there several times with options of its
    own, as in "boosting,boosting:shrinkage=0.05:max_leaves=12". All parts may have weights, as in
    "boosting@0.4,forest:4096:8@0.6".
    """

    metavar = "NAME[:SETTINGS],..."

    @property
    def schema(self) -> dict[str, Json]:
        (boosting, *maps) = BaseModel().known
        number = r"\d*\.?\d+(e[+-]?\d+)?"
        word = rf"({boosting}(:\w+=[^:@,\s]+)*|({'|'.join(maps)})(:\d+:{number})?)(@{number})?"
        return {"type": "string", "pattern": rf"^\s*{word}\s*(,\s*{word}\s*)*$"}

    def check(self, value: object) -> str:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            refuse(value, "names with commas between")
        Names(BaseModel()).check([word.strip().partition("@")[0].partition(":")[0] for word in words])
        parts: dict[str, PartWord] = {}
        for part in map(PartWord.parse, words):
            if parts.setdefault(part.label, part) != part:
                refuse(str(part), f"{part.name} once, with one psi, one C and one weight")
        if len({part.weight is None for part in parts.values()}) > 1:
            refuse(words_of(parts.values()), "a weight of all parts or of none")
        return words_of(parts.values())


def words_of(parts: Iterable[PartWord]) -> str:
    """Return parts of a sum as the text of ``--base-models``."""
    return ",".join(map(str, parts))


class Stacking(BoostingFields, WholeLearner, LearnsOutOfFold, LearnsSeparately, Offers):
    """A sum of models on cells: boosting, and linear models on the cells of maps.

    The rows are divided into folds, and each part of the sum learns from all folds but one, for each fold. Weights >= 0
    of the parts are those with the least loss on the rows that were held out, and a part decides as the mean of its
    models does. Parts that add nothing are left out. Classes go by the logistic loss, numbers by squared error.

    Folds keep rows of a group together if the run does. In order of time, a fold is held out from models of earlier
    rows, and a part learns from all rows in the end.

    A part can also be the mean of models of all rows, which differ by their seeds (``refits``). If parts are given
    with their weights, only these are learned, in a fraction of the time; no decisions out of fold are known then.
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
            "parts of the sum that stacking makes: boosting, also with options of its own, as in "
            "boosting:shrinkage=0.05:max_leaves=12, and maps with linear models on their cells, whose psi and C are "
            "chosen unless they are given, as in iforest:256:8. If all have weights, as in boosting@0.4,forest@0.6, "
            "they learn from all rows alone, and no weights are found by folds"
        ),
    ] = "boosting,iforest"
    t: T = 300
    psi: Annotated[int | Literal["auto"], Ge(1), Doc(PSI_DOC)] = "auto"
    n_folds: Annotated[
        int, Ge(2), Doc("folds of stacking, each held out once from the learning of the parts of the sum")
    ] = 5
    refits: Annotated[
        int,
        Ge(0),
        Doc(
            "models of all rows, each with a seed of its own, whose mean each part of the sum is; 0: the models of the "
            "folds, or one model if the weights are given"
        ),
    ] = 0

    @property
    def parts(self) -> dict[str, PartWord]:
        """The parts by their labels."""
        return {part.label: part for part in map(PartWord.parse, self.base_models.split(","))}

    @property
    def is_weighed(self) -> bool:
        """True if the weights of the parts are given."""
        return all(part.weight is not None for part in self.parts.values())

    def offered[C](self, kind: type[C]) -> C | None:
        """Return the learner itself. Where it finds weights, it decides out of fold; else its models need no others."""
        if not isinstance(self, kind):
            return None
        if kind is LearnsOutOfFold and self.is_weighed:
            return None
        if kind is LearnsSeparately and not (self.is_weighed and self._has_settings):
            return None
        return self

    @property
    def _has_settings(self) -> bool:
        """True if psi and C of all maps are given."""
        return all(word.settings is not None or word.name == Boosting.about.name for word in self.parts.values())

    @property
    def n_models(self) -> int:
        return max(1, self.refits) * len(self.parts)

    def learn(self, k: int, training: Training) -> CellsModel:
        import numpy as np

        word, refit = list(self.parts.values())[k // max(1, self.refits)], k % max(1, self.refits)
        return self._part(word, training, lambda: self._folds(training)).fit(np.arange(training.y.size), refit)

    def joined(self, models: Sequence[Model], training: Training) -> tuple[CellsModel, Summary]:
        from ikmap.learners.stacking.stacking import weighed_sum

        words, refits = self.parts, max(1, self.refits)
        parts = [self._part(word, training, lambda: self._folds(training)) for word in words.values()]
        own = cast("Sequence[CellsModel]", models)
        model = weighed_sum(
            [own[begin : begin + refits] for begin in range(0, len(own), refits)],
            [word.weight or 0.0 for word in words.values()],
            target_of(training.y, len(training.classes)),
            loss_of(len(training.classes)),
            learner=self.about.name,
            sample_weight=training.block.sample_weight,
        )
        figures = zip(words.items(), parts, strict=True)
        return model, {"base_models": {name: {**part.summary, "weight": word.weight} for (name, word), part in figures}}

    def fit(self, training: Training) -> tuple[CellsModel, Summary]:
        from concurrent.futures import ThreadPoolExecutor

        if self.is_weighed:
            own = self._with_settings(training)
            with ThreadPoolExecutor(self._at_once(training)) as pool:
                return own.joined(list(pool.map(lambda k: own.learn(k, training), range(own.n_models))), training)
        model, summary, _ = self.fit_out_of_fold(training)
        return model, summary

    def _with_settings(self, training: Training) -> Stacking:
        """Return the learner with psi and C of all maps, which are chosen where they are not given."""
        folds = cache(lambda: self._folds(training))
        words: list[PartWord] = []
        for word in self.parts.values():
            part = self._part(word, training, folds)
            words.append(replace(word, settings=(part.map.psi, part.C)) if isinstance(part, CellsPart) else word)
        return replace(self, base_models=words_of(words))

    def fit_out_of_fold(self, training: Training) -> tuple[CellsModel, Summary, OutOfFold]:
        from ikmap.learners.out_of_fold import OutOfFold
        from ikmap.learners.stacking.stacking import stack

        n_classes, y = len(training.classes), training.y
        target, loss = target_of(y, n_classes), loss_of(n_classes)
        folds = self._folds(training)
        parts = [self._part(word, training, lambda: folds) for word in self.parts.values()]
        stacked = stack(
            [part.fit for part in parts],
            training.rows,
            target,
            folds,
            loss,
            learner=self.about.name,
            refits=self.refits,
            n_threads=training.n_threads,
            n_at_once=self._at_once(training),
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

    def _at_once(self, training: Training) -> int:
        """Return how many models are learned at the same time."""
        from ikmap.learners.stacking.stacking import at_once

        has_maps = any(word.name != Boosting.about.name for word in self.parts.values())
        return at_once(training.rows, self.t if has_maps else 0, training.n_threads)

    def _folds(self, training: Training) -> Folds:
        import numpy as np

        from ikmap.learners.stacking.stacking import Folds

        division, y = training.division, training.y
        if y.size < 2:
            raise ValueError(f"stacking: found n_samples = {y.size}, expected at least 2, which are divided into folds")
        if division is None:
            return Folds.at_random(y, min(self.n_folds, y.size), training.seed)
        n_folds = max(2, min(self.n_folds, np.unique(division.keys).size))
        # If weights are given, boosting learns from all rows alone: folds choose psi and C.
        words = () if self.is_weighed else tuple(self.parts.values())
        divisible = any(word.name == Boosting.about.name and self._boosting(word).held_out > 0.0 for word in words)
        return Folds.following(division, n_folds, training.block.sample_weight, divisible=divisible)

    def _part(self, word: PartWord, training: Training, folds: Callable[[], Folds]) -> BoostingPart | CellsPart:
        if word.name == Boosting.about.name:
            return BoostingPart(training, self._boosting(word))
        return self._cells(word, training, folds)

    def _cells(self, word: PartWord, training: Training, find_folds: Callable[[], Folds]) -> CellsPart:
        """Return a map with the psi, and the C, that are given, or have the least loss on rows that are held out.

        As many folds are held out, one after the other, as have enough rows; in order of time, the last ones. Of many
        other rows, some are learned from.
        """
        import numpy as np

        from ikmap import seed_paths
        from ikmap.seeds import generator

        kind, settings = _map_kind(word.name), word.settings
        if settings is not None and word.weight is not None:
            return CellsPart(training, kind(t=self.t, psi=min(settings[0], training.y.size)), settings[1])
        folds = find_folds()
        smallest = min(fit.size for fit in folds.fits)
        if settings is not None:
            return CellsPart(training, kind(t=self.t, psi=min(settings[0], smallest)), settings[1])
        psis = self._psis(kind, smallest)
        of_map, tried = kind(t=self.t, psi=psis[0]), list[dict[Settings, float]]()
        order = list(reversed(range(folds.n_folds)) if folds.in_time else range(folds.n_folds))
        for k in order[: enough_folds([folds.held_out(k).size for k in order])]:
            fit = folds.fits[k]
            if fit.size > MOST_ROWS:
                random = generator(training.seed, seed_paths.STACKING_CHOICE, k)
                fit = np.sort(random.choice(fit, MOST_ROWS, replace=False))
            some_psis = [min(psi, fit.size) for psi in psis]  # of so few rows no more can be drawn
            tried.append(search(of_map, some_of(training, fit), some_of(training, folds.held_out(k)), some_psis))
        psi, C = best_settings(tried)
        return CellsPart(training, of_map.at({"psi": psis[0] if len(psis) == 1 else psi}), C)

    def _boosting(self, word: PartWord) -> Boosting:
        own = {name: getattr(self, name) for name in fields_of(BoostingFields)}
        return Boosting(**own | dict(word.options))

    def _psis(self, kind: type[BaseMap], n_rows: int) -> list[int]:
        """Return the values of psi to try where a map is fitted on so many rows, or the one that is given."""
        return [min(self.psi, n_rows)] if isinstance(self.psi, int) else psis_of(kind, min(n_rows, MOST_ROWS))

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        from ikmap.learners.stacking.stacking import AT_ONCE_BYTES, CELL_BYTES

        row_bytes = shape.rows_bytes / max(1, shape.n)
        info = RowsInfo(shape.n, shape.d, row_bytes, shape.nnz is None)
        is_separate = self.is_weighed and self._has_settings
        # All rows, and those of a fold; decisions of all parts and of their sum, targets and what weighs them.
        held = shape.rows_bytes * (1 if is_separate else 2) + 8 * shape.n * shape.outputs * (2 * len(self.parts) + 8)
        learning, models = 0.0, 0.0
        for word in self.parts.values():
            if word.name == Boosting.about.name:
                boosting = self._boosting(word)
                learning = max(learning, replace(boosting, solver="memory").memory(shape))
                models += boosting.rounds * shape.outputs * boosting.max_leaves * (40 + 8 * shape.outputs)
                continue
            kind, settings = _map_kind(word.name), word.settings
            psis = self._psis(kind, max(1, shape.n - -(-shape.n // min(self.n_folds, max(1, shape.n)))))
            of_map = kind(t=self.t, psi=psis[-1] if settings is None else min(settings[0], shape.n))
            of_rows, cells = of_map.memory(info), of_map.t * of_map.n_cells()
            # Cells as they are found and packed; variables of the dual problem; weights.
            of_cells = shape.n * of_map.t * CELL_BYTES + shape.n * shape.outputs * 24 + 4 * 8 * cells * shape.outputs
            learning = max(learning, of_rows.model + of_rows.scratch + of_cells)
            models += of_rows.model + 8 * cells * shape.outputs
        # All models and their sum; a task learns one, or adds up those that others have learned.
        if is_separate:
            return int(held + max(learning, 2 * max(1, self.refits) * models))
        n_models = max(1, self.refits) if self.is_weighed else self.n_folds + self.refits
        learning = max(learning, min(learning * n_models, AT_ONCE_BYTES))
        return int(held + learning + 2 * n_models * models)


def _map_kind(name: str) -> type[BaseMap]:
    from ikmap.methods.registry import MAPS

    kind = MAPS[name]
    assert issubclass(kind, PsiMap | Forest)
    return kind
