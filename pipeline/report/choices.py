"""The choice of the learners' settings: their meanings, their values, and the curves that decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ikmap.methods.fields import Symbol
from ikmap.methods.values import JOINED
from ikmap.tasks import Metric, criteria_of, task_of
from pipeline.report.charts import STYLES, ChartWords, Series, line_chart
from pipeline.report.fields import (
    Metrics,
    get_list,
    get_mapping,
    get_number,
    get_points,
    get_text,
    learners_of,
    number,
)
from pipeline.report.main_metric import is_possible, searched_by, shown
from pipeline.report.rendering import render
from pipeline.report.search import search_note
from pipeline.report.text import MISSING, brief, count, plural
from pipeline.report.words import settings_in, settings_of, terms_of


def choices_section(metrics: Metrics) -> str:
    """Return the terms, and the settings of each learner: one column a learner, one row a setting."""
    terms = terms_of(metrics)
    settings = {name: settings_of(name, metrics) for name in learners_of(metrics)}
    settings = {name: found for name, found in settings.items() if found}
    tried = {name: _tried(name, metrics) for name in settings}
    rows = []
    for key, setting in settings_in(metrics).items():
        if any(key in found for found in settings.values()):
            cells = [
                (brief(found[key]) if key in found else MISSING, count(tried[name][key]) if key in tried[name] else "")
                for name, found in settings.items()
            ]
            rows.append((setting, cells))
    if not terms and not rows:
        return ""
    folds = get_number(metrics.get("selection"), "folds")
    return render(
        "choices.html",
        terms=terms,
        learners=list(settings),
        rows=rows,
        searched=any(tried.values()),
        folds=count(folds) if folds else "",
    )


def _tried(name: str, metrics: Metrics) -> dict[str, int]:
    """Return the number of values that cross-validation tried of each setting that it chose for a learner."""
    selection = get_mapping(metrics, "selection")
    n_values = {"C": len(get_list(selection, "C"))} if get_number(get_mapping(selection, "chosen_C"), name) else {}
    metric = searched_by(metrics, name)
    for record in (_on_cells(selection, name, metric), get_mapping(get_mapping(selection, "tuned"), name)):
        for key, (values, _, chosen_of_key) in _by_parameter(record, metric).items():
            if chosen_of_key is not None:
                n_values[key] = len(values)
    swept = get_mapping(get_mapping(selection, "swept"), name)
    if (tried := get_number(swept, "tried")) is not None:
        n_values[get_text(swept, "parameter")] = int(tried)
    return {key: n for key, n in n_values.items() if n}


def _on_cells(selection: Mapping[str, object], name: str, metric: Metric) -> dict[str, object]:
    """Return the search of the map for a learner on cells, in the form of that for a learner on rows."""
    parameter = parameter_of(selection)
    return {
        "parameter": parameter,
        "values": selection.get(parameter),
        metric.key: get_mapping(selection, metric.key).get(name),
        "chosen": get_mapping(selection, "chosen").get(name),
    }


def _by_parameter(
    record: Mapping[str, object], metric: Metric
) -> dict[str, tuple[Sequence[object], Sequence[object], float | None]]:
    """Return values of each parameter of a search, the best metric of each value, and the chosen value."""
    names, values, metric_values = (
        get_text(record, "parameter").split(JOINED),
        get_list(record, "values"),
        record.get(metric.key),
    )
    of_values = get_list({"of": metric_values}, "of")
    if len(names) == 1:
        return {names[0]: (values, of_values, get_number(record, "chosen"))}
    best = max if metric.higher_is_better else min
    by_name: dict[str, tuple[Sequence[object], Sequence[object], float | None]] = {}
    for i, name in enumerate(names):
        ends: dict[float, float] = {}
        for value, of_value in zip(values, of_values, strict=False):
            x, y = _part(value, i), number(of_value)
            if x is not None and y is not None:
                ends[x] = best(ends.get(x, y), y)
        by_name[name] = sorted(ends), [ends[x] for x in sorted(ends)], _part(record.get("chosen"), i)
    return by_name


def _part(value: object, i: int) -> float | None:
    return number(value[i]) if isinstance(value, list | tuple) and i < len(value) else None


def parameter_of(selection: Mapping[str, object]) -> str:
    """Return the name of the number of the map that was searched; older runs, which had only psi, do not name it."""
    return get_text(selection, "parameter") or "psi"


def selection_curves(metrics: Metrics) -> list[str]:
    """Return a chart of each parameter that cross-validation chose, with a line for each learner.

    Learners whose searches went by different metrics have charts of their own.
    """
    selection, names, settings = get_mapping(metrics, "selection"), list(learners_of(metrics)), settings_in(metrics)
    series: dict[tuple[str, Metric], list[Series]] = {}
    for i, (name, figure, found) in enumerate(_searches(metrics)):
        for parameter, (values, of_values, chosen) in _by_parameter(found, figure).items():
            record = {"x": values, "y": of_values}
            points = [(x, y) for x, y in get_points(record, "x", "y") if x > 0 and is_possible(figure, y)]
            if points and parameter in settings:
                lines = series.setdefault((parameter, figure), [])
                own = (names.index(name) if name in names else i) % STYLES
                taken = {line.style for line in lines}
                # The learner's style on the whole page, unless another line of the chart has it: there are few styles.
                style = next((s for s in (own, *range(STYLES)) if s not in taken), own)
                lines.append(Series(str(name), points, style, chosen if chosen in dict(points) else None))
    order = list(settings)
    return [
        _selection_curve(selection, parameter, settings[parameter], lines, figure)
        for (parameter, figure), lines in sorted(series.items(), key=lambda of: order.index(of[0][0]))
    ]


def _searches(metrics: Metrics) -> list[tuple[str, Metric, Mapping[str, object]]]:
    """Return each learner with a search, the metric that decided, and the record of the search."""
    selection, task = get_mapping(metrics, "selection"), task_of(metrics)
    searches: list[tuple[str, Metric, Mapping[str, object]]] = []
    for metric in (criterion.metric for criterion in criteria_of(task)):
        searches += [(name, metric, _on_cells(selection, name, metric)) for name in get_mapping(selection, metric.key)]
        searches += [
            (name, metric, record)
            for kind in ("swept", "tuned")
            for name, record in get_mapping(selection, kind).items()
            if isinstance(record, Mapping) and metric.key in record
        ]
    return searches


def _selection_curve(selection: Metrics, parameter: str, setting: Symbol, series: list[Series], figure: Metric) -> str:
    sign = setting.sign
    found = {line.name: _found(line, sign, figure) for line in series}
    chart = line_chart(
        f"selection-{parameter}-{figure.key}",
        series,
        ChartWords(
            title=f"Cross-validation of {parameter}",
            description="; ".join(
                f"{line.name}: {'best' if line.mark is None else 'chosen'} {found[line.name]}" for line in series
            ),
            x=f"{setting.sign}, {setting.words} (log scale)",
            y=figure.name,
        ),
        log2=True,
        unit=figure.unit,
    )
    legend = [(line.colour, f"{line.name}: {found[line.name]}") for line in series]
    folds, rows = get_number(selection, "folds"), get_number(selection, "rows")
    how = f"{count(folds)}-fold cross-validation" if folds is not None else "Cross-validation"
    how += f" on {plural(rows, 'training row')}" if rows is not None else ""
    swept = [line.name for line in series if line.name in get_mapping(selection, "swept")]
    how += f"; for {', '.join(swept)} one sweep over all values, on one fold" if swept else ""
    how += f". Ring: the chosen {sign}" if any(line.mark is not None for line in series) else ""
    note = f"{how}.{search_note(selection, parameter, sign, in_rows=figure.key == 'accuracy')}"
    return render("figure.html", title=f"Choice of {sign}", legend=legend, chart=chart, note=note)


def _found(line: Series, sign: str, metric: Metric) -> str:
    """Return the result of cross-validation for a learner: the metric at the chosen value, else the best metric."""
    metric_by_value = dict(line.points)
    best = max if metric.higher_is_better else min
    value = best(metric_by_value, key=lambda x: metric_by_value[x]) if line.mark is None else line.mark
    return f"{shown(metric_by_value[value], metric.unit)} at {sign} = {brief(value)}"
