"""``python -m flows.score``: the model of a finished run applied to new data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flows.cli import leave, run_command
from flows.options.score import ScoreOptions
from ikmap.tasks import TASKS
from pipeline.monitoring.plain_text import printable


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    options = ScoreOptions.parse(argv)
    # Not before the options are read: --help needs nothing of it.
    from flows.prefect.configured import api_is_configured
    from flows.runs.score import run

    if api_is_configured():
        from flows.prefect.flows import command, score

        result = command(score, options)
    else:
        result = run(options)
    for line in result_lines(result):
        print(printable(line))
    return 0


def result_lines(result: dict[str, Any]) -> list[str]:
    """The result, for a person."""
    lines = [
        f"{result['rows']:,} rows in {result['seconds']:.2f} s, {result['rows_per_second']:,.0f} rows/s",
        f"predictions of {result['learner']}: {result['output']}",
    ]
    if result["said"] is not None:
        needs = TASKS[result["task"]].labels.needed
        of = f"{result['rows_labelled']:,} rows with a known label" if needs else f"all {result['rows']:,} rows"
        learned = ", rows that it was trained on among them" if result["seen"] else ""
        lines.insert(1, f"{result['said']} on {of}{learned}")
    return lines


if __name__ == "__main__":
    leave(run_command(main))
