"""What NORMA with a kernel cannot do is refused in a line, by both commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from tests.pipeline.training.test_norma_refused import LARGE, SQUARED, folder, refused_in_one_line  # noqa: F401

ROWS = {"learner": ("norma-dual",), "gamma": 1.0}
NOTHING = "truncation: found regularization 0, by which nothing shrinks, expected a number > 0, as 0.01"
KEEPS = {"truncation": 0.01, "regularization": 0.0, "schedule": "constant"}


@pytest.mark.parametrize("command", [BatchOptions, OnlineOptions])
@pytest.mark.parametrize(
    ("file", "asked", "said"),
    [
        ("classes", {**ROWS, "eta": 2.0, "regularization": 0.9}, f"--loss hinge, {LARGE}"),
        ("numbers", {**ROWS, "eta": 2.5, "task": "regression"}, f"--norma-dual.loss squared, eta: found 2.5 {SQUARED}"),
        ("numbers", {"learner": ("norma-dual",), "kernel": "linear", "eta": 1.0, "task": "regression"},
         f"--learner norma-dual: eta: found 1 {SQUARED} 0."),
        ("classes", {**ROWS, **KEEPS}, f"--loss hinge, {NOTHING}"),
        ("classes", {**ROWS, **KEEPS, "task": "binary"}, f"--loss hinge, {NOTHING}"),
        ("numbers", {**ROWS, **KEEPS, "regularization": 0.1}, "--loss squared, truncation: found the squared loss"),
    ],
)  # fmt: skip
def test_in_one_line(
    folder: Path,  # noqa: F811
    tmp_path: Path,
    command: Any,
    file: str,
    asked: dict[str, Any],
    said: str,
) -> None:
    refused_in_one_line(folder, tmp_path, command, file, asked, said)
