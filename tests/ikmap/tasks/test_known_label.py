"""Labels that are the same in another type."""

from __future__ import annotations

from typing import Any

import pytest

from ikmap.tasks.known_label import known_label


@pytest.mark.parametrize(
    ("label", "known", "expected"),
    [
        (1, ["1", "2", "3+"], "1"),
        ("1", [1, 2], 1),
        ("1.5", [1.5, 2.0], 1.5),
        ("01", [1, 2], "01"),
        (3, ["1", "2"], 3),
        ("true", [False, True], True),
        (1, ["no", "TRUE"], "TRUE"),
        ("x", ["1"], "x"),
    ],
)
def test_it_is_the_known_one_or_itself(label: Any, known: list[Any], expected: Any) -> None:
    found = known_label(label, known)
    assert (found, type(found)) == (expected, type(expected))
