"""Tables as they come: runs of ours beside boosted trees and linear models, all on the same rows, in turns."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.harness import ROOT, Options
from benchmarks.table_peers import PARTS, PEERS
from benchmarks.table_sets import SETS, TEST, TRAIN, USUAL, TableSet, write_sides

TITLE = "Tables as they come"
ABOUT = (
    "runs from files with words, dates and missing cells to test figures, beside LightGBM and CatBoost with their "
    "defaults and categories, and linear models on one-hot columns: area, accuracy, log loss, RMSE and seconds"
)
DEFAULT, GIVEN = "ours, default options", "ours, options given"
OURS = (DEFAULT, GIVEN)
PATIENCE = 4
"""A peer is given up after so many times ``--limit``."""
FIGURES = {"roc_auc": "ROC AUC", "accuracy": "accuracy", "log_loss": "log loss", "rmse": "RMSE", "r2": "R2"}


def run(options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Measure what the folder does not hold yet, and write the table."""
    path = folder / "tables.json"
    settings = {"quick": options.quick, "threads": options.threads}
    report: dict[str, Any] = {"benchmark": "tables", "options": settings, "measured": {}}
    if path.exists() and not fresh:
        kept = json.loads(path.read_text(encoding="utf-8"))
        report = kept if kept["options"] == settings else report
    report["machine"] = environment.machine(options.threads, unset)
    failed = 0
    for name in options.datasets or USUAL:
        of = SETS[name]
        for seed in range(1 if options.quick else of.seeds):
            measured = report["measured"].setdefault(name, {}).setdefault(str(seed), {})
            missing = [side for side in sides_of(of) if side not in measured]
            if not missing:
                continue
            with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as place:
                write_sides(of, options, seed, Path(place))
                for side in missing:
                    found = (
                        ours(Path(place), of, side, options) if side in OURS else peer(Path(place), of, side, options)
                    )
                    failed += "failed" in found
                    measured[side] = found
                    print(f"{name}, seed {seed}: {side}: {_shown(found)}", flush=True)
                    path.with_suffix(".partial").write_text(json.dumps(report, indent=1), encoding="utf-8")
                    path.with_suffix(".partial").replace(path)
    path.with_suffix(".md").write_text(table(report), encoding="utf-8")
    return failed


def sides_of(of: TableSet) -> list[str]:
    """Names of what is measured on a table."""
    given = [GIVEN] if of.options else []
    return [DEFAULT, *given, *(peer for peer in PEERS if peer != PARTS or of.file.startswith("flights-3m"))]


def command_of(of: TableSet, side: str, train: str, test: str, options: Options) -> list[str]:
    """Words of the command of a run of ours, after ``python -m flows.batch``."""
    learner = "ridge" if of.numbers else "logistic"
    words = ["--input", train, "--test-input", test, "--label", of.label, "--partitioner", "iforest"]
    words += ["--learner", learner, *(["--task", "regression"] if of.numbers else [])]
    words += ["--category", ",".join(of.categories)] if of.categories else []
    words += ["--split-by", f"time:{of.time}"] if of.time else []
    if side == GIVEN:
        return [*words, *of.options.split()]
    return [*words, "--t", "20", "--cv-rows", "500"] if options.quick else words


def ours(place: Path, of: TableSet, side: str, options: Options) -> dict[str, Any]:
    """Figures and seconds of a run: from the command to its end."""
    run_dir = place / f"run-{OURS.index(side)}"
    words = command_of(of, side, str(place / TRAIN), str(place / TEST), options)
    command = [sys.executable, "-m", "flows.batch", *words, "--run-dir", str(run_dir), "--quiet"]
    command += ["--workers", str(options.threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no word"])[-1]}
    metrics = json.loads((run_dir / "metrics.json").read_text(encoding="utf-8"))
    (about,) = metrics["learners"].values()
    return {"seconds": metrics["run"]["seconds"], **{key: about[key] for key in FIGURES if about.get(key) is not None}}


def peer(place: Path, of: TableSet, side: str, options: Options) -> dict[str, Any]:
    """Figures and seconds of a peer, which has a process of its own."""
    about = {"peer": side, "label": of.label, "numbers": of.numbers, "categories": of.categories}
    about["threads"] = options.threads
    command = [sys.executable, "-m", "benchmarks.table_peers", str(place), json.dumps(about)]
    most = PATIENCE * options.limit
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=most)
    except subprocess.TimeoutExpired:
        return {"missing": f"given up after {most:g} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no word"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _shown(found: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in found.items())


def table(report: dict[str, Any]) -> str:
    """Markdown: of each table the mean figures of each side over the splits, with their standard deviation."""
    lines = [f"### {TITLE}", "", f"{ABOUT[0].upper()}{ABOUT[1:]}.", ""]
    lines += [
        "| table | side | " + " | ".join((*FIGURES.values(), "seconds")) + " |",
        "|---" * (3 + len(FIGURES)) + "|",
    ]
    for name, by_seed in report["measured"].items():
        for side in [*OURS, *PEERS]:
            found = [measured[side] for measured in by_seed.values() if side in measured]
            if not found:
                continue
            said = next((one.get("failed") or one.get("missing") for one in found if "seconds" not in one), None)
            cells = [said or ""] + [""] * len(FIGURES)
            if said is None:
                cells = [_mean([one.get(key) for one in found]) for key in (*FIGURES, "seconds")]
            said_of = f": `{SETS[name].options}`" if side == GIVEN else ""
            who = f"**{side}**{said_of}" if side in OURS else side
            lines.append(f"| {name} | {who} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"Measured on: {environment.describe(report['machine'])}", ""])


def _mean(values: list[float | None]) -> str:
    there = [value for value in values if value is not None]
    if not there:
        return ""
    spread = f" ± {np.std(there, ddof=1):.1g}" if len(there) > 1 else ""
    return f"{np.mean(there):.4g}{spread}"
