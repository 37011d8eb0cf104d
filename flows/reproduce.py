"""``python -m flows.reproduce``: tables and figures of a paper, ours beside what was printed."""

from __future__ import annotations

from collections.abc import Sequence

from flows.cli import DEFECT, DONE, leave, run_command
from flows.options.reproduce import ReproduceOptions


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    options = ReproduceOptions.parse(argv)
    # Not before the options are read: --help needs nothing of it.
    from flows.prefect.configured import api_is_configured
    from flows.runs.reproduce import run

    if api_is_configured():
        from flows.prefect.flows import command, reproduce

        found = command(reproduce, options)
    else:
        found = run(options)
    from pipeline.reproduce.terminal import print_results

    print_results(options.the_paper, found)
    rows = (row for experiment in found["experiments"] for row in experiment["rows"])
    return DEFECT if any(row.get("status") == "defect" for row in rows) else DONE


if __name__ == "__main__":
    leave(run_command(main))
