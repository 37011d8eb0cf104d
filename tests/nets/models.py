"""What small runs learn: hashes of maps, cells and models that ``tests/support/pinned.json`` does not cover.

These are the maps and learners that it leaves out, sums of maps, the other kernels, regression and novelty. The runs
go through the command line and all stages, so that they ask nothing of how methods are made.

Hashes are over values, as in ``tests/support/pinned.py``. Of learners that are not :data:`EXACT`, whose last bits are
a matter of the processor and of BLAS, the size, sum and first numbers of each array are recorded instead, and compared
to within 1e-9.

    python -m tests.nets.models            prints what differs from the record
    python -m tests.nets.models --record   writes the record anew
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from tests.nets.old_run import FOLDER, ROWS, RUN, outcome, small_runs
from tests.nets.records import as_json, command
from tests.support.one_process import Command
from tests.support.pinned import digest

FILE = Path(__file__).with_suffix(".json")
EXACT = frozenset({"svm", "ogd", "ogd-naive", "idk"})
TURNED = "turned.csv"
FIRST = 4
"""How many numbers of an array are recorded."""

GMM = "--learner kernel-svm --scale minmax --kernel"
RUNS = {
    "inne": "--partitioner inne --psi 8 --t 16 --C 1 --learner svm,ogd",
    "gcws": "--partitioner gcws --t 16 --scale minmax --C 1 --learner svm,ogd",
    "gcws, 0-bit": "--partitioner gcws --t 16 --p 2 --b 4 --bits 512 --code 0-bit --gcws.gamma 2 --C 1 --learner svm",
    "gcws, auto": "--partitioner gcws --t 4 --p auto --b auto --cv-rows 60 --select-by accuracy --learner svm,ogd",
    "mondrian": "--partitioner mondrian --lifetime 3 --t 16 --C 1 --learner svm,ogd",
    "mondrian, swept": "--partitioner mondrian --t 8 --label c --task regression --learner ridge",
    "binning": "--partitioner binning --lifetime 2 --t 16 --C 1 --learner svm,ogd",
    "binning, auto": "--partitioner binning --lifetime auto --t 8 --cv-rows 60 --select-by accuracy --learner svm",
    "depth, swept": "--partitioner iforest --psi 32 --max-depth auto --t 8 --label c --task regression --learner ridge",
    "iforest and anne": "--partitioner iforest,anne --psi 8 --t 15 --C 1 --learner svm,ogd",
    "iforest and anne, auto": "--partitioner iforest,anne --t 8 --cv-rows 60 --select-by accuracy --learner svm",
    "four maps": "--partitioner gcws,mondrian,binning,inne --psi 8 --lifetime 2 --t 16 --C 1 --learner svm,norma",
    "averaged": "--psi 8 --t 16 --average --eta 0.25 --learner ogd",
    "calibrated": "--psi 8 --t 16 --C 1 --calibration platt --threshold-for f1 --learner svm",
    "numbers": "--label c --task regression --psi 8 --t 16 --C 2 --learner ridge,svr,ogd,quantile,norma",
    "numbers, other losses": "--label c --task regression --psi 8 --t 16 --svr-loss epsilon_insensitive --epsilon 0.05 "
    "--norma.loss huber --quantiles 0.2,0.8 --svr.C 3 --learner svr,norma,quantile",
    "novelty": "--task novelty --inliers 0 --partitioner iforest --psi 8 --t 16 --learner idk,iforest-score,norma",
    "novelty, spheres": "--task novelty --inliers 0 --t 16 --half-life 20 --learner idk",
    "norma": "--psi 8 --t 16 --norma.loss hinge --norma-dual.loss hinge --truncation 0.1 --learner norma,norma-dual",
    "chi2": f"{GMM} chi2",
    "linear": f"{GMM} linear",
    "cosine": f"{GMM} cosine",
    "cosine-rbf": f"{GMM} cosine-rbf --le 2",
    "gmm": f"{GMM} gmm",
    "egmm": f"{GMM} egmm --le 2",
    "pgmm": f"{GMM} pgmm --p 2",
    "gamma-gmm": f"{GMM} gamma-gmm --gamma 1.5",
    "p-gamma-gmm": f"{GMM} p-gamma-gmm --p 2 --gamma 1.5",
    "ep-gmm": f"{GMM} ep-gmm --le 2 --p 0.5",
    "e-gamma-gmm": f"{GMM} e-gamma-gmm --le 2 --gamma 1.5",
    "ep-gamma-gmm": f"{GMM} ep-gamma-gmm --le auto --gamma 1.5 --p 2 --cv-rows 60 --select-by accuracy",
    "stream that grows": "online --partitioner mondrian --lifetime 2 --t 8 --initial 40 --block-rows 10 "
    "--learner ogd,ogd-naive,norma",
    "stream that is redrawn": "online --input turned.csv --psi 8 --t 8 --initial 40 --block-rows 10 --drift adwin "
    "--drift-delta 0.3 --on-drift redraw --redraw-rows 20 --order file --eta 0.125 --learner ogd",
}
"""Command lines without the data, of flows.batch unless they begin with another command."""


def learned(words: str) -> dict[str, Any]:
    """Make a run in a folder of its own, and return what it learned."""
    argv = shlex.split(words)
    program: type[BatchOptions] = BatchOptions
    if argv[0] == "online":
        program, argv = OnlineOptions, argv[1:]
    label = [] if "--label" in argv else ["--label", "kind"]
    with tempfile.TemporaryDirectory() as folder, chdir(folder), small_runs():
        shutil.copy(FOLDER / ROWS, ROWS)
        write_turned(Path(TURNED))
        data = [] if "--input" in argv else ["--input", ROWS]
        metrics = Command(program.parse([*data, *label, *argv])).run(Path(RUN))
        return dict(as_json({"arrays": _arrays(Path(RUN) / "store.zarr"), "outcome": outcome(metrics)}))


def write_turned(path: Path) -> None:
    """Write the rows twice, and then twice with the other kind: a stream that drifts."""
    header, *lines = (FOLDER / ROWS).read_text(encoding="utf-8").splitlines()
    turned = [f"{line[:-1]}{1 - int(line[-1])}" for line in lines]
    path.write_text("\n".join([header, *lines, *lines, *turned, *turned]) + "\n", encoding="utf-8")


def _arrays(store: Path) -> dict[str, Any]:
    """Return what is recorded of each array of maps, cells and models, by its place in the store."""
    entries: dict[str, Any] = {}
    for place, array in sorted(zarr.open_group(str(store), mode="r").members(max_depth=None)):
        area, name, *_ = (*place.split("/"), "")
        if isinstance(array, zarr.Array) and area in ("partitions", "cells", "models"):
            values = np.asarray(array[...])
            if values.dtype.kind not in "fiub":
                continue
            rounded = area == "models" and values.dtype.kind == "f" and name not in EXACT
            entries[place] = _summary(values) if rounded else digest(values)
    return entries


def _summary(values: np.ndarray) -> dict[str, Any]:
    flat = values.ravel().astype(float)
    numbers = [float(np.abs(flat).sum()), float(flat.sum()), *map(float, flat[:FIRST])]
    return {"size": int(flat.size), "numbers": numbers}


def all_learned() -> dict[str, Any]:
    """Return what every run learned, by its name."""
    return {name: learned(words) for name, words in RUNS.items()}


if __name__ == "__main__":
    sys.exit(command(FILE, all_learned))
