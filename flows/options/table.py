"""The options that say what columns of a table are, and how they become features."""

from __future__ import annotations

from typing import Annotated, Any

from flows.options.command_line import Options
from flows.options.kinds import Place
from flows.options.option import On
from ikmap.methods import Doc
from ikmap.methods.kinds import Choice, Name, Text
from ikmap.tables.words import CATEGORIES, NUMBERS, TIMES
from pipeline.errors import InputError

DATA = "Data"


class TableOptions(Options):
    """Options of commands that train on a table."""

    drop: Annotated[tuple[str, ...] | None, Doc("columns of a table that are no features"), On(DATA)] = None
    id: Annotated[
        str | None,
        Name("COLUMN"),
        Doc("column of a table that tells rows apart: no feature, and written beside predictions"),
        On(DATA),
    ] = None
    weight: Annotated[
        str | None,
        Name("COLUMN"),
        Doc("column of a table that says how much each row counts (3: as three rows): numbers >= 0, and no feature"),
        On(DATA),
    ] = None
    delimiter: Annotated[
        str | None,
        Text("CHARACTER"),
        Doc(
            "what divides the columns of CSV, or the words tab and space (default: what the first line has most of: "
            "comma, tab, semicolon or |)"
        ),
        On(DATA),
    ] = None
    header: Annotated[
        tuple[str, ...] | None,
        Doc(
            "yes or no: whether the first line of CSV has the names of the columns; or the names, where it has not "
            "(default: yes, if it has words where the next line has numbers, or only words)"
        ),
        On(DATA),
    ] = None
    encoding: Annotated[
        str | None,
        Text("NAME"),
        Doc("encoding of CSV, such as latin-1 (default: UTF-8; where that cannot be, Windows-1252)"),
        On(DATA),
    ] = None
    missing: Annotated[
        tuple[str, ...] | None,
        Doc(
            "words that mean a missing cell, as empty ones do; a number among them, such as -999, is missing in every "
            "column of numbers, in Parquet and Arrow too, however it is written (default: NA,N/A,NaN,nan,null,NULL,?)"
        ),
        On(DATA),
    ] = None
    category: Annotated[
        tuple[str, ...] | None,
        Doc("columns of a table whose values are words, even if they look like numbers"),
        On(DATA),
    ] = None
    columns_plan: Annotated[
        str | None,
        Place("FILE", here=True),
        Doc(
            "TOML file with the kind and encoding of columns, for those that are not to be as they are inferred; "
            "every run on a table writes its own"
        ),
        On(DATA),
    ] = None
    encode_numbers: Annotated[
        str,
        Choice(("auto", *NUMBERS)),
        Doc(
            "how numbers of a table become features; auto: minmax; none "
            "where the table has only numbers and none is missing"
        ),
        On(DATA),
    ] = "auto"
    encode_categories: Annotated[
        str,
        Choice(("auto", *CATEGORIES)),
        Doc(
            "how words become features; auto: target (the mean label of the rows with that word), or where there are "
            "more than two classes or no labels, onehot up to 32 words"
        ),
        On(DATA),
    ] = "auto"
    encode_times: Annotated[
        str,
        Choice(("auto", *TIMES)),
        Doc(
            "how dates and times become features: parts (month, day, weekday, minute of the day), cycles (their sine "
            "and cosine), both, or recurring (the parts that come round six times among the training rows); auto: "
            "parts, with --split-by time:COLUMN recurring"
        ),
        On(DATA),
    ] = "auto"

    def check_together(self) -> None:
        """Refuse what no CSV can be read by."""
        super().check_together()
        csv_request(self)


_CHARACTERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
_HEADERS: dict[tuple[str, ...], bool] = {("yes",): True, ("no",): False}


def csv_request(options: TableOptions) -> dict[str, Any]:
    """Return the options that concern CSV files.

    Raises
    ------
    InputError
    """
    from pipeline.sources.datasets.spec import DELIMITER, ENCODING, is_delimiter, is_encoding

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
