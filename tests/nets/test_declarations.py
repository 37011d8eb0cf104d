"""Methods declare what they declared before they were rewritten."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.nets.declarations import FILE, declared, without_newer
from tests.nets.records import differences, read
from tests.support.papers import with_papers

pytestmark = with_papers

RECORDED = read(FILE)


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return declared()


def test_the_same_methods_are_declared(now: dict[str, Any]) -> None:
    assert list(now) == list(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_a_method_declares_what_it_declared(name: str, now: dict[str, Any]) -> None:
    assert without_newer(differences(RECORDED[name], now[name])) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda option: option.update(default=100), "options.psi.default: recorded "),
        (lambda option: option["kind"].update(words=[]), "options.psi.kind.words: recorded "),
        (lambda option: option.pop("help"), "options.psi.help: recorded "),
        (lambda option: option["setting"].update(sign="y"), "options.psi.setting.sign: recorded "),
        (lambda option: option.update(before=1), "options.psi.before: not recorded, now 1"),
    ],
)
def test_a_change_is_found(change: Any, line: str) -> None:
    """The comparison itself is worth something."""
    changed = deepcopy(RECORDED["map iforest"])
    change(changed["options"]["psi"])
    lines = differences(RECORDED["map iforest"], changed)
    assert len(lines) == 1
    assert lines[0].startswith(line)
