"""One option of a command: an annotated field, and the marks that only commands need.

Options of commands are declared as those of methods are (:mod:`ikmap.methods.fields`)::

    workers: Annotated[int | None, Ge(1), Doc("worker processes"), On(CLUSTER, page=1), Environment("WORKERS")] = None

Command lines, TOML files, forms, records and checks are all derived from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from functools import cached_property
from typing import Any

from ikmap.frozen import Frozen
from ikmap.methods import Configured, Field, Learner, Map, Method, fields_of
from ikmap.methods.fields import with_options
from ikmap.methods.kinds import Kind, joined
from pipeline.resolve import flag, kind_of

FEATURES, LEARNING, BASELINES = "Features", "Learning", "Baselines"
"""Groups of the page of help that methods have options in."""
FIRST_PAGE = frozenset({"psi"})
"""Fields of methods that are on the first page of help."""
OTHER_GROUPS = {"truncation": LEARNING}
"""Fields that do not stand with the others of their kind of method."""


class On(Frozen):
    """Place of an option among the pages of help: under which heading, and on the first page or the second.

    The first one (``--help``) has what most users need, the second one (``--help-all``) every option.
    """

    group: str
    page: int = 2


class Session(Frozen):
    """Marks an option that is left out of run.toml, such as --run-dir."""


class FlagOnly(Frozen):
    """Marks an option that must be known before a TOML file is read."""


class Environment(Frozen):
    """A variable that is looked up where neither a flag nor a TOML file says anything."""

    variable: str


class Option:
    """One option of a command. Its field is read when it is asked for more than its name and place.

    Parameters
    ----------
    fields : mapping of str to Field
        The field; by method or paper, where several have one of this name.
    on : On
    session, flag_only : bool
        As :class:`Session` and :class:`FlagOnly` say.
    environment : str or None
        As :class:`Environment` says.
    """

    def __init__(
        self,
        fields: Mapping[str, Field],
        on: On,
        *,
        session: bool = False,
        flag_only: bool = False,
        environment: str | None = None,
    ) -> None:
        self.fields, self.field = fields, next(iter(fields.values()))
        self.name, self.flag = self.field.name, flag(self.field.name)
        self.group, self.common = on.group, on.page == 1
        self.session, self.flag_only, self.environment = session, flag_only, environment

    @cached_property
    def kind(self) -> Kind:
        """Kind of the values that may be given: those that any of the fields takes."""
        return joined({name: kind_of(field) for name, field in self.fields.items()})

    @cached_property
    def default(self) -> Any:
        """Value where none is given: None where the fields have different ones, MISSING if it has to be given."""
        first, *others = [_default(field) for field in self.fields.values()]
        return first if all(other == first for other in others) else None

    @cached_property
    def help(self) -> str:
        """Help text: those of the fields, where they differ."""
        names: dict[str, list[str]] = {}
        for name, field in self.fields.items():
            names.setdefault(with_options(field.doc, flag), []).append(name)
        if len(names) == 1:
            return min(names)
        return "; ".join(f"{', '.join(owners)}: {text}" for text, owners in names.items())

    @property
    def required(self) -> bool:
        return self.default is MISSING

    def check(self, value: Any) -> Any:
        return None if value is None and self.default is None else self.kind.check(value)

    def words(self, value: Any) -> list[str]:
        """Return a value as the words of a command line."""
        return self.kind.written(self.flag, value)


def _default(field: Field) -> object:
    default = field.recorded_default
    return default.about.name if isinstance(default, Method) else default


def own_options(command: type[Frozen]) -> dict[str, Option]:
    """Return the options that a command declares itself: its fields that have a place on a page of help."""
    options: dict[str, Option] = {}
    for name, field in fields_of(command).items():
        if on := field.marked(On):
            environment = field.marked(Environment)
            options[name] = Option(
                {name: field},
                on,
                session=field.marked(Session) is not None,
                flag_only=field.marked(FlagOnly) is not None,
                environment=environment.variable if environment else None,
            )
    return options


def options_of(kind: type[Configured], group: str) -> dict[str, Option]:
    """Return the options that the fields of a method or a paper declare, by name, in a group of the page of help."""
    return {
        name: Option({name: field}, On(OTHER_GROUPS.get(name, group), page=1 if name in FIRST_PAGE else 2))
        for name, field in fields_of(kind).items()
    }


def options_of_methods(methods: Mapping[str, type[Method]]) -> dict[str, dict[str, Option]]:
    """Return the options of each of some methods, by name."""
    return {name: options_of(kind, _group(kind)) for name, kind in methods.items()}


def _group(kind: type[Method]) -> str:
    if issubclass(kind, Map):
        return FEATURES
    return LEARNING if issubclass(kind, Learner) and kind.about.on == "cells" else BASELINES


def shared_options(scopes: Mapping[str, Mapping[str, Option]]) -> dict[str, Option]:
    """Return one option for each name that methods or papers have options of, by the options of each of them."""
    owners: dict[str, dict[str, Option]] = {}
    for scope, options in scopes.items():
        for name, option in options.items():
            owners.setdefault(name, {})[scope] = option
    return {
        name: Option(
            {scope: option.field for scope, option in owned.items()},
            On(next(iter(owned.values())).group, page=1 if any(option.common for option in owned.values()) else 2),
        )
        for name, owned in owners.items()
    }
