"""The page on estimators: its example runs, and its table has every estimator."""

from __future__ import annotations

import re

import pytest

from tests import ROOT
from tests.ikmap.estimators.test_parameters import ESTIMATORS

PAGE = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(example, {})
    score, *lines = capsys.readouterr().out.splitlines()
    assert float(score) > 0.9
    assert lines == ["[False False False]", lines[1]]
    assert lines[1].startswith("column airport: category, target")


def test_the_table_has_every_estimator() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(kind.__name__ for kind in ESTIMATORS)
