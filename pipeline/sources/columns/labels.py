"""The label of a table: which column it is, and its values."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from pipeline.errors import InputError
from pipeline.monitoring.plain_text import shown

# The names that make a column the label when none is named (in any case).
LABEL_NAMES = ("label", "target", "class", "y")
COMPARED_NAMES, COMPARED_LENGTH = 5000, 100
"""The nearest name is looked for among so many, of so many characters: that takes 10 microseconds each, or more."""


def check_names(where: str, names: Sequence[str]) -> None:
    """Refuse a table of which two columns have the same name.

    Raises
    ------
    InputError
        A name appears twice; both columns are said.
    """
    first: dict[str, int] = {}
    for j, name in enumerate(names):
        if first.setdefault(name, j) != j:
            raise InputError(
                f"{where}: column name {shown(name)} appears twice (columns {first[name] + 1} and {j + 1}), "
                "expected different names"
            )


def choose_label(
    url: str,
    names: Sequence[str] | None,
    n_total: int,
    label: str | int | None,
    *,
    required: bool,
    n_columns: int | None,
    by_name: bool = False,
    last: bool = True,
) -> int | None:
    """Return the position of the label column among all `n_total` columns, or None where there is none.

    Parameters
    ----------
    url : str
        For messages.
    names : sequence of str or None
        Names of all columns; None for a table without a header.
    label : str, int or None
        A name, or a position (negative ones count from the end); None for the default: a column with one of
        :data:`LABEL_NAMES`, or the last column of a table without names, where a label must be found or the table has
        other columns than are known.
    required : bool
        Whether a label must be found. If not, a table of exactly `n_columns` columns holds features only, unless
        one of them has the name that was given.
    by_name : bool
        Whether `label` is a name, also where it looks like a position.
    last : bool
        Whether a label that is not required stands behind the features, in a table without names.

    Raises
    ------
    InputError
        If a required label is missing (with the columns that exist and the nearest name) or could be several.
    """
    if not required and n_total == n_columns and (names is None or label not in names):
        return None
    position = None if label is None or by_name else _position(label, n_total)
    if names is None and position is None and not required and not last and n_total - 1 == n_columns:
        raise InputError(
            f"{url}: found {n_total} columns without names, expected the {n_columns} features of the training data, or "
            f"names in the first line; if one of them is the label, give its position: --label 0 to --label {n_columns}"
        )
    if label is None:
        if names is None:
            return n_total - 1 if required or n_columns is not None else None
        candidates = [i for i, name in enumerate(names) if name.strip().lower() in LABEL_NAMES]
        if len(candidates) > 1:
            both = " and ".join(shown(names[i]) for i in candidates[:2])
            raise InputError(f"{url}: columns {both} could each be the label; choose one by its name")
        if candidates:
            return candidates[0]
        if not required:
            return None
        raise InputError(
            f"{url}: found no column named {', '.join(LABEL_NAMES[:-1])} or {LABEL_NAMES[-1]}; "
            f"give --label, one of the columns {_listed(names)}"
        )
    if names is not None and label in names:
        return list(names).index(str(label))
    if position is not None:
        return position
    if not required:
        return None
    if names is None:
        raise InputError(
            f"{url}: no label column {str(label)!r}; the file has no header, so give a position from 0 to "
            f"{n_total - 1}, or -1 for the last"
        )
    compared = [name for name in names[:COMPARED_NAMES] if len(name) <= COMPARED_LENGTH]
    near = difflib.get_close_matches(str(label)[:COMPARED_LENGTH], compared, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"{url}: no label column {str(label)!r}; {hint}the columns are {_listed(names)}")


def _position(label: str | int, n_total: int) -> int | None:
    try:
        position = int(label)
    except ValueError:
        return None
    return position % n_total if -n_total <= position < n_total else None


def _listed(names: Sequence[str], limit: int = 12) -> str:
    listed = ", ".join(shown(name) for name in names[:limit])
    return listed if len(names) <= limit else f"{listed} and {len(names) - limit} more"
