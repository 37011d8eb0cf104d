"""Finished runs of before still load and score; unfinished ones of another layout are refused in one line.

``finished_runs/`` has the run directories that commit 291de50 (layout 8) left of three small data sets - a CSV table
with words, dates, missing cells and ids; Parquet with booleans as labels; LIBSVM text - the data, and what that commit
predicted for it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from flows.options.score import ScoreOptions
from pipeline.errors import InputError
from pipeline.storage.durable import read_json, write_json
from pipeline.storage.rundir import MANIFEST, MANIFEST_COPY
from tests.support.one_process import Command, one_process, score_file

FOLDER = Path(__file__).with_name("finished_runs")
DATA = {"mixed": "mixed.csv", "booleans": "booleans.parquet", "libsvm": "rows.libsvm"}


def unpack(name: str, folder: Path) -> tuple[str, str]:
    """Unpack a run and its data; return the directory and the file."""
    shutil.unpack_archive(FOLDER / f"{name}.zip", folder / "run")
    shutil.copy(FOLDER / DATA[name], folder)
    return str(folder / "run"), str(folder / DATA[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_a_finished_run_of_before_scores_as_it_did(name: str, tmp_path: Path) -> None:
    run, data = unpack(name, tmp_path)
    with one_process():
        score_file(ScoreOptions(model=run, input=data, output=str(tmp_path / "scored.parquet")))
    assert pq.read_table(tmp_path / "scored.parquet").equals(pq.read_table(FOLDER / f"{name}-scored.parquet"))


@pytest.mark.slow
def test_an_unfinished_run_of_another_layout_is_refused_in_one_line(tmp_path: Path) -> None:
    run, data = unpack("mixed", tmp_path)
    manifest = read_json(Path(run, MANIFEST))
    del manifest["stages"]["train:logistic"], manifest["stages"]["evaluate:logistic"]
    for name in (MANIFEST, MANIFEST_COPY):
        write_json(Path(run, name), manifest)
    words = "--label kind --id id --psi 8 --t 6 --C 1 --learner logistic --partitioner iforest"
    with one_process(), pytest.raises(InputError, match=re.escape("layout")) as refused:
        Command(BatchOptions.parse(["--input", data, *words.split()])).run(Path(run))
    assert "\n" not in str(refused.value)
