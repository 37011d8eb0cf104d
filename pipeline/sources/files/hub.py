"""Folders of Hugging Face data sets: those with several splits are refused, and caches beside the rows left out.

Rows of a test split that were read as training rows would make every figure of the test too good.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.errors import InputError

_DICT = "dataset_dict.json"
_SHARD = re.compile(r"(?P<folder>(?:.*/)?)(?P<split>\w+)-\d{5}-of-\d{5}\.[\w.]+")
_STATE = "state.json"
"""Name of the file that ``save_to_disk`` writes beside those of the rows."""
_CACHE = re.compile(r"cache-.*\.arrow|tmp.*")
"""Names of the files that ``map``, ``filter`` and the like write beside those: the same rows, processed."""
_PLACES = ("train", "test", "validation", "valid", "dev")


def refuse_splits(folder: str, names: Sequence[str]) -> None:
    """Refuse a folder of several splits, by the names of the files below it, relative to the folder.

    Raises
    ------
    InputError
        It says what to give for training and for the test.
    """
    if _DICT in names:
        splits = sorted({name.partition("/")[0] for name in names if name.endswith("/dataset_info.json")})
        _refuse(folder, splits, {split: f"{folder}/{split}" for split in splits})
        return
    shards = [match for name in names if (match := _SHARD.fullmatch(name))]
    globs = {match["split"]: f"'{folder}/{match['folder']}{match['split']}-*'" for match in shards}
    _refuse(folder, sorted(globs), globs)
    tops = {name.partition("/")[0] for name in names if "/" in name}
    _refuse(folder, sorted(tops & set(_PLACES)), {split: f"{folder}/{split}" for split in tops})


def without_caches(names: Sequence[str]) -> list[str]:
    """Return the names of files below a folder without the caches beside saved data sets."""
    places = [name.rpartition("/") for name in names]
    saved = {folder for folder, _, file in places if file == _STATE}
    return ["".join(place) for place in places if not (place[0] in saved and _CACHE.fullmatch(place[2]))]


def _refuse(folder: str, splits: Sequence[str], places: dict[str, str]) -> None:
    """Refuse the splits if they are for training and for something else."""
    if len(splits) < 2 or "train" not in splits:
        return
    other = "test" if "test" in splits else next(split for split in splits if split != "train")
    raise InputError(
        f"{folder}: found the splits {', '.join(splits)} of a data set, expected rows of one; give {places['train']} "
        f"and --test-input {places[other]}"
    )
