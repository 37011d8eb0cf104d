"""The test figures of commands that pages quote: what a run of each gives, for each of its learners.

Figures other than seconds depend on no machine: the same command gives the same bits everywhere.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import environment
from benchmarks.harness import ROOT, Options

TITLE = "Runs that pages quote"
ABOUT = "test figures of each learner, by command; seconds of the whole run, from the moment its workers are up"

ADULT = "flows.batch --input adult.csv.gz --label income --partitioner iforest --split-by stratified"
FLIGHTS = "flows.batch --input flights-3m.parquet --label delay --above 15 --partitioner iforest --psi 1024"
PRICES = (
    "flows.online --dataset electricity --order file --initial 2000 --block-rows 50 --partitioner iforest --psi 128"
)

PAPER = "--t 100 --select-by accuracy"
NORMA = "--partitioner anne --t 100 --psi 64 --scale minmax"
OFFSETS = ("", " --offset yes")
SMALL = ("usps", "spambase")
NOVELTY = ("iforest-score", "idk", "idk --scale minmax", "norma")

COMMANDS = (
    "flows.batch",
    f"flows.batch --dataset a9a --partitioner anne --learner svm,ogd {PAPER}",
    f"flows.batch --dataset a9a --partitioner iforest --learner svm,ogd {PAPER}",
    "flows.batch --dataset covtype-93k --psi 4096 --partitioner anne --learner svm,ogd --t 100",
    "flows.batch --dataset covtype-93k --psi 4096 --partitioner iforest --learner svm,ogd --t 100",
    "flows.batch --dataset usps --psi 256 --partitioner anne --learner svm --t 100",
    f"flows.batch --dataset sector --partitioner anne --learner svm,ogd {PAPER}",
    f"{ADULT} --learner logistic",
    f"{ADULT} --learner logistic --psi 1024 --max-depth 5 --t 1000 --C 8",
    f"{ADULT} --learner logistic --psi 1024 --max-depth 5 --t 1000 --C 8 --calibration isotonic",
    f"{ADULT} --learner svm,ogd --psi 1024 --max-depth 5 --t 1000 --C 0.5 --calibration isotonic",
    f"{ADULT} --learner ogd --psi 1024 --max-depth 5 --t 1000 --average --calibration isotonic",
    f"{FLIGHTS} --learner svm,logistic,ogd --svm.C 0.25 --logistic.C 2 --average --calibration isotonic",
    "flows.batch --dataset california --learner ridge --partitioner iforest --psi 512 --C 2 --scale minmax",
    "flows.batch --dataset california --learner ridge --partitioner iforest --psi 512 --C 2 --scale minmax --t 1000",
    "flows.batch --dataset california --learner ridge --partitioner anne --psi 512 --C 2 --scale minmax",
    "flows.batch --dataset california --learner quantile --psi 128 --scale minmax",
    "flows.batch --dataset cpu_act --learner ridge --partitioner iforest --psi 64 --C 8 --scale minmax",
    "flows.batch --dataset cpu_act --learner ridge --partitioner iforest --psi 64 --C 8 --scale minmax --t 1000",
    "flows.batch --dataset cpu_act --learner ridge --partitioner anne --psi 64 --C 8 --scale minmax",
    "flows.batch --dataset cpu_act --learner quantile --psi 128 --scale minmax",
    f"{PRICES} --learner ogd,norma",
    f"{PRICES} --learner ogd,norma --drift adwin --on-drift redraw",
    *(
        f"flows.batch --dataset {name} --learner norma --loss nu --nu 0.1 {NORMA}{offset}"
        for name in SMALL
        for offset in OFFSETS
    ),
    *(f"flows.batch --dataset kddcup99 --task novelty --inliers 11 --learner {name}" for name in NOVELTY),
)
"""The commands, without ``python -m``. All but the first name every method, so that a default may change."""

FIGURES = {
    "accuracy": "accuracy",
    "f1": "F1",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "log_loss": "log loss",
    "calibration_error": "calibration error",
    "calibration_chance": "by chance",
    "r2": "R2",
    "rmse": "RMSE",
    "train_seconds": "train s",
    "predict_seconds": "predict s",
}


def run(options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Run what the folder does not hold yet, and write the table; return the number of commands that failed."""
    path = folder / "runs.json"
    settings = {"quick": options.quick, "threads": options.threads}
    report: dict[str, Any] = {"benchmark": "runs", "options": settings, "measured": {}}
    if path.exists() and not fresh:
        kept = json.loads(path.read_text(encoding="utf-8"))
        report = kept if kept["options"] == settings else report
    report["machine"] = environment.machine(options.threads, unset)
    failed = 0
    for command in COMMANDS[:1] if options.quick else COMMANDS:
        if "failed" in report["measured"].get(command, {"failed": ""}):
            report["measured"][command] = found = figures_of(command, options)
            failed += "failed" in found
            print(f"{command}: {found}", flush=True)
            path.with_suffix(".partial").write_text(json.dumps(report, indent=1), encoding="utf-8")
            path.with_suffix(".partial").replace(path)
    report["measured"] = {command: report["measured"][command] for command in COMMANDS if command in report["measured"]}
    path.with_suffix(".md").write_text(table(report), encoding="utf-8")
    return failed


def figures_of(command: str, options: Options) -> dict[str, Any]:
    """Return the figures of each learner of a run, or why it failed."""
    module, *words = shlex.split(command)
    if "--input" in words:
        at = words.index("--input") + 1
        words[at] = str(options.data_dir / words[at])
    if options.quick:
        words += ["--t", "10", "--psi", "8"]
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as place:
        done = subprocess.run(
            [sys.executable, "-m", module, *words, "--run-dir", f"{place}/run", "--quiet",
             "--data-dir", str(options.data_dir), "--workers", str(options.threads)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return {"failed": (done.stderr.strip().splitlines() or ["no word"])[-1]}
        metrics = json.loads(Path(place, "run", "metrics.json").read_text(encoding="utf-8"))
    return {
        "seconds": metrics["run"]["seconds"],
        "learners": {
            name: {key: about[key] for key in FIGURES if about.get(key) is not None}
            | {"intervals": [[one["nominal"], one["coverage"]] for one in about.get("intervals", [])]}
            for name, about in metrics["learners"].items()
        },
    }


def table(report: dict[str, Any]) -> str:
    """Return the Markdown: a row for each learner of each command."""
    head = ["command", "learner", *FIGURES.values(), "intervals hold", "run s"]
    lines = [f"### {TITLE}", "", f"{ABOUT[0].upper()}{ABOUT[1:]}.", ""]
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for command, found in report["measured"].items():
        if "failed" in found:
            lines.append(f"| `{command}` | {found['failed']} |" + " |" * (len(head) - 2))
        for name, about in found.get("learners", {}).items():
            cells = [_shown(about.get(key)) for key in FIGURES]
            held = "; ".join(f"{100 * share:.3g} % of {100 * asked:g} %" for asked, share in about["intervals"])
            line = [f"`{command}`", f"`{name}`", *cells, held, f"{found['seconds']:.3g}"]
            lines.append("| " + " | ".join(line) + " |")
    return "\n".join([*lines, "", f"Measured on: {environment.describe(report['machine'])}", ""])


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
