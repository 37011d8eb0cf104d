"""Split rows into training and test rows, and keep the values for it beside the rows as they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TypedDict

import numpy as np

from ikmap.tables.statistics import packed
from ikmap.tasks import Task
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import PartName, PartRecord, SideRecord, SplitRecord
from pipeline.rows.encoding import LEVELS
from pipeline.rows.fitted_split import KEPT, checked, divide
from pipeline.rows.parts import WEIGHTS
from pipeline.rows.split import Split
from pipeline.rows.split_rule import SplitRule
from pipeline.running.stage import Context
from pipeline.sources.base import RawRows
from pipeline.storage.store import Store


class Beside(TypedDict, total=False):
    """Arguments of ``store_block``: arrays beside the rows, and the words of the values that rows are split by."""

    beside: dict[str, np.ndarray]
    kept_words: list[str]


def split_rule_of(params: Params) -> SplitRule | None:
    """Return the rule by which the rows of a run are split; None: at random, or as their files are."""
    return None if params.split_by is None else SplitRule.parse(params.split_by, params.seed)


def beside_of(split_rule: SplitRule | None, block: RawRows, where: Callable[[int], str]) -> Beside:
    """Return the arrays to store beside rows: words, weights, and the values that rows are split by."""
    arrays = {} if block.levels is None else {LEVELS: packed(block.levels)}
    if block.weights is not None:
        arrays[WEIGHTS] = block.weights
    if split_rule is None or not split_rule.column:
        return {"beside": arrays}
    if block.kept is None:
        raise InputError(
            f"{where(0)}: found no table with names, expected CSV, Parquet or Arrow for --split-by {split_rule.rule}:"
            f"{split_rule.column}"
        )
    values, words = block.kept
    split_values = {KEPT: checked(split_rule, values, words, where)}
    beside: Beside = {"beside": arrays | split_values}
    if words is not None:
        beside["kept_words"] = list(words)
    return beside


def split_rows(
    store: Store, split_rule: SplitRule, parts: list[tuple[str, int]], task: Task, n_train: int
) -> SplitRecord:
    """Task: find out which rows are training rows, by a column of theirs or by their targets."""
    fitted_split, counts = divide(split_rule, store, parts, task, n_train)
    return {"divided": fitted_split.as_json(), "counts": counts}


def split_sides(url: str, parts: list[PartRecord], record: SplitRecord) -> dict[str, SideRecord]:
    """Return training and test rows as :func:`split_rows` has split them."""
    rows, counts = sum(int(part["rows"]) for part in parts), record["counts"]
    names: list[PartName] = [{"name": part["name"], "rows": part["rows"]} for part in parts]
    counts_by_name = {"train": counts, "test": [part["rows"] - k for part, k in zip(parts, counts, strict=True)]}
    return {
        name: {
            "url": url,
            "parts": names,
            "counts": side_counts,
            "split": asdict(Split("divided", rows, sum(counts), name == "train")),
            "divided": record["divided"],
        }
        for name, side_counts in counts_by_name.items()
    }


def say_weights(context: Context, column: str | None, parts: list[PartRecord]) -> dict[str, str]:
    """Say what rows weigh on average, where that changes what C means; return the entry of ``metrics.json``.

    Raises
    ------
    InputError
        All rows weigh nothing.
    """
    if column is None:
        return {}
    mean = sum(part["weight"] for part in parts) / sum(part["rows"] for part in parts)
    if mean == 0:
        raise InputError(f"--weight {column}: found 0 in every row, expected rows that count")
    if not 0.1 < mean < 10:
        context.events.message(
            f"--weight {column}: rows weigh {mean:.4g} on average, which is as good as a C so many times as large: "
            f"divide them by that, or give --C {1 / mean:.2g} in place of 1 (--C auto tries what suits weights near 1)"
        )
    return {"weight": column}
