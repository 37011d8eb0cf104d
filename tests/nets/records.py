"""Files of recorded JSON values: how they are written, and how values of today are compared with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

CLOSE = 1e-9
"""Fractions may differ by this much of the largest one beside them."""

NEWER = frozenset({
    "intersection", "kernel-ridge", "mondrian-forest", "online-ridge", "fourier-ridge", "two-stage-gmm",
    "forest", "boosting", "stacking", "linear-model",
})  # fmt: skip
"""Methods that have come since the runs were recorded."""
NEWER_OPTIONS = {
    "orthogonal": "false", "sweep_by": '"auto"', "codes": "256", "code_bits": "8", "splits": '"random"',
    "max_features": "0.5", "min_leaf": "5", "criterion": '"gini"', "rounds": "1000",
    "shrinkage": "0.1", "max_leaves": "31", "l2": "1.0", "row_share": "1.0", "column_share": "1.0", "held_out": "0.1",
    "patience": "50",
    "max_bins": "256", "backfit": "0", "backfit_l2": "300.0",
    "quantile_level": "null", "base_models": '"boosting,iforest"', "n_folds": "5",
    "refits": "0",
}  # fmt: skip
"""Options that were recorded later, with their defaults as JSON; others are found by themselves."""

type Entries = dict[str, Any]


def read(file: Path) -> Entries:
    """Return the recorded entries by name, in the order of the file."""
    entries: Entries = json.loads(file.read_text(encoding="utf-8"))
    return entries


def write(file: Path, entries: Mapping[str, Any]) -> None:
    """Write entries as JSON with one line for each, so that a change of the file shows which entry changed."""
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in entries.items()
    )
    file.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def as_json(value: Any) -> Any:
    """Return a value as it comes back from a JSON file: tuples are lists, keys are texts."""
    return json.loads(json.dumps(value))


def differences(recorded: Any, now: Any, where: str = "") -> list[str]:
    """Return a line for each place in which two JSON values differ.

    Fractions may differ by :data:`CLOSE` of the largest number in the same list. All else has to be the same, of the
    same type; the order of keys does not matter, as manifests and metrics are compared without it.
    """
    if isinstance(recorded, dict) and isinstance(now, dict):
        keys = [*recorded, *(key for key in now if key not in recorded)]
        lines = []
        for key in keys:
            place = f"{where}.{key}" if where else key
            if key not in now:
                lines.append(f"{place}: recorded {json.dumps(recorded[key])}, now it is not there")
            elif key not in recorded:
                lines.append(f"{place}: not recorded, now {json.dumps(now[key])}")
            else:
                lines += differences(recorded[key], now[key], place)
        return lines
    if _are_fractions(recorded) and _are_fractions(now) and np.shape(recorded) == np.shape(now):
        before, after = np.array(recorded, dtype=float), np.array(now, dtype=float)
        same = bool(np.all((before == after) | (np.abs(before - after) <= CLOSE * np.abs(before).max(initial=0.0))))
    elif isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        pairs = zip(recorded, now, strict=True)
        return [line for k, (a, b) in enumerate(pairs) for line in differences(a, b, f"{where}[{k}]")]
    else:
        same = type(recorded) is type(now) and recorded == now
    return [] if same else [f"{where}: recorded {json.dumps(recorded)}, now {json.dumps(now)}"]


def _are_fractions(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(type(number) is float for number in values)


def command(file: Path, now: Callable[[], Entries]) -> int:
    """Do what a net's command line asks for: print the differences from the record, or with ``--record`` write it."""
    entries = as_json(now())
    if sys.argv[1:] == ["--record"]:
        write(file, entries)
        return 0
    lines = differences(read(file), entries)
    print("\n".join(lines) or "all as recorded")
    return int(bool(lines))
