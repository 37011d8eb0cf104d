"""The declared options as parameters of a flow: types, ranges, defaults and help for Prefect's form."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union

from pydantic import Field

from flows.options.command_line import Options
from flows.options.declared import Spec
from flows.options.kinds import ClusterName, Pairs, Place
from ikmap.methods.kinds import AnyOf, Choice, Flag, Integer, Kind, Levels, Names, OneOrMore, Real, Several

Result = dict[str, Any]
NOT_EMPTY = r"\S"
NO_SECRETS = (
    r"^(?:[^:]*[^:\s][^:]*|(?:[^?#@]|[?#]\.\.\.)*[^?#@\s](?:[^?#@]|[?#]\.\.\.)*"
    r"|[\w+.-]+://[^/:?#@]+@[^:?#@]+|s3a?://[^/:?#@]+/[^?#]+)$"
)
"""A place without a password or a query, which Prefect would store: checked before a run of a deployment is."""
NO_URL = r"^[^:]*[^:\s][^:]*(?::/?(?:[^:/][^:]*)?)*$"
"""A place that is no URL."""


def takes[F: Callable[..., Any]](options: type[Options]) -> Callable[[F], F]:
    """Give a function the declared options for parameters, with the same types, ranges, defaults and help."""
    specs = options.specs().values()
    parameters = [
        inspect.Parameter(
            spec.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if spec.required else _plain(spec.default),
            annotation=_annotation(spec),
        )
        for spec in specs
    ]

    def declare(function: F) -> F:
        function.__signature__ = inspect.Signature(parameters, return_annotation=Result)  # type: ignore[attr-defined]
        # Where Prefect looks for what its form says of each parameter.
        lines = "\n".join(f"    {spec.name}: {explanation(spec)}" for spec in specs)
        function.__doc__ = f"{inspect.getdoc(function)}\n\nArgs:\n{lines}\n"
        return function

    return declare


def explanation(spec: Spec) -> str:
    """What the form, which has no other place for groups, says of an option: its group and its help, in Markdown."""
    named = re.sub("--([a-z][a-z-]*)", lambda flag: f"`{flag[1].replace('-', '_')}`", spec.help, flags=re.I)
    if isinstance(spec.kind, ClusterName):
        named += f": {spec.kind.metavar.strip('{}').replace(',', ', ')}"
    return f"{spec.group}: {named.replace('<', '&lt;').replace('>', '&gt;')}"


def _annotation(spec: Spec) -> Any:
    """The type of an option, with its range."""
    kind = _type(spec.kind, several=isinstance(spec.default, tuple))
    return kind | None if spec.default is None else kind


def _type(kind: Kind, *, several: bool = False) -> Any:
    """What a kind takes, as a type; a text is a list of texts where `several` are asked for."""
    text = Annotated[str, Field(pattern=NOT_EMPTY)]
    match kind:
        case Levels():
            return Annotated[str, Field(pattern=Levels.PATTERN)]
        case OneOrMore(pattern=pattern):
            return Annotated[str, Field(pattern=pattern)]
        case Choice(known=names):
            return Literal[names]
        case ClusterName(choice=choice):
            return Annotated[str, Field(pattern=rf"^({'|'.join(choice.known)}|(tcp|tls)://[^@/?#]+:\d+|file:.*\S.*)$")]
        case Several(choice=choice):
            return Annotated[list[Literal[choice.known]], Field(min_length=1)]  # type: ignore[name-defined]
        case Names():
            return Annotated[list[text], Field(min_length=1)]
        case Pairs():
            return list[Annotated[str, Field(pattern=r"^\s*[^=\s].*=.*\S")]]
        case Place(here=here):
            return Annotated[str, Field(pattern=NO_URL if here else NO_SECRETS)]
        case Flag():
            return bool
        case Integer(low=low, high=high, words=words):
            whole = Annotated[int, Field(ge=low, le=high)]
            return whole | Literal[words] if words else whole
        case Real(low=low, high=high, words=words):
            ends = {"ge" if kind.with_low else "gt": low, "le" if kind.with_high else "lt": high}
            number = Annotated[float, Field(**ends, allow_inf_nan=False)]
            return number | Literal[words] if words else number
        case AnyOf(kinds=kinds):
            return Union[tuple(map(_type, kinds.values()))]  # noqa: UP007
    return list[text] if several else text


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
