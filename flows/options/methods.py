"""Options of all methods as options of a command: plain ones by their name alone, scoped ones by the method's too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ikmap.methods import option, plain_options
from ikmap.methods.kinds import joined
from ikmap.methods.options import Spec


def with_options_of[C: type](methods: Mapping[str, Any]) -> Callable[[C], C]:
    """Give a class of options a field for each option that any of the methods has; to be made a dataclass then.

    What stands for a method may be anything with options of its own in ``Options``, such as a paper.
    """
    plain = plain_options(methods)

    def declare(cls: C) -> C:
        for name, specs in plain.items():
            cls.__annotations__[name] = Any
            setattr(cls, name, _field(specs))
        cls.METHOD_OPTIONS = tuple(plain)  # type: ignore[attr-defined]
        cls.SCOPES = {name: one.Options.specs() for name, one in methods.items()}  # type: ignore[attr-defined]
        return cls

    return declare


def _field(specs: Mapping[str, Spec]) -> Any:
    """One field for an option that several methods have; where they have not the same default, it has none."""
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
