"""Split, the third step of ingest: find out which rows are training rows and which are test rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import accumulate

from ikmap.tasks import Task as LearningTask
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import LearnedRecord, PartName, PartRecord, SideRecord, SplitRecord
from pipeline.rows.fitted_split import divide
from pipeline.rows.parts import learned_of
from pipeline.rows.preparation import Preparation
from pipeline.rows.split import SHUFFLED_TOGETHER, Split
from pipeline.rows.split_rule import SplitRule
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.read import StoredFile
from pipeline.storage.store import Store


def split_rule_of(params: Params) -> SplitRule | None:
    """Return the rule by which the rows of a run are split; None: at random, or as their files are."""
    return None if params.split_by is None else SplitRule.parse(params.split_by, params.seed)


def split(
    stage: Stage, data: ResolvedDataset, files: Mapping[str, StoredFile], task: LearningTask
) -> dict[str, SideRecord]:
    """Return training and test rows: two files, or one whose rows are split by a rule, by the seed or by their order.

    Raises
    ------
    InputError
        The rows cannot be split in that way.
    """
    if "test" in files:
        return {name: _side(file.url, file.parts, Split("all", file.rows)) for name, file in files.items()}
    train, params = files["train"], stage.context.params
    split_rule = split_rule_of(params)
    n_train = data.split.train_rows(train.rows, train.url)
    if split_rule is not None:
        names = [(part["name"], int(part["rows"])) for part in train.parts]
        args = (stage.context.store, split_rule, names, task, n_train)
        (record,) = stage.run(split_rows, [Task("divide", args)])
        return _sides_by_rule(train.url, train.parts, record)
    chosen = Split(data.split.rule, train.rows, n_train, True, params.seed)
    train_side = _side(train.url, train.parts, chosen)
    # All other rows are test rows: to shuffle all rows once more would take as long as to store them.
    test_counts = [part["rows"] - k for part, k in zip(train.parts, train_side["counts"], strict=True)]
    test_side: SideRecord = {**train_side, "counts": test_counts, "split": asdict(replace(chosen, train=False))}
    return {"train": train_side, "test": test_side}


def split_rows(
    store: Store, split_rule: SplitRule, parts: list[tuple[str, int]], task: LearningTask, n_train: int
) -> SplitRecord:
    """Task: find out which rows are training rows, by a column of theirs or by their targets."""
    fitted_split, counts = divide(split_rule, store, parts, task, n_train)
    return {"divided": fitted_split.as_json(), "counts": counts}


def _sides_by_rule(url: str, parts: list[PartRecord], record: SplitRecord) -> dict[str, SideRecord]:
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


def _side(url: str, parts: list[PartRecord], chosen: Split) -> SideRecord:
    """Return the rows of a file that are chosen: file, parts, and the number of rows of each."""
    rows = [int(part["rows"]) for part in parts]
    firsts = accumulate(rows[:-1], initial=0)
    # Shuffling very many rows takes a while, in which the workers have nothing to do.
    with ThreadPoolExecutor(1 if chosen.n_rows <= SHUFFLED_TOGETHER else os.cpu_count()) as pool:
        counts = list(pool.map(chosen.count, firsts, rows))
    names: list[PartName] = [{"name": part["name"], "rows": part["rows"]} for part in parts]
    return {"url": url, "parts": names, "counts": counts, "split": asdict(chosen)}


def leave_out_rows(stage: Stage, side: SideRecord, preparation: Preparation, data: ResolvedDataset) -> SideRecord:
    """Return training rows without those that the task does not learn from: count the other rows of each part.

    Raises
    ------
    InputError
        The task learns from none of them.
    """
    chosen = Split(**side["split"])
    firsts = accumulate((part["rows"] for part in side["parts"]), initial=0)
    tasks = [
        Task(f"learned-{k:05d}", (stage.context.store, preparation, chosen, first, part))
        for k, (first, part) in enumerate(zip(firsts, side["parts"], strict=False))
    ]
    counts = [record["learned"] for record in stage.run(learned_rows, tasks)]
    if not sum(counts):
        raise InputError(
            f"{data.train_url}: found no training row with the label {', '.join(data.inliers or ())} (--inliers); "
            "give another --seed or --test-size"
        )
    return {**side, "counts": counts, "learned": True}


def learned_rows(store: Store, preparation: Preparation, split: Split, first: int, part: PartName) -> LearnedRecord:
    """Task: count the training rows of a part, which begins at row `first`, that the task learns from."""
    numbers = split.of_part(first, part["rows"])
    return {"learned": int(learned_of(store, part["name"], numbers, preparation).size)}
