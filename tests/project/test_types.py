"""Types: the word `Any` does not come back."""

from __future__ import annotations

import re
from collections import Counter

from tests import ROOT

PACKAGES = ("ikmap", "pipeline")
CEILING = 76
"""Most times that the word `Any` may stand in these packages, imports counted too. It falls only."""


def words_in(text: str) -> int:
    """Return how often the word `Any` stands in a text."""
    return len(re.findall(r"\bAny\b", text))


def test_words_are_counted_whole() -> None:
    assert words_in("from typing import Any\n\nx: dict[str, Any] = {}\ny: AnyKernel | Company\n") == 2


def test_no_more_values_have_any_type_than_before() -> None:
    by_folder: Counter[str] = Counter()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            by_folder[str(path.parent.relative_to(ROOT))] += words_in(path.read_text())
    total = by_folder.total()
    most = ", ".join(f"{folder} {count}" for folder, count in by_folder.most_common(8) if count)
    assert total <= CEILING, f"found the word Any {total} times, expected at most {CEILING}; most of them in {most}"
