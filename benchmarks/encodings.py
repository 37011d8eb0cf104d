"""How columns are best encoded: every encoding of numbers and of words, on every table, by cross-validation.

``--encode-numbers auto`` and ``--encode-categories auto`` do what this table says (docs/tables.md).
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline

from benchmarks import environment
from benchmarks.harness import Options
from benchmarks.table_sets import SETS, TableSet, read_table
from ikmap import CellLogisticRegression, CellRidge, IsolationKernelMap, TableEncoder
from ikmap.tables import CATEGORY
from ikmap.tables.words import CATEGORIES, NUMBERS, TIMES

TITLE = "Encodings"
ABOUT = (
    "ROC AUC (of more classes the mean over each against the rest) or R2 of numbers, by three of five folds of up to "
    "20,000 rows, of logistic regression or ridge on cells; encoder and map are fitted to the rows learned from only"
)
ROWS, FOLDS, USED = 20_000, 5, 3
MAPS: dict[str, dict[str, Any]] = {
    "iforest": {"method": "iforest", "n_estimators": 200, "max_samples": 256, "max_depth": "log2"},
    "anne": {"method": "anne", "n_estimators": 100, "max_samples": 64},
}
C, ALPHA = 2.0, 0.5
USUAL = (
    "adult", "california", "kddcup99", "flights", "delay", "cpu_act", "electricity", "spambase", "ctg", "flights-late",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """An encoding on a table: `what` is numbers, categories or times."""

    map: str
    what: str
    encoding: str

    @property
    def key(self) -> str:
        return f"{self.map}, {self.what}, {self.encoding}"


def trials(kinds: set[str]) -> Iterator[Trial]:
    """All that make a difference to a table with columns of these kinds."""
    for name in MAPS:
        for what, words in (("number", NUMBERS), (CATEGORY, CATEGORIES), ("time", TIMES)):
            if what in kinds:
                yield from (Trial(name, what, word) for word in ("auto", *words))


def run(options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Measure what the folder does not hold yet, and write the table."""
    path = folder / "encodings.json"
    settings = {"quick": options.quick}
    report: dict[str, Any] = {"benchmark": "encodings", "options": settings, "measured": {}}
    if path.exists() and not fresh:
        kept = json.loads(path.read_text(encoding="utf-8"))
        report = kept if kept["options"] == settings else report
    report["machine"] = environment.machine(options.threads, unset)
    for name in options.datasets or USUAL:
        measured = report["measured"].setdefault(name, {})
        frame, y = frame_of(SETS[name], options)
        encoder = encoder_of(SETS[name], Trial("iforest", "", "")).fit(frame, y)
        kinds = {column.kind for column in encoder.encoder_.columns}
        for trial in trials(kinds):
            if trial.key in measured:
                continue
            began = time.perf_counter()
            measured[trial.key] = score(SETS[name], trial, frame, y, 1 if options.quick else USED)
            print(
                f"{name}: {trial.key}: {np.mean(measured[trial.key]):.4f}, {time.perf_counter() - began:.2f} s",
                flush=True,
            )
            path.with_suffix(".partial").write_text(json.dumps(report, indent=1), encoding="utf-8")
            path.with_suffix(".partial").replace(path)
    path.with_suffix(".md").write_text(table(report), encoding="utf-8")
    return 0


def frame_of(of: TableSet, options: Options) -> tuple[Any, np.ndarray]:
    """Columns and labels of up to 20,000 rows."""
    table = read_table(of, options, 1000 if options.quick else ROWS)
    y = table.column(of.label).to_numpy()
    return table.drop_columns([of.label]), y.astype(np.float64) if of.numbers else y


def encoder_of(of: TableSet, trial: Trial) -> TableEncoder:
    """The encoder of a trial."""
    words = {"number": "numbers", CATEGORY: "categories", "time": "times"}
    given: dict[str, Any] = {words[trial.what]: trial.encoding} if trial.what else {}
    columns = {name: {"kind": CATEGORY} for name in of.categories}
    return TableEncoder(**given, columns=columns)


def score(of: TableSet, trial: Trial, frame: Any, y: np.ndarray, used: int) -> list[float]:
    """Of each fold that is used."""
    isolation = IsolationKernelMap(**MAPS[trial.map], random_state=0)
    learner = CellRidge(alpha=ALPHA) if of.numbers else CellLogisticRegression(C=C)
    model = make_pipeline(encoder_of(of, trial), isolation, learner)
    kind = KFold if of.numbers else StratifiedKFold
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folds = list(kind(FOLDS, shuffle=True, random_state=0).split(y, y))[:used]
        for fit, held in folds:
            fitted = clone(model).fit(frame.take(fit), y[fit])
            found.append(_figure(of, fitted, frame.take(held), y[held]))
    return found


def _figure(of: TableSet, fitted: Any, frame: Any, y: np.ndarray) -> float:
    if of.numbers:
        return float(r2_score(y, fitted.predict(frame)))
    decision, classes = fitted.decision_function(frame), fitted.classes_
    if classes.size == 2:
        return float(roc_auc_score(y == classes[1], decision))
    there = [k for k in range(classes.size) if 0 < (y == classes[k]).sum() < y.size]
    return float(np.mean([roc_auc_score(y == classes[k], decision[:, k]) for k in there]))


def table(report: dict[str, Any]) -> str:
    """Markdown: a row for each table and map, a column for each encoding; the best of each kind in bold."""
    lines = [f"### {TITLE}", "", f"{ABOUT[0].upper()}{ABOUT[1:]}.", ""]
    for what, words in (("number", NUMBERS), (CATEGORY, CATEGORIES), ("time", TIMES)):
        lines += ["", f"| {what}s | map | " + " | ".join(("auto", *words)) + " |", "|---" * (3 + len(words)) + "|"]
        lines[-2] = lines[-2].replace("categorys", "categories")
        for name, measured in report["measured"].items():
            for kind in MAPS:
                keys = [Trial(kind, what, word).key for word in ("auto", *words)]
                means = [float(np.mean(measured[key])) if key in measured else np.nan for key in keys]
                if not np.isnan(means).all():
                    best = np.nanmax(means[1:])
                    cells = [f"**{mean:.4f}**" if mean >= best else f"{mean:.4f}" for mean in means]
                    lines.append(f"| {name} | {kind} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"Measured on: {environment.describe(report['machine'])}", ""])
