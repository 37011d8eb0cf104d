"""Where a learner errs: its confusion matrix, the pairs it mixes up, recall and precision by class."""

from __future__ import annotations

import math

from pipeline.report.charts import heat_picture
from pipeline.report.markup import scroll
from pipeline.report.scores import Confusion
from pipeline.report.text import MISSING, count, esc, percent, plural, shorten

TABLE_UP_TO = 20  # classes; a larger matrix is drawn as a picture
SHARES_UP_TO = 4  # classes; a table of so few has room for percentages
_PAIRS = 15


def _matrix_table(confusion: Confusion) -> str:
    """The matrix as a table; shading is the square root of the share, so that few errors still show."""
    with_share = len(confusion.counts) <= SHARES_UP_TO
    heads = "".join(f'<th scope="col">{esc(shorten(name, 24))}</th>' for name in confusion.names)
    rows = []
    for i, row in enumerate(confusion.counts):
        support = sum(row)
        cells = []
        for j, n in enumerate(row):
            share = n / support if support else 0.0
            heat = 0.1 + 0.4 * math.sqrt(share) if n else 0.0
            kind = "hit" if i == j else "miss" if n else "miss zero"
            small = f"<small>{percent(share)}</small>" if with_share and support else ""
            tip = f"{confusion.names[i]} predicted as {confusion.names[j]}: {plural(n, 'row')}, "
            tip += percent(share)
            cells.append(f'<td class="{kind}" style="--heat:{heat:.3f}" title="{esc(tip)}">{count(n)}{small}</td>')
        cells.append(f'<td class="sum">{count(support)}</td>')
        rows.append(f'<tr><th scope="row">{esc(shorten(confusion.names[i], 24))}</th>{"".join(cells)}</tr>')
    return (
        '<table class="matrix"><thead><tr><td></td>'
        f'<th scope="colgroup" colspan="{len(confusion.names)}">predicted class</th><td></td></tr>'
        f'<tr><th scope="col">true class</th>{heads}<th scope="col">all</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _pairs_table(confusion: Confusion) -> str:
    """The most frequent kinds of error."""
    pairs, supports = confusion.confused_pairs(), confusion.supports
    rows = [
        f'<tr><th scope="row">{esc(confusion.names[i])}</th><td class="text">{esc(confusion.names[j])}</td>'
        f"<td>{count(n)}</td><td>{percent(n / supports[i])}</td></tr>"
        for i, j, n in pairs[:_PAIRS]
    ]
    return (
        f'<h4>Most frequent confusions</h4><p class="note">{plural(len(pairs), "pair")} of classes mixed up'
        f"{f'; the first {_PAIRS} of them' if len(pairs) > _PAIRS else ''}</p>"
        + scroll(
            '<table><thead><tr><th scope="col">True class</th><th scope="col" class="text">Predicted as</th>'
            '<th scope="col">Rows</th><th scope="col">Of the true class</th></tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table>",
            "Most frequent confusions",
        )
    )


def _meter(share: float | None) -> str:
    """A share as a number over a bar."""
    if share is None:
        return f"<td>{MISSING}</td>"
    return f'<td class="meter" style="--ratio:{share:.4f}">{percent(share)}</td>'


def _class_table(confusion: Confusion, train: dict[str, int]) -> str:
    """Recall and precision by class: in class order when few, the worst recalled first when many."""
    scores = confusion.per_class()
    many = len(scores) > TABLE_UP_TO
    if many:
        scores = sorted(scores, key=lambda score: 2.0 if score.recall is None else score.recall)
    few = len(scores) <= SHARES_UP_TO  # half a page wide, and the data section tells the shares
    train = {} if few else train
    rows = []
    for score in scores:
        both = score.recall is not None and score.precision is not None
        total = (score.recall or 0.0) + (score.precision or 0.0)
        f1 = 2 * (score.recall or 0.0) * (score.precision or 0.0) / total if both and total else None
        trained = f"<td>{count(train.get(score.name))}</td>" if train else ""
        rows.append(
            f'<tr><th scope="row">{esc(score.name)}</th>{trained}<td>{count(score.support)}</td>'
            f"{_meter(score.recall)}{_meter(score.precision)}{_meter(f1)}"
            + ("" if few else f'<td class="text">{esc(score.taken_for or MISSING)}</td>')
            + "</tr>"
        )
    head = "".join(
        f'<th scope="col">{text}</th>'
        for text in ("Class", *(["Training rows"] if train else []), "Test rows", "Recall", "Precision", "F1")
    )
    if not few:
        head += '<th scope="col" class="text">Most often taken for</th>'
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    summary = f"Recall and precision of {plural(len(scores), 'class', 'classes')}"
    order = ", the worst recalled first" if many else ""
    return (
        f"<details{'' if many else ' open'}><summary>{summary}{order}</summary>"
        f"{scroll(table, summary, 'tall' if many else '')}</details>"
    )


def confusion_block(key: str, name: str, confusion: Confusion, train: dict[str, int]) -> str:
    """Everything about the errors of one learner; ``key`` is unique on the page."""
    total, errors = confusion.total, confusion.errors
    said = f"{count(errors)} of {plural(total, 'test row')} wrong"
    if len(confusion.counts) <= TABLE_UP_TO:
        body = scroll(_matrix_table(confusion), f"Confusion matrix of {name}")
    else:
        worst = confusion.confused_pairs()[:1]
        text = f"{name}: {len(confusion.counts)} classes, {said}"
        if worst:
            i, j, n = worst[0]
            text += f"; most often class {confusion.names[i]} taken for {confusion.names[j]}, {count(n)} times"
        picture = heat_picture(key, confusion.counts, confusion.names, text)
        body = f'<div class="pair"><figure>{picture}</figure><div>{_pairs_table(confusion)}</div></div>'
    return (
        f'<article class="learner"><h3>{esc(name)}</h3><p class="note">{said}</p>{body}'
        f"{_class_table(confusion, train)}</article>"
    )
