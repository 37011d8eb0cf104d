"""The options that say what columns of a table are, and how they become features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flows.options.command_line import Options
from flows.options.declared import option
from flows.options.kinds import Place
from ikmap.methods.kinds import Choice, Names, Text
from ikmap.tables.words import CATEGORIES, NUMBERS, TIMES
from pipeline.datasets.spec import DELIMITER, ENCODING, is_delimiter, is_encoding
from pipeline.errors import InputError

DATA = "Data"


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """Of commands that train on a table."""

    drop: tuple[str, ...] | None = option(None, Names(), group=DATA, help="columns of a table that are no features")
    id: str | None = option(
        None,
        Text("COLUMN"),
        group=DATA,
        help="column of a table that tells rows apart: no feature, and written beside predictions",
    )
    weight: str | None = option(
        None,
        Text("COLUMN"),
        group=DATA,
        help="column of a table that says how much each row counts (3: as three rows): numbers >= 0, and no feature",
    )
    delimiter: str | None = option(
        None,
        Text("CHARACTER"),
        group=DATA,
        help="what divides the columns of CSV, or the words tab and space (default: what the first line has most of: "
        "comma, tab, semicolon or |)",
    )
    header: tuple[str, ...] | None = option(
        None,
        Names(),
        group=DATA,
        help="yes or no: whether the first line of CSV has the names of the columns; or the names, where it has not "
        "(default: yes, if it has words where the next line has numbers, or only words)",
    )
    encoding: str | None = option(
        None,
        Text("NAME"),
        group=DATA,
        help="encoding of CSV, such as latin-1 (default: UTF-8; where that cannot be, Windows-1252)",
    )
    missing: tuple[str, ...] | None = option(
        None,
        Names(),
        group=DATA,
        help="words in text files that mean a missing cell, as empty cells do (default: NA,N/A,NaN,nan,null,NULL,?)",
    )
    category: tuple[str, ...] | None = option(
        None, Names(), group=DATA, help="columns of a table whose values are words, even if they look like numbers"
    )
    columns_plan: str | None = option(
        None,
        Place("FILE", here=True),
        group=DATA,
        help="TOML file with the kind and encoding of columns, for those that are not to be as they are inferred; "
        "every run on a table writes its own",
    )
    encode_numbers: str = option(
        "auto",
        Choice(("auto", *NUMBERS)),
        group=DATA,
        help="how numbers of a table become features; auto: minmax; none "
        "where the table has only numbers and none is missing",
    )
    encode_categories: str = option(
        "auto",
        Choice(("auto", *CATEGORIES)),
        group=DATA,
        help="how words become features; auto: target (the mean label of the rows with that word), or where there are "
        "more than two classes or no labels, onehot up to 32 words",
    )
    encode_times: str = option(
        "auto",
        Choice(("auto", *TIMES)),
        group=DATA,
        help="how dates and times become features: parts (month, day, weekday, minute of the day), cycles (their sine "
        "and cosine), both, or recurring (the parts that come round six times among the training rows); auto: parts, "
        "with --split-by time:COLUMN recurring",
    )

    def check_together(self) -> None:
        """Refuse what no CSV can be read by."""
        super().check_together()
        csv_request(self)


_CHARACTERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
_HEADERS: dict[tuple[str, ...], bool] = {("yes",): True, ("no",): False}


def csv_request(options: TableOptions) -> dict[str, Any]:
    """What the options say of CSV files.

    Raises
    ------
    InputError
    """
    found: dict[str, Any] = {}
    if options.delimiter is not None:
        found["delimiter"] = _CHARACTERS.get(options.delimiter.lower(), options.delimiter)
        if not is_delimiter(found["delimiter"]):
            raise InputError(f"--delimiter {options.delimiter}: expected {DELIMITER}, or tab or space")
    if options.header is not None:
        found["header"] = _HEADERS.get(options.header, options.header)
    if options.encoding is not None:
        if not is_encoding(options.encoding):
            raise InputError(f"--encoding {options.encoding}: expected {ENCODING}")
        found["encoding"] = options.encoding
    return found
