"""The result: headline, metrics of the learners, learning curves."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ikmap.tasks import Metric, task_of
from ikmap.tasks.scoring import summary
from ikmap.tasks.verdict import MISLEADING, QUALITY
from pipeline.report.charts import (
    STYLES,
    ChartWords,
    Series,
    interval_strip,
    line_chart,
    nice_ticks,
    share_domain,
    share_label,
    strip_ticks,
)
from pipeline.report.choices import selection_curves
from pipeline.report.fields import (
    Metrics,
    get_list,
    get_mapping,
    get_number,
    get_text,
    learners_of,
    number,
    stages_of,
)
from pipeline.report.main_metric import Lead, get_curve, get_value, main_metric, shown, title_of
from pipeline.report.rendering import render
from pipeline.report.scores import Confusion, confusion_of, majority_baseline, wilson_interval
from pipeline.report.stream import is_stream, stream_lead
from pipeline.report.text import (
    MISSING,
    count,
    duration,
    moment,
    nbytes,
    percent,
    plural,
    rate,
    shorten,
)
from pipeline.report.words import method_in_words, words_for_test_rows


def _confusions(metrics: Metrics) -> dict[str, Confusion]:
    classes = get_list(metrics.get("data"), "classes")
    confusions = {name: confusion_of(learner, classes) for name, learner in learners_of(metrics).items()}
    return {name: confusion for name, confusion in confusions.items() if confusion is not None}


def _baseline(metrics: Metrics) -> float | None:
    return majority_baseline(get_mapping(metrics, "data"), next(iter(_confusions(metrics).values()), None))


def _intervals(metrics: Metrics) -> dict[str, tuple[float, tuple[float, float] | None]]:
    """Return the task's metric of each learner that has it, with its interval if it is a share."""
    metric = main_metric(metrics)
    confusions, rows_test = _confusions(metrics), get_number(metrics.get("data"), "rows_test")
    intervals = {}
    for name, learner in learners_of(metrics).items():
        value = get_value(learner, metric)
        if value is not None:
            n = confusions[name].total if name in confusions else get_number(learner, "rows") or rows_test
            known = metric.unit == "share" and n is not None and n > 0
            intervals[name] = value, wilson_interval(value, n or 0) if known else None
    return intervals


def _tile(name: str, value: str, notes: Iterable[str], kind: str = "") -> dict[str, object]:
    return {"name": name, "value": _unparted(value), "notes": [_unparted(note) for note in notes], "kind": kind}


def _unparted(text: str) -> str:
    """Return the text with numbers that no line break parts from their units."""
    return re.sub(r"(?<=\d) (?=[A-Za-z])", "\N{NO-BREAK SPACE}", text)


def headline(metrics: Metrics) -> str:
    """Return the result in one sentence and a row of tiles."""
    run, data = get_mapping(metrics, "run"), get_mapping(metrics, "data")
    accuracies, baseline, figure = _intervals(metrics), _baseline(metrics), main_metric(metrics)
    rows_train, rows_test = get_number(data, "rows_train"), get_number(data, "rows_test")
    tiles = []
    for learner, (accuracy, interval) in accuracies.items():
        notes = [f"{percent(interval[0]).rstrip('%')}–{percent(interval[1])}, 95% interval"] if interval else []
        if baseline is not None:
            notes.append(f"{(accuracy - baseline) * 100:+.1f} points over majority class")
        tiles.append(_tile(f"{figure.name} of {learner}", shown(accuracy, figure.unit), notes, "result"))
    if baseline is not None:
        tiles.append(_tile("majority class", percent(baseline), ["always answering the most frequent class"]))
    seconds = get_number(run, "seconds")
    if seconds is not None:
        wall, compiling = get_number(run, "wall_seconds"), get_number(run, "compile_seconds") or 0.0
        notes = [_where(get_mapping(run, "cluster"))]
        if wall is not None:
            notes.append(f"{duration(seconds - compiling)} of it work, the rest starting and stopping")
        if compiling:
            notes.append(f"{duration(compiling)} of it for compiling, once per installation")
        tiles.append(_tile("total time", duration(seconds if wall is None else wall), notes))
    online = get_mapping(metrics, "online")
    if online:
        rows_train, rows_test = get_number(online, "rows_initial"), get_number(online, "rows_stream")
    rows = (rows_train or 0.0) + (rows_test or 0.0)
    if seconds and rows:
        spent = max(seconds - (get_number(run, "compile_seconds") or 0.0), 1e-3)
        speed, which = rate(rows / spent, "").strip(), "initial and stream" if online else "training and test"
        tiles.append(_tile("rows/s end to end", speed, [f"{count(rows)} rows, {which}"]))
    peaks = [get_number(stage, "peak_rss_bytes") or 0.0 for stage in stages_of(metrics)]
    if any(peaks):
        client = get_number(run, "client_peak_rss_bytes")
        notes = ["of the largest process in any stage"]
        notes += [f"{nbytes(client)} of the process that ran the command"] if client else []
        tiles.append(_tile("peak memory", nbytes(max(peaks)), notes))
    return render(
        "headline.html",
        run=get_text(run, "id", "without a name"),
        started=moment(get_text(run, "started")),
        name=shorten(get_text(data, "name", "unnamed data set"), 80),
        lead=stream_lead(metrics) if is_stream(metrics) else _lead(metrics),
        verdicts=_verdicts(metrics),
        misleading=MISLEADING,
        quality=QUALITY,
        tiles=tiles,
    )


def result_in_words(metrics: Metrics) -> str:
    """Return the first sentences of the report, as plain text: how good it is, the result, and warnings."""
    lead = stream_lead(metrics) if is_stream(metrics) else _lead(metrics)
    text = lead if isinstance(lead, str) else f"{lead.best} {lead.before}{lead.value}{lead.after}"
    verdicts = [(f"{verdict['message']}.", verdict["kind"] == QUALITY) for verdict in _verdicts(metrics)]
    first, rest = ([line for line, is_quality in verdicts if is_quality is wanted] for wanted in (True, False))
    return " ".join([*first, text, *rest])


def _verdicts(metrics: Metrics) -> list[dict[str, str]]:
    """Return the verdicts, which a reader has to know first, as far as the run has them."""
    return [{key: get_text(verdict, key) for key in ("kind", "message")} for verdict in get_list(metrics, "verdicts")]


def _lead(metrics: Metrics) -> Lead | str:
    """Return the result in one sentence."""
    data, figure = get_mapping(metrics, "data"), main_metric(metrics)
    values = {name: value for name, (value, _) in _intervals(metrics).items()}
    if not values and (said := _without_figure(metrics)):
        return said
    if not values:
        done = [get_text(stage, "name") for stage in stages_of(metrics) if get_number(stage, "seconds") is not None]
        said = f": finished so far are {', '.join(done)}." if done else "; no stage has finished."
        return f"This run has no result yet{said}"
    best = (max if figure.higher_is_better else min)(values, key=lambda name: values[name])
    if not figure.ranks:
        best = next(iter(values))
    rows_train, rows_test = get_number(data, "rows_train"), get_number(data, "rows_test")
    which = plural(rows_test, "test row") if rows_test is not None else "the test rows"
    which += f" ({test})" if (test := words_for_test_rows(data)) else ""
    end = f", after training on {plural(rows_train, 'row')}." if rows_train is not None else "."
    if more := task_of(metrics).presenter.sentence(learners_of(metrics)[best]):
        end += f" {more}"
    return Lead.of(figure.sentences.lead, best, shown(values[best], figure.unit), which, end)


def _without_figure(metrics: Metrics) -> str:
    """Return what is known of the first learner that was evaluated, but whose main figure has no value."""
    presenter, figure = task_of(metrics).presenter, main_metric(metrics)
    for name, learner in learners_of(metrics).items():
        if figure.key in learner and learner[figure.key] is None and (said := presenter.sentence(learner)):
            return f"{name} has no {figure.name} on these test rows. {said}"
    return ""


def _where(cluster: Metrics) -> str:
    kind, workers = get_text(cluster, "kind", "cluster not recorded"), get_number(cluster, "workers")
    threads = get_number(cluster, "threads")
    parts = [kind]
    if workers is not None:
        parts.append(plural(workers, "worker"))
    if threads is not None:
        parts.append(plural(threads, "thread"))
    return ", ".join(parts)


def figure_section(metrics: Metrics) -> str:
    """Return the metrics of each learner, shares as a picture too, and the method in words."""
    learners, figure, baseline = learners_of(metrics), main_metric(metrics), _baseline(metrics)
    if not learners or is_stream(metrics):
        return ""
    rows, ticks = [], []
    accuracies = _intervals(metrics) if figure.unit == "share" else {}
    if accuracies:
        values = [accuracy for accuracy, _ in accuracies.values()]
        values += [end for _, interval in accuracies.values() if interval for end in interval]
        domain = share_domain(values + ([baseline] if baseline is not None else []))
        at = nice_ticks(*domain)
        ticks = strip_ticks(at, domain, share_label(at))
        rows = [
            interval_strip(name, figure.name, accuracy, interval, baseline, domain) | {"style": i % STYLES}
            for i, (name, (accuracy, interval)) in enumerate(accuracies.items())
        ]
    # A warning, where a learner stopped before it had reached its tolerance.
    stopped = [name for name, learner in learners.items() if learner.get("converged") is False]
    return render(
        "result.html",
        key=figure.key,
        title=title_of(figure),
        dot=figure.sentences.of_test.replace("{rows} test rows ({which})", "the test rows"),
        rows=rows,
        ticks=ticks,
        baseline=percent(baseline, 2) if baseline is not None else "",
        head=["", *learners],
        figures=_learner_table(metrics),
        not_converged=", ".join(stopped),
        method=method_in_words(metrics),
    )


def _learner_table(metrics: Metrics) -> list[list[str]]:
    """Return a table with one column a learner, one row a metric; metrics that no learner has are left out."""
    learners, accuracies, confusions = learners_of(metrics), _intervals(metrics), _confusions(metrics)
    rows_test = get_number(metrics.get("data"), "rows_test")
    table: dict[str, dict[str, str]] = {}
    task = task_of(metrics)
    figure = task.presenter.metric

    def put(field: str, learner: str, value: str | None) -> None:
        if value is not None:
            table.setdefault(field, {})[learner] = value

    for name, learner in learners.items():
        accuracy, interval = accuracies.get(name, (None, None))
        train, predict = get_number(learner, "train_seconds"), get_number(learner, "predict_seconds")
        confusion = confusions.get(name)
        put(figure.name, name, shown(accuracy, figure.unit, 2) if accuracy is not None else None)
        put(
            "95% interval",
            name,
            f"{percent(interval[0], 2)} – {percent(interval[1], 2)}" if interval else None,
        )
        put("wrong test rows", name, count(confusion.errors) if confusion else None)
        balanced = confusion.balanced_accuracy() if confusion else None
        put("balanced accuracy", name, percent(balanced, 2) if balanced is not None else None)
        for fact, value, unit in summary(task, learner):
            put(fact, name, None if (known := number(value)) is None else shown(known, unit, 2))
        put("training time", name, duration(train) if train is not None else None)
        put("prediction time", name, duration(predict) if predict is not None else None)
        put("prediction rate", name, rate(rows_test / predict) if rows_test and predict else None)
    return [[field, *(found.get(name, MISSING) for name in learners)] for field, found in table.items()]


def curves_section(metrics: Metrics) -> str:
    """Return the curves of cross-validation, and the learning curves of the online learners."""
    figures, figure = [], main_metric(metrics)
    learners = {} if is_stream(metrics) else learners_of(metrics)
    for i, (name, learner) in enumerate(learners.items()):
        if points := get_curve(learner, figure):
            figures.append(_learning_curve(i, name, points, get_value(learner, figure), figure))
    parts = selection_curves(metrics) + figures
    return render("parts.html", key="curves", title="Curves", kind="pair", parts=parts) if parts else ""


def _learning_curve(i: int, name: str, points: list[tuple[float, float]], test: float | None, figure: Metric) -> str:
    begin, end = (
        shown(points[0][1], figure.unit),
        f"{shown(points[-1][1], figure.unit)} after {count(points[-1][0])} rows",
    )
    chart = line_chart(
        f"curve-{i}",
        [Series(name, points, i)],
        ChartWords(
            title=f"Learning curve of {name}",
            description=f"{title_of(figure)} so far: {begin} after {count(points[0][0])} rows, {end}",
            x="training rows seen",
            y=f"{figure.name} so far",
        ),
        reference=test,
        unit=figure.unit,
    )
    legend: list[tuple[int | None, str]] = [(i % STYLES, f"{name}: {end}")]
    if test is not None:
        legend.append((None, f"on the test rows, after training: {shown(test, figure.unit)}"))
    title = f"Learning curve of {name}"
    return render("figure.html", title=title, legend=legend, chart=chart, note=f"{figure.sentences.so_far}.")
