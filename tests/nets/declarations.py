"""What every map, learner and kernel declares of itself: name, title, tasks, options with their kinds and help.

:func:`declared` is the only function that looks at the methods. Whoever rewrites what methods are made of rewrites it
too, so that it returns the same values from the new classes; the record stays as it is.

    python -m tests.nets.declarations            prints what differs from the record
    python -m tests.nets.declarations --record   writes the record anew
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import MISSING, asdict
from functools import cache
from pathlib import Path
from typing import Any

from flows.options.option import BASELINES, FEATURES, FIRST_PAGE, LEARNING, On, Option, options_of, options_of_methods
from ikmap.methods import (
    KERNELS,
    LEARNERS,
    MAPS,
    Configured,
    DualLearner,
    Field,
    HasFourier,
    KernelMethod,
    Learner,
    Map,
    RoundsLearner,
    StreamLearner,
    Sweepable,
    capability,
    configured,
    fields_by_name,
    fields_of,
    method,
    methods,
)
from ikmap.methods import Path as FindsPath
from ikmap.methods.kernel_on_rows import KernelName
from ikmap.methods.kinds import Choice, Flag, Integer, Kind, Real
from ikmap.methods.learner import CountsLearner, WholeLearner
from ikmap.methods.quantile import Levels
from ikmap.methods.stacking import BaseModel, BaseModels
from pipeline.reproduce.registry import PAPERS
from tests.nets.records import NEWER_OPTIONS, as_json, command, read

FILE = Path(__file__).with_suffix(".json")
SUMS = ("iforest,anne", "iforest,gcws", "gcws,mondrian,binning,inne")
"""Sums of maps whose options are recorded too: they follow from those of their parts."""


def newer_options() -> dict[str, str]:
    """Return the options that no record has, and those of :data:`NEWER_OPTIONS`, with their defaults as JSON."""
    recorded = _recorded_options()
    added = {
        name: json.dumps(field.recorded_default)
        for kind in methods().values()
        for name, field in fields_of(kind).items()
        if name not in recorded and field.nested is None
    }
    return {**NEWER_OPTIONS, **added}


@cache
def _recorded_options() -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for entry in read(FILE).values() for name in entry.get("options", ()))


def without_newer(lines: Sequence[str]) -> list[str]:
    """Return differences without those that say that an option of today has its default."""
    if not lines:
        return []
    added = newer_options()
    declared = re.compile(r"(?:.*\.)?options\.(?:\w+\.)?(\w+): not recorded, now \{")
    given = re.compile(r"(?:.*\.)?methods\.[^.:]+\.(?:\w+\.)?(\w+): not recorded, now (.*)")
    return [
        line
        for line in lines
        if not ((match := declared.match(line)) and match[1] in added)
        and not ((match := given.fullmatch(line)) and added.get(match[1]) == match[2])
    ]


def declared() -> dict[str, Any]:
    """Return what each registered method declares, by "map NAME", "learner NAME" and so on, as JSON values."""
    entries = {
        "order": {"maps": list(MAPS), "learners": list(LEARNERS), "kernels": list(KERNELS)},
        **{f"map {name}": _of_map(name) for name in MAPS},
        **{f"learner {name}": _of_learner(kind) for name, kind in LEARNERS.items()},
        **{f"kernel {name}": _of_kernel(kind) for name, kind in KERNELS.items()},
        **{f"sum {name}": _of_map(name) for name in SUMS},
        **{f"paper {one.name}": {"options": _of_paper(one.Options)} for one in PAPERS.values()},
    }
    return dict(as_json(entries))


def _of_map(name: str) -> dict[str, Any]:
    one, searched = configured(name, {})
    assert isinstance(one, Map)
    about, path, sweeps = one.description, capability(one, FindsPath), capability(one, Sweepable)
    return {
        "name": about.name,
        "title": about.title,
        "about": about.summary,
        "nested": path is not None and path.small_first,
        "tables": sorted(about.tables),
        "in_units": one.unsearched(searched, 1000, 2) is None and "," not in name,
        "reaches_all": about.reaches_all,
        "endless": sweeps is not None and sweeps.endless,
        "by_size": about.by_size,
        "models": sorted(about.models),
        "loops": sorted(about.loops),
        "options": _of_options(name, FEATURES),
    }


def _of_learner(kind: type[Learner]) -> dict[str, Any]:
    about = kind.about
    of_stream: dict[str, Any] = {}
    if issubclass(kind, StreamLearner):
        of_stream = {
            "grows": kind.grows,
            "carries": kind.carries,
            "traced": dict(kind.traced),
            "asked_alerts": kind.requested_alerts,
        }
    one, _ = kind.of_record({})
    of_dual = (
        {"loss": None if "loss" in fields_of(kind) or "svr_loss" in fields_of(kind) else one.problem.loss}
        if (isinstance(one, DualLearner))
        else {}
    )
    runners = {RoundsLearner: "rounds", CountsLearner: "counts", DualLearner: "dual", WholeLearner: "whole"}
    return {
        "name": about.name,
        "title": about.title,
        "on": about.on,
        "same_as": about.equivalent_to,
        "tasks": sorted(about.tasks),
        "way": "online" if issubclass(kind, StreamLearner) else "batch",
        "runner": next((word for base, word in runners.items() if issubclass(kind, base)), "stream"),
        "working_set": issubclass(kind, WholeLearner) and kind.working_set,
        # Of learners from streams the record says what their states take, which is now asked for each task.
        "takes_weights": not issubclass(kind, StreamLearner) and one.takes_weights(min(about.tasks)),
        "told": {name: dict(schema) for name, schema in about.metrics_schema.items()},
        "usual_map": about.usual_map,
        "tables": list(about.needs_tables),
        "models": sorted(about.models),
        "loops": sorted(about.loops),
        **of_stream,
        **of_dual,
        "options": _of_options(about.name, LEARNING),
    }


def _of_kernel(kind: type[KernelMethod]) -> dict[str, Any]:
    about = kind.about
    return {
        "name": about.name,
        "title": about.title,
        "source": about.source,
        "on": about.on,
        "shares": None if kind.shares is None else list(kind.shares),
        "has_fourier": issubclass(kind, HasFourier),
        "models": sorted(about.models),
        "loops": sorted(about.loops),
        "options": _of_options(about.name, BASELINES),
    }


def _of_paper(kind: type[Configured]) -> dict[str, Any]:
    return {key: _of_option(option, fields_of(kind)[key]) for key, option in options_of(kind, BASELINES).items()}


def _of_options(name: str, group: str) -> dict[str, Any]:
    """Return what is declared of each option of a method, by name. Its place in pages of help is tested with these."""
    fields = fields_by_name(name)
    options = options_of_methods({name: method(name)})[name] if "," not in name else {}
    return {
        key: _of_option(
            options.get(key) or Option({key: field}, On(group, page=1 if key.rpartition(".")[2] in FIRST_PAGE else 2)),
            field,
        )
        for key, field in fields.items()
    }


def _of_option(option: Option, field: Field) -> dict[str, Any]:
    return {
        "flag": option.flag,
        "kind": _of_kind(option.kind),
        "schema": option.kind.schema,
        "shown": option.kind.metavar,
        "help": option.help,
        "common": option.common,
        "required": option.required,
        **({} if option.default is MISSING else {"default": option.default}),
        **({} if field.before is None else {"before": field.before.value}),
        "setting": None if field.symbol is None else asdict(field.symbol),
    }


def _of_kind(kind: Kind) -> dict[str, Any]:
    """Return the values that an option takes: their type, bounds and whether these are allowed, and words."""
    match kind:
        case Integer():
            bounds: dict[str, Any] = {"low": kind.low, "high": kind.high, "with_low": True, "with_high": True}
            return {"type": "integer", **bounds, "words": list(kind.words), "instead": kind.instead}
        case Real():
            low, high = (bound if abs(bound) != float("inf") else None for bound in (kind.low, kind.high))
            bounds = {"low": low, "high": high, "with_low": kind.with_low, "with_high": kind.with_high}
            hints = {"instead": kind.instead, "endless": ""}
            return {"type": "number", **bounds, "words": list(kind.words), **hints}
        case KernelName():
            return {"type": "name of a kernel", "names": list(kind.known)}
        case Choice():
            return {"type": "choice", "names": list(kind.names), "later": []}
        case Levels():
            return {"type": "levels"}
        case BaseModels():
            return {"type": "base models", "names": list(BaseModel().known)}
        case Flag():
            return {"type": "flag"}
    raise TypeError(f"found {type(kind).__name__}, expected a kind of an option that a method has")


if __name__ == "__main__":
    sys.exit(command(FILE, declared))
