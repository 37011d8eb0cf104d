"""One declaration per option: the dataclass field carries its kind, group, help and the page of help it is on.

Command lines, TOML files, forms, records and checks are all derived from it. Only the standard library is imported
here, so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, NoReturn, Self

from ikmap.methods.kinds import Kind

FEATURES, LEARNING, BASELINES = "Features", "Learning", "Baselines"
"""Groups of the page of help."""


@dataclass(frozen=True)
class Setting:
    """How a report tells of an option that a result depends on, such as psi, C or a step size.

    Attributes
    ----------
    sign : str
        As papers write it.
    words : str
        What it is, in a few words.
    meaning : str
        What it does, for somebody who may have to choose it.
    parameter : str
        Its name in the papers, where that is not the name of the option.
    """

    sign: str
    words: str
    meaning: str = ""
    parameter: str = ""


@dataclass(frozen=True)
class Spec:
    """Everything known of one option.

    ``common`` puts it on the first page of help (``--help``), where most users find all they need; without it the
    option is on the second (``--help-all``). ``session`` marks what belongs to one invocation (where it runs, how
    much it prints), not to the result; ``flag_only`` what must be known before a TOML file is read; ``environment``
    names a variable that is asked where neither a flag nor a TOML file says anything; ``before`` is the value that
    runs have which were begun before there was the option (MISSING: its default); ``setting`` is how reports tell of
    it, where a result depends on it.
    """

    name: str
    kind: Kind
    group: str
    help: str
    default: Any
    common: bool
    session: bool
    flag_only: bool
    environment: str | None
    before: Any = MISSING
    setting: Setting | None = None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        return self.default is MISSING

    def check(self, value: Any) -> Any:
        return None if value is None and self.default is None else self.kind.check(value)

    def words(self, value: Any) -> list[str]:
        """`value` as the words of a command line."""
        return self.kind.written(self.flag, value)


def option(
    default: Any,
    kind: Kind,
    *,
    group: str = LEARNING,
    help: str,
    common: bool = False,
    session: bool = False,
    flag_only: bool = False,
    environment: str | None = None,
    before: Any = MISSING,
    setting: Setting | None = None,
) -> Any:
    """A dataclass field that declares one option; ``default=MISSING`` makes it required."""
    page = {"group": group, "help": help, "common": common}
    use = {"session": session, "flag_only": flag_only, "environment": environment, "before": before, "setting": setting}
    return field(default=default, metadata={"kind": kind, **page, **use})


class OptionError(ValueError):
    """A value of an option that cannot be, in one line that names the option, what was found and what was expected."""


class MethodOptions:
    """Base of the options of a method: a class whose attributes :func:`option` declares; the values never change.

    Parameters
    ----------
    values
        By name; those that are not given have their defaults.

    Raises
    ------
    OptionError
        For a value out of its range, or values that contradict each other.
    """

    # No dataclass: these take a millisecond each to be made, and commands wait for all of them.
    _specs: ClassVar[dict[str, Spec]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = (item for base in reversed(cls.__mro__) for item in vars(base).items())
        found = {name: value for name, value in declared if isinstance(value, Field)}
        cls._specs = {name: Spec(name=name, default=one.default, **one.metadata) for name, one in found.items()}

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - self._specs.keys():
            raise OptionError(f"unknown option {min(unknown)!r}; there are {', '.join(self._specs)}")
        for spec in self._specs.values():
            try:
                self.__dict__[spec.name] = spec.check(values.get(spec.name, spec.default))
            except ValueError as error:
                raise OptionError(f"{spec.flag}: {error}") from None
        self.check_together()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} cannot be changed; replace() gives other options")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def check_together(self) -> None:
        """Refuse values that contradict each other, by an :class:`OptionError`."""

    @property
    def unused(self) -> frozenset[str]:
        """Names of options that change nothing, with the others as they are."""
        return frozenset()

    @classmethod
    def specs(cls) -> dict[str, Spec]:
        """What is declared, by name."""
        return cls._specs

    @classmethod
    def of_record(cls, values: Mapping[str, Any]) -> Self:
        """From :meth:`as_json`, also of a time when some options were not known."""
        known = cls.specs()
        before = {name: spec.before for name, spec in known.items() if spec.before is not MISSING}
        return cls(**before | {name: value for name, value in values.items() if name in known})

    def replace(self, **values: Any) -> Self:
        """The same with other values."""
        return type(self)(**{**vars(self), **values})

    def as_json(self) -> dict[str, Any]:
        """Every option as plain JSON types."""
        return dict(vars(self))


def one_of(names: Sequence[str]) -> str:
    """What is expected where any of these would do."""
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def specs_of(declared: type) -> dict[str, Spec]:
    """The options that the fields of a dataclass declare, by name."""
    return {f.name: Spec(name=f.name, default=f.default, **f.metadata) for f in fields(declared) if f.metadata}
