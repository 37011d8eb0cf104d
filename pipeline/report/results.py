"""The result: headline, accuracy, curves, errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pipeline.report.charts import (
    STYLES,
    Series,
    interval_strip,
    line_chart,
    nice_ticks,
    share_domain,
    share_label,
    strip_axis,
    swatch,
)
from pipeline.report.confusion import SHARES_UP_TO, confusion_block
from pipeline.report.fields import (
    Metrics,
    get_accuracy,
    get_list,
    get_mapping,
    get_number,
    get_points,
    get_text,
    learners_of,
    stages_of,
)
from pipeline.report.markup import scroll, section
from pipeline.report.scores import Confusion, class_counts, confusion_of, majority_baseline, wilson_interval
from pipeline.report.search import search_note
from pipeline.report.stream import is_stream, stream_lead
from pipeline.report.text import (
    MISSING,
    brief,
    count,
    duration,
    esc,
    figure,
    moment,
    nbytes,
    percent,
    plural,
    rate,
    shorten,
)

# Fields of a learner that have a place of their own on the page.
_FIGURES = {"accuracy", "psi", "train_seconds", "predict_seconds", "content_hash"}
_SHOWN_ELSEWHERE = _FIGURES | {"confusion", "labels", "curve"}
_FIELD_NAMES = {"n_support": "support vectors"}


def _confusions(metrics: Metrics) -> dict[str, Confusion]:
    classes = get_list(metrics.get("data"), "classes")
    found = {name: confusion_of(learner, classes) for name, learner in learners_of(metrics).items()}
    return {name: confusion for name, confusion in found.items() if confusion is not None}


def _baseline(metrics: Metrics) -> float | None:
    return majority_baseline(get_mapping(metrics, "data"), next(iter(_confusions(metrics).values()), None))


def _intervals(metrics: Metrics) -> dict[str, tuple[float, tuple[float, float] | None]]:
    """Accuracy and its interval, of each learner that has one."""
    confusions, rows_test = _confusions(metrics), get_number(metrics.get("data"), "rows_test")
    found = {}
    for name, learner in learners_of(metrics).items():
        accuracy = get_accuracy(learner)
        if accuracy is not None:
            n = confusions[name].total if name in confusions else get_number(learner, "rows") or rows_test
            found[name] = accuracy, wilson_interval(accuracy, n) if n and n > 0 else None
    return found


def _tile(name: str, value: str, notes: Iterable[str], kind: str = "") -> str:
    small = "".join(f"<small>{esc(_unparted(note))}</small>" for note in notes)
    return f'<div class="tile {kind}"><dt>{esc(name)}</dt><dd><b>{esc(_unparted(value))}</b>{small}</dd></div>'


def _unparted(text: str) -> str:
    """The text with numbers that no line break parts from their units."""
    return re.sub(r"(?<=\d) (?=[A-Za-z])", "\N{NO-BREAK SPACE}", text)


def headline(metrics: Metrics) -> str:
    """The result in one sentence and a row of tiles."""
    run, data = get_mapping(metrics, "run"), get_mapping(metrics, "data")
    accuracies, baseline = _intervals(metrics), _baseline(metrics)
    name = shorten(get_text(data, "name", "unnamed data set"), 80)
    test = {"official": "the official test set", "split": "a held-out split"}.get(get_text(data, "test"))
    rows_train, rows_test = get_number(data, "rows_train"), get_number(data, "rows_test")
    best = max(accuracies, key=lambda learner: accuracies[learner][0], default=None)
    if is_stream(metrics):
        said = stream_lead(metrics)
    elif best is not None:
        said = f"<b>{esc(best)}</b> is right on <b>{percent(accuracies[best][0])}</b> of "
        said += plural(rows_test, "test row") if rows_test is not None else "the test rows"
        said += f" ({test})" if test else ""
        said += f", after training on {plural(rows_train, 'row')}." if rows_train is not None else "."
    else:
        done = [get_text(stage, "name") for stage in stages_of(metrics) if get_number(stage, "seconds") is not None]
        said = "This run has no result yet"
        said += f": finished so far are {esc(', '.join(done))}." if done else "; no stage has finished."
    tiles = []
    for learner, (accuracy, interval) in accuracies.items():
        notes = [f"95%: {percent(interval[0]).rstrip('%')}–{percent(interval[1])}"] if interval else []
        if baseline is not None:
            notes.append(f"{(accuracy - baseline) * 100:+.1f} points over majority class")
        tiles.append(_tile(f"accuracy of {learner}", percent(accuracy), notes, "result"))
    if baseline is not None:
        tiles.append(_tile("majority class", percent(baseline), ["always answering the most frequent class"]))
    seconds = get_number(run, "seconds")
    if seconds is not None:
        tiles.append(_tile("total time", duration(seconds), [_where(get_mapping(run, "cluster"))]))
    rows = (rows_train or 0.0) + (rows_test or 0.0)
    if seconds and rows:
        speed = rate(rows / seconds, "").strip()
        tiles.append(_tile("rows/s end to end", speed, [f"{count(rows)} rows, training and test"]))
    peaks = [get_number(stage, "peak_rss_bytes") or 0.0 for stage in stages_of(metrics)]
    if any(peaks):
        client = get_number(run, "client_peak_rss_bytes")
        notes = ["highest RSS of all stages"] + ([f"client process: {nbytes(client)}"] if client else [])
        tiles.append(_tile("peak memory", nbytes(max(peaks)), notes))
    started = moment(get_text(run, "started"))
    when = f'<p class="when">Run {esc(get_text(run, "id", "without a name"))}'
    when += f" · started {esc(started)}</p>" if started else "</p>"
    dl = f'<dl class="tiles">{"".join(tiles)}</dl>' if tiles else ""
    return f'<header>{when}<h1>{esc(name)}</h1><p class="lead-in">{said}</p>{dl}</header>'


def _where(cluster: Metrics) -> str:
    kind, workers = get_text(cluster, "kind", "cluster not recorded"), get_number(cluster, "workers")
    threads = get_number(cluster, "threads")
    parts = [kind]
    if workers is not None:
        parts.append(plural(workers, "worker"))
    if threads is not None:
        parts.append(plural(threads, "thread"))
    return ", ".join(parts)


def accuracy_section(metrics: Metrics) -> str:
    """Accuracy with interval, as a picture and, with the training figures, as a table."""
    learners, accuracies, baseline = learners_of(metrics), _intervals(metrics), _baseline(metrics)
    if not learners:
        return ""
    if is_stream(metrics):
        return ""
    picture = ""
    if accuracies:
        values = [accuracy for accuracy, _ in accuracies.values()]
        values += [end for _, interval in accuracies.values() if interval for end in interval]
        domain = share_domain(values + ([baseline] if baseline is not None else []))
        ticks = nice_ticks(*domain)
        text = share_label(ticks)
        rows = "".join(
            f'<li><div class="facts"><b>{esc(name)}</b><strong>{percent(accuracy, 2)}</strong></div>'
            f"{interval_strip(name, accuracy, interval, baseline, domain, i % 4, ticks)}</li>"
            for i, (name, (accuracy, interval)) in enumerate(accuracies.items())
        )
        axis = strip_axis([(100 * (t - domain[0]) / (domain[1] - domain[0]), text(t)) for t in ticks])
        note = "Dot: share of the test rows that is right. Bar with caps: 95% interval (Wilson)."
        note += f" Dashed line: majority class, {percent(baseline, 2)}." if baseline is not None else ""
        rows += f'<li class="axis-row" aria-hidden="true"><div>of the test rows</div>{axis}</li>'
        picture = f'<div><ol class="timeline stacked">{rows}</ol><p class="note">{note}</p></div>'
    return section("accuracy", "Accuracy", f'<div class="pair">{picture}{_learner_table(metrics)}</div>')


def _learner_table(metrics: Metrics) -> str:
    """One column a learner, one row a figure; figures that no learner has are left out."""
    learners, accuracies, confusions = learners_of(metrics), _intervals(metrics), _confusions(metrics)
    rows_test = get_number(metrics.get("data"), "rows_test")
    table: dict[str, dict[str, str]] = {}

    def put(field: str, learner: str, value: str | None) -> None:
        if value is not None:
            table.setdefault(field, {})[learner] = value

    for name, learner in learners.items():
        accuracy, interval = accuracies.get(name, (None, None))
        train, predict = get_number(learner, "train_seconds"), get_number(learner, "predict_seconds")
        confusion = confusions.get(name)
        put("accuracy", name, percent(accuracy, 2) if accuracy is not None else None)
        put(
            "95% interval",
            name,
            f"{percent(interval[0], 2)} – {percent(interval[1], 2)}" if interval else None,
        )
        put("wrong test rows", name, count(confusion.errors) if confusion else None)
        balanced = confusion.balanced_accuracy() if confusion else None
        put("balanced accuracy", name, percent(balanced, 2) if balanced is not None else None)
        psi = get_number(learner, "psi")
        put("ψ, cells per partitioning", name, f"{psi:.12g}" if psi is not None else None)
        put("training time", name, duration(train) if train is not None else None)
        put("prediction time", name, duration(predict) if predict is not None else None)
        put("prediction rate", name, rate(rows_test / predict) if rows_test and predict else None)
    for name, learner in learners.items():
        for key, value in learner.items():
            if key not in _SHOWN_ELSEWHERE and isinstance(value, str | int | float):
                put(_FIELD_NAMES.get(key, str(key).replace("_", " ")), name, shorten(figure(value), 24))
    for name, learner in learners.items():
        # As with commits, the beginning is enough to tell models apart; metrics.json has all of it.
        put("model hash", name, get_text(learner, "content_hash")[:12] or None)
    head = "".join(f'<th scope="col">{esc(name)}</th>' for name in learners)
    body = "".join(
        f'<tr><th scope="row">{esc(field)}</th>'
        + "".join(f"<td>{esc(values.get(name, MISSING))}</td>" for name in learners)
        + "</tr>"
        for field, values in table.items()
    )
    html = f'<table class="learners"><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>'
    return scroll(html, "Figures of the learners")


def curves_section(metrics: Metrics) -> str:
    """The curves there are: progressive accuracy of online learners, cross-validation."""
    figures = []
    learners = {} if is_stream(metrics) else learners_of(metrics)
    for i, (name, learner) in enumerate(learners.items()):
        points = get_points(get_mapping(learner, "curve"), "rows", "accuracy")
        points = [(x, y) for x, y in points if 0 <= y <= 1]
        if points:
            figures.append(_learning_curve(i, name, points, get_accuracy(learner)))
    selection = _selection_curves(metrics)
    return (
        section("curves", "Curves", f'<div class="pair">{"".join(figures)}{selection}</div>')
        if (figures or selection)
        else ""
    )


def _learning_curve(i: int, name: str, points: list[tuple[float, float]], test: float | None) -> str:
    end = f"{percent(points[-1][1])} after {count(points[-1][0])} rows"
    chart = line_chart(
        f"curve-{i}",
        [Series(name, points, i)],
        title=f"Learning curve of {name}",
        description=f"Progressive accuracy, {percent(points[0][1])} after {count(points[0][0])} rows, {end}",
        x_label="training rows seen",
        y_label="progressive accuracy",
        reference=test,
    )
    legend = f"<li>{swatch(i)}{esc(name)}: {end}</li>"
    if test is not None:
        legend += '<li><svg class="swatch" width="30" height="12" aria-hidden="true"><line class="reference" '
        legend += f'x1="0" x2="30" y1="6" y2="6"/></svg>on the test rows: {percent(test)}</li>'
    return (
        f'<figure><h3>Learning curve of {esc(name)}</h3><ul class="legend">{legend}</ul>{chart}'
        "<figcaption>Each training row is predicted before it is learned.</figcaption></figure>"
    )


_SEARCHED = {
    "psi": ("ψ", "cells per partitioning"),
    "gamma": ("γ", "inverse width of the kernel"),
    "lambda": ("λ", "factor of the penalty"),
}
"""Sign and meaning of what cross-validation chooses."""


def _selection_curves(metrics: Metrics) -> str:
    """Cross-validated accuracy over each parameter that was chosen so: one chart a parameter, one line a learner."""
    selection, names = get_mapping(metrics, "selection"), list(learners_of(metrics))
    searches = [
        (name, "psi", selection.get("psi"), accuracy, get_number(selection.get("chosen"), name))
        for name, accuracy in get_mapping(selection, "accuracy").items()
    ]
    searches += [
        (name, get_text(found, "parameter"), get_list(found, "values"), found["accuracy"], get_number(found, "chosen"))
        for name, found in get_mapping(selection, "tuned").items()
        if isinstance(found, Mapping) and "accuracy" in found
    ]
    series: dict[str, list[Series]] = {parameter: [] for parameter in _SEARCHED}
    for i, (name, parameter, values, accuracy, chosen) in enumerate(searches):
        record = {"x": values, "y": accuracy}
        points = [(x, y) for x, y in get_points(record, "x", "y") if x > 0 and 0 <= y <= 1]
        if points and parameter in series:
            own = (names.index(name) if name in names else i) % STYLES
            taken = {line.style for line in series[parameter]}
            # Its style of the whole page, unless another line here has it: there are few.
            style = next((s for s in (own, *range(STYLES)) if s not in taken), own)
            series[parameter].append(Series(str(name), points, style, chosen if chosen in dict(points) else None))
    return "".join(_selection_curve(selection, parameter, lines) for parameter, lines in series.items() if lines)


def _selection_curve(selection: Metrics, parameter: str, series: list[Series]) -> str:
    sign, meaning = _SEARCHED[parameter]
    found = {line.name: _found(line, sign) for line in series}
    chart = line_chart(
        f"selection-{parameter}",
        series,
        title=f"Cross-validation of {parameter}",
        description="; ".join(
            f"{line.name}: {'best' if line.mark is None else 'chosen'} {found[line.name]}" for line in series
        ),
        x_label=f"{sign}, {meaning} (log scale)",
        y_label="accuracy",
        log2=True,
    )
    legend = "".join(f"<li>{swatch(line.style)}{esc(line.name)}: {found[line.name]}</li>" for line in series)
    folds, rows = get_number(selection, "folds"), get_number(selection, "rows")
    how = f"{count(folds)}-fold cross-validation" if folds is not None else "Cross-validation"
    how += f" on {plural(rows, 'training row')}" if rows is not None else ""
    how += f". Ring: the chosen {sign}" if any(line.mark is not None for line in series) else ""
    return (
        f'<figure><h3>Choice of {sign}</h3><ul class="legend">{legend}</ul>{chart}'
        f"<figcaption>{how}.{search_note(selection, parameter, sign)}</figcaption></figure>"
    )


def _found(line: Series, sign: str) -> str:
    """What cross-validation found for one learner: accuracy at the chosen value, else the best."""
    accuracy = dict(line.points)
    value = max(accuracy, key=lambda x: accuracy[x]) if line.mark is None else line.mark
    return f"{percent(accuracy[value])} at {sign} = {brief(value)}"


def confusion_section(metrics: Metrics) -> str:
    """The errors of every learner that has a confusion matrix."""
    train = class_counts(get_mapping(metrics, "data"))
    blocks = [
        confusion_block(f"confusion-{i}", name, confusion, train)
        for i, (name, confusion) in enumerate(_confusions(metrics).items())
    ]
    few = all(len(confusion.counts) <= SHARES_UP_TO for confusion in _confusions(metrics).values())
    body = f'<div class="{"pair" if few else "stack"}">{"".join(blocks)}</div>'
    return section("errors", "Errors", body) if blocks else ""
