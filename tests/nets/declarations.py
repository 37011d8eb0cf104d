"""What every map, learner and kernel declares of itself: name, title, tasks, options with their kinds and help.

:func:`declared` is the only function that looks at the methods. Whoever rewrites what methods are made of rewrites it
too, so that it returns the same values from the new classes; the record stays as it is.

    python -m tests.nets.declarations            prints what differs from the record
    python -m tests.nets.declarations --record   writes the record anew
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import MISSING, asdict
from pathlib import Path
from typing import Any

from ikmap.methods import KERNELS, LEARNERS, MAPS, DualLearner, KernelMethod, Learner, Map, StreamLearner
from ikmap.methods.kernel import KernelName
from ikmap.methods.kinds import Choice, Flag, Integer, Kind, Levels, Real
from ikmap.methods.options import Spec
from ikmap.methods.registry import known
from pipeline.reproduce.papers import PAPERS
from tests.nets.records import as_json, command

FILE = Path(__file__).with_suffix(".json")
SUMS = ("iforest,anne", "iforest,gcws", "gcws,mondrian,binning,inne")
"""Sums of maps whose options are recorded too: they follow from those of their parts."""


def declared() -> dict[str, Any]:
    """Return what each registered method declares, by "map NAME", "learner NAME" and so on, as JSON values."""
    sums = [known(name) for name in SUMS]
    entries = {
        "order": {"maps": list(MAPS), "learners": list(LEARNERS), "kernels": list(KERNELS)},
        **{f"map {one.name}": _of_map(one) for one in MAPS.values()},
        **{f"learner {one.name}": _of_learner(one) for one in LEARNERS.values()},
        **{f"kernel {one.name}": _of_kernel(one) for one in KERNELS.values()},
        **{f"sum {one.name}": _of_map(one) for one in sums if isinstance(one, Map)},
        **{f"paper {one.name}": {"options": _of_options(one.Options.specs().values())} for one in PAPERS.values()},
    }
    return dict(as_json(entries))


def _of_map(one: Map) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "about": one.about,
        "nested": one.nested,
        "tables": sorted(one.tables),
        "in_units": one.in_units,
        "reaches_all": one.reaches_all,
        "endless": one.endless,
        "by_size": one.by_size,
        "models": sorted(one.models),
        "loops": sorted(one.loops),
        "options": _of_options(one.Options.specs().values()),
    }


def _of_learner(one: Learner) -> dict[str, Any]:
    of_stream: dict[str, Any] = {}
    if isinstance(one, StreamLearner):
        of_stream = {
            "grows": one.grows,
            "carries": one.carries,
            "traced": dict(one.traced),
            "asked_alerts": one.asked_alerts,
        }
    of_dual = {"loss": one.loss} if isinstance(one, DualLearner) else {}
    return {
        "name": one.name,
        "title": one.title,
        "on": one.on,
        "same_as": one.same_as,
        "tasks": sorted(one.tasks),
        "way": one.way,
        "runner": one.runner,
        "working_set": one.working_set,
        "takes_weights": one.takes_weights,
        "told": {name: dict(schema) for name, schema in one.told.items()},
        "usual_map": one.usual_map,
        "tables": list(one.tables),
        "models": sorted(one.models),
        "loops": sorted(one.loops),
        **of_stream,
        **of_dual,
        "options": _of_options(one.Options.specs().values()),
    }


def _of_kernel(one: KernelMethod) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "source": one.source,
        "on": one.on,
        "shares": None if one.shares is None else list(one.shares),
        "has_fourier": one.has_fourier,
        "models": sorted(one.models),
        "loops": sorted(one.loops),
        "options": _of_options(one.Options.specs().values()),
    }


def _of_options(specs: Iterable[Spec]) -> list[dict[str, Any]]:
    """Return what is declared of each option, in the order in which they are listed."""
    return [
        {
            "name": spec.name,
            "flag": spec.flag,
            "kind": _of_kind(spec.kind),
            "schema": spec.kind.schema,
            "shown": spec.kind.metavar,
            "group": spec.group,
            "help": spec.help,
            "common": spec.common,
            "required": spec.required,
            **({} if spec.default is MISSING else {"default": spec.default}),
            **({} if spec.before is MISSING else {"before": spec.before}),
            "setting": None if spec.setting is None else asdict(spec.setting),
        }
        for spec in specs
    ]


def _of_kind(kind: Kind) -> dict[str, Any]:
    """Return the values that an option takes: their type, bounds and whether these are allowed, and words."""
    match kind:
        case Integer():
            bounds = {"low": kind.low, "high": kind.high, "with_low": True, "with_high": True}
            return {"type": "integer", **bounds, "words": list(kind.words), "instead": kind.instead}
        case Real():
            low, high = (bound if abs(bound) != float("inf") else None for bound in (kind.low, kind.high))
            bounds = {"low": low, "high": high, "with_low": kind.with_low, "with_high": kind.with_high}
            hints = {"instead": kind.instead, "endless": kind.endless}
            return {"type": "number", **bounds, "words": list(kind.words), **hints}
        case KernelName():
            return {"type": "name of a kernel", "names": list(kind.known)}
        case Choice():
            return {"type": "choice", "names": list(kind.names), "later": list(kind.later)}
        case Levels():
            return {"type": "levels"}
        case Flag():
            return {"type": "flag"}
    raise TypeError(f"found {type(kind).__name__}, expected a kind of an option that a method has")


if __name__ == "__main__":
    sys.exit(command(FILE, declared))
