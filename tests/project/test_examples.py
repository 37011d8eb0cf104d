"""The examples in the docstrings of ikmap give what they show."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import ikmap

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(ikmap.__path__, "ikmap.")
    if not module.name.endswith(".__main__")  # importing one runs its command
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_there_are_examples() -> None:
    assert doctest.testmod(import_module("ikmap.estimators.maps")).attempted > 3


def test_estimators_can_be_imported_from_the_top() -> None:
    for name in ikmap.__all__:
        assert getattr(ikmap, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'ikmap' has no attribute 'Nothing'"):
        _ = ikmap.Nothing
