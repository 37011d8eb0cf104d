"""Command lines come to the parameters, or to the line that refuses them, to which they came before."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from tests.nets import declarations
from tests.nets.command_lines import FILE, PLUGIN, folder_of_lines, lines, outcome, outcomes_with_plugin
from tests.nets.records import NEWER, NEWER_OPTIONS, differences, read
from tests.support.papers import with_papers

pytestmark = with_papers

RECORDED = read(FILE)
WITH_PLUGIN = [line for line in RECORDED if line.startswith(PLUGIN)]
NEVER_REFUSED = {"clip_rho", "ridge_solver", "svm_scale", "svm_C", "svm_loss", "nogd", "adaraker", "score_scale"}
"""Options of which no line has a refused value: a flag has none, and options of papers are alike."""


@pytest.fixture(scope="module", autouse=True)
def in_folder() -> Iterator[None]:
    with folder_of_lines():
        yield


@pytest.fixture(scope="module")
def with_plugin() -> dict[str, Any]:
    return outcomes_with_plugin()


def test_every_line_is_recorded() -> None:
    assert list(RECORDED) == lines()
    assert len(set(lines())) == len(lines())


@pytest.mark.parametrize("line", [line for line in RECORDED if line not in WITH_PLUGIN])
def test_a_line_comes_to_what_it_came_to(line: str) -> None:
    assert declarations.without_newer(differences(RECORDED[line], outcome(line))) == []


@pytest.mark.slow
@pytest.mark.parametrize("line", WITH_PLUGIN)
def test_a_line_with_the_plugin_comes_to_what_it_came_to(line: str, with_plugin: dict[str, Any]) -> None:
    assert declarations.without_newer(differences(RECORDED[line], with_plugin[line])) == []


def test_messages_are_one_line() -> None:
    refused = [entry["message"] for entry in RECORDED.values() if entry["status"] == 2]
    assert [message for message in refused if "\n" in message or not message] == []


def names_in(line: str) -> set[str]:
    """Return the options that a line names, without the methods before them."""
    flags = [word.partition("=")[0] for word in shlex.split(line) if word.startswith("--")]
    return {flag.removeprefix("--").removeprefix("no-").rpartition(".")[2].replace("-", "_") for flag in flags}


@pytest.mark.parametrize("status", [0, 2])
def test_every_option_of_a_method_is_given_and_refused(status: int) -> None:
    """The lines go on to cover all that is declared: a new option needs two lines."""
    named = set().union(*(names_in(line) for line, entry in RECORDED.items() if entry["status"] == status))
    declared = {name for entry in read(declarations.FILE).values() for name in entry.get("options", ())}
    plain = {name for name in declared if "." not in name}  # those of sums of maps are given as scoped ones
    assert plain - named - NEWER_OPTIONS.keys() - (NEVER_REFUSED if status else set()) == set()


def test_every_method_is_chosen() -> None:
    chosen = set().union(*(entry.get("params", {}).get("methods", {}) for entry in RECORDED.values()))
    order = read(declarations.FILE)["order"]
    never = {"isolation"}  # the kernel of cells, which no option can name
    assert {*order["maps"], *order["learners"], *order["kernels"]} - chosen - NEWER == never
