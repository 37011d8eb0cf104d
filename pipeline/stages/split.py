"""Divide: what is kept beside rows as they are read, and which of them are training rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from ikmap.tables.statistics import packed
from ikmap.tasks import Task
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.readers.base import RawRows
from pipeline.record_types import Record
from pipeline.rows.fitted_split import KEPT, WORDS, checked, divide
from pipeline.rows.parts import WEIGHTS
from pipeline.rows.split import Part, Split
from pipeline.rows.split_rule import SplitRule
from pipeline.running.stage import Context
from pipeline.storage.store import Store
from pipeline.tables.encoding import LEVELS


def division_of(params: Params) -> SplitRule | None:
    """How the rows of a run are divided; None: at random, or as their files are."""
    return None if params.split_by is None else SplitRule.parse(params.split_by, params.seed)


def beside_of(division: SplitRule | None, block: RawRows, where: Callable[[int], str]) -> Record:
    """Arguments of ``store_block``: what is stored beside rows: words, weights, and what rows are divided by."""
    arrays = {} if block.levels is None else {LEVELS: packed(block.levels)}
    if block.weights is not None:
        arrays[WEIGHTS] = block.weights
    if division is None or not division.column:
        return {"beside": arrays}
    if block.kept is None:
        raise InputError(
            f"{where(0)}: found no table with names, expected CSV, Parquet or Arrow for --split-by {division.rule}:"
            f"{division.column}"
        )
    values, words = block.kept
    kept = {KEPT: checked(division, values, words, where)}
    return {"beside": arrays | kept, **({} if words is None else {WORDS: list(words)})}


def divide_rows(store: Store, division: SplitRule, parts: list[tuple[str, int]], task: Task, n_train: int) -> Record:
    """Task: find out which rows are training rows, by what they say of themselves."""
    divided, counts = divide(division, store, parts, task, n_train)
    return {"divided": divided.as_json(), "counts": counts}


def divided_sides(url: str, parts: list[Record], record: Record) -> Record:
    """Both sides of rows that :func:`divide_rows` has divided."""
    rows, counts = sum(int(part["rows"]) for part in parts), record["counts"]
    kept = [asdict(Part(part["name"], part["rows"])) for part in parts]
    both = {"train": counts, "test": [part["rows"] - k for part, k in zip(parts, counts, strict=True)]}
    return {
        name: {
            "url": url,
            "parts": kept,
            "counts": of,
            "split": asdict(Split("divided", rows, sum(counts), name == "train")),
            "divided": record["divided"],
        }
        for name, of in both.items()
    }


def say_weights(context: Context, column: str | None, parts: list[Record]) -> dict[str, str]:
    """Say what weights there are, where they change what C means. Returns what ``metrics.json`` says of them.

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
