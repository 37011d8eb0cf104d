"""Makes the command line, the TOML file, the record and the checks from the options that a class declares.

An option is an annotated field (:mod:`flows.options.option`). No package of others is imported here, so that
``--help`` and a mistyped option answer at once.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self, dataclass_transform

from flows.options.kinds import Pairs
from flows.options.option import Option, own_options, shared_options
from flows.options.presets import with_preset
from ikmap.frozen import Frozen
from ikmap.methods.kinds import Flag, UnknownWord, nearest
from pipeline.errors import InputError, UnknownOption, UnknownValue
from pipeline.monitoring.plain_text import not_utf8
from pipeline.urls import Location, refuse_credentials, with_query_encoded, without_secrets

_WHERE_LISTED = "--help lists the common options, --help-all every one"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} ({_WHERE_LISTED})")


@contextmanager
def _at(place: str, option: str = "") -> Iterator[None]:
    """Put a place, such as a flag, before the message of a value that is refused; `option` is the option's name."""
    try:
        yield
    except UnknownWord as error:
        raise UnknownValue(f"{place}: {error}", option) from None
    except ValueError as error:
        raise InputError(f"{place}: {error}" if place else str(error)) from None


def _checked(option: Option, value: Any, place: str) -> Any:
    """Return a value as the option has it; `place` is how the option is called in messages."""
    with _at(place, option.name):
        refuse_credentials_in(value)
        return option.check(value)


def refuse_credentials_in(value: Any) -> None:
    """Refuse a value of an option that has a password or token in an address: options are written down.

    Raises
    ------
    ValueError
    """
    if isinstance(value, str):
        refuse_credentials(value)
    elif isinstance(value, list | tuple | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            refuse_credentials_in(item)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Options(Frozen, kw_only=True):
    """Base of a command's options: built from the command line, TOML or JSON, always checked.

    An option that is not given has its default without being set: methods have many, and a command uses few of them.
    """

    PROGRAM: ClassVar[str]
    DESCRIPTION: ClassVar[str]
    GROUPS: ClassVar[tuple[str, ...]] = ()
    SCOPES: ClassVar[Mapping[str, Mapping[str, Option]]] = {}
    """Options of methods or papers. They are given by name to all that have them, or to one of them alone:
    ``--svm.C 5``, and in a file ``[svm]`` with ``C = 5``."""
    METHOD_OPTIONS: ClassVar[tuple[str, ...]] = ()
    """Names of these options."""
    REFUSED: ClassVar[tuple[str, ...]] = ()
    """Options of the base that this command never takes: known, so that it can say what to type, but not listed."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Options that ``--preset NAME`` stands for, by its names."""

    scoped: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __init_subclass__(cls) -> None:
        if "SCOPES" in vars(cls):
            cls.METHOD_OPTIONS = tuple(shared_options(cls.SCOPES))
            cls.__annotations__ |= dict.fromkeys(cls.METHOD_OPTIONS, Any)
        super().__init_subclass__(kw_only=True)

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - {"scoped", *self.specs()}:
            raise TypeError(f"{type(self).__name__}: found {min(unknown)!r}, expected an option of {self.PROGRAM}")
        self._require(values)
        scoped = self.checked_scopes(values.pop("scoped", {}), "--{}.{}")
        for name, value in values.items():
            option = self.specs()[name]
            object.__setattr__(self, name, _checked(option, value, option.flag))
        object.__setattr__(self, "scoped", scoped)
        self.check_together()

    def __getattr__(self, name: str) -> Any:
        option = type(self).specs().get(name)
        if option is None or option.required:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return option.default

    def check_together(self) -> None:
        """Refuse combinations that contradict each other."""

    @classmethod
    def specs(cls) -> Mapping[str, Option]:
        """Return the options by name, in the order of ``--help``."""
        if cls not in _OPTIONS:
            options = own_options(cls) | shared_options(cls.SCOPES)
            # A method may have a group of its own: it stands last.
            places = {group: place for place, group in enumerate(cls.GROUPS)}
            ordered = sorted(options.values(), key=lambda option: places.get(option.group, len(places)))
            _OPTIONS[cls] = {option.name: option for option in ordered}
        return _OPTIONS[cls]

    @property
    def at_default(self) -> frozenset[str]:
        """Names of the options that have the value that they would have if nobody gave one."""
        specs = self.specs()
        given = {name for name, value in vars(self).items() if name in specs and value != specs[name].default}
        return frozenset(specs.keys() - given)

    @classmethod
    def parser(cls, words: Sequence[str]) -> argparse.ArgumentParser:
        """Return a parser of some words: it collects them, the options check them.

        It knows the options that are among the words. If these ask for help, it also knows what the help shows: the
        options of the first page, or with ``--help-all`` all of them.
        """
        names = {word.partition("=")[0] for word in words}
        every_page = "--help-all" in names
        with_help = every_page or any(name.startswith(("-h", "--help")) for name in names)
        parser = _Parser(
            prog=f"python -m {cls.PROGRAM}",
            description=cls.DESCRIPTION,
            allow_abbrev=False,
            add_help=False,
            usage="%(prog)s [options]",
            formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=30, width=100),
        )
        listed = [option for option in cls.specs().values() if option.name not in cls.REFUSED]
        names_of_groups = dict.fromkeys((*cls.GROUPS, *(option.group for option in listed)))
        groups = {name: parser.add_argument_group(name) for name in names_of_groups}
        for option in cls.specs().values():
            shown = with_help and (every_page or option.common) and option.name not in cls.REFUSED
            off = f"--no-{option.flag[2:]}"
            if shown or option.flag in names:
                _add(option, groups.get(option.group, parser), shown=shown)
            if off in names and isinstance(option.kind, Flag) and not option.flag_only:
                parser.add_argument(off, dest=option.name, action="store_false", default=argparse.SUPPRESS)
        for name in sorted(names):
            cls._add_scoped(name, parser)
        groups.get("Run", parser).add_argument(
            "--config",
            metavar="FILE",
            default=argparse.SUPPRESS,
            help="TOML file of options, such as a run's run.toml; flags win over it",
        )
        if cls.PRESETS:
            groups.get("Run", parser).add_argument(
                "--preset",
                metavar="NAME",
                default=argparse.SUPPRESS,
                help=f"method of a paper, one of {', '.join(cls.PRESETS)}; flags and --config win over its options"
                if every_page
                else argparse.SUPPRESS,
            )
        pages = parser.add_argument_group("Help")
        rest = sum(not option.common for option in listed)
        pages.add_argument("-h", "--help", action="help", help="show the common options")
        pages.add_argument("--help-all", action="help", help=f"show every option, {rest} more")
        return parser

    @classmethod
    def _add_scoped(cls, name: str, parser: argparse.ArgumentParser) -> None:
        """Make a flag such as ``--svm.C`` known to a parser; any other one is left alone."""
        scope, dot, key = name.removeprefix("--").partition(".")
        if dot and name.startswith("--") and scope in cls.SCOPES:
            option = cls._scoped_option(scope, key, name)
            without_value = "true" if isinstance(option.kind, Flag) else None
            dest = f"{scope}.{option.name}"
            parser.add_argument(name, dest=dest, nargs="?", const=without_value, default=argparse.SUPPRESS)

    @classmethod
    def parse(cls, argv: Sequence[str] | None = None) -> Self:
        """Return the options from a command line (``sys.argv`` by default), its TOML file, and the environment.

        Raises
        ------
        InputError
            In one line: the option, what was found, what was expected.
        """
        argv = sys.argv[1:] if argv is None else argv
        for word, before in zip(argv, ["", *argv], strict=False):
            with _at(next((text.partition("=")[0] for text in (word, before) if text.startswith("--")), "")):
                refuse_credentials(word)
        words = [with_query_encoded(word) for word in argv]
        namespace, unknown = cls.parser(words).parse_known_args(words)
        if unknown:
            cls._refuse_words(unknown)
        texts: dict[str, Any] = vars(namespace)
        config, preset = texts.pop("config", None), texts.pop("preset", None)
        values = {} if config is None else cls._read(config)
        for key, text in texts.items():
            scope, _, name = key.rpartition(".")
            option = cls.SCOPES[scope][name] if scope else cls.specs()[name]
            table = values.setdefault("scoped", {}).setdefault(scope, {}) if scope else values
            flag = f"--{scope}.{option.flag[2:]}" if scope else option.flag
            if text is None:
                raise InputError(f"{flag}: expected a value ({_WHERE_LISTED})")
            with _at(flag, option.name):
                table[name] = text if isinstance(text, bool) else option.kind.parse(text)
        if preset is not None:
            values = with_preset(preset, values, cls.SCOPES)
        return cls(**cls.defaults_of_site(cls._in_environment(), values) | values)

    @classmethod
    def _scoped_option(cls, scope: str, name: str, place: str) -> Option:
        options = cls.SCOPES[scope]
        name = name.replace("-", "_")
        if name not in options:
            near = nearest(name, options)
            hint = f"did you mean {near!r}?" if near else f"{scope} has {', '.join(options)}"
            raise UnknownOption(f"{place}: unknown option; {hint}")
        return options[name]

    @classmethod
    def checked_scopes(cls, tables: Any, place: str) -> dict[str, dict[str, Any]]:
        """Return tables of options of single methods, checked; `place` is how one is called in messages."""
        checked: dict[str, dict[str, Any]] = {}
        for scope, table in tables.items() if isinstance(tables, Mapping) else [(str(tables), None)]:
            if scope not in cls.SCOPES or not isinstance(table, Mapping):
                expected = f"a table of one of {', '.join(cls.SCOPES)}" if cls.SCOPES else "no table"
                raise InputError(f"{scope}: found {table!r}, expected {expected}")
            for name, value in table.items():
                here = place.format(scope, name)
                option = cls._scoped_option(scope, name, here)
                checked.setdefault(scope, {})[option.name] = _checked(option, value, here)
        return checked

    @classmethod
    def defaults_of_site(cls, environment: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003
        """Return what of the environment goes together with what flags and file give."""
        return environment

    @classmethod
    def from_toml(cls, text: str, where: str = "run.toml") -> Self:
        """Return the options of a TOML text; `where` names it in messages."""
        return cls(**cls._from_toml(text, where))

    def to_dict(self) -> dict[str, Any]:
        """Return every option as plain JSON types."""
        plain: dict[str, Any] = {}
        for name in self.specs():
            value = getattr(self, name)
            plain[name] = without_secrets(str(value)) if isinstance(value, str) else value
            if isinstance(value, tuple):
                plain[name] = list(value)
        if self.scoped:
            plain["scoped"] = {scope: dict(table) for scope, table in self.scoped.items()}
        return plain

    def to_toml(self) -> str:
        """Return the TOML file that reproduces the result: no option of the session, and none that nothing uses."""
        import tomli_w

        left_out = {name for name, option in self.specs().items() if option.session} | self.unused
        values = self.to_dict()
        tables = values.pop("scoped", {})
        kept = {name: value for name, value in values.items() if value is not None and name not in left_out} | tables
        header = f"# python -m {self.PROGRAM} --config run.toml\n"
        note = f"# {self.left_out}\n" if self.left_out else ""
        return header + note + tomli_w.dumps(kept)

    @property
    def left_out(self) -> str:
        """A line that names the options to give again with their queries; empty if there are none."""
        flags = [
            option.flag
            for option in self.specs().values()
            if isinstance(value := getattr(self, option.name), Location) and value.place != value.whole
        ]
        return f"with the whole address for {' and '.join(flags)}: queries are not stored" if flags else ""

    @property
    def unused(self) -> frozenset[str]:
        """Names of options that change nothing, as no method that is chosen has them."""
        return frozenset()

    def command(self, *, session: bool = True) -> str:
        """Return the shell command with every option that is not at its default.

        ``session=False`` leaves out what belongs to one invocation only (such as ``--run-dir``), for a
        command that reproduces the result elsewhere.
        """
        words, at_default = ["python", "-m", self.PROGRAM], self.at_default
        for option in self.specs().values():
            if option.name not in at_default and (session or not option.session):
                words += option.words(getattr(self, option.name))
        for scope, table in self.scoped.items():
            for name, value in table.items():
                flag = f"--{scope}.{name}"
                written = self.SCOPES[scope][name].kind.written(flag, value)
                words += [f"{flag}={str(value).lower()}"] if isinstance(value, bool) else written
        return without_secrets(shlex.join(words))

    @property
    def again(self) -> str:
        """The line that says how to go on after an interruption."""
        return f"run {self.command()}{f' ({self.left_out})' if self.left_out else ''}"

    @classmethod
    def _require(cls, values: Iterable[str]) -> None:
        missing = [option.flag for option in own_options(cls).values() if option.required and option.name not in values]
        if missing:
            raise InputError(f"{' and '.join(missing)}: required, not given ({_WHERE_LISTED})")

    @classmethod
    def _in_environment(cls) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for option in cls.specs().values():
            if option.environment and (text := os.environ.get(option.environment)):
                with _at(option.environment, option.name):
                    refuse_credentials(text)
                    values[option.name] = option.kind.parse(with_query_encoded(text))
        return values

    @classmethod
    def _read(cls, path: str) -> dict[str, Any]:
        try:
            text = Path(os.path.expanduser(path)).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"--config {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"--config {path}: {not_utf8('TOML')}") from None
        return cls._from_toml(text, path)

    @classmethod
    def _from_toml(cls, text: str, where: str) -> dict[str, Any]:
        import tomllib  # takes longer to import than all that a command without a file parses

        try:
            record = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{where}: not TOML: {error}") from None
        return cls._from_record(record, where)

    @classmethod
    def _from_record(cls, record: Mapping[str, Any], where: str) -> dict[str, Any]:
        specs = cls.specs()
        values: dict[str, Any] = {}
        for key, value in record.items():
            name, place = key.replace("-", "_"), f"{where}: {key}"
            if key in cls.SCOPES or name == "scoped":
                tables = cls.checked_scopes(value if name == "scoped" else {key: value}, f"{where}: [{{}}] {{}}")
                values["scoped"] = {**values.get("scoped", {}), **tables}
                continue
            if name not in specs:
                near = nearest(name, specs)
                raise UnknownOption(f"{where}: unknown option {key!r}{f'; did you mean {near!r}?' if near else ''}")
            if specs[name].flag_only:
                raise InputError(f"{place}: give {specs[name].flag} on the command line")
            if name in values:
                raise InputError(f"{place}: given twice")
            values[name] = _checked(specs[name], value, place)
        return values

    @classmethod
    def _refuse_words(cls, words: Sequence[str]) -> NoReturn:
        word = next((w for w in words if w.startswith("-")), None)
        if word is None:
            raise InputError(f"unexpected argument {words[0]!r} ({_WHERE_LISTED})")
        name = word.split("=")[0]
        near = nearest(name, [*(option.flag for option in cls.specs().values()), "--config", "--help", "--help-all"])
        raise UnknownOption(f"unknown option {name}{f'; did you mean {near}?' if near else f' ({_WHERE_LISTED})'}")


_OPTIONS: dict[type[Options], Mapping[str, Option]] = {}
"""Options by command."""


def _add(option: Option, group: argparse._ActionsContainer, *, shown: bool) -> None:
    """Make an option known to a parser, which shows it or not."""
    text = option.help if shown else argparse.SUPPRESS
    if isinstance(option.kind, Flag):
        group.add_argument(
            option.flag, dest=option.name, action="store_true", default=argparse.SUPPRESS, help=text.replace("%", "%%")
        )
        return
    if shown and option.default not in (None, MISSING, ()):
        default = ",".join(option.default) if isinstance(option.default, tuple) else option.default
        text += f" (default: {default})"
    elif shown and option.required:
        text += " (required)"
    group.add_argument(
        option.flag,
        dest=option.name,
        metavar=option.kind.metavar,
        default=argparse.SUPPRESS,
        action="append" if isinstance(option.kind, Pairs) else "store",
        help=text.replace("%", "%%"),
    )
