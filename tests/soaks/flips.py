"""``python -m tests.soaks.flips --flips 2000``: damage what small runs of every command store, and read it again.

Each kind of stored object of batch, online, score and reproduce runs, finished and stopped on their way, has its turn:
one bit of one of them is turned over in a copy of the run, which is then read in every public way. The command is given
again (a finished run is reported, an unfinished one goes on), the model scores a file and is loaded from Python, and
the predictions of a stream are read. Files are also cut, emptied, deleted and zeroed in part. Each reading ends as

harmless
    The result is that of the undamaged run.
repaired
    The same, and a line said what was made again.
detected
    One line names the object, with exit status 2; in Python, one exception of ours with nothing chained to it.
SILENT
    Another result, without a word.
TRACEBACK
    Anything else.

The exit status is 1 if there is any of the last two.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support.stored_runs import SILENT, TRACEBACK, VERDICTS, make, readings


def main() -> int:
    """Print how many readings ended how, by the way of reading, and every one that ended badly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=2000, help="flipped bits (default 2000)")
    parser.add_argument("--others", type=int, default=400, help="cut, emptied, deleted and zeroed files (default 400)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="runs whose names begin with this")
    asked = parser.parse_args()
    began, counts, bad = time.perf_counter(), Counter[tuple[str, str]](), 0
    with tempfile.TemporaryDirectory() as folder:
        stored = [one for one in make(Path(folder) / "made") if one.name.startswith(asked.only)]
        kinds = {kind for one in stored for kind, _ in one.files()}
        print(f"{len(stored)} runs, {len(kinds)} kinds of objects, {time.perf_counter() - began:.0f} s", flush=True)
        work = Path(folder) / "work"
        for k, reading in enumerate(readings(stored, work, asked.seed, asked.flips, asked.others)):
            counts[reading.way.partition(" ")[0], reading.verdict] += 1
            if reading.verdict in (SILENT, TRACEBACK):
                bad += 1
                print(f"{reading.verdict}: {reading.what}, read by {reading.way}: {reading.said[:300]}", flush=True)
            if k % 500 == 499:
                print(f"{k + 1} readings, {time.perf_counter() - began:.0f} s", flush=True)
    print(f"{asked.flips} flipped bits, {asked.others} other damages, {sum(counts.values())} readings")
    for way in sorted({way for way, _ in counts}):
        print(f"{way:12}", *(f"{counts[way, verdict]:6} {verdict}" for verdict in VERDICTS))
    totals = (f"{sum(n for (_, of), n in counts.items() if of == verdict):6} {verdict}" for verdict in VERDICTS)
    print(f"{'all':12}", *totals, f" {time.perf_counter() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
