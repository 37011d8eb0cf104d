"""The options as parameters of Prefect's flows: what its form shows, and what it takes."""

from __future__ import annotations

import math
import re
from dataclasses import MISSING
from typing import Any

import pytest

from flows.options.batch import BatchOptions
from flows.options.common import CommonOptions
from flows.options.kinds import OneOrMore, Pairs
from flows.options.online import OnlineOptions
from flows.options.reproduce import ReproduceOptions
from flows.options.score import ScoreOptions
from ikmap.methods.kinds import Choice, Integer, Names, Real
from tests.support.papers import with_papers

pytestmark = [pytest.mark.system, pytest.mark.prefect, pytest.mark.usefixtures("prefect_home")]

OPTIONS: dict[str, type[CommonOptions]] = {
    "batch": BatchOptions,
    "online": OnlineOptions,
    "score": ScoreOptions,
    "reproduce": ReproduceOptions,
}
NAMES = [pytest.param(name, marks=with_papers) if name == "reproduce" else name for name in OPTIONS]
"""Without any paper, ``reproduce`` takes no name of one."""


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_the_options(name: str) -> None:
    from flows.prefect import flows as prefect_flows

    kind = OPTIONS[name]
    flow = getattr(prefect_flows, name)
    schema = flow.parameters
    specs = kind.specs()
    assert list(schema.properties) == [*specs, *["scoped"] * bool(kind.SCOPES)]
    assert set(schema.required) == {name for name, spec in specs.items() if spec.default is MISSING}
    for option, spec in specs.items():
        shown = schema.properties[option]
        if spec.default is not MISSING:
            default = list(spec.default) if isinstance(spec.default, tuple) else spec.default
            assert shown["default"] == default
        assert shown["description"].startswith(f"{spec.group}: ")
        assert "--" not in shown["description"]
        ways = shown.get("anyOf", [shown])
        assert ({"type": "null"} in ways) == (spec.default is None)
        match spec.kind:
            case OneOrMore(known=names):
                assert all(re.search(shown["pattern"], name) for name in (*names, "iforest,anne", "anne , iforest"))
                assert not any(
                    re.search(shown["pattern"], name) for name in ("", "iforest,", "auto,anne", "anne,nothing")
                )
            case Choice(known=names) if spec.default is not None:
                assert tuple(shown.get("enum") or [shown["const"]]) == names
            case Names(choice=Choice() as choice):
                one = ways[0]["items"]
                assert tuple(one.get("enum") or [one["const"]]) == choice.known
            case Names():
                assert (ways[0]["type"], ways[0]["items"]["type"]) == ("array", "string")
            case Integer(low=low, high=high):
                assert (ways[0]["minimum"], ways[0].get("maximum")) == (low, high)
            case Real(low=low, high=high):
                assert ways[0].get("minimum" if spec.kind.with_low else "exclusiveMinimum", -math.inf) == low
                assert ways[0].get("maximum" if spec.kind.with_high else "exclusiveMaximum", math.inf) == high
    required: dict[str, Any] = dict.fromkeys(schema.required, "x")
    if kind is ReproduceOptions:
        required["table"] = ["5"]
    options = kind(**required)
    assert kind(**flow.validate_parameters(options.to_dict())) == options
    assert kind(**flow.validate_parameters(required)) == options


TRIED: list[Any] = [
    *("", " ", "x", "auto", "none", "1", "a=b", "=b", "a=", "local", "slurm", "nowhere", "9"),
    *("tcp://h:1", "tls://h:1", "tcp://h", "http://h:1", "file:", "file:x"),
    *(None, True, False, -1, 0, 1, 2, 1.5, 2**63, [], [""], ["x"], ["svm"], ["svn"], ["5"], ["a=b"], ["a"], {}),
]


@pytest.mark.parametrize("name", NAMES)
def test_form_takes_what_the_options_take(name: str) -> None:
    """One value at a time, as the server checks it before there is a run."""
    from prefect.utilities.schema_tools.validation import is_valid

    from flows.prefect import flows as prefect_flows

    schema = getattr(prefect_flows, name).parameters
    for option, spec in OPTIONS[name].specs().items():
        required = [option] if spec.required else []
        one = {"type": "object", "properties": {option: schema.properties[option]}, "required": required}
        for value in TRIED:
            try:
                spec.check(value)
                wanted = True
            except ValueError:
                wanted = False
            if isinstance(spec.kind, Names | Pairs) and not isinstance(value, list | None):
                continue  # a comma list or a table: for command lines and TOML
            assert is_valid({option: value}, one) == wanted, (option, value)


@pytest.mark.parametrize("words", ["--learner svm --svm.C 5", "--learner ogd,svm --ogd.average --svm.C auto"])
def test_flow_takes_what_a_command_gives_to_one_method(words: str) -> None:
    from prefect.utilities.callables import get_call_parameters

    from flows.prefect.flows import batch

    options = BatchOptions.parse(words.split())
    given = get_call_parameters(batch.fn, (), options.to_dict())
    assert given["scoped"]["svm"]
    assert BatchOptions(**batch.validate_parameters(given)) == options


@pytest.mark.parametrize(
    ("tables", "by_form"),
    [({}, True), ({"svm": {"C": 5}}, True), ({"svm": {"C": "much"}}, True), ({"svm": 5}, False), ({"svn": {}}, False)],
)
def test_form_takes_tables_of_methods(tables: dict[str, Any], by_form: bool) -> None:
    """Values in a table are checked as the run begins."""
    from prefect.exceptions import ParameterTypeError
    from prefect.utilities.schema_tools.validation import is_valid

    from flows.prefect.flows import batch

    one = {"type": "object", "properties": {"scoped": batch.parameters.properties["scoped"]}}
    assert is_valid({"scoped": tables}, one) == by_form
    if tables in ({}, {"svm": {"C": 5}}):
        assert batch.validate_parameters({"scoped": tables})["scoped"] == tables
    else:
        with pytest.raises(ParameterTypeError, match=r"svm\.C: found 'much'|expected a table of one of"):
            batch.validate_parameters({"scoped": tables})


def test_form_tells_the_clusters() -> None:
    from flows.prefect.flows import batch

    assert ": local, cuda, slurm, srun, kubernetes, tcp://" in batch.parameters.properties["cluster"]["description"]


def test_flow_refuses_wrong_parameters() -> None:
    from prefect.exceptions import ParameterTypeError

    from flows.prefect.flows import batch

    with pytest.raises(ParameterTypeError):
        batch.validate_parameters({"psi": 0})
