"""The choice of the model: what a race has tried, how well each model did, and what decided."""

from __future__ import annotations

from ikmap.tasks.verdict import Z
from pipeline.report.fields import Metrics, get_list, get_mapping, get_number, get_text
from pipeline.report.rendering import render
from pipeline.report.text import MISSING, duration, plural


def leaderboard_section(metrics: Metrics) -> str:
    """Return the leaderboard of the race that chose the model; empty if there was none."""
    choice = get_mapping(metrics, "choice")
    rows = [_row(entry, get_text(choice, "name")) for entry in get_list(choice, "leaderboard")]
    if not rows:
        return ""
    return render("leaderboard.html", loss=get_text(choice, "loss", "loss"), rows=rows, note=_note(choice, len(rows)))


def _row(entry: object, chosen: str) -> dict[str, object]:
    name, loss, error = get_text(entry, "name"), get_number(entry, "loss"), get_number(entry, "error")
    note, folds = get_text(entry, "note"), get_number(entry, "folds")
    measured = MISSING if loss is None else f"{loss:.5g}"
    weights = get_mapping(entry, "weights")
    total = sum(get_number(weights, part) or 0.0 for part in weights)
    shares = [f"{(get_number(weights, part) or 0.0) / total:.0%} {part}" for part in weights] if total else []
    return {
        "name": name,
        "chosen": name == chosen,
        "weights": ", ".join(shares),
        "options": get_text(entry, "options"),
        "loss": measured,
        "interval": "" if error is None else f"± {Z * error:.2g}",
        "fit": duration(get_number(entry, "fit_seconds")),
        "score": in_microseconds(get_number(entry, "row_seconds")),
        "note": note or (f"tried on {plural(folds, 'fold')}" if folds else ""),
    }


def in_microseconds(seconds: float | None) -> str:
    """Return the time that a row takes as text: 0.4 µs, 12 µs, 3,100 µs."""
    if seconds is None or seconds < 0:
        return MISSING
    micro = seconds * 1e6
    return f"{micro:.2g} µs" if micro < 9.95 else f"{micro:,.0f} µs"


def _note(choice: Metrics, n_models: int) -> str:
    """Return sentences on what was chosen, by what, on which rows, and within which time."""
    name, loss = get_text(choice, "name"), get_text(choice, "loss", "loss")
    rows, folds = get_number(choice, "rows"), get_number(choice, "folds")
    budget, spent = get_number(choice, "budget"), get_number(choice, "spent")
    if choice.get("by_budget") is True:
        chosen = (
            f"Chosen: {name}, the best of what the budget had seconds for. The budget decided, and not the losses "
            "alone: with more seconds (--budget), or on another machine, another model may be chosen, or be learned "
            "more often."
        )
    else:
        chosen = f"Chosen: {name}, which has the least {loss} of {plural(n_models, 'model')}. The losses alone decided."
    where = ""
    if rows is not None and folds is not None:
        where = (
            f" Models were compared on {plural(rows, 'training row')} in {plural(folds, 'fold')}: each is judged on "
            "rows from which it has not learned; test rows have no part in it."
        )
    time = "" if spent is None else f" That took {duration(spent)}"
    time += f" of {duration(budget)}, the budget of the race and the model together." if time and budget else ""
    ends = " After ± is half of a 95% interval. Times to train are those expected for all training rows."
    return f"{chosen}{where}{time}{ends}"
