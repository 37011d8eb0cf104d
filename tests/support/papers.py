"""What tests need to know of ``ikmap_papers``, which can be left out: the product and its tests work without it."""

from __future__ import annotations

import shlex
from itertools import pairwise

import pytest

from ikmap.methods import LEARNERS
from ikmap.methods.registry import has_papers

with_papers = pytest.mark.skipif(not has_papers(), reason="it is about ikmap_papers too, which is not installed")
"""Mark of a test that compares a file which was written with the methods of papers."""


def without_learners(words: str) -> bool:
    """Return whether a command line names a learner that is not known here."""
    named = {name for flag, word in pairwise(shlex.split(words)) if flag == "--learner" for name in word.split(",")}
    return not LEARNERS.keys() >= named


def skip_without_learners(words: str) -> None:
    """Skip a test of a command line that names a learner of a paper, where papers are not installed."""
    if not has_papers() and without_learners(words):
        pytest.skip("it names a learner of ikmap_papers, which is not installed")
