"""Checks of the parameters of estimators; messages use the names that the user typed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def subsample_size(value: Any, n_rows: int, automatic: int) -> int:
    """Return psi as the parameter ``max_samples`` says it: a number of rows, or `automatic` for "auto".

    Raises
    ------
    ValueError
        The value is neither "auto" nor a whole number from 1 to the number of rows.
    """
    if isinstance(value, str) and value == "auto":
        return automatic
    return check_whole_number("max_samples", value, n_rows, of="rows", word="auto")


def check_whole_number(name: str, value: Any, most: int | None = None, of: str = "", word: str = "") -> int:
    """Return a parameter as an int, or refuse it.

    Parameters
    ----------
    name : str
        Name of the parameter, as the user typed it.
    value : object
    most : int, optional
        Largest value allowed; default: no limit. The smallest one is 1.
    of : str
        What `most` is the number of, for the message, such as "rows".
    word : str
        A word that the parameter takes beside numbers, for the message, such as "auto".

    Raises
    ------
    ValueError
        The value is not a whole number, or is out of range.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 1 <= value <= (math.inf if most is None else most):
        limits = "of at least 1" if most is None else f"from 1 to {most}"
        reason = f", the number of {of}" if of else ""
        other = f', or "{word}"' if word else ""
        raise ValueError(f"{name} must be a whole number {limits}{reason}{other}, got {value!r}")
    return int(value)
