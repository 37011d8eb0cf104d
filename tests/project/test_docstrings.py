"""Examples in docstrings of public names do what they say."""

from __future__ import annotations

import doctest

import pytest

import ikmap
import pipeline

NAMES = [(module, name) for module in (ikmap, pipeline) for name in module.__all__]
TESTS = {
    f"{module.__name__}.{test.name}": test
    for module, name in NAMES
    for test in doctest.DocTestFinder().find(getattr(module, name), name, module=False)
    if test.examples
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
def test_an_example_shows_what_it_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    failed = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(TESTS[name]).failed
    assert not failed, capsys.readouterr().out


def test_estimators_have_examples() -> None:
    assert len(TESTS) > 20
