"""Split, the third step of ingest: find out which rows are training rows and which are test rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import accumulate

from ikmap.json_values import JsonObject
from ikmap.tasks import Task as LearningTask
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import CountsRecord, LearnedRecord, PartName, PartRecord, SideRecord, SplitRecord
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
        return {
            name: _side(file.url, file.parts, Split("all", file.rows), [part["rows"] for part in file.parts])
            for name, file in files.items()
        }
    train, params, store = files["train"], stage.context.params, stage.context.store
    split_rule = split_rule_of(params)
    n_train = data.split.train_rows(train.rows, train.url)
    sizes = [int(part["rows"]) for part in train.parts]
    if split_rule is not None:
        names = [part["name"] for part in train.parts]
        args = (store, split_rule, list(zip(names, sizes, strict=True)), task, n_train)
        (divided,) = stage.run(split_rows, [Task("divide", args)])
        chosen = Split("divided", train.rows, sum(divided["counts"]))
        return _both_sides(train.url, train.parts, chosen, divided["counts"], divided["divided"])
    chosen = Split(data.split.rule, train.rows, n_train, True, params.seed)
    # A task finds the sides of so many rows in a fraction of a second.
    tasks: dict[int, list[tuple[int, int]]] = {}
    for first, rows in zip(accumulate(sizes[:-1], initial=0), sizes, strict=True):
        tasks.setdefault(first // SHUFFLED_TOGETHER, []).append((first, rows))
    counted = stage.run(count_train_rows, [Task(f"divide-{k:05d}", (chosen, parts)) for k, parts in tasks.items()])
    return _both_sides(train.url, train.parts, chosen, [count for own in counted for count in own["counts"]])


def count_train_rows(chosen: Split, parts: Sequence[tuple[int, int]]) -> CountsRecord:
    """Task: count the training rows of some parts of a file, given by their first rows and numbers of rows."""
    return {"counts": [chosen.count(first, rows) for first, rows in parts]}


def split_rows(
    store: Store, split_rule: SplitRule, parts: list[tuple[str, int]], task: LearningTask, n_train: int
) -> SplitRecord:
    """Task: find out which rows are training rows, by a column of theirs or by their targets."""
    fitted_split, counts = divide(split_rule, store, parts, task, n_train)
    return {"divided": fitted_split.as_json(), "counts": counts}


def _both_sides(
    url: str, parts: Sequence[PartRecord], chosen: Split, counts: list[int], divided: JsonObject | None = None
) -> dict[str, SideRecord]:
    """Return training rows, of which each part has so many, and test rows: all others."""
    others = [part["rows"] - count for part, count in zip(parts, counts, strict=True)]
    sides = {
        "train": _side(url, parts, chosen, counts),
        "test": _side(url, parts, replace(chosen, train=False), others),
    }
    if divided is not None:
        for side in sides.values():
            side["divided"] = divided
    return sides


def _side(url: str, parts: Sequence[PartRecord], chosen: Split, counts: list[int]) -> SideRecord:
    """Return the rows of a file that are chosen: file, parts, and the number of rows of each."""
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
