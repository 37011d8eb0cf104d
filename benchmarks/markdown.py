"""Rows as a Markdown table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.harness import Row

HEADER = ("work", "ours", "against", "theirs", "ratio", "target", "memory: ours, theirs, ratio", "remarks")


def markdown(rows: Sequence[Row]) -> str:
    """One line for each row: medians with the range of all runs, ratio, target and what there is to say."""
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in _cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> list[str]:
    ratio = "-" if row.value is None else f"{row.value:.3g}"
    if row.reached is not None:
        ratio = f"**{ratio}**" if row.reached else f"{ratio} (missed)"
    return [
        row.case,
        seconds(row.ours, row.per_rows),
        row.against,
        seconds(row.theirs, row.per_rows),
        ratio,
        "-" if row.target is None else f"{'at least' if row.relation == '>=' else 'at most'} {row.target:g}",
        _memory(row),
        "; ".join(dict.fromkeys(row.notes)) or "-",
    ]


def seconds(runs: Sequence[float], per_rows: int | None = None) -> str:
    """Median with minimum and maximum, in a unit that suits it."""
    if not runs:
        return "-"
    middle = statistics.median(runs)
    if per_rows:
        unit, factor = "us/row", 1e6 / per_rows
    else:
        unit, factor = ("s", 1.0) if middle >= 1 else ("ms", 1e3)
    shown = f"{middle * factor:.3g} {unit}"
    return shown if len(runs) == 1 else f"{shown} ({min(runs) * factor:.3g}..{max(runs) * factor:.3g})"


def _memory(row: Row) -> str:
    if row.ours_bytes is None:
        return "-"
    ours = f"{row.ours_bytes / 2**20:.3g} MiB"
    if row.theirs_bytes is None:
        return ours
    target = "" if row.memory_target is None else f" (at least {row.memory_target:g})"
    return f"{ours}, {row.theirs_bytes / 2**20:.3g} MiB, {row.memory_ratio:.3g}{target}"
