"""The command with nothing but input and label, beside LightGBM with its default options on the same rows."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import environment, peers
from benchmarks.harness import ROOT, Options
from benchmarks.table_peers import LIGHTGBM, figures
from benchmarks.table_sets import SETS, TEST, TRAIN, TableSet, write_sides
from benchmarks.tables import FIGURES, peer, why
from benchmarks.tables import PATIENCE as TIMES
from pipeline.errors import InputError

TITLE = "Nothing but the label"
ABOUT = (
    "`python -m flows.batch` with its input, its label and no other option (flights: `--above 15` too), beside "
    "LightGBM with its default options on the same rows: area of two classes, accuracy of several, R2 of numbers"
)
PATIENCE = 3600.0
"""Seconds after which LightGBM is given up."""


@dataclass(frozen=True)
class DefaultSet:
    """A set, and the words of the command beside its rows.

    Attributes
    ----------
    name : str
    table : TableSet or None
        A table, which is divided into files of training and test rows.
    dataset : str
        A known data set with files of its own (LIBSVM text), where there is no table.
    words : str
        Options beside input and label.
    figure : str
        What is compared.
    """

    name: str
    figure: str
    table: TableSet | None = None
    dataset: str = ""
    words: str = ""

    def command(self, folder: Path, options: Options) -> list[str]:
        """Words of the command of a run, after ``python -m flows.batch``."""
        if self.table is None:
            return ["--dataset", self.dataset, "--data-dir", str(options.data_dir), *self.words.split()]
        sides = ["--input", str(folder / TRAIN), "--test-input", str(folder / TEST)]
        return [*sides, "--label", self.table.label, *self.words.split()]


def _of(name: str, figure: str, words: str = "", file_of: str = "", **changes: Any) -> DefaultSet:
    """A set of :data:`~benchmarks.table_sets.SETS`, all rows of it."""
    return DefaultSet(name, figure, replace(SETS[file_of or name], rows=None, categories=(), **changes), words=words)


ALL = (
    DefaultSet("a9a", "roc_auc", dataset="a9a"),
    DefaultSet("w8a", "roc_auc", dataset="w8a"),
    DefaultSet("covtype-93k", "roc_auc", dataset="covtype-93k"),
    DefaultSet("usps", "accuracy", dataset="usps"),
    DefaultSet("sector", "accuracy", dataset="sector"),
    _of("electricity", "roc_auc"),
    _of("kddcup99", "accuracy", least_rows=0),
    _of("cpu_act", "accuracy", numbers=False, least_rows=0),
    _of("cpu_act-numbers", "r2", "--task regression", "cpu_act"),
    _of("flights-3m-above-15", "roc_auc", "--above 15", "delay-3m"),
    _of("flights-3m", "r2", file_of="delay-3m"),
    _of("flights-late", "roc_auc"),
    _of("adult", "roc_auc"),
    _of("california", "r2"),
    _of("spambase", "roc_auc"),
    _of("ctg", "accuracy"),
)
OURS = "ours"


def run(options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Measure what the folder does not hold yet, and write the table."""
    path = folder / "defaults.json"
    settings = {"quick": options.quick, "threads": options.threads}
    report: dict[str, Any] = {"benchmark": "defaults", "options": settings, "measured": {}}
    if path.exists() and not fresh:
        kept = json.loads(path.read_text(encoding="utf-8"))
        report = kept if kept["options"] == settings else report
    report["machine"] = environment.machine(options.threads, unset)
    known = {of.name: of for of in ALL}
    failed = 0
    for name in options.datasets or known:
        if name not in known:
            raise InputError(f"--datasets: found {name!r}, expected some of {', '.join(known)}")
        of, measured = known[name], report["measured"].setdefault(name, {})
        missing = [side for side in (OURS, LIGHTGBM) if side not in measured]
        if not missing:
            continue
        with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as place:
            if of.table is not None:
                write_sides(of.table, options, 0, Path(place))
            for side in missing:
                found = ours(Path(place), of, options) if side == OURS else theirs(Path(place), of, options)
                failed += "failed" in found
                measured[side] = found
                print(f"{name}: {side}: {_shown(found)}", flush=True)
                path.with_suffix(".partial").write_text(json.dumps(report, indent=1), encoding="utf-8")
                path.with_suffix(".partial").replace(path)
    path.with_suffix(".md").write_text(table(report), encoding="utf-8")
    print(table(report))
    return failed


def ours(place: Path, of: DefaultSet, options: Options) -> dict[str, Any]:
    """Figures and seconds of a run from the command to its end, and what it chose."""
    run_dir = place / "run"
    words = of.command(place, options)
    command = [sys.executable, "-m", "flows.batch", *words, "--run-dir", str(run_dir), "--quiet"]
    command += ["--workers", str(options.threads)]
    if options.quick:
        command += ["--t", "10", "--cv-rows", "300"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    seconds = time.perf_counter() - began
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no word"])[-1]}
    metrics = json.loads((run_dir / "metrics.json").read_text(encoding="utf-8"))
    ((learner, about),) = metrics["learners"].items()
    chosen = {"learner": learner, "psi": metrics["params"]["psi"], "C": metrics["params"].get("C")}
    return {"seconds": seconds, **{key: about[key] for key in FIGURES if about.get(key) is not None}, **chosen}


def theirs(place: Path, of: DefaultSet, options: Options) -> dict[str, Any]:
    """Figures and seconds of LightGBM, in a process of its own for a table."""
    if of.table is None:
        return _on_files(of.dataset, options)
    asked = of.table
    if of.words.startswith("--above"):  # the label of both files is the number
        _above(place, asked.label, float(of.words.split()[1]))
        asked = replace(asked, numbers=False)
    return peer(place, asked, LIGHTGBM, replace(options, limit=PATIENCE / TIMES))


def _above(place: Path, label: str, least: float) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for name in (TRAIN, TEST):
        table = pq.read_table(place / name)
        classes = pc.cast(pc.greater(table.column(label), least), pa.int64())
        pq.write_table(table.set_column(table.column_names.index(label), label, classes), place / name)


def _on_files(name: str, options: Options) -> dict[str, Any]:
    """LightGBM on the rows of a known data set, as sparse rows."""
    from benchmarks.data import load

    lightgbm = peers.find("lightgbm")
    if lightgbm is None:
        return {"missing": "lightgbm is not installed (make bench)"}
    data = load(name, options)
    began = time.perf_counter()
    model = lightgbm.LGBMClassifier(n_jobs=options.threads, random_state=0, verbose=-1).fit(data.X, data.y)
    predicted = np.asarray(model.predict_proba(data.X_test))
    seconds = time.perf_counter() - began
    classes, y = np.unique(data.y_test, return_inverse=True)
    return {"seconds": seconds, **figures(y, predicted, classes)}


def _shown(found: dict[str, Any]) -> str:
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in found.items()
    )


def table(report: dict[str, Any]) -> str:
    """Markdown: a line for each set."""
    lines = [f"### {TITLE}", "", f"{ABOUT[0].upper()}{ABOUT[1:]}.", ""]
    lines += ["| set | figure | ours | LightGBM | difference | learner, psi, C | seconds | LightGBM, seconds |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    known = {of.name: of for of in ALL}
    for name, measured in report["measured"].items():
        if OURS not in measured:
            continue
        key, mine, peer_of = known[name].figure, measured[OURS], measured.get(LIGHTGBM, {})
        cells = [name, FIGURES[key], *(_number(side.get(key)) or why(side) for side in (mine, peer_of))]
        both = key in mine and key in peer_of
        cells.append(f"{mine[key] - peer_of[key]:+.4f}" if both else "")
        cells.append(", ".join(str(mine[word]) for word in ("learner", "psi", "C") if word in mine))
        cells += [f"{side['seconds']:.0f}" if "seconds" in side else "" for side in (mine, peer_of)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"Measured on: {environment.describe(report['machine'])}", ""])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
