"""Makes the command line, the TOML file, the JSON record and the checks from the options that a class declares.

An option is declared by :func:`flows.options.declared.option`. No package of others is imported here, so that
``--help`` and a mistyped option answer at once.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from flows.options.declared import Spec, specs_of
from flows.options.kinds import Pairs
from ikmap.methods.kinds import Flag
from pipeline.errors import InputError
from pipeline.monitoring.plain_text import not_utf8
from pipeline.urls import Location, refuse_credentials, with_query_encoded, without_secrets


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} ({_WHERE_LISTED})")


class _HelpAll(argparse.Action):
    """Prints both pages of help: those of the parser that ``const`` makes."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        assert callable(self.const)
        self.const().print_help()
        parser.exit()


def refuse_credentials_in(value: Any) -> None:
    """Refuse a value of an option that has a password or token in an address: options are written down.

    Raises
    ------
    ValueError
    """
    if isinstance(value, Mapping):
        value = list(value.values())
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, str):
            refuse_credentials(item)
        elif isinstance(item, list | tuple | Mapping):
            refuse_credentials_in(item)


_WHERE_LISTED = "--help lists the common options, --help-all every one"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of a command's options: built from the command line, TOML or JSON, always checked."""

    PROGRAM: ClassVar[str]
    DESCRIPTION: ClassVar[str]
    GROUPS: ClassVar[tuple[str, ...]]
    METHOD_OPTIONS: ClassVar[tuple[str, ...]] = ()
    """Those of the methods: by the command line they are given to all chosen ones that have them."""
    SCOPES: ClassVar[Mapping[str, Mapping[str, Spec]]] = {}
    """What can be given to one method alone: ``--svm.C 5``, and in a file ``[svm]`` with ``C = 5``."""
    REFUSED: ClassVar[tuple[str, ...]] = ()
    """Options of the base that this command never takes: known, so that it can say what to type, but not listed."""

    scoped: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    if TYPE_CHECKING:  # what methods declare becomes a field as the class is made

        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        for spec in self.specs().values():
            try:
                refuse_credentials_in(getattr(self, spec.name))
                object.__setattr__(self, spec.name, spec.check(getattr(self, spec.name)))
            except ValueError as error:
                raise InputError(f"{spec.flag}: {error}") from None
        scoped = self._checked_scopes(self.scoped, "--{}.{}")
        object.__setattr__(self, "scoped", scoped)
        self.check_together()

    def check_together(self) -> None:
        """Refuse combinations that contradict each other."""

    @classmethod
    def specs(cls) -> dict[str, Spec]:
        """The declared options by field name, in the order of ``--help``."""
        # A method may have a group of its own: it stands last.
        places = {group: place for place, group in enumerate(cls.GROUPS)}
        specs = sorted(specs_of(cls).values(), key=lambda spec: places.get(spec.group, len(places)))
        return {spec.name: spec for spec in specs}

    @property
    def at_default(self) -> set[str]:
        """Names of the options that have the value that they would have if nobody gave one."""
        return {name for name, spec in self.specs().items() if getattr(self, name) == spec.default}

    @classmethod
    def parser(cls, *, every_page: bool = False) -> argparse.ArgumentParser:
        """The command line's parser: it collects words, the options check them.

        It knows every option. Its help shows those declared ``common``, or with ``every_page`` all of them.
        """
        specs = cls.specs().values()
        parser = _Parser(
            prog=f"python -m {cls.PROGRAM}",
            description=cls.DESCRIPTION,
            allow_abbrev=False,
            add_help=False,
            usage="%(prog)s [options]",
            formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=30, width=100),
        )
        groups = {name: parser.add_argument_group(name) for name in (*cls.GROUPS, *(spec.group for spec in specs))}
        for spec in specs:
            add = groups[spec.group].add_argument
            shown = (every_page or spec.common) and spec.name not in cls.REFUSED
            if isinstance(spec.kind, Flag):
                add(spec.flag, dest=spec.name, action="store_true", default=argparse.SUPPRESS,
                    help=spec.help if shown else argparse.SUPPRESS)  # fmt: skip
                if not spec.flag_only:
                    off = f"--no-{spec.flag[2:]}"
                    add(off, dest=spec.name, action="store_false", default=argparse.SUPPRESS,
                        help=argparse.SUPPRESS)  # fmt: skip
                continue
            note = " (required)" if spec.required else ""
            if spec.default not in (None, MISSING, ()):
                default = ",".join(spec.default) if isinstance(spec.default, tuple) else spec.default
                note = f" (default: {default})"
            action = "append" if isinstance(spec.kind, Pairs) else "store"
            add(spec.flag, dest=spec.name, metavar=spec.kind.metavar, default=argparse.SUPPRESS, action=action,
                help=(spec.help + note).replace("%", "%%") if shown else argparse.SUPPRESS)  # fmt: skip
        groups["Run"].add_argument(
            "--config",
            metavar="FILE",
            default=argparse.SUPPRESS,
            help="TOML file of options, such as a run's run.toml; flags win over it",
        )
        pages = parser.add_argument_group("Help")
        rest = sum(not spec.common and spec.name not in cls.REFUSED for spec in specs)
        pages.add_argument("-h", "--help", action="help", help="show the common options")
        pages.add_argument(
            "--help-all",
            action=_HelpAll,
            nargs=0,
            const=lambda: cls.parser(every_page=True),
            dest=argparse.SUPPRESS,
            default=argparse.SUPPRESS,
            help=f"show every option, {rest} more",
        )
        return parser

    @classmethod
    def parse(cls, argv: Sequence[str] | None = None) -> Self:
        """Options from a command line (``sys.argv`` by default), the TOML file it names, and the environment.

        Raises
        ------
        InputError
            In one line: the option, what was found, what was expected.
        """
        argv = sys.argv[1:] if argv is None else argv
        for word, before in zip(argv, ["", *argv], strict=False):
            try:
                refuse_credentials(word)
            except ValueError as error:
                flag = next((text.partition("=")[0] for text in (word, before) if text.startswith("--")), "")
                raise InputError(f"{flag}: {error}" if flag else str(error)) from None
        argv, scoped = cls._take_scoped([with_query_encoded(word) for word in argv])
        namespace, unknown = cls.parser().parse_known_args(argv)
        if unknown:
            cls._refuse_words(unknown)
        words: dict[str, Any] = vars(namespace)
        config = words.pop("config", None)
        values = {} if config is None else cls._read(config)
        for name, word in words.items():
            spec = cls.specs()[name]
            try:
                values[name] = word if isinstance(word, bool) else spec.kind.parse(word)
            except ValueError as error:
                raise InputError(f"{spec.flag}: {error}") from None
        for name, of in scoped.items():
            values["scoped"] = {**values.get("scoped", {}), name: {**values.get("scoped", {}).get(name, {}), **of}}
        return cls._build(cls.defaults_of_site(cls._in_environment(), values) | values)

    @classmethod
    def _take_scoped(cls, argv: Sequence[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
        """Words such as ``--svm.C 5``, taken out of a command line."""
        rest, scoped = [], dict[str, dict[str, Any]]()
        words = iter(argv)
        for word in words:
            flag, given, text = word.partition("=")
            name, dot, key = flag.removeprefix("--").partition(".")
            if not (flag.startswith("--") and dot and name in cls.SCOPES):
                rest.append(word)
                continue
            key = key.replace("-", "_")
            spec = cls._scoped_spec(name, key, flag)
            try:
                if isinstance(spec.kind, Flag) and not given:
                    value = True
                else:
                    found = text if given else next(words, None)
                    if found is None:
                        raise InputError(f"{flag}: expected a value ({_WHERE_LISTED})")
                    value = found == "true" if isinstance(spec.kind, Flag) else spec.kind.parse(found)
            except ValueError as error:
                raise InputError(f"{flag}: {error}") from None
            scoped.setdefault(name, {})[key] = value
        return rest, scoped

    @classmethod
    def _scoped_spec(cls, name: str, key: str, shown: str) -> Spec:
        specs = cls.SCOPES[name]
        if key not in specs:
            near = get_close_matches(key, specs, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"{name} has {', '.join(specs)}"
            raise InputError(f"{shown}: unknown option; {hint}")
        return specs[key]

    @classmethod
    def _checked_scopes(cls, found: Any, shown: str) -> dict[str, dict[str, Any]]:
        """Tables of options of single methods, checked; `shown` is how one is called in messages."""
        checked: dict[str, dict[str, Any]] = {}
        for name, table in found.items() if isinstance(found, Mapping) else [(str(found), None)]:
            if name not in cls.SCOPES or not isinstance(table, Mapping):
                expected = f"a table of one of {', '.join(cls.SCOPES)}" if cls.SCOPES else "no table"
                raise InputError(f"{name}: found {table!r}, expected {expected}")
            for key, value in table.items():
                spec = cls._scoped_spec(name, key.replace("-", "_"), shown.format(name, key))
                try:
                    refuse_credentials_in(value)
                    checked.setdefault(name, {})[spec.name] = spec.check(value)
                except ValueError as error:
                    raise InputError(f"{shown.format(name, key)}: {error}") from None
        return checked

    @classmethod
    def defaults_of_site(cls, environment: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003
        """What of the environment goes together with what flags and file give."""
        return environment

    @classmethod
    def from_toml(cls, text: str, where: str = "run.toml") -> Self:
        """Options from TOML text; ``where`` names it in messages."""
        return cls._build(cls._from_toml(text, where))

    @classmethod
    def from_json(cls, text: str, where: str = "options") -> Self:
        """Options from `to_json`."""
        return cls._build(cls._checked(json.loads(text), where, flags_too=True))

    def to_dict(self) -> dict[str, Any]:
        """Every option as plain JSON types."""
        values = {name: getattr(self, name) for name in self.specs()}
        plain = {
            name: list(v) if isinstance(v, tuple) else without_secrets(str(v)) if isinstance(v, str) else v
            for name, v in values.items()
        }
        return {**plain, **({"scoped": {name: dict(of) for name, of in self.scoped.items()}} if self.scoped else {})}

    def to_json(self) -> str:
        """Every option as a JSON object."""
        return json.dumps(self.to_dict(), indent=2)

    def to_toml(self) -> str:
        """The TOML file that reproduces the result: every option but a session's own, and those that nothing uses."""
        import tomli_w

        left_out = {name for name, spec in self.specs().items() if spec.session} | self.unused
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
            spec.flag
            for name, spec in self.specs().items()
            if isinstance(value := getattr(self, name), Location) and value.place != value.whole
        ]
        return f"with the whole address for {' and '.join(flags)}: queries are not stored" if flags else ""

    @property
    def unused(self) -> frozenset[str]:
        """Names of options that change nothing, as no method that is chosen has them."""
        return frozenset()

    def command(self, *, session: bool = True) -> str:
        """The shell command with every option that is not at its default.

        ``session=False`` leaves out what belongs to one invocation only (such as ``--run-dir``), for a
        command that reproduces the result elsewhere.
        """
        words = ["python", "-m", self.PROGRAM]
        for spec in self.specs().values():
            value = getattr(self, spec.name)
            if value != spec.default and (session or not spec.session):
                words += spec.words(value)
        for name, table in self.scoped.items():
            for key, value in table.items():
                spec = self.SCOPES[name][key]
                flag = f"--{name}.{key}"
                words += [f"{flag}={str(value).lower()}"] if isinstance(value, bool) else spec.kind.written(flag, value)
        return without_secrets(shlex.join(words))

    @property
    def again(self) -> str:
        """The line that says how to go on after an interruption."""
        return f"run {self.command()}{f' ({self.left_out})' if self.left_out else ''}"

    @classmethod
    def _build(cls, values: Mapping[str, Any]) -> Self:
        missing = [spec.flag for spec in cls.specs().values() if spec.required and spec.name not in values]
        if missing:
            raise InputError(f"{' and '.join(missing)}: required, not given ({_WHERE_LISTED})")
        return cls(**values)

    @classmethod
    def _in_environment(cls) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for spec in cls.specs().values():
            text = os.environ.get(spec.environment) if spec.environment else None
            if text:
                try:
                    refuse_credentials(text)
                    values[spec.name] = spec.kind.parse(with_query_encoded(text))
                except ValueError as error:
                    raise InputError(f"{spec.environment}: {error}") from None
        return values

    @classmethod
    def _read(cls, path: str) -> dict[str, Any]:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"--config {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"--config {path}: {not_utf8('TOML')}") from None
        return cls._from_toml(text, path)

    @classmethod
    def _from_toml(cls, text: str, where: str) -> dict[str, Any]:
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{where}: not TOML: {error}") from None
        return cls._checked(found, where)

    @classmethod
    def _checked(cls, found: Mapping[str, Any], where: str, flags_too: bool = False) -> dict[str, Any]:
        specs = cls.specs()
        values: dict[str, Any] = {}
        for key, value in found.items():
            name = key.replace("-", "_")
            if key in cls.SCOPES or name == "scoped":
                tables = cls._checked_scopes(value if name == "scoped" else {key: value}, f"{where}: [{{}}] {{}}")
                values["scoped"] = {**values.get("scoped", {}), **tables}
                continue
            if name not in specs:
                near = get_close_matches(name, specs, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InputError(f"{where}: unknown option {key!r}{hint}")
            spec = specs[name]
            if spec.flag_only and not flags_too:
                raise InputError(f"{where}: {key}: give {spec.flag} on the command line")
            if name in values:
                raise InputError(f"{where}: {key}: given twice")
            try:
                refuse_credentials_in(value)
                values[name] = spec.check(value)
            except ValueError as error:
                raise InputError(f"{where}: {key}: {error}") from None
        return values

    @classmethod
    def _refuse_words(cls, words: Sequence[str]) -> NoReturn:
        word = next((w for w in words if w.startswith("-")), None)
        if word is None:
            raise InputError(f"unexpected argument {words[0]!r} ({_WHERE_LISTED})")
        name = word.split("=")[0]
        flags = [*(spec.flag for spec in cls.specs().values()), "--config", "--help", "--help-all"]
        near = get_close_matches(name, flags, n=1)
        hint = f"; did you mean {near[0]}?" if near else f" ({_WHERE_LISTED})"
        raise InputError(f"unknown option {name}{hint}")
