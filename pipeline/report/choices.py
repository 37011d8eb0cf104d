"""How the settings of the learners were chosen: what they mean, what they are, and the curves that decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ikmap.methods.options import Setting
from ikmap.methods.search import JOINED
from ikmap.tasks import Figure
from pipeline.report.charts import STYLES, ChartWords, Series, line_chart, swatch
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
from pipeline.report.figure import figure_of, is_possible, shown
from pipeline.report.markup import scroll, section
from pipeline.report.search import search_note
from pipeline.report.text import MISSING, brief, count, esc, plural
from pipeline.report.words import settings_in, settings_of, terms_of


def choices_section(metrics: Metrics) -> str:
    """The words, and the settings of each learner."""
    terms = "".join(f"<dt>{esc(term)}</dt><dd>{esc(meaning)}</dd>" for term, meaning in terms_of(metrics))
    words = f'<dl class="terms">{terms}</dl>' if terms else ""
    table = _settings_table(metrics)
    return section("choices", "How it was chosen", words + table) if words or table else ""


def _settings_table(metrics: Metrics) -> str:
    """One column a learner, one row a setting, with how many values were tried where it was searched."""
    settings = {name: settings_of(name, metrics) for name in learners_of(metrics)}
    settings = {name: found for name, found in settings.items() if found}
    tried = {name: _tried(name, metrics) for name in settings}
    rows = []
    for key, setting in settings_in(metrics).items():
        if any(key in found for found in settings.values()):
            cells = ""
            for name, found in settings.items():
                how = f"<small>best of {count(tried[name][key])} tried</small>" if key in tried[name] else ""
                cells += f"<td>{esc(brief(found[key])) if key in found else MISSING}{how}</td>"
            about = f"<small>{esc(setting.meaning)}</small>" if setting.meaning else ""
            said = f"<b>{esc(setting.sign)}</b>, {esc(setting.words)}{about}"
            rows.append(f'<tr><th scope="row">{said}</th>{cells}</tr>')
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{esc(name)}</th>' for name in settings)
    head = f"<thead><tr><td></td>{head}</tr></thead>"
    table = f'<table class="learners settings">{head}<tbody>{"".join(rows)}</tbody></table>'
    folds, searched = get_number(metrics.get("selection"), "folds"), any(tried.values())
    how = (
        f"Tried by {f'{count(folds)}-fold ' if folds else ''}cross-validation, which trains on part of the training "
        "rows and looks how good it is on the rest; no test row is looked at. The others are as they were set."
    )
    note = how if searched else "Nothing was searched in this run: all of them are as they were set."
    return f'{scroll(table, "Settings of the learners")}<p class="note">{note}</p>'


def _tried(name: str, metrics: Metrics) -> dict[str, int]:
    """How many values cross-validation tried of each setting that it chose for a learner."""
    selection = get_mapping(metrics, "selection")
    found = {
        key: len(get_list(selection, key))
        for key, chosen in ((parameter_of(selection), "chosen"), ("C", "chosen_C"))
        if get_number(get_mapping(selection, chosen), name) is not None
    }
    swept = get_mapping(get_mapping(selection, "swept"), name)
    if (tried := get_number(swept, "tried")) is not None:
        found[get_text(swept, "parameter")] = int(tried)
    tuned = get_mapping(get_mapping(selection, "tuned"), name)
    for key, (values, _, chosen_of_key) in _by_parameter(tuned, figure_of(metrics)).items():
        if chosen_of_key is not None:
            found[key] = len(values)
    return {key: n for key, n in found.items() if n}


def _by_parameter(found: Mapping[str, Any], figure: Figure) -> dict[str, tuple[list[Any], list[Any], float | None]]:
    """Of what was searched for a learner: values of each parameter, the best figure of each, and what was chosen."""
    names, values, figures = (
        get_text(found, "parameter").split(JOINED),
        get_list(found, "values"),
        found.get(figure.key),
    )
    of_values = get_list({"of": figures}, "of")
    if len(names) == 1:
        return {names[0]: (values, of_values, get_number(found, "chosen"))}
    best, by_name = max if figure.higher_is_better else min, {}
    for i, name in enumerate(names):
        ends: dict[float, float] = {}
        for value, of_value in zip(values, of_values, strict=False):
            x, y = _part(value, i), number(of_value)
            if x is not None and y is not None:
                ends[x] = best(ends.get(x, y), y)
        by_name[name] = sorted(ends), [ends[x] for x in sorted(ends)], _part(found.get("chosen"), i)
    return by_name


def _part(value: Any, i: int) -> float | None:
    return number(value[i]) if isinstance(value, list | tuple) and i < len(value) else None


def parameter_of(selection: Mapping[str, object]) -> str:
    """The number that was searched of the map to cells; reports of before there was another one do not say it."""
    return get_text(selection, "parameter") or "psi"


def selection_curves(metrics: Metrics) -> str:
    """What cross-validation found of each parameter that was chosen so: one chart a parameter, one line a learner."""
    selection, names, figure = get_mapping(metrics, "selection"), list(learners_of(metrics)), figure_of(metrics)
    parameter = parameter_of(selection)
    searches = [
        (name, parameter, selection.get(parameter), accuracy, get_number(selection.get("chosen"), name))
        for name, accuracy in get_mapping(selection, figure.key).items()
    ]
    searches += [
        (name, parameter, *of)
        for kind in ("swept", "tuned")
        for name, found in get_mapping(selection, kind).items()
        if isinstance(found, Mapping) and figure.key in found
        for parameter, of in _by_parameter(found, figure).items()
    ]
    settings = settings_in(metrics)
    series: dict[str, list[Series]] = {parameter: [] for parameter in settings}
    for i, (name, parameter, values, accuracy, chosen) in enumerate(searches):
        record = {"x": values, "y": accuracy}
        points = [(x, y) for x, y in get_points(record, "x", "y") if x > 0 and is_possible(figure, y)]
        if points and parameter in series:
            own = (names.index(name) if name in names else i) % STYLES
            taken = {line.style for line in series[parameter]}
            # Its style of the whole page, unless another line here has it: there are few.
            style = next((s for s in (own, *range(STYLES)) if s not in taken), own)
            series[parameter].append(Series(str(name), points, style, chosen if chosen in dict(points) else None))
    return "".join(
        _selection_curve(selection, parameter, settings[parameter], lines, figure)
        for parameter, lines in series.items()
        if lines
    )


def _selection_curve(selection: Metrics, parameter: str, setting: Setting, series: list[Series], figure: Figure) -> str:
    sign = esc(setting.sign)
    found = {line.name: _found(line, sign, figure) for line in series}
    chart = line_chart(
        f"selection-{parameter}",
        series,
        ChartWords(
            title=f"Cross-validation of {parameter}",
            description="; ".join(
                f"{line.name}: {'best' if line.mark is None else 'chosen'} {found[line.name]}" for line in series
            ),
            x=f"{setting.sign}, {setting.words} (log scale)",
            y=figure.key,
        ),
        log2=True,
        unit=figure.unit,
    )
    legend = "".join(f"<li>{swatch(line.style)}{esc(line.name)}: {found[line.name]}</li>" for line in series)
    folds, rows = get_number(selection, "folds"), get_number(selection, "rows")
    how = f"{count(folds)}-fold cross-validation" if folds is not None else "Cross-validation"
    how += f" on {plural(rows, 'training row')}" if rows is not None else ""
    swept = [line.name for line in series if line.name in get_mapping(selection, "swept")]
    how += f"; for {esc(', '.join(swept))} one sweep over all values, on the first fold" if swept else ""
    how += f". Ring: the chosen {sign}" if any(line.mark is not None for line in series) else ""
    return (
        f'<figure><h3>Choice of {sign}</h3><ul class="legend">{legend}</ul>{chart}'
        f"<figcaption>{how}.{search_note(selection, parameter, sign)}</figcaption></figure>"
    )


def _found(line: Series, sign: str, figure: Figure) -> str:
    """What cross-validation found for one learner: the figure at the chosen value, else the best."""
    found = dict(line.points)
    best = max if figure.higher_is_better else min
    value = best(found, key=lambda x: found[x]) if line.mark is None else line.mark
    return f"{shown(found[value], figure.unit)} at {sign} = {brief(value)}"
