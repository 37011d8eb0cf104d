"""KOL, the online kernel learners in C++ of NOGD's authors: a program that reads LIBSVM text and prints its seconds.

It is built by hand (docs/benchmarks.md); ``IKMAP_KOL`` names it.
"""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import numpy as np
import psutil
from sklearn.datasets import dump_svmlight_file

from benchmarks import peers
from ikmap.rows import Rows

VARIABLE = "IKMAP_KOL"
ABSENT = f"KOL (${VARIABLE} names its program)"
LOOK = 0.01
"""Seconds between looks at the memory."""


@dataclass(frozen=True)
class KOLRun:
    """What a run printed.

    Attributes
    ----------
    train_seconds, test_seconds : float
        As KOL measures them: a second thread reads the next rows meanwhile.
    n_support, train_errors, test_errors : int
        Support points, rows predicted wrong before they were learned from, and test rows predicted wrong.
    peak_bytes : int
        Largest resident set of the process, program included.
    """

    train_seconds: float
    test_seconds: float
    n_support: int
    train_errors: int
    test_errors: int
    peak_bytes: int


class Texts:
    """Rows as files that KOL reads, in a folder that is removed with this object."""

    def __init__(self) -> None:
        self._folder = Path(mkdtemp(prefix="kol-"))
        finalize(self, rmtree, self._folder, ignore_errors=True)

    def write(self, name: str, X: Rows, y: np.ndarray) -> Path:
        """Write rows and two classes, 1 being positive; nothing is done for a name that was written before."""
        path = self._folder / name
        if not path.exists():
            dump_svmlight_file(X, np.where(y == 1, 1, -1), str(path), zero_based=False)
        return path


@cache
def texts() -> Texts:
    """The files of this process."""
    return Texts()


def find() -> str | None:
    """The program, or None."""
    return peers.find_program(VARIABLE)


def run(program: str, train: Path, test: Path | None, learner: str, **options: float) -> KOLRun:
    """Learn from one file, predict another.

    Raises
    ------
    RuntimeError
        If it fails, or prints something else than expected.
    """
    command = [program, "-i", str(train), *(["-t", str(test)] if test else []), "-opt", learner]
    command += [text for key, value in options.items() for text in (f"-{key}", f"{value:g}")]
    printed, errors, status, peak = _watched(command)
    found = _numbers(printed)
    if status or "Learning time" not in found or (test is not None and "Test time" not in found):
        raise RuntimeError(f"{' '.join(command)} ended with {status}:\n{printed}{errors}")
    # Of n rows: what is printed as the number of instances starts anew where NOGD turns to features.

    def wrong(key: str, path: Path | None) -> int:
        return round((1 - found[key] / 100) * _lines(path)) if path else 0

    return KOLRun(
        found["Learning time"],
        found.get("Test time", 0.0),
        int(found["#SV"]),
        wrong("Learn acuracy", train),
        wrong("Test acuracy", test),
        peak,
    )


def _watched(command: list[str]) -> tuple[str, str, int, int]:
    """What a command prints, its exit status, and its largest resident set as seen every few milliseconds."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        watched = psutil.Process(process.pid)
        while True:
            with suppress(psutil.Error):
                peak = max(peak, watched.memory_info().rss)
            with suppress(subprocess.TimeoutExpired):
                printed, errors = process.communicate(timeout=LOOK)
                return printed, errors, process.returncode, peak


def _numbers(text: str) -> dict[str, float]:
    """Numbers after a name and a colon."""
    pairs: list[Any] = re.findall(r"([#A-Za-z][A-Za-z ]*):\s*([-+.e\d]+)", text)
    return {key: float(value) for key, value in pairs}


@cache
def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")
