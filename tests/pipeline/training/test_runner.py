"""Checkpoints of training: where they lie, and of which run they are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipeline.running.repair import until_verified
from pipeline.storage.durable import read_arrays, write_arrays
from pipeline.storage.lru_cache import PROCESS
from pipeline.training.train import train
from tests.support.calls import killed_at
from tests.support.in_process import InProcess
from tests.support.params_for import params_for
from tests.support.runs import context, mapped
from tests.support.sizes import SmallSizes


class Elsewhere(InProcess):
    """A client whose worker has another working directory."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def submit(self, func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        def there(*args: Any) -> Any:
            with chdir(self.folder):
                return func(*args)

        return super().submit(there, *args, **options)


@pytest.mark.parametrize(("learner", "solver"), [("svm", "distributed"), ("ridge", "memory"), ("ogd", "auto")])
def test_workers_elsewhere_write_checkpoints_into_the_run(
    learner: str, solver: str, tmp_path: Path, small_sizes: SmallSizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run directory is given by a path that is relative to the directory of the command."""
    small_sizes.learning_blocks(60, 1)
    params = params_for(learners=(learner,), t=9, C=1.0, solver=solver, **({"parts": 3} if learner == "svm" else {}))
    here, fitted = mapped(tmp_path / "here", 300, params)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    (tmp_path / "elsewhere").mkdir()
    expected = train(here, learner, fitted)
    PROCESS.forget()
    monkeypatch.chdir(tmp_path)
    there = context(Path("there"), params, client=Elsewhere(tmp_path / "elsewhere"))
    assert train(there, learner, fitted) == expected
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("names_its_run", [True, False])
def test_a_checkpoint_of_another_run_is_refused(names_its_run: bool, tmp_path: Path, small_sizes: SmallSizes) -> None:
    """The pass begins anew. A checkpoint of an earlier version, which names no run, is gone on from."""
    small_sizes.learning_blocks(60, 1)
    params = params_for(learners=("ogd",), t=9)
    whole, fitted = mapped(tmp_path / "whole", 300, params, seed=1)
    expected = train(whole, "ogd", fitted)
    other, fitted_of_other = mapped(tmp_path / "other", 300, params, seed=2)
    with killed_at(write_arrays, 2, end=True):
        train(other, "ogd", fitted_of_other)
    left = other.run.task_record("train:ogd", "checkpoint").with_suffix(".npz")
    if not names_its_run:
        write_arrays(left, read_arrays(left))
    own, fitted = mapped(tmp_path / "own", 300, params, seed=1)
    shutil.copytree(left.parent, own.run.task_record("train:ogd", "checkpoint").parent)
    result = until_verified(own, partial(train, own, "ogd", fitted))
    assert (result == expected) is names_its_run
