"""The definition of a data set (``datasets.toml`` explains the keys), and its validation."""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import cast

from pipeline.errors import InputError
from pipeline.record_types import Record
from pipeline.sources.files.compression import ENDINGS
from pipeline.sources.formats import format_names
from pipeline.urls import Location, refuse_credentials

CSV_KEYS = ("header", "delimiter", "encoding")
"""Keys that say something of files of one format only."""

Label = int | float | str


@dataclass(frozen=True)
class Split:
    """The rule by which rows become training and test rows if there is no test file.

    Parameters
    ----------
    rule : {"shuffle", "first"}
        A seeded shuffle, or file order (for data in time order).
    fraction : float
        Share of training rows, in (0, 1); rounded up to whole rows. Ignored where `n_train` is given.
    n_train : int, optional
        Number of training rows.
    """

    rule: str = "shuffle"
    fraction: float = 0.8
    n_train: int | None = None

    def train_rows(self, n_rows: int, url: str = "") -> int:
        """Return the number of training rows among `n_rows`: ceil(fraction n), exactly.

        Raises
        ------
        InputError
            No row would be left to train or to test on.
        """
        # The fraction as written: in floating point 0.7 * 10 and the like can round up a row too far.
        n_train = math.ceil(Fraction(str(self.fraction)) * n_rows) if self.n_train is None else self.n_train
        if not 0 < n_train < n_rows:
            raise InputError(
                f"{url}{': ' if url else ''}found {n_rows} rows, expected enough to train and to test on: the split "
                f"would train on {n_train}; give another --test-size, or --test-input"
            )
        return n_train


def name_here(place: Location) -> str:
    """Return the name of a file in the data directory, where files of one name at several addresses are kept apart."""
    if not place.is_web:
        return place
    return f"{hashlib.sha256(place.whole.encode()).hexdigest()[:8]}-{place.name}"


@dataclass(frozen=True)
class Files:
    """One set of files that hold a data set: names without compression suffix, and where to get them."""

    train: Location
    test: Location | None = None
    site: str | None = None
    suffixes: tuple[str, ...] = ("",)
    divide: float = 1.0
    sha256: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("train", "test"):
            if (name := getattr(self, key)) is not None:
                object.__setattr__(self, key, Location(name))

    @property
    def names(self) -> tuple[Location, ...]:
        return (self.train,) if self.test is None else (self.train, self.test)

    def addresses(self, name: Location) -> dict[str, Location]:
        """Return where file `name` can be downloaded, best first, by the names to keep; empty if nothing is known."""
        if name.is_web:
            return {name_here(name): name}
        if self.site is None or name.startswith("/") or ".." in name.split("/"):  # not below the data directory
            return {}
        site = self.site.rstrip("/")
        return {f"{name}{suffix}": Location(f"{site}/{name}{suffix}") for suffix in self.suffixes}


@dataclass(frozen=True)
class DatasetSpec:
    """A registered data set; `datasets.toml` explains the fields.

    `files` are tried in turn; `folder` is the directory of the file that defines it (None: built in).
    """

    name: str
    files: tuple[Files, ...] = ()
    folder: Path | None = None
    title: str = ""
    aliases: tuple[str, ...] = ()
    task: str = "auto"
    format: str = "auto"
    package: str | None = None
    resource: str | None = None
    n_columns: int | None = None
    n_train: int | None = None
    n_test: int | None = None
    label: str | int | None = None
    header: bool | tuple[str, ...] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    drop: tuple[str, ...] = ()
    two_class: tuple[tuple[Label, ...], tuple[Label, ...]] | None = None
    divide: float = 1.0
    split: Split = Split()
    source: str | None = None
    licence: str | None = None


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _is_two_class(value: object) -> bool:
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(side, list) and side for side in value)):
        return False
    labels = [label for side in value for label in side]
    return all(isinstance(label, Label) for label in labels) and len(set(labels)) == len(labels)


def _is_split(value: object) -> bool:
    if not isinstance(value, dict) or not set(value) <= {"rule", "fraction", "n_train"} or len(value) > 2:
        return False
    fraction = value.get("fraction", 0.5)
    return (
        value.get("rule", "shuffle") in ("shuffle", "first")
        and (type(fraction) is float and 0 < fraction < 1)
        and _is_count(value.get("n_train", 1))
    )


def is_delimiter(value: object) -> bool:
    """Return whether columns can be divided by it: one character that is in no number, name or quote."""
    if not (isinstance(value, str) and len(value) == 1 and value.isascii()):
        return False
    return value == "\t" or (value.isprintable() and not value.isalnum() and value not in "\"'.+-_")


DELIMITER = "one character that is in no number, name or quote, such as ';' or '|'"
ENCODING = "the name of an encoding, such as utf-8, cp1252 or latin-1"


def is_encoding(name: str) -> bool:
    """Return whether text can be read in the encoding of this name."""
    try:
        return isinstance("".encode(name), bytes)
    except (LookupError, UnicodeError, ValueError):
        return False


def _is_one_of(*choices: str) -> Callable[[object], bool]:
    return lambda value: value in choices


_TEXT = (lambda value: isinstance(value, str) and value != "", "a string")
_COUNT = (_is_count, "a positive integer")
_FILE_KEYS: dict[str, tuple[Callable[[object], bool], str]] = {
    "train": _TEXT,
    "test": _TEXT,
    "site": (
        lambda v: isinstance(v, str) and Location(v).is_web and Location(v).place == v,
        "an http or https address without a query",
    ),
    "suffixes": (
        lambda v: _is_names(v) and set(cast("list[str]", v)) <= {"", *ENDINGS},
        "a list of " + ", ".join(f'"{ending}"' for ending in ("", *ENDINGS)),
    ),
    "divide": (lambda v: type(v) in (int, float) and 0 < cast("float", v) < math.inf, "a positive number"),
    "sha256": (lambda v: isinstance(v, dict) and _is_names([*v.values()]), "a table of strings"),
}
_KEYS: dict[str, tuple[Callable[[object], bool], str]] = {
    **_FILE_KEYS,
    "title": _TEXT,
    "aliases": (_is_names, "a list of strings"),
    "task": (
        _is_one_of("auto", "binary", "multiclass", "regression", "novelty"),
        "auto, binary, multiclass, ...",
    ),
    "format": (
        _is_one_of("auto", *format_names()),
        f"one of auto, {', '.join(format_names())}",
    ),
    "package": _TEXT,
    "resource": _TEXT,
    "n_columns": _COUNT,
    "n_train": _COUNT,
    "n_test": _COUNT,
    "label": (lambda v: type(v) in (int, str), "a column's name or number"),
    "header": (
        lambda v: isinstance(v, bool) or (_is_names(v) and v != []),
        "true or false, or a list of names of columns",
    ),
    "delimiter": (is_delimiter, DELIMITER),
    "encoding": (lambda v: isinstance(v, str) and is_encoding(v), ENCODING),
    "drop": (_is_names, "a list of names of columns"),
    "two_class": (_is_two_class, "two lists of labels without a label in common"),
    "split": (_is_split, 'like { rule = "shuffle", fraction = 0.8 } or { rule = "first", n_train = 1000 }'),
    "source": _TEXT,
    "licence": _TEXT,
    "variants": (lambda v: isinstance(v, list) and v != [], "a list of tables"),
}


def _check(where: str, table: object, keys: Mapping[str, tuple[Callable[[object], bool], str]]) -> None:
    """Complain about the first key that is unknown or has the wrong kind of value."""
    if not isinstance(table, dict):
        raise InputError(f"{where}: found {table!r}, expected a table")
    for key, value in table.items():
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            raise InputError(
                f"{where}: unknown key '{key}', expected {near[0] if near else 'one of ' + ', '.join(keys)}"
            )
        try:
            for text in [value] if isinstance(value, str) else value if _is_names(value) else []:
                refuse_credentials(text)
        except ValueError as error:
            raise InputError(f"{where}: {key}: {error}") from None
        fits, expected = keys[key]
        if not fits(value):
            raise InputError(f"{where}: {key} = {value!r}, expected {expected}")


def parse_spec(path: Path, folder: Path | None, name: str, table: Record) -> DatasetSpec:
    """Make a data set of its TOML table; `path` is the defining file, for messages.

    Raises
    ------
    InputError
        An unknown key, a value of the wrong kind, or no file named.
    """
    where = f"{path}: data set '{name}'"
    _check(where, table, _KEYS)
    common = {key: value for key, value in table.items() if key in _FILE_KEYS}
    variants = []
    for variant in table.get("variants", [{}]):
        _check(f"{where}, variant", variant, _FILE_KEYS)
        options = common | variant
        options["suffixes"] = tuple(options.get("suffixes", ("",)))
        if "train" in options:
            variants.append(Files(**options))
        elif "package" not in table or "resource" not in table:
            raise InputError(f'{where}: found no file, expected train = "FILE"')
    for key in CSV_KEYS:
        if key in table and table.get("format", "auto") not in ("auto", "csv"):
            raise InputError(f'{where}: {key} = {table[key]!r} is for CSV, found format = "{table["format"]}"')
    options = {k: v for k, v in table.items() if k not in _FILE_KEYS and k != "variants"}
    options["aliases"], options["drop"] = (tuple(table.get(key, ())) for key in ("aliases", "drop"))
    if isinstance(options.get("header"), list):
        options["header"] = tuple(options["header"])
    options["divide"] = float(table.get("divide", 1.0))
    options["split"] = Split(**table.get("split", {}))
    if two_class := table.get("two_class"):
        options["two_class"] = tuple(tuple(side) for side in two_class)
    return DatasetSpec(name=name, files=tuple(variants), folder=folder, **options)
