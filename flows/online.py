"""``python -m flows.online``: block after block of a stream, predicted first and learned from then."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from flows.cli import leave, process_began, run_command
from flows.options.online import OnlineOptions


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    options = OnlineOptions.parse(argv)
    # Not before the options are read: --help needs nothing of it.
    from flows.prefect.configured import api_is_configured
    from flows.runs.online import run

    if api_is_configured() and not options.dry_run:  # a plan is no run to keep
        from flows.prefect.flows import command, online

        metrics = command(online, options)
    else:
        metrics = run(options, began=process_began())
    from pipeline.report.result_tables import print_result

    # Alerts have standard output to themselves.
    print_result(metrics, sys.stderr if options.alerts == "-" else None)
    return 0


if __name__ == "__main__":
    leave(run_command(main))
