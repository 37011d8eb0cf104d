"""The errors of a learner: its confusion matrix, the pairs it mixes up, recall and precision by class."""

from __future__ import annotations

import math

from pipeline.report.charts import heat_picture
from pipeline.report.rendering import render
from pipeline.report.scores import ClassScore, Confusion
from pipeline.report.text import MISSING, count, percent, plural, shorten

TABLE_UP_TO = 20  # classes; a larger matrix is drawn as a picture
SHARES_UP_TO = 4  # classes; a table of so few has room for percentages
_PAIRS = 15


def _matrix(confusion: Confusion) -> list[tuple[str, list[dict[str, str]], str]]:
    """Return class, cells and sum of each row; the shade is the square root of the share, so that few errors show."""
    with_share = len(confusion.counts) <= SHARES_UP_TO
    rows = []
    for i, row in enumerate(confusion.counts):
        support = sum(row)
        cells = []
        for j, n in enumerate(row):
            share = n / support if support else 0.0
            said = f"{confusion.names[i]} predicted as {confusion.names[j]}: {plural(n, 'row')}, {percent(share)}"
            cells.append({
                "kind": "hit" if i == j else "miss" if n else "miss zero",
                "heat": f"{0.1 + 0.4 * math.sqrt(share) if n else 0.0:.3f}",
                "said": said,
                "rows": count(n),
                "share": percent(share) if with_share and support else "",
            })  # fmt: skip
        rows.append((shorten(confusion.names[i], 24), cells, count(support)))
    return rows


def _pairs(confusion: Confusion) -> list[tuple[str, str, str, str]]:
    """Return the most frequent kinds of error: true class, predicted class, rows, share of the true class."""
    names, supports = confusion.names, confusion.supports
    return [(names[i], names[j], count(n), percent(n / supports[i])) for i, j, n in confusion.confused_pairs()[:_PAIRS]]


def _class_row(score: ClassScore, trained: int | None) -> dict[str, object]:
    """Return the row of the table for a class; F1 is the harmonic mean of recall and precision."""
    recall, precision = score.recall, score.precision
    f1 = None
    if recall is not None and precision is not None and recall + precision:
        f1 = 2 * recall * precision / (recall + precision)
    return {
        "name": score.name,
        "trained": count(trained),
        "support": count(score.support),
        "shares": [
            None if share is None else {"ratio": f"{share:.4f}", "shown": percent(share)}
            for share in (recall, precision, f1)
        ],
        "taken_for": score.taken_for or MISSING,
    }


def confusion_block(key: str, name: str, confusion: Confusion, train: dict[str, int]) -> str:
    """Return the part of the page on the errors of a learner; ``key`` is unique on the page."""
    said = f"{count(confusion.errors)} of {plural(confusion.total, 'test row')} wrong"
    pairs, picture = confusion.confused_pairs(), ""
    if len(confusion.counts) > TABLE_UP_TO:
        text = f"{name}: {len(confusion.counts)} classes, {said}"
        if pairs:
            i, j, n = pairs[0]
            text += f"; most often class {confusion.names[i]} taken for {confusion.names[j]}, {count(n)} times"
        picture = heat_picture(key, confusion.counts, confusion.names, text)
    found = f"{plural(len(pairs), 'pair')} of classes mixed up"
    found += f"; the first {_PAIRS} of them" if len(pairs) > _PAIRS else ""
    scores = confusion.per_class()
    # In class order when few, the worst recalled first when many.
    many, few = len(scores) > TABLE_UP_TO, len(scores) <= SHARES_UP_TO
    if many:
        scores = sorted(scores, key=lambda score: 2.0 if score.recall is None else score.recall)
    return render(
        "confusion.html",
        learner=name,
        said=said,
        picture=picture,
        names=[shorten(class_name, 24) for class_name in confusion.names],
        matrix=_matrix(confusion) if not picture else [],
        pairs_found=found,
        pairs=_pairs(confusion),
        summary=f"Recall and precision of {plural(len(scores), 'class', 'classes')}",
        many=many,
        few=few,  # half a page wide, and the data section tells the shares
        trained=bool(train) and not few,
        classes=[_class_row(score, train.get(score.name)) for score in scores],
        missing=MISSING,
    )
