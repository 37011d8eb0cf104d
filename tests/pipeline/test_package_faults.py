"""Errors that come from packages are told from ours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from pipeline.package_faults import fault_of_package

CODE = """
from collections import OrderedDict

class State:
    pass

def call(work):
    work()

def lacks():
    return State().checkpoint
"""


@pytest.fixture
def strange(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("strange_methods.inner")
    exec(compile(CODE, "strange_methods/inner.py", "exec"), vars(module))
    monkeypatch.setitem(sys.modules, "strange_methods.inner", module)
    monkeypatch.setattr("pipeline.package_faults.MODULES", {"strange_methods": "strange"})
    return module


def caught(work: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception) as found:  # noqa: PT011 - of any kind
        work()
    return found.value


def test_an_error_that_a_call_of_a_package_led_to(strange: ModuleType) -> None:
    error = caught(lambda: strange.call(lambda: int("seven")))
    line = fault_of_package(error)
    assert line is not None
    assert line.startswith("package strange: ValueError: invalid literal for int() with base 10: 'seven' (inner.py, ")
    assert "line 8, in call" in line


def test_a_class_of_a_package_that_lacks_a_member(strange: ModuleType) -> None:
    error = caught(strange.lacks).with_traceback(None)
    assert fault_of_package(error) == (
        "package strange: AttributeError: 'State' object has no attribute 'checkpoint'; mend it, or pip uninstall "
        "strange (--debug shows the traceback)"
    )
    wrong = TypeError("State.model() missing 1 required positional argument: 'params'")
    assert "package strange: TypeError: State.model()" in str(fault_of_package(wrong))


@pytest.mark.usefixtures("strange")
def test_errors_of_ours_name_no_package() -> None:
    assert fault_of_package(caught(lambda: int("seven"))) is None
    assert fault_of_package(AttributeError("'Other' object has no attribute 'x'")) is None
    assert fault_of_package(AttributeError("'OrderedDict' object has no attribute 'x'")) is None  # only imported there
