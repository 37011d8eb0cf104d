"""What NORMA cannot do is refused in a line, by both commands: as soon as the task is known, and before it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from pipeline.errors import InputError
from tests.support.one_process import Command, one_process

X = np.random.default_rng(0).random((120, 3))
CELLS = {"learner": ("norma",), "psi": 8, "t": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("rows")
    for name, y in (("classes", X[:, 0] > 0.5), ("numbers", 3.3 * X[:, 0])):
        file = path / f"{name}.csv"
        np.savetxt(file, np.c_[X, y], delimiter=",", header="a,b,c,y", comments="", fmt="%g")
    return path


LARGE = "eta: found 2 with regularization 0.9, expected a product of at most 1, as eta 1.11111"
SQUARED = "with the squared loss, expected a number below"


@pytest.mark.parametrize("command", [BatchOptions, OnlineOptions])
@pytest.mark.parametrize(
    ("file", "asked", "said"),
    [
        ("classes", {**CELLS, "nu": 1.5, "loss": "nu"}, "--nu: found 1.5, expected a number >= 0 and <= 1"),
        ("classes", {**CELLS, "eta": 2.0, "regularization": 0.9}, f"--loss hinge, {LARGE}"),
        ("classes", {**CELLS, "eta": 2.0, "regularization": 0.9, "task": "binary"}, f"--loss hinge, {LARGE}"),
        ("numbers", {**CELLS, "eta": 2.0}, f"--norma.loss squared, eta: found 2 {SQUARED} 1.99998"),
        ("numbers", {"learner": ("quantile",), "quantiles": "0.9,0.1", "task": "regression"},
         "--quantiles: found '0.9,0.1', expected ascending numbers > 0 and < 1 with commas between, such as 0.05,0.5"),
    ],
)  # fmt: skip
def test_in_one_line(folder: Path, tmp_path: Path, command: Any, file: str, asked: dict[str, Any], said: str) -> None:
    refused_in_one_line(folder, tmp_path, command, file, asked, said)


def refused_in_one_line(
    folder: Path, tmp_path: Path, command: Any, file: str, asked: dict[str, Any], said: str
) -> None:
    """Run a command on one of the files in the folder, which is refused with a line that begins like this."""
    initial = {"initial": 50} if command is OnlineOptions else {}
    with one_process(), pytest.raises(InputError) as refused:
        Command(command(input=str(folder / f"{file}.csv"), **asked, **initial)).run(tmp_path / "run")
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)
