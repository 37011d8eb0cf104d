"""Options of all methods as options of a command: plain ones by their name alone, scoped ones by the method's too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from flows.options.declared import BASELINES, FEATURES, LEARNING, Spec, option
from ikmap.methods import Configured, Field, Learner, Map, Method, fields_of
from ikmap.methods.fields import with_options
from ikmap.methods.kinds import joined
from pipeline.resolve import flag, kind_of

COMMON = frozenset({"psi"})
"""Fields of methods that are on the first page of help."""
GROUPS = {"truncation": LEARNING}
"""Fields that do not stand with the others of their kind of method."""


def specs_of_methods(methods: Mapping[str, type[Method]]) -> dict[str, dict[str, Spec]]:
    """Return the options of each of some methods, by name."""
    return {
        name: {
            key: replace(spec, group=GROUPS.get(key, spec.group), common=key in COMMON)
            for key, spec in specs_of_fields(kind, _group(kind)).items()
        }
        for name, kind in methods.items()
    }


def specs_of_fields(kind: type[Configured], group: str) -> dict[str, Spec]:
    """Return the options that the fields of a class declare, by name, in a group of the page of help."""
    return {
        name: Spec(name, kind_of(field), group, with_options(field.doc, flag), _default(field))
        for name, field in fields_of(kind).items()
    }


def _default(field: Field) -> object:
    default = field.recorded_default
    return default.about.name if isinstance(default, Method) else default


def _group(kind: type[Method]) -> str:
    if issubclass(kind, Map):
        return FEATURES
    return LEARNING if issubclass(kind, Learner) and kind.about.on == "cells" else BASELINES


def with_options_of[C: type](scopes: Mapping[str, Mapping[str, Spec]]) -> Callable[[C], C]:
    """Give a class of options a field for each option of some methods, or papers; to be made a dataclass then.

    Parameters
    ----------
    scopes : mapping of str to mapping
        The options of each method or paper, by their names.
    """
    plain: dict[str, dict[str, Spec]] = {}
    for scope, specs in scopes.items():
        for name, spec in specs.items():
            plain.setdefault(name, {})[scope] = spec

    def declare(cls: C) -> C:
        for name, specs in plain.items():
            cls.__annotations__[name] = Any
            setattr(cls, name, _option(specs))
        cls.METHOD_OPTIONS = tuple(plain)  # type: ignore[attr-defined]
        cls.SCOPES = scopes  # type: ignore[attr-defined]
        return cls

    return declare


def _option(specs: Mapping[str, Spec]) -> Any:
    """Return one option for what several methods have; where they have not the same default, it has none."""
    first = next(iter(specs.values()))
    same = all(spec.default == first.default for spec in specs.values())
    helps = dict.fromkeys(spec.help for spec in specs.values())
    if len(helps) > 1:
        by_help = {text: [name for name, spec in specs.items() if spec.help == text] for text in helps}
        shown = "; ".join(f"{', '.join(names)}: {text}" for text, names in by_help.items())
    else:
        shown = first.help
    return option(
        first.default if same else None,
        joined({name: spec.kind for name, spec in specs.items()}),
        group=first.group,
        help=shown,
        common=any(spec.common for spec in specs.values()),
    )
