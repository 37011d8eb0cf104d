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
from pipeline.errors import InputError

Result = dict[str, Any]


def takes[F: Callable[..., Any]](options: type[Options]) -> Callable[[F], F]:
    """Give a function the declared options for parameters, with the same values, defaults and help."""
    specs = options.specs().values()
    lines = [f"    {option.name}: {explanation(option)}" for option in specs]
    parameters = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if option.required else _plain(option.default),
            annotation=Annotated[Any, AfterValidator(_checked_by(option)), WithJsonSchema(schema(option))],
        )
        for option in specs
    ]
    if options.SCOPES:
        parameters.append(_scoped(options))
        lines.append(f"    scoped: options of one of {', '.join(options.SCOPES)} alone, in a table of its name")

    def declare(function: F) -> F:
        function.__signature__ = inspect.Signature(parameters, return_annotation=Result)  # type: ignore[attr-defined]
        # Where Prefect looks for what its form says of each parameter.
        function.__doc__ = "\n".join([f"{inspect.getdoc(function)}\n\nArgs:", *lines, ""])
        return function

    return declare


def _scoped(options: type[Options]) -> inspect.Parameter:
    """Return the parameter for options of one method or paper alone, a table of tables that is empty by default."""

    def check[T](tables: T) -> T:
        try:
            options.checked_scopes(tables, "{}.{}")
        except InputError as error:
            raise ValueError(str(error)) from None
        return tables

    # Without properties, of which the form would show hundreds.
    names = {"type": "string", "enum": list(options.SCOPES)}
    of_tables = {"type": "object", "propertyNames": names, "additionalProperties": {"type": "object"}}
    return inspect.Parameter(
        "scoped",
        inspect.Parameter.KEYWORD_ONLY,
        default={},
        annotation=Annotated[Any, AfterValidator(check), WithJsonSchema(of_tables)],
    )


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
