"""``python -m tests.soaks.kill_search``: kill the search for psi and C after each of its tasks, and go on with it.

Each search must come to the choice of one that nobody killed, and do no task twice. ``--every N`` kills after every
N-th task.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.pipeline.stages.test_select import killed_after_tasks


def main() -> None:
    """Print a line for each partitioner; an assertion fails where a search did not go on as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    every = parser.parse_args().every
    for partitioner in ("anne", "iforest"):
        with tempfile.TemporaryDirectory() as folder:
            print(f"{partitioner}: {killed_after_tasks(partitioner, Path(folder), every)} kills, the same choice")


if __name__ == "__main__":
    main()
