"""Look at the files and names given to a command before anything is started, and refuse missing ones at once.

Only quick checks are made here: of this machine's files and of the names of data sets. Servers are asked later.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from flows.options.batch import BatchOptions
from flows.options.reproduce import ReproduceOptions
from flows.options.score import ScoreOptions
from pipeline.errors import InputError
from pipeline.runs.folder import folder_of_run
from pipeline.sources.datasets.known import (
    EMBEDDED,
    Registry,
    default_data_dir,
    files_of,
    load_registry,
    refuse_lacking,
)
from pipeline.urls import Location, path_and_part

STANDARD_INPUT = "-"


def look_at_data[O: BatchOptions](options: O, say: Callable[[str], None]) -> O:
    """Refuse data that are not there; take a --dataset that is a URL or a file as --input.

    Parameters
    ----------
    say : callable
        Function that shows one line, if a --dataset is taken as --input.

    Raises
    ------
    InputError
    """
    if options.columns_plan is not None:
        from pipeline.sources.columns.plan_file import read_plan

        read_plan(options.columns_plan)
    if options.input is None:
        folder = data_folder(options.data_dir)
        registry = known_data(options.dataset_file, folder)
        name = Location(options.dataset or EMBEDDED)
        if name in registry or not _is_place(name):
            spec = registry.find(name)
            refuse_lacking(spec, folder)
            _refuse_for_files(options, name, has_test_set=files_of(spec, folder)[0].test is not None)
            return options
        say(f"--dataset {name}: no data set of this name is known; taken as --input")
        options = replace(options, dataset=None, dataset_file=None, input=name)
    refuse_missing(place for place in (options.input, options.test_input) if place not in (None, STANDARD_INPUT))
    return options


def _refuse_for_files(options: BatchOptions, name: str, *, has_test_set: bool) -> None:
    """Refuse options that change nothing where the data set is a known one."""
    at_default = options.at_default
    if "format" not in at_default:
        raise InputError(
            f"--format {options.format}: found the data set {name}, whose format is known, expected --input; leave "
            "--format out"
        )
    if has_test_set and "test_size" not in at_default:
        raise InputError(
            f"--test-size {options.test_size:g}: found the data set {name}, which has a test set of its own; leave "
            "--test-size out"
        )


def look_at_model(options: ScoreOptions) -> None:
    """Refuse a model or rows to score that are not there.

    Raises
    ------
    InputError
    """
    folder_of_run(options.model)
    refuse_missing([options.input])


def look_at_paper(options: ReproduceOptions) -> None:
    """Refuse a file of data sets that cannot be read, and data sets that are not known.

    Raises
    ------
    InputError
    """
    registry = known_data(options.dataset_file, data_folder(options.data_dir))
    for name in options.datasets or ():
        registry.find(name)


def data_folder(given: str | None) -> Path:
    """Return the directory of the data sets."""
    return Path(given).expanduser() if given else default_data_dir()


def known_data(given: str | None, folder: Path) -> Registry:
    """Return the known data sets, including those of a file of the user."""
    return load_registry(Path(os.path.expanduser(given)) if given else None, folder)


def refuse_missing(places: Iterable[str]) -> None:
    """Refuse files and folders of this machine that are not there or cannot be opened.

    Raises
    ------
    InputError
    """
    for place in map(Location, places):
        for single in [place] if os.path.exists(place) else place.several():
            if single.is_local:
                _refuse_missing(single)


def _refuse_missing(place: Location) -> None:
    path, _ = path_and_part(str(Path(place.whole.removeprefix("file://")).expanduser()))
    try:
        if os.path.isdir(path):
            os.scandir(path).close()
        elif glob.has_magic(path) and not os.path.exists(path):
            if next(glob.iglob(path, recursive=True), None) is None:
                raise InputError(f"{place}: found no file of such a name")
        else:
            with open(path, "rb"):
                pass
    except FileNotFoundError:
        raise InputError(f"{place}: no such file") from None
    except OSError as error:
        raise InputError(f"{place}: cannot be read: {(error.strerror or str(error)).lower()}") from None


def _is_place(name: Location) -> bool:
    return not name.is_local or os.path.exists(Path(name.whole.removeprefix("file://")).expanduser())
