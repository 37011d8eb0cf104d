"""What a benchmark is made of - cases, sides, rows - and how the sides of a case are measured."""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[1]
Relation = Literal[">=", "<="]
PLACES = ("data_dir", "tables_dir")
"""Options that say where files lie; they change no result."""


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes
    ----------
    repeats : int
        Interleaved runs of every side.
    quick : bool
        Small sizes, to see that everything works; the figures mean nothing.
    data_dir : Path
    datasets : tuple of str
        In place of the data sets of the benchmark; empty: those.
    threads : int
        Threads of either side, where it takes a number.
    limit : float
        Seconds after which a side is not run again (it always runs once).
    tables_dir : Path
        Folder of public tables.
    rows : int
        Training rows of a table at most; 0: all.
    splits : int
        Splits of a table into training and test rows; 0: as many as the benchmark has.
    sides : tuple of str
        In place of the sides of the benchmark; empty: those.
    """

    repeats: int = 5
    quick: bool = False
    data_dir: Path = field(default_factory=Path)
    datasets: tuple[str, ...] = ()
    threads: int = 2
    limit: float = 30.0
    tables_dir: Path = field(default_factory=Path)
    rows: int = 20_000
    splits: int = 0
    sides: tuple[str, ...] = ()


class Disagreement(AssertionError):
    """The sides of a case do not give the same result: their times must not be compared."""


@dataclass
class Side:
    """One way to do the work of a case.

    Attributes
    ----------
    name : str
    work : callable, or None where the peer is not installed
        What is timed; returns its result.
    missing : str
        Which package is not installed.
    target, memory_target : float, optional
        Of a peer: it should need at least this many times our seconds, our bytes.
    warm : callable, optional
        Called once before anything is timed: compiles, loads, touches.
    fresh : callable, optional
        Forgets what earlier calls left behind (an index of centres); the call after it is timed apart.
    calibrate : callable, optional
        Untimed, before the timing and after `warm`: finds the setting at which results are comparable, says which.
        None means that there is none within the time: the side is then not timed.
    input_bytes : int
        Size of the input in the form this side takes; part of its memory.
    seconds, peak : callable, optional
        Of a side that is a program of its own: the seconds that its result says the work took, in place of those
        around `work`, and the most memory it had.
    """

    name: str
    work: Callable[[], Any] | None
    missing: str = ""
    target: float | None = None
    memory_target: float | None = None
    warm: Callable[[], Any] | None = None
    fresh: Callable[[], None] | None = None
    calibrate: Callable[[], str | None] | None = None
    input_bytes: int = 0
    seconds: Callable[[Any], float] | None = None
    peak: Callable[[Any], int] | None = None

    @classmethod
    def absent(cls, name: str, package: str, **targets: float | None) -> Side:
        """Side of a peer that is not installed."""
        return cls(name, None, missing=package, **targets)  # type: ignore[arg-type]


@dataclass
class Comparison:
    """Sides that do the same work, the first of them ours.

    Attributes
    ----------
    ours, peers : Side
    check : callable
        Takes the results by name of side; raises `Disagreement`, or says what was compared.
    rows : int, optional
        Seconds are shown per this many rows.
    memory : bool
        Whether memory is measured, in a process for each side.
    bound : callable, optional
        Says, from the measured seconds of our side, what keeps it from being faster. Shown where a target is missed.
    relation : str
        ">=": a peer should take `target` times our seconds or more; "<=": ours at most `target` times the peer's.
    limit : float
        Seconds after which a side is not repeated, if fewer than what the options say.
    """

    ours: Side
    peers: Sequence[Side]
    check: Callable[[dict[str, Any]], str]
    rows: int | None = None
    memory: bool = False
    bound: Callable[[float], str] | None = None
    relation: Relation = ">="
    limit: float = float("inf")


@dataclass(frozen=True)
class Case:
    """One piece of work: either sides to compare, or a function that measures in its own way.

    Both are called when the case's turn comes, not before, so that listing cases loads no data.
    """

    name: str
    comparison: Callable[[], Comparison] | None = None
    rows: Callable[[], list[Row]] | None = None


@dataclass
class Row:
    """One line of a table.

    Attributes
    ----------
    case, against : str
    ours, theirs : list of float
        Seconds of every run.
    value, target : float, optional
        The figure that counts, and what it should be by `relation`.
    per_rows : int, optional
        Seconds are shown in microseconds a row.
    ours_bytes, theirs_bytes, memory_target : int, int and float, optional
    notes : list of str
        How equality was checked, settings, what bounds us.
    """

    case: str
    against: str
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    value: float | None = None
    target: float | None = None
    relation: Relation = ">="
    per_rows: int | None = None
    ours_bytes: int | None = None
    theirs_bytes: int | None = None
    memory_target: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def memory_ratio(self) -> float | None:
        if self.ours_bytes is None or self.theirs_bytes is None:
            return None
        return self.theirs_bytes / max(self.ours_bytes, 1)

    @property
    def reached(self) -> bool | None:
        """Whether the targets are met; None where there is none, or nothing was measured."""
        found: list[bool] = []
        if self.target is not None and self.value is not None:
            found.append(self.value >= self.target if self.relation == ">=" else self.value <= self.target)
        if self.memory_target is not None and self.memory_ratio is not None:
            found.append(self.memory_ratio >= self.memory_target)
        return all(found) if found else None


def interleave(sides: Sequence[Side], repeats: int, limit: float) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Run the sides in turn, again and again: seconds of each run, and the result of the first.

    A side is not run again when that would take its sum beyond `limit`.
    """
    seconds: dict[str, list[float]] = {side.name: [] for side in sides}
    results: dict[str, Any] = {}
    gc.collect()
    gc.freeze()  # what was there before does not slow the collections between runs down
    for _ in range(repeats):
        for side in sides:
            done = seconds[side.name]
            if done and sum(done) + statistics.median(done) > limit:
                continue
            assert side.work is not None
            gc.collect()
            begin = time.perf_counter()
            result = side.work()
            took = time.perf_counter() - begin
            done.append(side.seconds(result) if side.seconds else took)
            results.setdefault(side.name, result)
            del result
    gc.unfreeze()
    return seconds, results


def compare(name: str, case: Case, options: Options) -> list[Row]:
    """Measure the sides of a case: one row for each peer."""
    assert case.comparison is not None
    work = case.comparison()
    limit = min(work.limit, options.limit)
    notes: list[str] = []
    ours = work.ours
    assert ours.work is not None
    (ours.warm or ours.work)()
    if ours.fresh is not None:
        ours.fresh()
        begin = time.perf_counter()
        ours.work()
        notes.append(f"first call {_shown(time.perf_counter() - begin)}")
    said: dict[str, str | None] = {}
    present = []
    for side in (ours, *work.peers):
        if side.work is None:
            continue
        if side.warm is not None and side is not ours:
            side.warm()
        said[side.name] = side.calibrate() if side.calibrate else ""
        if said[side.name] is not None:
            present.append(side)
    seconds, results = interleave(present, options.repeats, limit)
    checked = work.check(results)
    peaks = {side.name: side.peak(results[side.name]) for side in present if side.peak}
    del results
    memory = {
        side.name: side.input_bytes + measure_memory(name, case.name, side.name, options)
        for side in present
        if work.memory and side.name not in peaks
    }
    memory |= peaks if work.memory else {}
    rows = []
    for side in work.peers:
        row = Row(case.name, side.name, seconds[ours.name], relation=work.relation, per_rows=work.rows)
        row.target, row.memory_target = side.target, side.memory_target
        row.notes = [*notes]
        row.ours_bytes = memory.get(ours.name)
        if side.work is None:
            row.notes.append(f"{side.missing} is not installed")
        elif side.name not in seconds:
            row.notes.append(f"{side.name}: did not get as close as we do within the time it was given")
        else:
            row.theirs, row.theirs_bytes = seconds[side.name], memory.get(side.name)
            us, them = statistics.median(row.ours), statistics.median(row.theirs)
            row.value = them / us if work.relation == ">=" else us / them
            row.notes += [text for text in (said[ours.name], said[side.name], checked) if text]
            if len(row.theirs) < options.repeats:
                row.notes.append(f"{side.name}: {len(row.theirs)} of {options.repeats} runs, to stay below {limit:g} s")
        if row.reached is False and work.bound is not None:
            row.notes.append(f"bound: {work.bound(statistics.median(row.ours))}")
        rows.append(row)
    return rows


def measure_memory(name: str, case: str, side: str, options: Options) -> int:
    """Bytes by which the side's work raises the peak of a process of its own (see `benchmarks.memory`)."""
    command = [sys.executable, "-m", "benchmarks.memory", json.dumps([name, case, side]), json.dumps(as_json(options))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{name}, {case}, {side}: measuring memory failed:\n{done.stderr}")
    return int(done.stdout.split()[-1])


def as_json(options: Options) -> dict[str, Any]:
    """The options as JSON values."""
    return {
        key: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for key, value in vars(options).items()
    }


def options_from_json(values: dict[str, Any]) -> Options:
    """Inverse of `as_json`."""
    known: dict[str, Any] = {
        key: Path(value) if key in PLACES else tuple(value) if isinstance(value, list) else value
        for key, value in values.items()
    }
    return Options(**known)


def _shown(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
