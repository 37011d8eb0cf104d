"""Numbers and dates in text that are written in other ways: decimal commas are read, other formats are refused.

A column of such cells would else be taken for words, and nobody would know.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ikmap.tables import CATEGORY, ColumnPlan
from ikmap.tables.times import seconds_in
from pipeline.errors import InputError
from pipeline.monitoring.plain_text import shown
from pipeline.sources.columns.cells import number_in
from pipeline.sources.columns.kinds import are_faults, cells_of
from pipeline.sources.columns.request import TableRequest, as_typed

_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_NUMBER = r"(\d{1,3}([,.' \u00a0\u202f\u2019]\d{3})+([.,]\d+)?|\d+([.,]\d+)?)"
_CODES = (
    "AED|AUD|BDT|BGN|BHD|BRL|CAD|CHF|CLP|CNY|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|ISK|JPY|KES|KRW|KWD|KZT|MXN|MYR|"
    "NGN|NOK|NZD|PHP|PKR|PLN|QAR|RSD|RUB|SEK|SGD|THB|TWD|UAH|USD|VND|ZAR"
)
"""Codes of currencies, without those that are words too: TOP 10 and TRY 2 are no amounts of money."""
_UNIT = rf"([A-Z]{{0,2}}\$|[%\u2030]|{_CODES})"
"""Pattern of the signs and codes that stand beside an amount of money or a share; $ stands for any currency sign."""
_FORMATTED = re.compile(
    rf"[+-]?{_UNIT}?\s*[+-]?{_NUMBER}\s*(-\s*)?{_UNIT}?-?"
    rf"|[+-]?{_UNIT}\s*[+-]?{_NUMBER}\s*[kKmM]-?|[+-]?{_NUMBER}\s*[kKmM]\s*{_UNIT}-?"
)
_PARENTHESES = re.compile(r"\((.+)\)")
LONGEST_NUMBER = 50
"""Characters of the longest cell that is looked at as a number."""
_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_NAMED = re.compile(
    rf"([a-z]{{3,9}},? )?({_MONTH}\.? \d{{1,2}}[a-z]{{0,2}},? \d{{4}}|\d{{1,2}}[ -]{_MONTH}\.?[ -]\d{{2,4}})( .*)?",
    re.IGNORECASE,
)
_TIME_OF_DAY = r"[ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[ap]\.?m\.?)?( ?(utc|gmt|z|[+-]\d{2}:?\d{2}))?"
_DATE = re.compile(
    rf"(\d{{1,2}}([./-])\d{{1,2}}\2(\d{{4}}|\d{{2}})|\d{{4}}-\d{{1,2}}-\d{{1,2}})({_TIME_OF_DAY})?"
    r"|\d{4}/\d{1,2}/\d{1,2}([ T].*)?",
    re.IGNORECASE,
)


def has_decimal_commas(rows: Iterable[Sequence[str]]) -> bool:
    """Return whether numbers in these rows have a comma where others have a point.

    They do if one of them cannot have its comma between thousands, and none has a point.
    """
    has_commas = False
    for row in rows:
        for cell in row:
            word = cell.strip()
            if _POINT.fullmatch(word):
                return False
            has_commas |= bool(_COMMA.fullmatch(word)) and not re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", word)
    return has_commas


def with_point(cell: str) -> str:
    """Return a number with a decimal comma as one with a decimal point; any other cell as it is."""
    word = cell.strip()
    return word.replace(",", ".") if _COMMA.fullmatch(word) else cell


def without_thousands(cell: str) -> str:
    """Return a whole number with points between thousands without them; any other cell as it is."""
    return cell.replace(".", "") if re.fullmatch(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", cell, re.ASCII) else cell


def refuse_formatted_numbers(
    url: str,
    columns: Sequence[ColumnPlan],
    line: Callable[[int], int],
    rows: Sequence[Sequence[str]],
    request: TableRequest,
) -> None:
    """Refuse columns of words that nearly all are numbers or dates, some written as no reader here takes them.

    Parameters
    ----------
    line : callable
        Returns the line of a row.

    Raises
    ------
    InputError
        For the first cell that is written so; unless the user says that the column has words.
    """
    missing = request.missing_cells
    for j, column in enumerate(columns):
        if column.kind != CATEGORY or column.name in request.plan or column.name in request.categories:
            continue
        cells = cells_of(j, rows, missing)
        found = formatted_number(cells) or _formatted_date(cells)
        if found is None:
            continue
        word, expected = found
        row = next(k for k, row in enumerate(rows) if row[j].strip() == word)
        raise InputError(
            f"{url}: line {line(row)}, column {shown(column.name)}: found {shown(word)}, expected {expected}; "
            f"if its cells are words: {as_typed('--category', column.name)}; to leave it out: "
            f"{as_typed('--drop', column.name)}"
        )


def formatted_number(cells: Counter[str]) -> tuple[str, str] | None:
    """Return a cell with a number that no reader here takes, and how it ought to be written.

    None where some cells are no numbers in any format, more than a few of them, or all are plain.
    """
    expected = "plain numbers such as 1234.5 or -1234.5, without other signs or marks between thousands"
    return _formatted(cells, number_in, _is_formatted_number, expected)


def _is_formatted_number(word: str) -> bool:
    """Return whether a word is a number with a sign, a currency, marks between thousands, or a minus elsewhere."""
    if len(word) > LONGEST_NUMBER:
        return False
    plain = word if word.isascii() else "".join(map(_plain_sign, word))
    return bool(_FORMATTED.fullmatch(_PARENTHESES.sub(r"-\1", plain)))


def _plain_sign(character: str) -> str:
    """Return $ for the sign of any currency, a hyphen for a minus, and any other character as it is."""
    return "-" if character == "\u2212" else "$" if unicodedata.category(character) == "Sc" else character


def _formatted_date(cells: Counter[str]) -> tuple[str, str] | None:
    def is_date(word: str) -> bool:
        return bool(_DATE.fullmatch(word) or _NAMED.fullmatch(word))

    return _formatted(cells, seconds_in, is_date, "dates such as 2001-05-31 or 2001-05-31 23:59")


def _formatted(
    cells: Counter[str], read: Callable[[str], object], is_formatted: Callable[[str], object], expected: str
) -> tuple[str, str] | None:
    unread = [word for word in cells if read(word) is None]
    formatted = [word for word in unread if is_formatted(word)]
    words = {*unread} - {*formatted}
    return (formatted[0], expected) if formatted and are_faults(words, cells) else None
