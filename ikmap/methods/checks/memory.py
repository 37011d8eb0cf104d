"""Checks of the memory of methods: ``python -m ikmap.methods.checks.memory NAME ...``, a minute or two.

A run that will not fit into memory is refused before it begins, by the estimates of its methods (``memory``). Here each
method is fitted in a process of its own, on three sizes of data, and its peak memory is compared with the estimate.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ikmap.learners.rows import Block, Rows
from ikmap.methods.anne import Anne
from ikmap.methods.checks.common import configured_for_checks
from ikmap.methods.learner import Learner, StreamLearner, WholeLearner
from ikmap.methods.map import Map, RowsInfo
from ikmap.methods.method import Method
from ikmap.methods.registry import method, methods
from ikmap.methods.sample import Sample, Shape, Training
from ikmap.methods.search import search_of
from ikmap.methods.values import at_value, size_of
from ikmap.seeds import generator
from ikmap.tasks import CLASSIFICATION

D = 20
SIZES = {"map": (5_000, 20_000, 80_000), "learner": (1_000, 3_000, 6_000)}
SLACK = 48 << 20
"""Bytes of a task beside the estimate: code that is loaded on the way, and buffers of a fixed size."""
SEED = 7


def measure(name: str, n: int) -> tuple[int, int]:
    """Return the estimate of a method for n rows, and the bytes by which this process grew to its peak, fitting it."""
    kind = method(name)
    _fitted(kind, 200)  # compiles, imports
    before = _status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    needed = _fitted(kind, n)
    return needed, max(0, _status("VmHWM") - before)


def _fitted(kind: type[Method], n: int) -> int:
    X = generator(SEED, n).random((n, D))
    y = (X[:, 0] + generator(SEED, n, 1).random(n) > 1).astype(np.int32)
    task = CLASSIFICATION.of([0, 1])
    subject, searched = configured_for_checks(kind)
    search = search_of(subject, searched, n) if searched else None
    if search is not None:
        most = max(64, size_of(search.values[0]))
        small = [value for value in search.values if size_of(value) <= most]
        subject = at_value(subject, searched, small[-1])
    if isinstance(subject, Map):
        sample = Sample(n, D, task, X.__getitem__, SEED, targets=y.__getitem__)
        model = subject.fit(sample.seen_by(subject.description))
        cells = model.cells(X, 1)
        memory = subject.memory(RowsInfo(n, D, 8.0 * D, True))
        return int(memory.model + memory.scratch) + X.nbytes + cells.codes.nbytes
    assert isinstance(subject, Learner)  # learners say what kernels take
    rows: Rows = X
    offsets: NDArray[np.int64] | None = None
    if subject.about.on == "cells":
        packed = Anne(t=50, psi=16).fit(Sample(n, D, None, X.__getitem__, SEED)).cells(X, 1).packed()
        rows, offsets = packed, packed.offsets
    columns = 0 if offsets is None else int(offsets[-1])
    shape = Shape(n, D if offsets is None else offsets.size - 1, None, 1, columns)
    if isinstance(subject, StreamLearner):
        state = subject.start(Sample(n, D, task, rows.__getitem__, SEED, offsets), 1)
        state.partial_fit(rows, y)
        return subject.memory(shape) + X.nbytes + 3 * 8 * columns
    assert isinstance(subject, WholeLearner)
    subject.fit(Training(Block(rows, y), task.codec.classes, SEED, 1, task=task))
    return subject.memory(shape) + X.nbytes


def _status(field: str) -> int:
    with open("/proc/self/status") as file:
        (line,) = [line for line in file if line.startswith(field)]
    return int(line.split()[1]) << 10


def measured(name: str) -> Iterator[tuple[int, int, int]]:
    """Yield numbers of rows, the estimate of a method, and the bytes that it took in a process of its own."""
    for n in SIZES["map" if issubclass(method(name), Map) else "learner"]:
        words = [sys.executable, "-m", "ikmap.methods.checks.memory", name, "--measure", str(n)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        needed, took = map(int, done.stdout.split())
        yield n, needed, took


def main(words: Sequence[str] | None = None) -> int:
    """Run the check as a command; return 1 if a method takes more memory than it says, else 0."""
    known = [name for name, kind in methods().items() if issubclass(kind, Map | StreamLearner | WholeLearner)]
    parser = ArgumentParser(
        prog="python -m ikmap.methods.checks.memory",
        description="Measure whether methods need as much memory as they say, on three sizes of data.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="methods to check (default: all)")
    parser.add_argument(
        "--measure", type=int, metavar="ROWS", help="measure one method in this process and print bytes"
    )
    arguments = parser.parse_args(words)
    if unknown := [name for name in arguments.names if name not in known]:
        print(f"{unknown[0]}: no method of that name can be measured, expected some of {', '.join(known)}")
        return 2
    if arguments.measure is not None:
        print(*measure(arguments.names[0], arguments.measure))
        return 0
    faults = 0
    for name in arguments.names or known:
        for n, needed, took in measured(name):
            more = took > needed + SLACK
            faults += more
            member = f"{method(name).__name__}.memory"
            line = f"{name}, {n:,} rows: {member} says {needed / 1e6:,.0f} MB, took {took / 1e6:,.0f} MB"
            print(f"{line}{', which is more' if more else ''}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
