"""One declaration per option of a command: a dataclass field carries its kind, group, help and page of help.

Command lines, TOML files, forms, records and checks are all derived from it. Options of methods are fields of their
classes (:mod:`ikmap.methods.fields`), of which :mod:`flows.options.methods` makes the same. Only the standard library
is imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from ikmap.methods.kinds import Kind

FEATURES, LEARNING, BASELINES = "Features", "Learning", "Baselines"
"""Groups of the page of help that methods have options in."""


@dataclass(frozen=True)
class Spec:
    """Everything that is known of one option.

    Attributes
    ----------
    name : str
    kind : Kind
    group : str
        Under which heading it stands.
    help : str
    default : value, or MISSING
    common : bool
        It is on the first page of help (``--help``), where most users find all they need; else on the second
        (``--help-all``).
    session : bool
        It belongs to one invocation (where it runs, how much it prints), not to the result.
    flag_only : bool
        It must be known before a TOML file is read.
    environment : str or None
        A variable that is looked up where neither a flag nor a TOML file says anything.
    """

    name: str
    kind: Kind
    group: str
    help: str
    default: Any
    common: bool = False
    session: bool = False
    flag_only: bool = False
    environment: str | None = None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        return self.default is MISSING

    def check(self, value: Any) -> Any:
        return None if value is None and self.default is None else self.kind.check(value)

    def words(self, value: Any) -> list[str]:
        """Return `value` as the words of a command line."""
        return self.kind.written(self.flag, value)


def option(
    default: Any,
    kind: Kind,
    *,
    group: str,
    help: str,
    common: bool = False,
    session: bool = False,
    flag_only: bool = False,
    environment: str | None = None,
) -> Any:
    """Return a dataclass field that declares one option; ``default=MISSING`` makes it required."""
    page = {"group": group, "help": help, "common": common}
    use = {"session": session, "flag_only": flag_only, "environment": environment}
    return field(default=default, metadata={"kind": kind, **page, **use})


def specs_of(declared: type) -> dict[str, Spec]:
    """Return the options that the fields of a dataclass declare, by name."""
    return {f.name: Spec(name=f.name, default=f.default, **f.metadata) for f in fields(declared) if f.metadata}
