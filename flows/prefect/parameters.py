"""The declared options as parameters of a flow: types, ranges, defaults and help for Prefect's form."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from flows.options.command_line import Options
from flows.options.kinds import ClusterName
from flows.options.option import Option

Result = dict[str, Any]


def takes[F: Callable[..., Any]](options: type[Options]) -> Callable[[F], F]:
    """Give a function the declared options for parameters, with the same values, defaults and help."""
    specs = options.specs().values()
    parameters = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if option.required else _plain(option.default),
            annotation=Annotated[Any, AfterValidator(_checked_by(option)), WithJsonSchema(schema(option))],
        )
        for option in specs
    ]

    def declare(function: F) -> F:
        function.__signature__ = inspect.Signature(parameters, return_annotation=Result)  # type: ignore[attr-defined]
        # Where Prefect looks for what its form says of each parameter.
        lines = "\n".join(f"    {option.name}: {explanation(option)}" for option in specs)
        function.__doc__ = f"{inspect.getdoc(function)}\n\nArgs:\n{lines}\n"
        return function

    return declare


def explanation(option: Option) -> str:
    """Return what the form, which has no other place for groups, says of an option: its group and help, in Markdown."""
    named = re.sub("--([a-z][a-z-]*)", lambda flag: f"`{flag[1].replace('-', '_')}`", option.help, flags=re.I)
    if isinstance(option.kind, ClusterName):
        named += f": {option.kind.metavar.strip('{}').replace(',', ', ')}"
    return f"{option.group}: {named.replace('<', '&lt;').replace('>', '&gt;')}"


def schema(option: Option) -> dict[str, Any]:
    """Return the JSON Schema of an option for the form, which shows an option of words only if their type is there."""
    of_kind = option.kind.schema
    ways = [{"type": "string", **way} if "enum" in way else way for way in of_kind.get("anyOf", [of_kind])]
    if option.default is None:
        ways.append({"type": "null"})
    return ways[0] if len(ways) == 1 else {"anyOf": ways}


def _checked_by(option: Option) -> Callable[[Any], Any]:
    """Return a function that refuses what the option does, and leaves the rest as it is: a place keeps no query."""

    def check(value: Any) -> Any:
        option.check(value)
        return value

    return check


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
