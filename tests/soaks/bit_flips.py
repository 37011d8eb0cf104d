"""``python -m tests.soaks.bit_flips``: turn over every bit of every object of small runs, and read them as a run does.

An object may be reported as damaged, or read as what was written; it may not be read as anything else. Each page of
each object is zeroed too. ``--every N`` tries every N-th bit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.support.damage import PAGE, bits, flip, objects, runs, unnoticed, zero_page


def main() -> int:
    """Print a line for each kind of object; the status is 1 if anything went unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    every = parser.parse_args().every
    wrong = tried = 0
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for kind, things in sorted(objects(runs(Path(folder))).items()):
            here, missed = 0, 0
            for thing in things:
                expected = thing.read()
                damages = [partial(flip, bit=bit) for bit in range(0, bits(thing), every)]
                damages += [partial(zero_page, page=page) for page in range(-(-bits(thing) // (8 * PAGE)))]
                missed += sum(unnoticed(thing, expected, damage) for damage in damages)
                here += len(damages)
            print(f"{kind}: {len(things)} objects, {here} damaged, {missed} read as something else", flush=True)
            tried, wrong = tried + here, wrong + missed
    print(f"{tried} in all, {wrong} read as something else, {time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
