"""The model of a finished run is found in its directory; what is in the way is said with what to type."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.runs.trained_model import open_run
from pipeline.storage.rundir import RunDirectory


def test_the_command_that_finishes_a_run_can_be_typed_wherever_the_run_lies(tmp_path: Path) -> None:
    path = tmp_path / "my run; of May"
    RunDirectory(path, {"params": {}}).close()
    with pytest.raises(InputError, match="found an unfinished run") as error:
        open_run(str(path))
    words = shlex.split(str(error.value).partition("to finish it: ")[2])
    assert words == ["python", "-m", "flows.batch", "--config", f"{path}/run.toml", "--run-dir", str(path)]
