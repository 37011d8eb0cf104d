"""The directories of runs that were given none."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.runs.batch import new_run_directory
from pipeline.storage.rundir import read_manifest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_runs_of_one_second_have_directories_of_their_own() -> None:
    opened = [new_run_directory("digits", "20260101-120000", {"seed": k}) for k in range(3)]
    names = ["digits-20260101-120000", "digits-20260101-120000-2", "digits-20260101-120000-3"]
    assert [run.path for run in opened] == [Path("runs") / name for name in names]
    for run in opened:
        run.begin()
        run.close()
    assert [read_manifest(run.path)["identity"]["seed"] for run in opened] == [0, 1, 2]
    # A finished run, or one that was stopped, keeps its directory too.
    again = new_run_directory("digits", "20260101-120000", {"seed": 3})
    assert again.path.name == "digits-20260101-120000-4"
    again.close()
    assert not again.path.exists()


def test_a_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    runs = folder / "runs"
    for link in (False, True):
        runs.symlink_to("nowhere") if link else runs.touch()
        with pytest.raises(InputError, match=r"^runs/a-1: found a file, expected a directory for the run$"):
            new_run_directory("a", "1", {})
        runs.unlink()
