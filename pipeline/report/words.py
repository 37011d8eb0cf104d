"""Explain in plain words what is meant by the test rows, the learners, and the terms of the method.

Written for somebody who knows what a classifier is and has not read the papers. All of it is plain text, not HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ikmap.methods import LEARNERS, Field, FieldError, MapAbout, Symbol, UnknownMethod, configured, fields_by_name
from ikmap.methods.composed import described
from ikmap.methods.fields import with_options
from ikmap.methods.registry import map_kinds
from ikmap.methods.search import numbers_of
from pipeline.errors import InputError
from pipeline.report.fields import Metrics, get_list, get_mapping, get_number, get_text, learners_of
from pipeline.report.text import shorten
from pipeline.resolve import flag, kernel_name

_SHARES = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 6: "sixth", 8: "eighth", 10: "tenth", 20: "twentieth"}


def words_for_test_rows(data: Metrics) -> str:
    """What the test rows are, for people: "your test file x.csv", "a random fifth of the rows"; empty where not known.

    Parameters
    ----------
    data : mapping
        The part of ``metrics.json`` of that name.
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
    """The share of the test rows in words: fifth, 12.5%; empty where not known."""
    if not test or not train or test < 0 or train < 0:
        return ""
    rows = test + train
    near = next((word for parts, word in _SHARES.items() if abs(test - rows / parts) < 1), None)
    return near or f"{100 * test / rows:.3g}%"


def title_of(learner: str) -> str:
    """What a learner is; empty for one that is not ours."""
    return LEARNERS[learner].about.title if learner in LEARNERS else ""


def settings_in(metrics: Metrics) -> dict[str, Symbol]:
    """What the results of a run depend on, by its name in the papers: the map's first, then those of the learners."""
    found: dict[str, list[Symbol]] = {}
    searched = {name for learner in learners_of(metrics).values() for name in _chosen(learner)}
    for fields in _fields_in(metrics).values():
        for field in fields.values():
            if field.symbol is not None:
                found.setdefault(field.parameter, []).append(field.symbol)
            elif field.name in searched:  # of a method that says no more
                found.setdefault(field.name, []).append(Symbol(field.name, with_options(field.doc, flag)))
    return {
        parameter: replace(several[0], meaning=" ".join(dict.fromkeys(one.meaning for one in several)))
        for parameter, several in found.items()
    }


def settings_of(name: str, metrics: Metrics) -> dict[str, float]:
    """Values of those of :func:`settings_in` that a learner was trained with."""
    learner, params = learners_of(metrics)[name], get_mapping(metrics, "params")
    found = {"psi": get_number(learner, "psi"), **_chosen(learner)}
    for parameter, option in _options_with_settings(name, metrics).items():
        if found.get(parameter) is None:
            value = params.get(option)
            found[parameter] = get_number(value, name) if isinstance(value, dict) else get_number(params, option)
    return {parameter: value for parameter in settings_in(metrics) if (value := found.get(parameter)) is not None}


def _chosen(learner: Metrics) -> dict[str, float | None]:
    """What was chosen or given for a learner beside psi, by name: one number, or several."""
    parameter, value = get_text(learner, "parameter"), learner.get("value")
    if isinstance(value, list | tuple):
        return dict(numbers_of(parameter, value))
    return {parameter: get_number(learner, "value")} if parameter else {}


def _options_with_settings(learner: str, metrics: Metrics) -> dict[str, str]:
    """Options of a learner and its map that change something and have a symbol, by their names in papers."""
    records = get_mapping(get_mapping(metrics, "params"), "methods")
    of_learner = {learner, _kernel_of(learner, metrics)}
    if _on_cells(learner):
        of_learner.add(_map_of(metrics))
    found = {}
    for name, fields in _fields_in(metrics).items():
        if name not in of_learner:
            continue
        try:
            one, searched = configured(name, get_mapping(records, name))
            ignored = one.ignored(searched)
        except (FieldError, TypeError):  # the report of a damaged file says what it can
            ignored = frozenset()
        for field in fields.values():
            if field.symbol is not None and field.name not in ignored:
                found[field.parameter] = field.name
    return found


def _on_cells(learner: str) -> bool:
    return learner in LEARNERS and LEARNERS[learner].about.on == "cells"


def _map_of(metrics: Metrics) -> str:
    """The name of the run's map."""
    return get_text(get_mapping(metrics, "params"), "partitioner")


def _fields_in(metrics: Metrics) -> dict[str, Mapping[str, Field]]:
    """The fields of the methods that a run used, as far as they are known here, by their names.

    The map comes first, and each kernel before its learner.
    """
    cut = _map_of(metrics)
    names = [cut] if on_cells_in(metrics) and _about_map(cut) else []
    for name in learners_of(metrics):
        if name in LEARNERS:
            names += [*filter(None, [_kernel_of(name, metrics)]), name]
    return {name: fields_by_name(name) for name in names}


def _about_map(name: str) -> MapAbout | None:
    """What the map of that name says of itself, if it is known here."""
    try:
        return described([kind.about for kind in map_kinds(name)])
    except (FieldError, UnknownMethod):  # the report of a damaged file says what it can
        return None


def _kernel_of(learner: str, metrics: Metrics) -> str:
    """The kernel that a learner used, if it is known here; else empty."""
    record = get_mapping(get_mapping(get_mapping(metrics, "params"), "methods"), learner)
    try:
        return kernel_name(LEARNERS[learner], record) if learner in LEARNERS else ""
    except (InputError, TypeError):  # the report of a damaged file says what it can
        return ""


def terms_of(metrics: Metrics) -> list[tuple[str, str]]:
    """The terms that one has to know before the settings, each explained by those before it."""
    if not on_cells_in(metrics):
        return []
    params = get_mapping(metrics, "params")
    cut, t = _about_map(_map_of(metrics)), get_number(params, "t")
    how = f": {cut.summary}." if cut else "."
    return [
        ("partitioning", f"One way, found at random, to cut the space of all rows into cells{how}"),
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
    """Whether any learner of the run works on cells."""
    learners = learners_of(metrics).values()
    learned = any(get_text(of, "cells") or get_number(of, "psi") is not None for of in learners)
    return learned or bool(get_mapping(get_mapping(metrics, "selection"), "chosen"))


def method_in_words(metrics: Metrics) -> str:
    """What was learned and from what, in two sentences; empty where no learner is known."""
    titles = [f"{name} is {_with_article(title)}" for name in learners_of(metrics) if (title := title_of(name))]
    if not titles:
        return ""
    said = f"{'; '.join(titles)}."
    if on_cells_in(metrics):
        t = get_number(get_mapping(metrics, "params"), "t")
        ways = f"in {t:g} different ways" if t else "in many ways"
        said += (
            f" The space of all rows is cut into cells at random, {ways} (partitionings). A learner on cells does not "
            "see the columns of a row, only which cell of each partitioning the row falls into."
        )
    return said


def _with_article(title: str) -> str:
    """A title of a learner as the end of a sentence."""
    return f"a {title}" if title.startswith("linear") else f"an {title}" if title.startswith("SVM") else title
