"""``python -m flows.online``: block after block of a stream, predicted first and learned from then."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from flows._cli import run_command
from flows.options import OnlineOptions
from flows.run_online import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    metrics = run(OnlineOptions.parse(argv))
    from pipeline.progress import print_result

    print_result(metrics)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
