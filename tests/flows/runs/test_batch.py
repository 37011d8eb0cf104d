"""Directories of runs: where they are made, and what is left of a run that ends before its first stage is done."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.options.batch import BatchOptions
from flows.runs.batch import open_directory, run_pipeline
from pipeline.errors import ClusterLost, InputError
from tests.support.one_process import Heard, commands_in_this_process, write_rows


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


@pytest.mark.parametrize("named", [True, False])
def test_a_run_whose_cluster_is_lost_stays_and_can_be_found(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def ended_by(error: InputError) -> str:
        def stages(*_: Any, **__: Any) -> dict[str, Any]:
            raise error

        with commands_in_this_process(), pytest.raises(type(error)) as caught:
            run_pipeline(options, stages, {}, events=Heard())
        return str(caught.value)

    options = BatchOptions(input=str(write_rows(tmp_path)), psi=4, run_dir="mine" if named else None)
    assert ended_by(InputError("a wrong row")) == "a wrong row"
    assert list(tmp_path.rglob("manifest.json")) == []
    said = ended_by(ClusterLost("the scheduler is gone"))
    (manifest,) = tmp_path.rglob("manifest.json")
    where = shlex.quote(str(manifest.parent.relative_to(tmp_path)))
    if named:
        assert said == "the scheduler is gone"
        options = replace(options, fresh=True)
        said = ended_by(ClusterLost("the scheduler is gone"))
    assert said.startswith("the scheduler is gone; run python -m flows.batch --input")
    assert f" --run-dir {where}" in said
    assert "--fresh" not in said
