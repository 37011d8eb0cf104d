"""Runs give what they gave before: see ``pinned.py``, which also says when the pins may be moved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.papers import skip_without_learners
from tests.support.pinned import FILE, RUNS, differences, pins_of, write_data

pytestmark = pytest.mark.slow

PINNED = json.loads(FILE.read_text()) if FILE.exists() else {}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_data(tmp_path_factory.mktemp("data"))


def test_every_run_is_pinned() -> None:
    assert list(PINNED) == list(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_what_it_gave_before(name: str, files: dict[str, Path], tmp_path: Path) -> None:
    skip_without_learners(RUNS[name].words)
    assert differences(PINNED[name], pins_of(RUNS[name], files, tmp_path / "run")) == []
