"""Where a run is made: in the directory that is named, else in a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.options.batch import BatchOptions
from flows.runs.batch import open_directory


def test_a_run_has_the_directory_that_is_named_or_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, path in (("~/x", tmp_path / "home" / "x"), ("y", Path("y"))):
        run = open_directory(BatchOptions(run_dir=name), "digits", {})
        assert run.path == path
        run.begin()
        run.close()
        again = open_directory(BatchOptions(run_dir=name), "digits", {})
        assert again.resumed
        again.close()
    new = [open_directory(BatchOptions(), "digits", {}) for _ in range(3)]
    assert len({run.path for run in new}) == 3
    assert {run.path.name.partition("-")[0] for run in new} == {"digits"}
    for run in new:
        run.close()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "runs") == ["home", "y"]
