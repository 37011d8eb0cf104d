"""Streams whose concept changes: forgetting beside none, a window, starting again at an alarm, and river's learners."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import environment, peers
from benchmarks.data import load
from benchmarks.drift_picture import draw
from benchmarks.harness import Options, as_json
from ikmap.cells import Cells
from ikmap.drift import ADWIN
from ikmap.learners.online.ogd import OGDState
from ikmap.methods import Sample
from ikmap.methods.iforest import IForest
from ikmap.partitioners.redrawn import carry_matrix, seed_of_redraw
from pipeline.streams.redraw import LEAST_ROWS

TITLE = "Drift"
ABOUT = (
    "accuracy of learners on three streams, every row predicted before it is learned from; seconds of predicting and "
    "learning, of one run, and of finding cells where trees are drawn anew. Ours are on t = 100 partitionings by "
    "isolation trees with 128 leaves, drawn from the first 2,000 rows, which all learn from and none is judged by: "
    "`ogd` never forgets; forgetting shrinks its weights by (1 - eta lambda) at each row; a window learns anew from "
    "the last 1,000 rows every 100 rows; at an alarm of ADWIN, `ogd` starts again with the rows in its window, or "
    "half of the trees are drawn anew from the next 1,000 rows, as `--on-drift redraw` does it: what was learned is "
    "carried over to them, or they start with weights of 0. river's learners have their defaults, its logistic "
    "regression on columns standardised as they come. electricity is in time order; the generated stream changes its "
    "concept every 10,000 rows; the moving one keeps its concept, and its rows move elsewhere every 10,000 rows. "
    "Alarms come late by the rows from a change to the first alarm after it"
)
INITIAL, WINDOW, EVERY, BLOCK = 2000, 1000, 100, 10
PSI, T = 128, 100
LAMBDAS = (1e-4, 1e-3, 1e-2)
CONCEPT_ROWS, CONCEPTS = 10_000, 5
CURVE_ROWS = 500
"""The curve is the share of right predictions among so many rows."""


@dataclass(frozen=True)
class Stream:
    """Rows, their classes 0 and 1, and the rows at which the concept is known to change."""

    name: str
    X: np.ndarray
    y: np.ndarray
    changes: tuple[int, ...] = ()


def electricity(options: Options) -> Stream:
    """In time order."""
    data = load("electricity", options)
    X = np.concatenate([data.dense, np.asarray(data.X_test)])
    return Stream("electricity", X, np.concatenate([data.y, data.y_test]).astype(np.int32))


def generated(options: Options) -> Stream:
    """Five columns in [0, 1]; the class is on which side of a sphere a row lies, whose centre jumps; 5 % are wrong."""
    rng = np.random.default_rng(0)
    each = CONCEPT_ROWS // (10 if options.quick else 1)
    n = each * CONCEPTS
    X = rng.random((n, 5))
    concept = np.arange(n) // each
    centres = rng.random((CONCEPTS, 5))
    distance = ((X - centres[concept]) ** 2).sum(axis=1)
    middle = np.array([np.median(distance[concept == k]) for k in range(CONCEPTS)])
    y = (distance < middle[concept]) ^ (rng.random(n) < 0.05)
    return Stream("generated", X, y.astype(np.int32), tuple(each * k for k in range(1, CONCEPTS)))


def moving(options: Options) -> Stream:
    """Five columns; a fine pattern of two of them is the class, and rows move to other parts of it; 5 % are wrong."""
    rng = np.random.default_rng(3)
    each = CONCEPT_ROWS // (10 if options.quick else 1)
    n = each * CONCEPTS
    X = 10.0 * rng.random((CONCEPTS, 5))[np.arange(n) // each] + rng.normal(size=(n, 5))
    y = (np.sin(3.0 * X[:, 0]) + np.sin(3.0 * X[:, 1]) > 0) ^ (rng.random(n) < 0.05)
    return Stream("moving", X, y.astype(np.int32), tuple(each * k for k in range(1, CONCEPTS)))


STREAMS: dict[str, Callable[[Options], Stream]] = {
    "electricity": electricity,
    "generated": generated,
    "moving": moving,
}


# --- ours: what a side predicts of each row after the initial ones, and where it raised an alarm

type Found = tuple[np.ndarray, list[int]]
"""Whether each row was right; rows with alarms."""


FOREST = IForest(t=T, psi=PSI)


def trees_of(rows: np.ndarray) -> Any:
    """Trees of some rows."""
    return FOREST.fit(Sample(rows.shape[0], rows.shape[1], None, rows.__getitem__, 0))


def cells_of(stream: Stream, initial: int) -> Cells:
    """By trees of the initial rows."""
    found: Cells = trees_of(stream.X[:initial]).cells(stream.X, 1).packed()
    return found


def started(cells: Cells) -> OGDState:
    """No row has been learned from."""
    return OGDState.start(int(cells.offsets[-1]), 2, eta=0.5, divisor=float(T))


def never_forgets(cells: Cells, y: np.ndarray, initial: int) -> Found:
    """Every row counts alike."""
    state = started(cells)
    state.partial_fit(cells[:initial], y[:initial])
    predicted = state.partial_fit(cells[initial:], y[initial:]).predicted
    return predicted == y[initial:], []


def forgets(decay: float) -> Callable[[Cells, np.ndarray, int], Found]:
    """The soft margin of NORMA on cells: weights are scaled by one number, which shrinks with every row."""

    def run(cells: Cells, y: np.ndarray, initial: int) -> Found:
        columns, weights = cells.columns().astype(np.int64), np.zeros(int(cells.offsets[-1]))
        scale, offset, eta, predicted = 1.0, 0.0, 0.5, np.zeros(y.size, dtype=np.int32)
        for i, (row, sign) in enumerate(zip(columns, 2 * y - 1, strict=True)):
            f = scale * weights[row].sum() / T + offset
            predicted[i] = f >= 0
            scale *= 1.0 - eta * decay
            if sign * f < 1.0:
                weights[row] += eta * sign / scale
                offset += eta * sign / T
            if scale < 1e-9:
                weights, scale = weights * scale, 1.0
        return predicted[initial:] == y[initial:], []

    return run


def window(cells: Cells, y: np.ndarray, initial: int) -> Found:
    """What there is of the last rows."""
    right = []
    for start in range(initial, y.size, EVERY):
        state, stop = started(cells), min(start + EVERY, y.size)
        since = max(0, start - WINDOW)
        state.partial_fit(cells[since:start], y[since:start])
        right.append(state.partial_fit(cells[start:stop], y[start:stop]).predicted == y[start:stop])
    return np.concatenate(right), []


def starts_again(cells: Cells, y: np.ndarray, initial: int) -> Found:
    """At an alarm, with the rows that ADWIN's window still holds."""
    state, detector = started(cells), ADWIN()
    state.partial_fit(cells[:initial], y[:initial])
    right, alarms = [], []
    for start in range(initial, y.size, BLOCK):
        stop = min(start + BLOCK, y.size)
        found = state.partial_fit(cells[start:stop], y[start:stop]).predicted == y[start:stop]
        right.append(found)
        if detector.update(1.0 - found).size:
            alarms.append(stop)
            state, since = started(cells), max(0, stop - detector.width)
            state.partial_fit(cells[since:stop], y[since:stop])
    return np.concatenate(right), alarms


def draws_anew(stream: Stream, initial: int, *, carried: bool) -> Found:
    """After an alarm, half of the trees, from the rows that follow; what was learned is carried over, or is not."""
    X, y, trees = stream.X, stream.y, trees_of(stream.X[:initial])
    state, detector = started(trees.cells(X[:1], 1)), ADWIN()
    state.partial_fit(trees.cells(X[:initial], 1).packed(), y[:initial])
    right, alarms, since, number = [], [], None, 0
    for start in range(initial, y.size, BLOCK):
        stop = min(start + BLOCK, y.size)
        found = state.partial_fit(trees.cells(X[start:stop], 1).packed(), y[start:stop]).predicted == y[start:stop]
        right.append(found)
        alarmed = detector.update(1.0 - found).size > 0
        if alarmed:
            alarms.append(stop)
        if since is None:
            since = stop if alarmed else None
        elif stop - since >= LEAST_ROWS:
            recent, since, number = X[since:stop], None, number + 1
            sample = Sample(recent.shape[0], recent.shape[1], None, recent.__getitem__, seed_of_redraw(0, number))
            new, drawn = FOREST.redrawn(trees, sample, number)
            matrix = carry_matrix(trees.cells(recent, 1), new.cells(recent, 1), drawn)
            if not carried:
                matrix.data[np.repeat(np.repeat(drawn, np.diff(new.offsets)), np.diff(matrix.indptr))] = 0.0
            state.carry(matrix, new.offsets)
            trees = new
    return np.concatenate(right), alarms


def of_trees() -> Iterator[tuple[str, Callable[[Stream, int], Found]]]:
    """Whose cells become others."""
    yield "ogd, half of the trees drawn anew after an alarm", partial(draws_anew, carried=True)
    yield "the same, new trees start with weights of 0", partial(draws_anew, carried=False)


def ours() -> Iterator[tuple[str, Callable[[Cells, np.ndarray, int], Found]]]:
    yield "ogd, never forgets", never_forgets
    for decay in LAMBDAS:
        yield f"forgetting, lambda = {decay:g}", forgets(decay)
    yield f"window of {WINDOW:,} rows", window
    yield "ogd, starts again at an alarm", starts_again


# --- river


def of_river() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Learners that watch their losses with ADWIN, and one that does not."""
    if peers.find("river") is None:
        print("drift: river is not installed (make bench), it is left out")
        return
    from river import ensemble, forest, linear_model, preprocessing, tree

    yield "river LogisticRegression", lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression()
    yield "river HoeffdingAdaptiveTree", lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0)
    yield "river ADWINBagging of trees", lambda: ensemble.ADWINBaggingClassifier(tree.HoeffdingTreeClassifier(), seed=0)
    yield "river ARFClassifier", lambda: forest.ARFClassifier(seed=0)


def by_river(make: Callable[[], Any], stream: Stream, initial: int) -> tuple[np.ndarray, float]:
    """Whether each row was right, and the seconds of predicting and learning."""
    model, right, seconds = make(), np.zeros(stream.y.size, dtype=bool), 0.0
    for i, (row, label) in enumerate(zip(stream.X.tolist(), stream.y.tolist(), strict=True)):
        x = dict(enumerate(row))
        began = time.perf_counter()
        right[i] = bool(model.predict_one(x)) == bool(label)
        model.learn_one(x, bool(label))
        seconds += time.perf_counter() - began
    return right[initial:], seconds


def cuts_of_river(losses: list[float]) -> list[int] | None:
    """Where river's ADWIN finds a change, for better or worse, after which it starts afresh; None: it is not there."""
    if peers.find("river") is None:
        return None
    from river.drift import ADWIN as Theirs

    detector, found = Theirs(), []
    for i, loss in enumerate(losses):
        detector.update(loss)
        if detector.drift_detected:
            found.append(i)
    return found


def cuts_as_river(losses: list[float]) -> list[int]:
    """The same of ours, started afresh after each change too; by itself it keeps the newer part of its window."""
    detector, width, found = ADWIN(), 0, []
    for i, loss in enumerate(losses):
        detector.update(np.array([loss]))
        if detector.width <= width:
            found.append(i)
            detector = ADWIN()
        width = detector.width
    return found


# --- all of it


def run(options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Measure what the folder does not hold yet, write the table, draw."""
    path = folder / "drift.json"
    settings = {"quick": options.quick}
    report: dict[str, Any] = {"benchmark": "drift", "options": as_json(options), "settings": settings, "streams": {}}
    if path.exists() and not fresh:
        kept = json.loads(path.read_text(encoding="utf-8"))
        report["streams"] = kept["streams"] if kept["settings"] == settings else {}
    report["machine"] = environment.machine(options.threads, unset)
    for name in options.datasets or STREAMS:
        stream = STREAMS[name](options)
        initial = min(INITIAL, stream.y.size // 10)
        known = report["streams"].setdefault(name, {"rows": int(stream.y.size), "initial": initial, "sides": {}})
        known["changes"] = list(stream.changes)
        for side, found in _measured(stream, initial, known["sides"]):
            known["sides"][side] = found
            print(f"{name}: {side}: {found['accuracy']:.4f} in {found['seconds']:.2f} s", flush=True)
            path.write_text(json.dumps(report, indent=1), encoding="utf-8")
        if "adwin" not in known:
            known["adwin"] = _compared(cells_of(stream, initial), stream, initial)
    path.write_text(json.dumps(report, indent=1), encoding="utf-8")
    path.with_suffix(".md").write_text(table(report), encoding="utf-8")
    draw(report, folder)
    return 0


def _measured(stream: Stream, initial: int, known: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    cells = cells_of(stream, initial)
    never_forgets(cells[: 2 * initial], stream.y[: 2 * initial], initial)  # compiled now
    for side, work in ours():
        if side not in known:
            began = time.perf_counter()
            right, alarms = work(cells, stream.y, initial)
            yield side, _told(right, time.perf_counter() - began, alarms)
    for side, draws in of_trees():
        if side not in known:
            began = time.perf_counter()
            right, alarms = draws(stream, initial)
            yield side, _told(right, time.perf_counter() - began, alarms)
    for side, make in of_river():
        if side not in known:
            yield side, _told(*by_river(make, stream, initial), [])


def _told(right: np.ndarray, seconds: float, alarms: list[int]) -> dict[str, Any]:
    ends = np.arange(CURVE_ROWS, right.size + 1, CURVE_ROWS)
    sums = np.concatenate([[0], np.cumsum(right)])
    curve = ((sums[ends] - sums[ends - CURVE_ROWS]) / CURVE_ROWS).round(4).tolist()
    about = {"accuracy": float(right.mean()), "seconds": round(seconds, 3), "alarms": alarms}
    return {**about, "ends": ends.tolist(), "curve": curve}


def _compared(cells: Cells, stream: Stream, initial: int) -> dict[str, Any]:
    """Alarms of our ADWIN and of river's in the same losses, those of the learner that never forgets."""
    right, _ = never_forgets(cells, stream.y, initial)
    losses = (1.0 - right).tolist()
    theirs = cuts_of_river(losses)
    mine = (initial + 1 + ADWIN().update(1.0 - right)).tolist()
    return {"alarms": mine, "same_as_river": None if theirs is None else cuts_as_river(losses) == theirs}


def delays(alarms: list[int], changes: list[int]) -> list[int | None]:
    """Rows from each change to the first alarm before the next one."""
    found: list[int | None] = []
    for change, end in zip(changes, [*changes[1:], np.inf], strict=True):
        found.append(next((alarm - change for alarm in alarms if change < alarm <= end), None))
    return found


def table(report: dict[str, Any]) -> str:
    """The Markdown of the benchmark."""
    lines = [f"### {TITLE}", "", f"{ABOUT[0].upper()}{ABOUT[1:]}.", ""]
    lines += ["| stream | learner | accuracy | seconds | alarms |", "|---|---|---|---|---|"]
    for name, about in report["streams"].items():
        for side, found in about["sides"].items():
            alarms = str(len(found["alarms"])) if "alarm" in side or "trees" in side else ""
            lines.append(f"| {name} | {side} | {found['accuracy']:.4f} | {found['seconds']:.2f} | {alarms} |")
    lines.append("")
    for name, about in report["streams"].items():
        found = about.get("adwin", {})
        if not found:
            continue
        said = f"{name}: in the losses of ogd that never forgets, our ADWIN raises {len(found['alarms'])} alarms"
        if about["changes"]:
            late = ", ".join("none" if d is None else str(d) for d in delays(found["alarms"], about["changes"]))
            said += f", after the changes by {late} rows"
        if found["same_as_river"] is not None:
            where = "the same rows" if found["same_as_river"] else "other rows"
            said += f"; started afresh at each change, as river's is, it finds changes at {where} as that"
        lines.append(f"- {said}.")
    return "\n".join([*lines, "", f"Measured on: {environment.describe(report['machine'])}", ""])
