"""The options that say what columns of a table are, and how they become features."""

from __future__ import annotations

from dataclasses import dataclass

from flows.options.command_line import Options
from ikmap.methods import option
from ikmap.methods.kinds import Choice, Names, Text
from ikmap.tables.words import CATEGORIES, NUMBERS, TIMES

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
    missing: tuple[str, ...] | None = option(
        None,
        Names(),
        group=DATA,
        help="cells of text that stand for nothing, beside empty ones (default: NA,N/A,NaN,nan,null,NULL,?)",
    )
    category: tuple[str, ...] | None = option(
        None, Names(), group=DATA, help="columns of a table whose values are words, even if they look like numbers"
    )
    columns_plan: str | None = option(
        None,
        Text("FILE"),
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
        help="how words become features; auto: target (the mean label of the rows with that word, where they are few "
        "without the fold of the row); onehot up to 32 words where there are more than two classes or no labels",
    )
    encode_times: str = option(
        "auto",
        Choice(("auto", *TIMES)),
        group=DATA,
        help="how dates and times become features: parts (month, day, weekday, minute of the day), cycles (their sine "
        "and cosine), both, or recurring (the parts that come round six times among the training rows); auto: parts, "
        "with --split-by time:COLUMN recurring",
    )
