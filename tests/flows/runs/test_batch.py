"""What is left of a run that ends before its first stage is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.options.batch import BatchOptions
from flows.runs.batch import run_pipeline
from pipeline.errors import ClusterLost, InputError
from tests.support.one_process import Heard, commands_in_this_process, write_rows


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
    where = manifest.parent.relative_to(tmp_path)
    assert said == "the scheduler is gone" + ("" if named else f", with --run-dir {where}")
