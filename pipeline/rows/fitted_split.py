"""Split rows by a column or by their targets: by time, by group, or so that both sides have the classes' shares."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ikmap import seed_paths
from ikmap.arrays import Bools, Floats
from ikmap.json_values import JsonObject
from ikmap.methods.kinds import quoted
from ikmap.seeds import generator
from ikmap.tables.statistics import fold_of
from ikmap.tasks import Task
from pipeline.errors import InputError
from pipeline.record_types import RecordView
from pipeline.rows.permutation import position_in_shuffle
from pipeline.rows.split_rule import STRATIFIED, TIME, SplitRule, keeps_groups
from pipeline.storage.arrays import read
from pipeline.storage.store import Store

KEPT, WORDS = "kept", "kept_words"
"""Array of a part with the values of the column by which rows are split, and attribute with their words."""
BUCKETS = 1 << 16
"""Number of buckets of positions in which the rows of a class are counted first."""


def keys_of(split_rule: SplitRule, store: Store, part: str, task: Task) -> np.ndarray:
    """Return the keys by which the rows of a part are split, shape (n,): times, group numbers in [0, 1), or targets."""
    arrays = store.open_arrays(part)
    if split_rule.rule == STRATIFIED:
        labels = arrays["labels"]
        return task.codec.targets(read(labels, slice(0, labels.shape[0])), store.need(part)["found"])
    values = read(arrays[KEPT], slice(0, arrays[KEPT].shape[0]))
    if split_rule.rule == TIME:
        return values
    key = generator(split_rule.seed, seed_paths.FITTED_SPLIT).bytes(16)
    words = store.need(part).get(WORDS)
    unique, at = np.unique(values, return_inverse=True)
    if words is None:
        texts = [np.float64(value).tobytes() for value in unique + 0.0]
    else:
        texts = [words[int(code)].encode() for code in unique]
    numbers = [int.from_bytes(hashlib.blake2b(text, digest_size=8, key=key).digest()) >> 11 for text in texts]
    group_keys: np.ndarray = np.array(numbers, dtype=np.float64)[at] * 2.0**-53
    return group_keys


def encoding_folds(
    split_by: str | None, seed: int, store: Store, part: str, task: Task, first: int, inside: np.ndarray
) -> np.ndarray:
    """Return the fold of training rows of a part, int64: an encoding by targets uses the labels of the other folds.

    Where rows are split by groups, all rows of a group are in one fold: labels of a row's group would tell its own.

    Parameters
    ----------
    split_by : str or None
        The run's ``--split-by``.
    first : int
        Number in the file of the part's first row.
    inside : int64 array (n,)
        Numbers of the rows within the part.
    """
    if split_by is None or not keeps_groups(split_by):
        return fold_of(first + inside, seed)
    return fold_of(
        (keys_of(SplitRule.parse(split_by, seed), store, part, task)[inside] * 2.0**53).astype(np.int64), seed
    )


@dataclass(frozen=True)
class FittedSplit:
    """The training rows among all rows: those before a cut.

    Attributes
    ----------
    rule : SplitRule
    n_rows : int
        Number of all rows.
    cuts : tuple of float
        One cut of times and groups: rows with a key below it are training rows. Of strata, one cut for each class: rows
        are training rows whose place in a seeded shuffle is below the cut of their class.
    """

    rule: SplitRule
    n_rows: int
    cuts: tuple[float, ...]

    @classmethod
    def from_json(cls, values: RecordView) -> FittedSplit:
        """Return the split that :meth:`as_json` has made into JSON values."""
        return cls(SplitRule(**values["division"]), values["n_rows"], tuple(values["cuts"]))

    def as_json(self) -> JsonObject:
        """Return the split as JSON values."""
        return {"division": asdict(self.rule), "n_rows": self.n_rows, "cuts": self.cuts}

    def trains(self, first: int, keys: np.ndarray) -> Bools:
        """Return the mask of the training rows among rows from number `first` on."""
        if self.rule.rule != STRATIFIED:
            below: np.ndarray = keys < self.cuts[0]
            return below
        place = position_in_shuffle(np.arange(first, first + keys.size, dtype=np.int64), self.n_rows, self.rule.seed)
        mask: np.ndarray = place < np.array(self.cuts)[keys]
        return mask


def divide(
    split_rule: SplitRule, store: Store, parts: Sequence[tuple[str, int]], task: Task, n_train: int
) -> tuple[FittedSplit, list[int]]:
    """Find the cuts that leave about `n_train` training rows, and the number of training rows of each part.

    Times and groups stay together: the number of training rows is the nearest possible one.

    Parameters
    ----------
    parts : sequence of (name, rows)

    Raises
    ------
    InputError
        All rows have one time or group, or a class has one row only.
    """
    n_rows = sum(rows for _, rows in parts)
    first = np.r_[0, np.cumsum([rows for _, rows in parts])].tolist()
    keys = (keys_of(split_rule, store, name, task) for name, _ in parts)
    if split_rule.rule == STRATIFIED:
        cuts = _cuts_of_classes(
            split_rule, list(zip(first, keys, strict=False)), n_rows, n_train, len(task.codec.classes)
        )
    else:
        cuts = (_cut(split_rule, keys, n_rows, n_train),)
    fitted_split = FittedSplit(split_rule, n_rows, cuts)
    counts = [
        int(fitted_split.trains(begin, keys_of(split_rule, store, name, task)).sum())
        for begin, (name, _) in zip(first, parts, strict=False)
    ]
    return fitted_split, counts


def _cut(split_rule: SplitRule, keys: Iterable[np.ndarray], n_rows: int, n_train: int) -> float:
    values, counts = np.zeros(0), np.zeros(0, dtype=np.int64)
    for part_keys in keys:
        part_values, rows = np.unique(part_keys, return_counts=True)
        values, places = np.unique(np.concatenate([values, part_values]), return_inverse=True)
        counts = np.bincount(places, weights=np.concatenate([counts, rows])).astype(np.int64)
    if values.size < 2:
        raise InputError(
            f"--split-by {split_rule.rule}:{quoted(split_rule.column)}: found the same value in all {n_rows:,} rows, "
            "expected several"
        )
    before = np.cumsum(counts)[:-1]
    return float(values[1:][np.argmin(np.abs(before - n_train))])


def _cuts_of_classes(
    split_rule: SplitRule, keys: Sequence[tuple[int, np.ndarray]], n_rows: int, n_train: int, classes: int
) -> tuple[float, ...]:
    """Return for each class the place in the shuffle that leaves its share of rows before it."""
    width = -(-n_rows // BUCKETS)
    in_bucket = np.zeros((classes, BUCKETS), dtype=np.int64)

    def places(first: int, targets: np.ndarray) -> np.ndarray:
        return position_in_shuffle(np.arange(first, first + targets.size, dtype=np.int64), n_rows, split_rule.seed)

    for first, targets in keys:
        np.add.at(in_bucket, (targets, places(first, targets) // width), 1)
    totals = in_bucket.sum(axis=1)
    n_wanted = np.rint(totals * (n_train / n_rows)).astype(np.int64)
    n_wanted = np.where(totals > 1, np.clip(n_wanted, 1, np.maximum(1, totals - 1)), totals)
    # The bucket in which a class has its last training row, and the training rows before that bucket.
    bucket = np.array([int(np.searchsorted(np.cumsum(row), w)) for row, w in zip(in_bucket, n_wanted, strict=True)])
    before = np.array([int(row[:b].sum()) for row, b in zip(in_bucket, bucket, strict=True)])
    near_places: list[list[np.ndarray]] = [[] for _ in range(classes)]
    for first, targets in keys:
        place = places(first, targets)
        near = np.flatnonzero(place // width == bucket[targets])
        for k in np.unique(targets[near]).tolist():
            near_places[k].append(place[near][targets[near] == k])
    cuts = []
    for k in range(classes):
        places_near = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *near_places[k]]))
        cuts.append(float(places_near[n_wanted[k] - before[k] - 1] + 1) if n_wanted[k] else 0.0)
    return tuple(cuts)


def checked(
    split_rule: SplitRule, values: np.ndarray, words: Sequence[str] | None, where: Callable[[int], str]
) -> Floats:
    """Return the values of the column, as they are stored.

    Raises
    ------
    InputError
        A value is missing, or is no time.
    """
    if split_rule.rule == TIME and words is not None:
        raise InputError(
            f"{where(0)}, column {split_rule.column!r}: found words such as {words[0]!r}, expected dates, times or "
            f"numbers for --split-by {TIME}"
        )
    missing = np.flatnonzero(np.isnan(values))
    if missing.size:
        raise InputError(
            f"{where(int(missing[0]))}, column {split_rule.column!r}: found a missing value, expected one in every row "
            f"for --split-by {split_rule.rule}"
        )
    return values
