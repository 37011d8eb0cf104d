"""Unfinished runs as the code of before left them, in ``old_runs/``: they have to go on.

For each of :data:`RUNS` there is an archive of the run directory, which was interrupted after some stages.
``rows.csv`` is the data of all; ``expected.json`` says what each run came to when it then went on with the code of
before. No place of a file and nothing of the machine is part of what identifies a run, so it can be unpacked anywhere.

    python -m tests.nets.old_run --record   makes the archives anew

Make them anew only where the layout of a run is meant to change (``LAYOUT`` in ``pipeline/runs/batch.py``): then no run
of before can go on anyway.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from pipeline.record_types import Result
from pipeline.storage.hold import LOCK
from tests.nets.records import as_json, write
from tests.support.one_process import Command, Heard, one_process

FOLDER = Path(__file__).with_name("old_runs")
ROWS, RUN, EXPECTED = "rows.csv", "run", FOLDER / "expected.json"


@dataclass(frozen=True)
class Interrupted:
    """A run and where it is interrupted.

    Attributes
    ----------
    words : str
        Its command line, without the data.
    stage : str
        The stage in which it is interrupted.
    tasks : int
        How many tasks of this stage are done by then.
    program : type
    """

    words: str
    stage: str
    tasks: int = 0
    program: type[BatchOptions] = BatchOptions

    def command(self) -> Command:
        """Return the run, on the data in the current directory."""
        return Command(self.program.parse(["--input", ROWS, "--label", "kind", *shlex.split(self.words)]))


RUNS = {
    "psi auto": Interrupted(
        "--partitioner iforest --psi auto --t 8 --learner logistic,svm --cv-rows 60 --max-depth log2 "
        "--select-by accuracy",
        "train:logistic",
    ),
    "within the cells": Interrupted("--psi 8 --t 8 --C 1 --learner svm,ogd --ogd.eta 0.25 --shard-rows 40", "cells", 2),
    "learner that follows from the task": Interrupted("--psi 8 --t 8", "train:logistic"),
    "sum of maps and a kernel": Interrupted(
        "--partitioner iforest,gcws --psi 8 --gcws.b 6 --t 8 --scale minmax --learner ogd-dual,nogd,norma "
        "--kernel gaussian --gaussian.gamma 2 --nogd.b 20",
        "train:nogd",
    ),
    "stream": Interrupted(
        "--psi 8 --t 8 --learner ogd,kernel-ogd --initial 40 --block-rows 5 --order file", "stream", 9, OnlineOptions
    ),
    "stream that grows": Interrupted(
        "--partitioner mondrian --lifetime 2 --t 6 --learner ogd,quantile --task regression --above 0 --initial 40 "
        "--block-rows 10",
        "stream",
        7,
        OnlineOptions,
    ),
}


class Interrupter(Heard):
    """Listens to a run, and interrupts it once so many tasks of a stage are done."""

    def __init__(self, stage: str, tasks: int) -> None:
        super().__init__()
        self.stage, self.left = stage, tasks

    def call(self, name: str, work: Callable[[], Result]) -> Result:
        """Do a stage, unless the run is to be interrupted before its first task."""
        if name == self.stage and self.left == 0:
            raise KeyboardInterrupt
        return work()

    def task_done(self, name: str, record: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Count tasks."""
        self.left -= name == self.stage
        if self.left == 0 and name == self.stage:
            raise KeyboardInterrupt


@contextmanager
def small_runs() -> Iterator[None]:
    """Do tasks in this process, and cut streams into small chunks, so that they can be interrupted between two."""
    with one_process(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.stages.shuffle.CHUNK_ROWS", 1)
        patch.setattr("pipeline.stages.shuffle.CHUNK_BLOCKS", 4)
        yield


def write_rows(path: Path, n: int = 150) -> None:
    """Write a table of three columns of numbers and two kinds, which depend on them but not cleanly."""
    rng = np.random.default_rng(5)
    X = np.round(rng.random((n, 3)), 3)
    kinds = np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n) > 0.75, 1, 0)
    lines = (",".join([*(f"{value:g}" for value in x), str(kind)]) for x, kind in zip(X, kinds, strict=True))
    path.write_text("\n".join(["a,b,c,kind", *lines]) + "\n", encoding="utf-8")


def outcome(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a finished run came to: of each learner what it was trained with, and its figures on test rows."""
    keys = (
        "parameter",
        "value",
        "psi",
        "accuracy",
        "confusion",
        "r2",
        "n_support",
        "updates",
        "n_features",
        "cells",
        "redraws",
    )
    learners = metrics["learners"].items()
    return dict(as_json({name: {key: of[key] for key in keys if key in of} for name, of in learners}))


def archive(name: str) -> Path:
    """Return where a run directory of before is."""
    return FOLDER / f"{name.replace(' ', '-')}.zip"


def unpack(name: str) -> None:
    """Make the data and the unfinished run of that name in the current directory."""
    shutil.copy(FOLDER / ROWS, ROWS)
    shutil.unpack_archive(archive(name), RUN)


def interrupt(run: Interrupted) -> None:
    """Begin a run in the current directory, until it is interrupted."""
    listener = Interrupter(run.stage, run.tasks)
    try:
        run.command().run(Path(RUN), listener.call, listener)
    except KeyboardInterrupt:
        return
    raise RuntimeError(f"found a finished run, expected one interrupted in {run.stage}")


def record(name: str, run: Interrupted) -> dict[str, Any]:
    """Make a run, interrupt it, keep its directory as it is then, and return what it comes to as it goes on."""
    with tempfile.TemporaryDirectory() as work, chdir(work), small_runs():
        shutil.copy(FOLDER / ROWS, ROWS)
        interrupt(run)
        (Path(RUN) / LOCK).unlink()
        shutil.make_archive(str(archive(name).with_suffix("")), "zip", RUN)
        return outcome(run.command().run(Path(RUN)))


def main() -> int:
    """Make all archives anew."""
    if sys.argv[1:] != ["--record"]:
        print("python -m tests.nets.old_run --record makes the runs anew; pytest tests/nets/test_old_run.py tries them")
        return 2
    FOLDER.mkdir(exist_ok=True)
    write_rows(FOLDER / ROWS)
    write(EXPECTED, {name: record(name, run) for name, run in RUNS.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
