"""Explain in plain words the test rows, the learners, and the terms of the method.

The texts are for people who know what a classifier is and have not read the papers. They are plain text, not HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ikmap.methods import LEARNERS, Field, FieldError, MapAbout, Symbol, UnknownMethod, configured, fields_by_name
from ikmap.methods.composed import described
from ikmap.methods.fields import with_options
from ikmap.methods.registry import map_kinds
from ikmap.methods.values import numbers_of
from pipeline.errors import InputError
from pipeline.report.fields import Metrics, get_list, get_mapping, get_number, get_text, learners_of
from pipeline.report.text import shorten
from pipeline.resolve import flag, kernel_name

_SHARES = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 6: "sixth", 8: "eighth", 10: "tenth", 20: "twentieth"}


def words_for_test_rows(data: Metrics) -> str:
    """Return the test rows in words: "your test file x.csv", "a random fifth of the rows"; empty if not known.

    Parameters
    ----------
    data : mapping
        Entry ``data`` of ``metrics.json``.
    """
    kind = get_text(data, "test")
    if kind == "file":
        urls = [get_text(source, "url") for source in get_list(data, "sources")]
        return f"your test file {shorten(urls[1].rstrip('/').rpartition('/')[2], 60)}" if urls[1:] else "your test file"
    train, left_out = get_number(data, "rows_train"), get_number(data, "rows_left_out") or 0.0
    share = _share(get_number(data, "rows_test"), None if train is None else train + left_out)
    return {
        "official": "the data set's own test set",
        "split": f"a random {share} of the rows" if share else "rows drawn at random",
        "later": f"the {share} of the rows that is latest in time" if share else "the latest rows",
        "groups": f"a {share} of the rows, of groups of their own" if share else "rows of groups of their own",
        "stratified": f"a random {share} of each class" if share else "rows of each class, drawn at random",
        "last": f"the last {share} of the rows of the file" if share else "the last rows of the file",
    }.get(kind, "")


def _share(test: float | None, train: float | None) -> str:
    """Return the share of the test rows in words: fifth, 12.5%; empty if not known."""
    if not test or not train or test < 0 or train < 0:
        return ""
    rows = test + train
    nearest = min(_SHARES, key=lambda parts: abs(test - rows / parts))
    return _SHARES[nearest] if abs(test - rows / nearest) < 1 else f"{100 * test / rows:.3g}%"


def title_of(learner: str) -> str:
    """Return the title of a learner; empty for one that is not known here."""
    return LEARNERS[learner].about.title if learner in LEARNERS else ""


def settings_in(metrics: Metrics) -> dict[str, Symbol]:
    """Return the settings of a run, by their names in the papers: the map's first, then those of the learners."""
    symbols: dict[str, list[Symbol]] = {}
    searched = {name for learner in learners_of(metrics).values() for name in _chosen(learner)}
    for fields in _fields_in(metrics).values():
        for field in fields.values():
            if field.symbol is not None:
                symbols.setdefault(field.parameter, []).append(field.symbol)
            elif field.name in searched:  # of a method without a symbol for it
                symbols.setdefault(field.name, []).append(Symbol(field.name, with_options(field.doc, flag)))
    return {
        parameter: replace(several[0], meaning=" ".join(dict.fromkeys(symbol.meaning for symbol in several)))
        for parameter, several in symbols.items()
    }


def settings_of(name: str, metrics: Metrics) -> dict[str, float]:
    """Return the values of the settings (:func:`settings_in`) that a learner was trained with."""
    learner, params = learners_of(metrics)[name], get_mapping(metrics, "params")
    values = {"psi": get_number(learner, "psi"), **_chosen(learner)}
    for parameter, option in _options_with_settings(name, metrics).items():
        if values.get(parameter) is None:
            value = params.get(option)
            values[parameter] = get_number(value, name) if isinstance(value, dict) else get_number(params, option)
    return {parameter: value for parameter in settings_in(metrics) if (value := values.get(parameter)) is not None}


def _chosen(learner: Metrics) -> dict[str, float | None]:
    """Return the numbers that were chosen or given for a learner beside psi, by name: one, or several."""
    parameter, value = get_text(learner, "parameter"), learner.get("value")
    if isinstance(value, list | tuple):
        return dict(numbers_of(parameter, value))
    return {parameter: get_number(learner, "value")} if parameter else {}


def _options_with_settings(learner: str, metrics: Metrics) -> dict[str, str]:
    """Return the options of a learner and its map that have an effect and a symbol, by their names in papers."""
    records = get_mapping(get_mapping(metrics, "params"), "methods")
    methods_of_learner = {learner, _kernel_of(learner, metrics)}
    if _on_cells(learner):
        methods_of_learner.add(_map_of(metrics))
    options = {}
    for name, fields in _fields_in(metrics).items():
        if name not in methods_of_learner:
            continue
        try:
            configured_method, searched = configured(name, get_mapping(records, name))
            ignored = configured_method.ignored(searched)
        except (FieldError, TypeError):  # the report of a damaged file shows as much as possible
            ignored = frozenset()
        for field in fields.values():
            if field.symbol is not None and field.name not in ignored:
                options[field.parameter] = field.name
    return options


def _on_cells(learner: str) -> bool:
    return learner in LEARNERS and LEARNERS[learner].about.on == "cells"


def _map_of(metrics: Metrics) -> str:
    """Return the name of the run's map."""
    return get_text(get_mapping(metrics, "params"), "partitioner")


def _fields_in(metrics: Metrics) -> dict[str, Mapping[str, Field]]:
    """Return the fields of the methods that a run used, as far as they are known here, by their names.

    The map comes first, and each kernel before its learner.
    """
    map_name = _map_of(metrics)
    names = [map_name] if on_cells_in(metrics) and _about_map(map_name) else []
    for name in learners_of(metrics):
        if name in LEARNERS:
            names += [*filter(None, [_kernel_of(name, metrics)]), name]
    return {name: fields_by_name(name) for name in names}


def _about_map(name: str) -> MapAbout | None:
    """Return the description of a map, or None if it is not known here."""
    try:
        return described([kind.about for kind in map_kinds(name)])
    except (FieldError, UnknownMethod):  # the report of a damaged file shows as much as possible
        return None


def _kernel_of(learner: str, metrics: Metrics) -> str:
    """Return the kernel that a learner used, if it is known here; else empty."""
    record = get_mapping(get_mapping(get_mapping(metrics, "params"), "methods"), learner)
    try:
        return kernel_name(LEARNERS[learner], record) if learner in LEARNERS else ""
    except (InputError, TypeError):  # the report of a damaged file shows as much as possible
        return ""


def terms_of(metrics: Metrics) -> list[tuple[str, str]]:
    """Return the terms that a reader has to know before the settings, each explained by those before it."""
    if not on_cells_in(metrics):
        return []
    params = get_mapping(metrics, "params")
    about_map, t = _about_map(_map_of(metrics)), get_number(params, "t")
    summary = f": {about_map.summary}." if about_map else "."
    return [
        ("partitioning", f"One way, found at random, to cut the space of all rows into cells{summary}"),
        (
            "cell",
            "One piece of a partitioning. A learner on cells knows of a row only which cell of each partitioning it "
            "falls into: the more cells two rows share, the more alike they are to it.",
        ),
        (
            f"t = {t:g}" if t is not None else "t",
            "How many partitionings there are. With more of them the result depends less on the seed, and the time "
            "grows in proportion.",
        ),
    ]


def on_cells_in(metrics: Metrics) -> bool:
    """Return whether any learner of the run works on cells."""
    learners = learners_of(metrics).values()
    learned = any(get_text(learner, "cells") or get_number(learner, "psi") is not None for learner in learners)
    return learned or bool(get_mapping(get_mapping(metrics, "selection"), "chosen"))


def method_in_words(metrics: Metrics) -> str:
    """Return the learners and their data in two sentences; empty if no learner is known."""
    titles = [f"{name} is {_with_article(title)}" for name in learners_of(metrics) if (title := title_of(name))]
    if not titles:
        return ""
    sentences = f"{'; '.join(titles)}."
    if on_cells_in(metrics):
        t = get_number(get_mapping(metrics, "params"), "t")
        times = f"in {t:g} different ways" if t else "in many ways"
        sentences += (
            f" The space of all rows is cut into cells at random, {times} (partitionings). A learner on cells does not "
            "see the columns of a row, only which cell of each partitioning the row falls into."
        )
    return sentences


def _with_article(title: str) -> str:
    """Return the title of a learner as the end of a sentence."""
    return f"a {title}" if title.startswith("linear") else f"an {title}" if title.startswith("SVM") else title
