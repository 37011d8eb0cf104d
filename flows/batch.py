"""``python -m flows.batch``: from a data set to a trained, evaluated model and a report."""

from __future__ import annotations

from collections.abc import Sequence

from flows.cli import leave, process_began, run_command
from flows.options.batch import BatchOptions


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    options = BatchOptions.parse(argv)
    # Not before the options are read: --help needs nothing of it.
    from flows.prefect.configured import api_is_configured
    from flows.runs.batch import run

    if api_is_configured() and not options.dry_run:  # a plan is no run to keep
        from flows.prefect.flows import batch, command

        metrics = command(batch, options)
    else:
        metrics = run(options, began=process_began())
    from pipeline.report.result_tables import print_result

    print_result(metrics)
    return 0


if __name__ == "__main__":
    leave(run_command(main))
