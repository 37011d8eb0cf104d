"""Tables as they come: runs of ours beside boosted trees and linear models, on the same rows of the same splits."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.harness import ROOT, Options
from benchmarks.table_peers import BUDGETS, CATBOOST, FLAML, LIGHTGBM, PARTS, PEERS, STOPPING, figures
from benchmarks.table_sets import SETS, TEST, TRAIN, USUAL, TableSet, is_missing, sets_of, write_sides
from pipeline.errors import InputError

TITLE = "Tables as they come"
ABOUT = (
    "runs from files with words, dates and missing cells to test figures, beside LightGBM, XGBoost, CatBoost, "
    "HistGradientBoosting and linear models on the same rows: area, R2, accuracy, log loss, RMSE and seconds"
)
DEFAULT, IFOREST, FOREST, GIVEN = "default", "iforest", "forest", "given"
BOOSTING, BOOSTERS, STACK = "boosting", "stack-boosting", "stack"
SLOWER = "boosting-0.05"
OURS = {
    DEFAULT: "",
    IFOREST: "--partitioner iforest --t 300 --learner {linear}",
    FOREST: "--partitioner forest --learner {linear}",
    BOOSTING: "--learner boosting",
    SLOWER: f"--learner boosting --shrinkage {STOPPING['learning_rate']} --rounds {STOPPING['n_estimators']}",
    BOOSTERS: "--learner stacking --base-models boosting",
    STACK: "--learner stacking",
    GIVEN: "--partitioner iforest --learner {linear} {options}",
    **{f"{DEFAULT}-{seconds}": f"--budget {seconds}" for seconds in BUDGETS},
}
"""Options of our sides beside input, label, task and categories. {linear} is logistic, or ridge for numbers."""
QUICK = {
    DEFAULT: "--cv-rows 300 --budget 2",
    IFOREST: "--t 20",
    FOREST: "--t 20",
    BOOSTING: "--rounds 20",
    SLOWER: "--rounds 20",
    BOOSTERS: "--rounds 20",
    STACK: "--rounds 20 --t 20",
}
SIDES = (*OURS, *PEERS)
ANYTIME = (*(f"{DEFAULT}-{seconds}" for seconds in BUDGETS), *FLAML)
"""Sides that are given a number of seconds: they are measured only if they are named (`benchmarks.budgets` does)."""
AGAINST = (LIGHTGBM, CATBOOST)
SPLITS = 5
USUAL_CAPPED = ("shared", "public")
PATIENCE = 20
"""A side is given up after so many times ``--limit``."""
FIGURES = {"roc_auc": "ROC AUC", "accuracy": "accuracy", "log_loss": "log loss", "rmse": "RMSE", "r2": "R2"}
TIE = 0.0005
"""Figures that are so near each other are a tie."""

type Measured = dict[str, dict[str, dict[str, dict[str, Any]]]]
"""Figures by table, number of the split and side."""


def run(options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Measure what the folder does not hold yet, and write the tables.

    With capped rows (``--rows``) the report is ``table_splits.json``; with all rows it is ``tables.json``.
    """
    path = folder / ("table_splits.json" if options.rows else "tables.json")
    return measure("tables", (TITLE, ABOUT), options, path, unset=unset, fresh=fresh)


def measure(
    benchmark: str, head: tuple[str, str], options: Options, path: Path, *, unset: list[str], fresh: bool
) -> int:
    """Measure what the report does not hold yet, and write it beside its tables.

    Sides that failed, or that this build or machine does not have, are tried again.

    Parameters
    ----------
    benchmark : str
        Name of the command that measures it.
    head : tuple of str
        Title of the tables, and what they are about.

    Returns
    -------
    int
        Number of sides that failed.
    """
    settings = {"quick": options.quick, "threads": options.threads, "rows": options.rows}
    report: dict[str, Any] = {"benchmark": benchmark, "options": settings, "measured": {}}
    if path.exists() and not fresh:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["options"] != settings:
            raise InputError(
                f"{path}: found figures measured with {_shown(kept['options'])}, expected {_shown(settings)}; "
                "choose another folder (--output), or measure again (--fresh)"
            )
        report = kept
    report["machine"] = environment.machine(options.threads, unset)
    if unknown := [side for side in options.sides if side not in SIDES]:
        raise InputError(f"--sides: found {unknown[0]!r}, expected some of {', '.join(SIDES)}")
    failed = 0
    for of, seed in splits_of(_present(options), options):
        measured = report["measured"].setdefault(of.name, {}).setdefault(str(seed), {})
        missing = [
            side for side in sides_of(of, options) if not measured.get(side, {}).keys() & {"seconds", "given_up"}
        ]
        if not missing:
            continue
        with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as place:
            write_sides(of, options, seed, Path(place), options.rows)
            for side in missing:
                measured[side] = _given_up(report["measured"][of.name], side) or (
                    ours(Path(place), of, side, options) if side in OURS else peer(Path(place), of, side, options)
                )
                failed += "failed" in measured[side]
                print(f"{of.name}, split {seed}: {side}: {_shown(measured[side])}", flush=True)
                _write(path, report, head)
    _write(path, report, head)
    return failed


def _write(path: Path, report: dict[str, Any], head: tuple[str, str]) -> None:
    """Write the report and its tables, so that the command can be stopped at any moment and given again."""
    path.with_suffix(".partial").write_text(json.dumps(report, indent=1), encoding="utf-8")
    path.with_suffix(".partial").replace(path)
    path.with_suffix(".md").write_text(table(report, *head), encoding="utf-8")


def _present(options: Options) -> list[TableSet]:
    """Return the tables that are measured; print which public ones are not there, and how to bring them.

    Raises
    ------
    InputError
        None of the tables is there.
    """
    wanted = sets_of(options.datasets or (USUAL_CAPPED if options.rows else USUAL))
    absent = [of for of in wanted if is_missing(of, options)]
    commands = dict.fromkeys(of.source.how(options.tables_dir) for of in absent if of.source is not None)
    if absent:
        names = ", ".join(of.name for of in absent)
        text = f"not in {options.tables_dir} (--tables-dir): {names}; to bring them: {' && '.join(commands)}"
        if len(absent) == len(wanted):
            raise InputError(text)
        print(text, flush=True)
    return [of for of in wanted if of not in absent]


def splits_of(tables: list[TableSet], options: Options) -> Iterator[tuple[TableSet, int]]:
    """Yield each table with its first split, then each with its second, and so on."""
    count = {of.name: 1 if options.quick else options.splits or (SPLITS if options.rows else of.seeds) for of in tables}
    for seed in range(max(count.values(), default=0)):
        yield from ((of, seed) for of in tables if seed < count[of.name])


def sides_of(of: TableSet, options: Options) -> list[str]:
    """Return the names of the sides that are measured on a table."""
    sides = [side for side in SIDES if side in options.sides or (not options.sides and side not in ANYTIME)]
    if not of.options:
        sides = [side for side in sides if side != GIVEN]
    return sides if of.file.startswith("flights-3m") else [side for side in sides if side != PARTS]


def _given_up(by_split: dict[str, dict[str, Any]], side: str) -> dict[str, Any] | None:
    """Return what an earlier split says of a side that was given up there: it is not waited for once more."""
    return next((sides[side] for sides in by_split.values() if "given_up" in sides.get(side, {})), None)


def command_of(of: TableSet, side: str, train: str, test: str, options: Options) -> list[str]:
    """Return the words of the command of a run of ours, after ``python -m flows.batch``."""
    words = ["--input", train, "--test-input", test, "--label", of.label]
    words += ["--task", "regression"] if of.numbers else []
    words += ["--category", ",".join(of.categories)] if of.categories else []
    words += ["--split-by", f"time:{of.time}"] if of.time else []
    words += OURS[side].format(linear="ridge" if of.numbers else "logistic", options=of.options).split()
    return [*words, *QUICK.get(side, "").split()] if options.quick else words


def lacked(words: list[str]) -> str:
    """Return the learner or partitioner of a command that this build does not have; empty: it has them."""
    from ikmap.methods import LEARNERS, MAPS

    given = dict(pairwise(words))
    known: dict[str, Container[str]] = {"--learner": LEARNERS, "--partitioner": MAPS}
    return next((f"{key} {given[key]}" for key, names in known.items() if key in given and given[key] not in names), "")


def ours(place: Path, of: TableSet, side: str, options: Options) -> dict[str, Any]:
    """Return the figures and seconds of a run, from the command to its end."""
    run_dir = place / f"run-{side}"
    words = command_of(of, side, str(place / TRAIN), str(place / TEST), options)
    if lacking := lacked(words):
        return {"missing": f"this build has no {lacking}"}
    words += ["--run-dir", str(run_dir), "--quiet", "--workers", str(options.threads)]
    done = _run(["-m", "flows.batch", *words], options)
    if isinstance(done, dict):
        return done
    metrics = json.loads((run_dir / "metrics.json").read_text(encoding="utf-8"))
    ((learner, about),) = metrics["learners"].items()
    known = {key: about[key] for key in FIGURES if about.get(key) is not None}
    if "log_loss" in known and len(about["labels"]) > 2:
        known = _by_probabilities(run_dir, place, of)
    return {"seconds": metrics["run"]["seconds"], **known, "learner": learner}


def _by_probabilities(run_dir: Path, place: Path, of: TableSet) -> dict[str, float]:
    """Return the figures of more than two classes by the probabilities of the model, as those of peers are found.

    The run finds the area by its decisions, whose order over rows of several classes may be another one.
    """
    import pyarrow.parquet as pq

    from ikmap import load

    rows, model = pq.read_table(place / TEST), load(run_dir)
    classes = np.asarray(model.classes_)  # type: ignore[attr-defined]
    order = np.argsort(classes)
    y = np.searchsorted(classes[order], rows.column(of.label).to_numpy())
    return figures(y, model.predict_proba(rows.drop_columns([of.label]))[:, order], classes)


def peer(place: Path, of: TableSet, side: str, options: Options) -> dict[str, Any]:
    """Return the figures and seconds of a peer, which has a process of its own."""
    about = {"peer": side, "label": of.label, "numbers": of.numbers, "categories": of.categories}
    about["threads"] = options.threads
    done = _run(["-m", "benchmarks.table_peers", str(place), json.dumps(about)], options)
    if isinstance(done, dict):
        return done
    found: dict[str, Any] = json.loads(done.splitlines()[-1])
    return found


def _run(words: list[str], options: Options) -> str | dict[str, Any]:
    """Return what a Python process prints, or why it prints nothing."""
    most = PATIENCE * options.limit
    try:
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, check=False, cwd=ROOT, timeout=most
        )
    except subprocess.TimeoutExpired:
        return {"given_up": f"given up after {most:g} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no word"])[-1]}
    return done.stdout


def why(found: dict[str, Any]) -> str:
    """Return why a side has no figures; empty: it has."""
    return str(next((found[key] for key in ("failed", "missing", "given_up") if key in found), ""))


def _shown(found: dict[str, Any]) -> str:
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in found.items()
    )


def table(report: dict[str, Any], title: str = TITLE, about: str = ABOUT) -> str:
    """Return Markdown: how each side does against LightGBM and CatBoost, then its figures on each table."""
    measured: Measured = report["measured"]
    sides = [side for side in SIDES if any(side in found for by in measured.values() for found in by.values())]
    lines = [f"### {title}", "", f"{about[0].upper()}{about[1:]}.", ""]
    head = ["side", "tables"]
    for other in AGAINST:
        head += [f"wins, ties, losses against {other}", f"worst against {other}"]
    lines += [_line([*head, "median seconds"]), _line(["---"] * (len(head) + 1))]
    lines += [_line(_summary(measured, side)) for side in sides]
    head = ["table", "side", "splits", "ROC AUC", "R2", *(f"less {other}" for other in AGAINST)]
    head += ["accuracy", "log loss", "RMSE", "seconds"]
    lines += ["", _line(head), _line(["---"] * len(head))]
    lines += [_line(_figures(name, by, side)) for name, by in measured.items() for side in sides if _has(by, side)]
    notes = [
        "Means over splits ± their standard error. 'Less' is the ROC AUC, or the R2 of numbers, less that of another "
        "side on the same splits; wins, ties and losses count tables by it, and differences below "
        f"{TIE} are ties. Of more than two classes the ROC AUC is the mean over each against the rest.",
        *(f"{_name(side)}: {_described(side)}" for side in sides),
    ]
    machine = f"Measured on: {environment.describe(report['machine'])}"
    return "\n".join([*lines, "", *(f"- {note}" for note in notes), "", machine, ""])


def _described(side: str) -> str:
    if side in PEERS:
        return PEERS[side]
    words = OURS[side].format(linear="logistic", options="OPTIONS")
    given = "; ".join(f"{of.name} `{of.options}`" for of in SETS.values() if of.options)
    text = f"`{words}` (numbers: ridge)" if "{linear}" in OURS[side] else f"`{words}`" if words else "no option beside"
    return f"{text}; OPTIONS are {given}" if side == GIVEN else text


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _name(side: str) -> str:
    return f"**{side}**" if side in OURS else side


def _has(by_split: dict[str, dict[str, Any]], side: str) -> bool:
    return any(side in found for found in by_split.values())


def main_figure(found: dict[str, Any]) -> float | None:
    """Return what sides are compared by: R2 of numbers, else the area."""
    value: float | None = found.get("r2", found.get("roc_auc"))
    return value


def differences(by_split: dict[str, dict[str, Any]], side: str, other: str) -> list[float]:
    """Return the figure of a side less that of another, for each split that both have."""
    pairs = [(main_figure(found.get(side, {})), main_figure(found.get(other, {}))) for found in by_split.values()]
    return [mine - theirs for mine, theirs in pairs if mine is not None and theirs is not None]


def _summary(measured: Measured, side: str) -> list[str]:
    seconds = [float(np.mean(values)) for by in measured.values() if (values := _values(by, side, "seconds"))]
    cells = [_name(side), str(len(seconds))]
    for other in AGAINST:
        means = [float(np.mean(values)) for by in measured.values() if (values := differences(by, side, other))]
        wins, losses = sum(mean >= TIE for mean in means), sum(mean <= -TIE for mean in means)
        cells += (
            [f"{wins}, {len(means) - wins - losses}, {losses}", f"{min(means):+.4f}"]
            if means and side != other
            else ["", ""]
        )
    return [*cells, f"{median(seconds):.3g}" if seconds else ""]


def _figures(name: str, by_split: dict[str, dict[str, Any]], side: str) -> list[str]:
    found = [sides[side] for sides in by_split.values() if side in sides]
    splits = len(_values(by_split, side, "seconds"))
    if not splits:
        return [name, _name(side), "0", next((text for one in found if (text := why(one))), ""), *[""] * 7]
    shown = {key: _mean(_values(by_split, side, key)) for key in FIGURES}
    less = ["" if side == other else _mean(differences(by_split, side, other), "+") for other in AGAINST]
    cells = [name, _name(side), str(splits), shown["roc_auc"], shown["r2"], *less]
    seconds = f"{np.mean(_values(by_split, side, 'seconds')):.3g}"
    return [*cells, shown["accuracy"], shown["log_loss"], shown["rmse"], seconds]


def _values(by_split: dict[str, dict[str, Any]], side: str, key: str) -> list[float]:
    return [sides[side][key] for sides in by_split.values() if key in sides.get(side, {})]


def _mean(values: list[float], sign: str = "") -> str:
    """Return the mean and its standard error."""
    if not values:
        return ""
    spread = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):{sign}.4f}{spread}"
