"""Small runs learn what they learned before; see ``models.py``."""

from __future__ import annotations

import shlex

import pytest

from tests.nets import declarations
from tests.nets.models import FILE, RUNS, learned
from tests.nets.records import NEWER, differences, read
from tests.support import pinned
from tests.support.papers import skip_without_learners

RECORDED = read(FILE)


def test_every_run_is_recorded() -> None:
    assert list(RECORDED) == list(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_learns_what_it_learned(name: str) -> None:
    skip_without_learners(RUNS[name])
    assert differences(RECORDED[name], learned(RUNS[name])) == []


def test_every_method_is_in_some_run() -> None:
    """Here or among the pinned runs."""
    words = [
        word for run in (*RUNS.values(), *(run.words for run in pinned.RUNS.values())) for word in shlex.split(run)
    ]
    names = {name for word in words for name in word.split(",")}
    order = read(declarations.FILE)["order"]
    usual = {"laplacian", "isolation"}  # what learners with a kernel have unless it is named, and the kernel of cells
    assert {*order["maps"], *order["learners"], *order["kernels"]} - names - NEWER == usual
