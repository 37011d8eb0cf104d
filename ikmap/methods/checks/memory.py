"""Whether methods need as much memory as they say: ``python -m ikmap.methods.checks.memory NAME ...``, a minute or two.

A run refuses what will not fit before it begins, by what its methods say of themselves (`needed_bytes`). Here each is
fitted in a process of its own, on three sizes of data, and the most memory that it took is held against what it said.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ikmap.learners.rows import Block
from ikmap.methods.anne import ANNE
from ikmap.methods.kernel import KernelMethod
from ikmap.methods.learner import Learner
from ikmap.methods.learners import StreamLearner, WholeLearner
from ikmap.methods.map import Map, MapShape
from ikmap.methods.registry import method, methods
from ikmap.methods.sample import Sample, Shape, Training
from ikmap.seeds import generator
from ikmap.tasks import CLASSIFICATION

D = 20
SIZES = {"map": (5_000, 20_000, 80_000), "learner": (1_000, 3_000, 6_000)}
SLACK = 48 << 20
"""What a task has beside it: code that is loaded on the way, and buffers of a fixed size."""
SEED = 7


def measure(name: str, n: int) -> tuple[int, int]:
    """Bytes that a method says it needs for n rows, and the most that this process grew by while it was fitted."""
    one = method(name)
    assert not isinstance(one, KernelMethod)  # learners say what kernels take
    _fitted(one, 200)  # compiles, imports
    before = _status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    said = _fitted(one, n)
    return said, max(0, _status("VmHWM") - before)


def _fitted(one: Map | Learner, n: int) -> int:
    X = generator(SEED, n).random((n, D))
    y = (X[:, 0] + generator(SEED, n, 1).random(n) > 1).astype(np.int32)
    task = CLASSIFICATION.of([0, 1])
    options = one.Options() if isinstance(one, Map) else one.resolved(one.Options(), searching=False)
    search = one.search(options, n)
    small = [] if search is None else [value for value in search.values if value <= max(64, search.values[0])]
    value: Any = small[-1] if small else one.given(options)
    if isinstance(one, Map):
        model = one.fit(options, value, Sample(n, D, None, X.__getitem__, SEED))
        cells = model.cells(X, 1)
        return int(sum(one.needed_bytes(options, value, MapShape(n, D, 8.0 * D, True)))) + X.nbytes + cells.codes.nbytes
    rows: Any = X
    offsets: np.ndarray | None = None
    if one.on == "cells":
        asked = ANNE.Options(t=50, psi=16)
        packed = ANNE.fit(asked, 16, Sample(n, D, None, X.__getitem__, SEED)).cells(X, 1).packed()
        rows, offsets = packed, packed.offsets
    shape = Shape(n, rows.shape[1] if offsets is None else offsets.size - 1, None, 1)
    if isinstance(one, StreamLearner):
        state = one.start(options, value, Sample(n, D, task, rows.__getitem__, SEED, offsets), 1)
        state.partial_fit(rows, y)
        weights = 0 if offsets is None else 3 * 8 * int(offsets[-1])
        return one.needed_bytes(options, shape) + X.nbytes + weights
    assert isinstance(one, WholeLearner)
    one.fit(options, Training(Block(rows, y), task.codec.classes, SEED, value, 1, task=task))
    return one.needed_bytes(options, shape) + X.nbytes


def _status(field: str) -> int:
    with open("/proc/self/status") as file:
        (line,) = [line for line in file if line.startswith(field)]
    return int(line.split()[1]) << 10


def measured(name: str) -> Iterator[tuple[int, int, int]]:
    """Yield rows, what a method says, and what it took, each of a process of its own."""
    for n in SIZES["map" if isinstance(method(name), Map) else "learner"]:
        words = [sys.executable, "-m", "ikmap.methods.checks.memory", name, "--measure", str(n)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        said, took = map(int, done.stdout.split())
        yield n, said, took


def main(words: Sequence[str] | None = None) -> int:
    """Run the check as a command; return 1 if a method takes more memory than it says, else 0."""
    known = [name for name, one in methods().items() if isinstance(one, Map | StreamLearner | WholeLearner)]
    parser = ArgumentParser(
        prog="python -m ikmap.methods.checks.memory",
        description="Measure whether methods need as much memory as they say, on three sizes of data.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="methods to check (default: all)")
    parser.add_argument(
        "--measure", type=int, metavar="ROWS", help="measure one method in this process and print bytes"
    )
    given = parser.parse_args(words)
    if unknown := [name for name in given.names if name not in known]:
        print(f"{unknown[0]}: no method of that name can be measured, expected some of {', '.join(known)}")
        return 2
    if given.measure is not None:
        print(*measure(given.names[0], given.measure))
        return 0
    wrong = 0
    for name in given.names or known:
        for n, said, took in measured(name):
            more = took > said + SLACK
            wrong += more
            line = f"{name}, {n:,} rows: says {said / 1e6:,.0f} MB, took {took / 1e6:,.0f} MB"
            print(f"{line}{', which is more' if more else ''}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
