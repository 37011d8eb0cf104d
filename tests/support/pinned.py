"""What a dozen small runs have given so far, bit for bit: ``pinned.json``, which ``test_pinned.py`` holds the code to.

The runs go through the options of the command lines and all stages, in this process. Pinned of each are the arrays of
its maps, cells, what cross-validation tried and chose, and of every learner its weights, predictions and scores of new
rows. Hashes are SHA-256, cut to 16 digits, over values and not over widths, shapes or names in the store. Content
hashes of models are not pinned, as they cover names.

Where BLAS or libm take part (:data:`ROUNDED`), last bits may differ between processors: pinned of those learners are
scores of some rows, which are compared to within 1e-9 of the largest, and every label.

    python -m tests.support.pinned           says what differs from the file
    python -m tests.support.pinned --write   writes the file anew

Writing it anew is legitimate when a run is added, and when a change is *meant* to give other results: another default,
another algorithm, a mistake put right. The message of that commit says which pins move, and why. It is never legitimate
in order to make a refactoring, a renaming or a speed-up pass: such a change has a mistake in it, which this file has
found. Where a change moves things within a run directory, the helpers under "where things stand" are to follow it; the
pins stay.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import zarr

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.score import ScoreOptions
from ikmap.cells import Cells
from pipeline.storage.durable import read_json
from pipeline.storage.store import Store
from tests.support.one_process import Command, one_process, score_file, write_rows

FILE = Path(__file__).with_suffix(".json")
CLOSE = 1e-9
SOME = 6
"""Rows whose scores are pinned as numbers."""

ON_CELLS = "svm,logistic,ogd,ogd-naive,ogd-dual,isolation-svm"
ON_ROWS = "kernel-ogd,nogd,adaraker,raker,kernel-svm,chi2-svm,chi2-linear,fourier-linear"
ROUNDED = frozenset({"logistic", "isolation-svm", *ON_ROWS.split(",")})
"""Learners whose last bits are a matter of the processor and of BLAS. ogd-dual is none with t and eta powers of two."""


@dataclass(frozen=True)
class Run:
    """A run: the file that it reads (of :func:`write_data`), and the other words of its command line."""

    data: str
    words: str
    program: type[BatchOptions] = BatchOptions

    def options(self, files: dict[str, Path]) -> Any:
        """As the command line parses them."""
        return self.program.parse(["--input", str(files[self.data]), *self.words.split()])


RUNS = {
    "anne": Run("rows", f"--partitioner anne --t 16 --psi 8 --C 1 --learner {ON_CELLS}"),
    "anne, sparse": Run(
        "sparse", "--partitioner anne --t 16 --psi 8 --C 1 --seed 7 --learner svm,logistic,ogd-dual,isolation-svm"
    ),
    "iforest": Run(
        "table", f"--label kind --scale minmax --t 16 --psi 16 --partitioner iforest --eta 0.25 --learner {ON_CELLS}"
    ),
    "iforest, sparse, block": Run(
        "sparse",
        "--t 20 --psi 16 --partitioner iforest --max-depth log2 --solver block --class-weight balanced "
        "--order file --feature-scale raw --learner svm,logistic,ogd",
    ),
    "distributed": Run(
        "table", "--label kind --partitioner anne --t 20 --psi 8 --solver distributed --parts 3 --learner svm,logistic"
    ),
    "wide": Run(
        "table",
        "--label kind --partitioner anne --t 5 --psi 260 --test-size 0.1 --loss hinge --learner svm,ogd,ogd-naive",
    ),
    "on rows": Run("table", f"--label kind --scale minmax --psi 8 --decay 0.001 --learner {ON_ROWS}"),
    "on rows, sparse": Run(
        "sparse",
        "--kernel gaussian --gamma 0.5 --decay 0.001 --flavour script --sigma-is width --points violators --b 30 "
        f"--rank 10 --average --features 20 --chi2-order 1 --tol 0.0001 --learner {ON_ROWS}",
    ),
    "race": Run(
        "rows", "--partitioner anne --t 16 --cv-rows 100 --select-by accuracy --learner svm,ogd,ogd-naive,kernel-ogd"
    ),
    "full": Run(
        "table",
        "--label kind --t 8 --partitioner iforest --search full --cv-rows 60 --select-by accuracy "
        "--learner svm,ogd,isolation-svm",
    ),
    "race on rows": Run(
        "table",
        "--label kind --kernel gaussian --gamma auto --cv-rows 60 --features 4 --select-by accuracy "
        "--learner fourier-linear",
    ),
    "full on rows": Run(
        "rows", "--search full --cv-rows 60 --b 20 --features 4 --select-by accuracy --learner nogd,raker"
    ),
    "stream": Run(
        "rows",
        "--partitioner anne --t 16 --initial 80 --block-rows 9 --select-by accuracy "
        "--learner ogd,ogd-naive,ogd-dual,kernel-ogd",
        OnlineOptions,
    ),
    "stream, in order": Run(
        "sparse",
        "--t 20 --psi 8 --partitioner iforest --order file --initial 60 --block-rows 25 --decay 0.001 "
        "--learner ogd,nogd,adaraker,raker",
        OnlineOptions,
    ),
}


def write_data(folder: Path) -> dict[str, Path]:
    """Write the files to train on and, named after them, those to score: a table, sparse rows, hardly sparse ones."""
    rng = np.random.default_rng(11)
    files = {"rows": write_rows(folder)}
    for name, n in (("table", 330), ("table new", 60)):
        X = np.round(5 * rng.random((n, 4)) - 2, 2)
        kinds = np.where(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n) > 0.5, "yes", "no")
        lines = (",".join([*(f"{v:g}" for v in x), kind]) for x, kind in zip(X, kinds, strict=True))
        files[name] = _write(folder / f"{name}.csv", "a,b,c,d,kind", *lines)
    for name, n in (("sparse", 260), ("sparse new", 60)):
        X = np.round(rng.random((n, 60)) * (rng.random((n, 60)) < 0.12), 3)
        y = np.floor(1.2 * X[:, :20].sum(axis=1) + 0.5 * rng.random(n)).clip(0, 5).astype(int)
        files[name] = _write(folder / f"{name}.libsvm", *map(_sparse_line, y, X))
    X = np.round(rng.random((60, 5)), 3)
    files["rows new"] = _write(folder / "rows new.libsvm", *map(_sparse_line, rng.integers(3, size=60), X))
    return files


def _sparse_line(y: int, x: np.ndarray) -> str:
    return f"{y} " + " ".join(f"{j + 1}:{v:g}" for j, v in enumerate(x) if v)


def _write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


# ---------------------------------------------------------------- where things stand: all that a new layout changes


def _maps(directory: Path) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray, dict[str, dict[str, np.ndarray]]]]:
    """Of every map of a run, smallest first: its arrays, the offsets of its cells, and codes and labels by side."""
    store = Store(directory / "store.zarr")
    root: Any = zarr.open_group(str(store.path), mode="r")
    found = []
    for name in root["partitions"].group_keys() if "partitions" in root else ():
        attributes, arrays = store.read_group(f"partitions/{name}")
        sides: dict[str, dict[str, np.ndarray]] = {}
        for side, group in root["cells"][name].groups():
            # Those of a stream stand chunk by chunk.
            chunks = [group] if "codes" in group else [chunk for _, chunk in sorted(group.groups())]
            keys = sorted(chunks[0].array_keys())
            sides[side] = {key: np.concatenate([chunk[key][...] for chunk in chunks]) for key in keys}
        found.append((arrays, np.array(attributes["offsets"]), sides))
    yield from sorted(found, key=lambda one: int(one[1][-1]))


def _weights(directory: Path, learner: str) -> dict[str, np.ndarray]:
    """The arrays of a learner's model, by field."""
    return Store(directory / "store.zarr").read_group(f"models/{learner}")[1]


def _chosen(metrics: dict[str, Any], learner: str) -> dict[str, Any]:
    """What a learner was trained with, and what cross-validation said of the values that it tried."""
    about, selection = metrics["learners"][learner], metrics["selection"] or {}
    found = {"psi": about["psi"]} if "psi" in about else {about["parameter"]: about["value"]}
    found = {parameter: value for parameter, value in found.items() if parameter is not None}
    if learner in selection.get("chosen_C", {}):
        found["C"] = selection["chosen_C"][learner]
    if learner in selection.get("accuracy", {}):
        of = {"values": selection["psi"], **{key: selection[key][learner] for key in ("accuracy", "folds_tried")}}
    else:
        of = selection.get("tuned", {}).get(learner, {})
    tried = {key: of[key] for key in ("values", "accuracy", "folds_tried") if key in of}
    return found | tried


def _of_stream(directory: Path, learner: str) -> np.ndarray | None:
    """Class numbers that a learner predicted of a stream's rows."""
    path = directory / "predictions" / f"{learner}.int32"
    return np.fromfile(path, dtype=np.int32) if path.exists() else None


# -------------------------------------------------------------------------------------------------- what is pinned


def pins_of(run: Run, files: dict[str, Path], directory: Path) -> dict[str, Any]:
    """Make a run, score a file with each of its learners, and return what is to be pinned."""
    with one_process():
        options = run.options(files)
        Command(options).run(directory)
        metrics = read_json(directory / "metrics.json")
        maps = [
            {
                "arrays": {key: digest(array) for key, array in arrays.items()},
                "offsets": digest(offsets),
                **{
                    side: {
                        **{key: digest(array) for key, array in found.items()},
                        "indices": digest(Cells(found["codes"], offsets).columns()),
                    }
                    for side, found in sorted(sides.items())
                },
            }
            for arrays, offsets, sides in _maps(directory)
        ]
        learners = {name: _pins_of_learner(run, files, directory, name, metrics) for name in options.learner}
    return {**({"maps": maps} if maps else {}), "learners": learners}


def _pins_of_learner(
    run: Run, files: dict[str, Path], directory: Path, learner: str, metrics: dict[str, Any]
) -> dict[str, Any]:
    about = metrics["learners"][learner]
    output = directory.with_name(f"{directory.name}-{learner}.parquet")
    words = ["--model", str(directory), "--learner", learner, "--input", str(files[f"{run.data} new"])]
    scored = score_file(ScoreOptions.parse([*words, "--output", str(output)]))
    table = pq.read_table(output)
    scores, streamed = table["score"].to_numpy(), _of_stream(directory, learner)
    of: dict[str, Any]
    if learner in ROUNDED:
        of = {"scores": [float(f"{score:.12g}") for score in scores[:SOME]]}
    else:
        arrays = _weights(directory, learner)
        of = {"weights": {key: digest(array) for key, array in arrays.items()}, "scores": digest(scores)}
    return {
        "chosen": _chosen(metrics, learner),
        **{key: about[key] for key in ("confusion", "n_support", "updates") if key in about},
        **({} if streamed is None else {"of stream": digest(streamed)}),
        "accuracy of new": scored["accuracy"],
        "labels of new": hashlib.sha256(json.dumps(table["prediction"].to_pylist()).encode()).hexdigest()[:16],
        **of,
    }


def digest(array: np.ndarray) -> str:
    """Of the values, in order: neither how wide they are stored nor their shape is a matter of it."""
    wide = "<f8" if array.dtype.kind == "f" else "<i8"
    return hashlib.sha256(np.ascontiguousarray(array, dtype=wide).tobytes()).hexdigest()[:16]


def differences(pinned: Any, found: Any, where: str = "") -> list[str]:
    """Name what is not as pinned: fractions to within 1e-9 of the largest beside them, the rest exactly."""
    if isinstance(pinned, dict) and isinstance(found, dict):
        keys = [*pinned, *(key for key in found if key not in pinned)]
        of = [differences(pinned.get(key), found.get(key), f"{where}, {key}" if where else key) for key in keys]
        return [line for lines in of for line in lines]
    if _are_numbers(pinned) and _are_numbers(found) and np.shape(pinned) == np.shape(found):
        a, b = np.array(pinned), np.array(found)
        same = bool(np.all(np.abs(a - b) <= CLOSE * np.abs(a).max(initial=0.0)))
    elif isinstance(pinned, list) and isinstance(found, list) and len(pinned) == len(found):
        of = [differences(a, b, f"{where} {k}") for k, (a, b) in enumerate(zip(pinned, found, strict=True))]
        return [line for lines in of for line in lines]
    else:
        same = pinned == found
    return [] if same else [f"{where}: pinned {json.dumps(pinned)}, found {json.dumps(found)}"]


def _are_numbers(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(type(v) in (int, float) for v in values) and any(type(v) is float for v in values)


def main() -> int:
    """Compare with the file, or write it."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        files = write_data(Path(folder))
        for k, (name, run) in enumerate(RUNS.items()):
            found[name] = pins_of(run, files, Path(folder) / f"{k:02d}")
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(_as_text(found))
        return 0
    lines = differences(json.loads(FILE.read_text()), found)
    print("\n".join(lines) or "all as pinned")
    return int(bool(lines))


def _as_text(found: dict[str, Any]) -> str:
    """JSON with a line for every map and learner, so that a change of it can be read."""
    runs = []
    for name, pins in found.items():
        maps = ",\n".join(f"      {json.dumps(one)}" for one in pins.get("maps", []))
        learners = ",\n".join(f"      {json.dumps(key)}: {json.dumps(one)}" for key, one in pins["learners"].items())
        first = f'    "maps": [\n{maps}\n    ],\n' if maps else ""
        runs.append(f'  {json.dumps(name)}: {{\n{first}    "learners": {{\n{learners}\n    }}\n  }}')
    return "{\n" + ",\n".join(runs) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
