"""What is meant, in plain words: the test rows, the learners, and the terms of the method.

Written for somebody who knows what a classifier is and has not read the papers. All of it is plain text, not HTML.
"""

from __future__ import annotations

from ikmap.methods import LEARNERS, MAPS
from pipeline.report.fields import Metrics, get_list, get_mapping, get_number, get_text, learners_of
from pipeline.report.text import shorten

_SHARES = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 6: "sixth", 8: "eighth", 10: "tenth", 20: "twentieth"}

CHOSEN = {
    "psi": ("ψ", "cells per partitioning"),
    "C": ("C", "weight of errors"),
    "eta": ("η", "step size"),
    "gamma": ("γ", "inverse width of the kernel"),
    "lambda": ("λ", "factor of the penalty"),
}
"""Sign and meaning, in a few words, of what is chosen for a learner."""

_MEANINGS = {
    "psi": "Few cells are large and tell rows apart only coarsely; many are small and tell them apart finely, and with "
    "too many the learner begins to know single training rows by heart. Of all settings, this matters most.",
    "C": "How much a training row on the wrong side counts against a simple boundary: a large C follows the training "
    "rows closely, a small one keeps the boundary simple.",
    "eta": "How far one row that is predicted badly moves the weights of a learner that sees row after row.",
    "gamma": "How quickly the similarity of two rows falls with their distance: a large γ lets only near rows count.",
    "lambda": "How much large weights count against a solution that follows the rows closely.",
}
_OF_KERNELS = "The width of a kernel on the rows themselves is given by it too: γ = ln ψ / columns."


def words_for_test_rows(data: Metrics) -> str:
    """What the test rows are, for people: "your test file x.csv", "a seeded fifth of the rows"; empty where not known.

    Parameters
    ----------
    data : mapping
        The part of ``metrics.json`` of that name.
    """
    kind = get_text(data, "test")
    if kind == "file":
        urls = [get_text(source, "url") for source in get_list(data, "sources")]
        return f"your test file {shorten(urls[1].rstrip('/').rpartition('/')[2], 60)}" if urls[1:] else "your test file"
    share = _share(get_number(data, "rows_test"), get_number(data, "rows_train"))
    return {
        "official": "the data set's own test set",
        "split": f"a seeded {share} of the rows" if share else "rows drawn by the seed",
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
    return LEARNERS[learner].title if learner in LEARNERS else ""


def settings_of(name: str, metrics: Metrics) -> dict[str, float]:
    """The settings a learner was trained with that :data:`CHOSEN` names."""
    learner, params = learners_of(metrics)[name], get_mapping(metrics, "params")
    options = LEARNERS[name].Options.specs() if name in LEARNERS else {}
    of_all = {"psi": get_number(learner, "psi")}
    for key in ("C", "eta"):
        value = params.get(key)
        of_all[key] = get_number(value, name) if isinstance(value, dict) else get_number(params, key)
        if key not in options:
            of_all[key] = None
    if (parameter := get_text(learner, "parameter")) in CHOSEN:
        of_all[parameter] = get_number(learner, "value")
    return {key: value for key, value in of_all.items() if value is not None}


def meaning_of(setting: str, metrics: Metrics) -> str:
    """What a setting of :data:`CHOSEN` does, for somebody who may have to choose it."""
    if setting != "psi" or all(get_text(learner, "parameter") != "psi" for learner in learners_of(metrics).values()):
        return _MEANINGS[setting]
    return f"{_MEANINGS['psi']} {_OF_KERNELS}" if on_cells_in(metrics) else _OF_KERNELS.replace(" too", "")


def terms_of(metrics: Metrics) -> list[tuple[str, str]]:
    """The terms that one has to know before the settings, each explained by those before it."""
    if not on_cells_in(metrics):
        return []
    params = get_mapping(metrics, "params")
    cut, t = MAPS.get(get_text(params, "partitioner")), get_number(params, "t")
    how = f": {cut.about}." if cut else "."
    return [
        ("partitioning", f"One way, found at random, to cut the space of all rows into cells{how}"),
        (
            "cell",
            "One piece of a partitioning. All that a learner on cells sees of a row is which cell it falls into in "
            "each partitioning; two rows are alike to it as far as they share cells.",
        ),
        (
            f"t = {t:g}" if t is not None else "t",
            "How many partitionings there are. More make the result steadier and take time in proportion.",
        ),
    ]


def on_cells_in(metrics: Metrics) -> bool:
    """Whether any learner of the run works on cells."""
    learned = any(get_number(learner, "psi") is not None for learner in learners_of(metrics).values())
    return learned or bool(get_list(metrics.get("selection"), "psi"))


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
            f" The space of all rows is cut into cells at random, {ways} (partitionings); which cells a row falls into "
            "is all that a learner on cells sees of it."
        )
    return said


def _with_article(title: str) -> str:
    """A title of a learner as the end of a sentence."""
    return f"a {title}" if title.startswith("linear") else f"an {title}" if title.startswith("SVM") else title
