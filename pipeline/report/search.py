"""The note under the picture of a search: the candidates that the search dropped, in words."""

from __future__ import annotations

from pipeline.report.fields import Metrics, get_list, get_mapping, get_number
from pipeline.report.text import brief, count

BRACKETS = " In brackets: by how many rows they were behind, of the rows on which the two differ."


def search_note(selection: Metrics, parameter: str, sign: str, *, in_rows: bool) -> str:
    """Return sentences on values that ran on fewer folds, why, and on values that a budget has left out, if any.

    Parameters
    ----------
    in_rows : bool
        Whether the values were compared by the number of rows that they have right.
    """
    folds = get_number(selection, "folds")
    of = f" of {count(folds)}" if folds is not None else ""
    parts = []
    for name, rounds in get_mapping(get_mapping(selection, "race"), "rounds").items():
        for at in get_list({"rounds": rounds}, "rounds"):
            dropped = [_behind(value, parameter, in_rows=in_rows) for value in get_list(at, "dropped")]
            done = get_number(at, "folds")
            if any(dropped) and done is not None:
                parts.append(f"{name} after {count(done)}{of} folds: {sign} = {', '.join(filter(None, dropped))}")
    t, text = get_number(selection, "partitionings"), ""
    if t is not None:
        text += f" The search compared candidates with {count(t)} partitionings; the model has all of them."
    if parts:
        text += (
            f" Some values were so far behind the best one that they were not tried on all folds: {'; '.join(parts)}."
            f"{BRACKETS if in_rows else ''} Their points in the picture are of the folds that they ran, the others of "
            "all folds."
        )
    budget = get_mapping(selection, "budget")
    seconds = get_number(budget, "seconds")
    if budget.get("reached") is True and seconds is not None:
        text += f" The budget of {brief(seconds)} s was spent before everything was scored"
        compared = get_mapping(budget, "folds")
        text += "".join(f"; {name} was chosen on {n}{of} folds" for name, n in compared.items())
        left = {name: get_list(get_mapping(budget, "not_tried"), name) for name in compared}
        text += "".join(f"; not tried for {name}: {_list(values)}" for name, values in left.items() if values) + "."
    return text


def _behind(value: object, parameter: str, *, in_rows: bool) -> str:
    at, rows, apart = (get_number(value, key) for key in (parameter, "behind", "apart"))
    if at is None or rows is None or apart is None:
        return ""
    return f"{brief(at)} ({count(rows)} of {count(apart)})" if in_rows else brief(at)


def _list(values: list[object]) -> str:
    return ", ".join(brief(value) if isinstance(value, int | float) else str(value) for value in values)
