"""``python -m tests.soaks.damaged_files``: read hundreds of damaged files of every format, as a run does.

Reading has to end with rows, or with one line; not with another exception, a dead process, a process that hangs or
takes much memory. Files are read in a process that may die; ``--commands N`` gives N of each kind to ``flows.batch``
too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support.damaged_files import FILES, SECONDS, Outcome, outcomes, write_mutant


def whole_command(kind: str, number: int, seed: int) -> Outcome:
    """Give a damaged file to the command."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_mutant(kind, number, seed, Path(folder))
        words = ["--t", "2", "--psi", "2", "--learner", "ogd", "--workers", "1", "--no-dask-report"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "flows.batch", "--input", str(path), *words, "--run-dir", f"{folder}/run"],
                capture_output=True, text=True, timeout=5 * SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome("hung", f"{5 * SECONDS:g} s")
    said = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    if "Traceback" in done.stderr or "Traceback" in done.stdout or done.returncode not in (0, 2):
        return Outcome("exception", f"status {done.returncode}: {said}")
    if "died again" in said:
        return Outcome("died", said)
    if done.returncode == 0:
        return Outcome("read")
    return Outcome("refused" if said.startswith("error: ") else "not one line", said)


def main() -> int:
    """Print a line for each kind of file and for each outcome that must not be; the status is 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=500, help="damaged files of each kind (%(default)s)")
    parser.add_argument("--commands", type=int, default=0, help="how many of them go through the whole command (0)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="", help=f"comma-separated beginnings of {', '.join(FILES)}; default: all")
    parser.add_argument("--show", type=int, default=0, help="refusals to show of each kind (0)")
    asked = parser.parse_args()
    began = time.perf_counter()
    sums: Counter[str] = Counter()
    for kind in FILES:
        if not kind.startswith(tuple(asked.kinds.split(","))):
            continue
        counts: Counter[str] = Counter()
        commands = ((number, whole_command(kind, number, asked.seed)) for number in range(asked.commands))
        for where, found in (("", outcomes(kind, asked.mutants, asked.seed)), ("command ", commands)):
            shown = 0
            for number, outcome in found:
                if number < 0:
                    if outcome.what != "read":
                        counts["undamaged file refused"] += 1
                        print(f"  {kind}, undamaged: {outcome.what}: {outcome.said}", flush=True)
                    continue
                counts[where + outcome.what] += 1
                if not outcome.good or shown < asked.show:
                    shown += outcome.good
                    print(f"  {kind} {where}{number}: {outcome.what}: {outcome.said[:300]}", flush=True)
        print(f"{kind}: {', '.join(f'{count} {what}' for what, count in sorted(counts.items()))}", flush=True)
        sums += counts
    bad = sum(count for what, count in sums.items() if what.removeprefix("command ") not in ("read", "refused"))
    print(f"in all: {', '.join(f'{count} {what}' for what, count in sorted(sums.items()))}")
    print(f"{bad} that must not be, {time.perf_counter() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
