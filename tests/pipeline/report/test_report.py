"""The report as text: numbers, derived figures, escaping, missing parts."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import pytest
from annotated_types import Ge, Gt
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from ikmap.methods import MAPS, Doc, Map, MapAbout, Sample, Symbol
from ikmap.methods.anne import Anne
from ikmap.partitioners import Partitions
from pipeline.report import render_report, scores, text, write_report
from pipeline.report.charts import (
    LEFT,
    RIGHT,
    WIDTH,
    ChartWords,
    Series,
    interval_strip,
    line_chart,
    nice_ticks,
    number_label,
    share_domain,
)
from pipeline.report.labels import Box, place_labels
from pipeline.report.search import search_note
from pipeline.report.timeline import bars_of
from pipeline.report.traces import traces_section
from pipeline.report.words import words_for_test_rows
from tests.support import report_examples

EXAMPLES = ("binary", "shared_psi", "tuned", "ten_classes", "many_classes", "stream", "raced", "unfinished")
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Tags, attributes and visible text of a page; fails on tags that do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.folded: list[str] = []
        self._closed = 0  # folds around what is read that are not open
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "details" and (self._closed or "open" not in dict(attrs)):
            self._closed += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "details" and self._closed:
            self._closed -= 1

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)
            if self._closed and "summary" not in self.open:
                self.folded.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def behind_folds(self) -> str:
        return " ".join(" ".join(self.folded).split())


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        (text.count, 12345, "12,345"),
        (text.count, None, "–"),
        (text.duration, 0, "0 s"),
        (text.duration, 0.0002, "< 1 ms"),
        (text.duration, 0.012, "12 ms"),
        (text.duration, 0.5, "0.50 s"),
        (text.duration, 3.4, "3.4 s"),
        (text.duration, 59.94, "59.9 s"),
        (text.duration, 59.96, "1 min 00 s"),
        (text.duration, 125, "2 min 05 s"),
        (text.duration, 3599.6, "1 h 00 min"),
        (text.duration, 4320, "1 h 12 min"),
        (text.nbytes, 812, "812 B"),
        (text.nbytes, 999_600, "1.0 MB"),
        (text.nbytes, 420_000_000, "420 MB"),
        (text.nbytes, 1_234_567_890, "1.2 GB"),
        (text.nbytes, 5e15, "5,000 TB"),
        (text.rate, 3.21, "3.2 rows/s"),
        (text.rate, 12345.4, "12,345 rows/s"),
        (text.rate, 1_250_000, "1.2 million rows/s"),
        (text.percent, 0.8493, "84.9%"),
        (text.percent, 1, "100%"),
        (text.percent, 0, "0%"),
        (text.percent, 0.99996, "99.996%"),
        (text.percent, 0.0001, "0.01%"),
        (text.label, 1.0, "1"),
        (text.label, -1, "-1"),
        (text.label, 0.5, "0.5"),
        (text.figure, True, "yes"),
        (text.figure, 3.14159e-5, "3.142e-05"),
        (text.figure, float("nan"), "nan"),
        (text.setting, ["svm", "ogd"], "svm, ogd"),
        (text.figure, 13714.8, "13,715"),
        (text.figure, 1234.56, "1235"),
        (text.setting, 20260801, "20260801"),
        (text.setting, {"svm": 8, "ogd": 64}, "svm: 8, ogd: 64"),
        (text.setting, {"a": [1, 2], "b": None}, '{"a": [1, 2], "b": null}'),
        (text.moment, "2026-08-01T12:15:02+02:00", "2026-08-01 10:15:02 UTC"),
        (text.moment, "noon", "noon"),
    ],
)
def test_numbers_for_people(function: Any, value: Any, expected: str) -> None:
    assert function(value) == expected


@given(n=st.integers(1, 10**7), data=st.data())
@settings(max_examples=50)
def test_wilson_interval_is_scipys(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    expected = binomtest(k, n).proportion_ci(method="wilson")
    low, high = scores.wilson_interval(k / n, n)
    assert low == pytest.approx(expected.low, abs=1e-12)
    assert high == pytest.approx(expected.high, abs=1e-12)
    assert 0 <= low <= k / n <= high <= 1


def test_per_class_scores() -> None:
    confusion = scores.Confusion(["a", "b", "c"], [[8, 2, 0], [1, 3, 0], [0, 0, 0]])
    a, b, c = confusion.per_class()
    assert (a.recall, a.precision, a.taken_for) == (0.8, 8 / 9, "b")
    assert (b.recall, b.precision, b.taken_for) == (0.75, 0.6, "a")
    assert (c.recall, c.precision, c.taken_for, c.support) == (None, None, None, 0)
    assert confusion.confused_pairs() == [(0, 1, 2), (1, 0, 1)]
    assert (confusion.total, confusion.errors) == (14, 3)
    assert confusion.balanced_accuracy() == pytest.approx((0.8 + 0.75) / 2)


def test_majority_baseline_takes_the_class_from_the_training_rows() -> None:
    data = {"classes": [1.0, 2.0], "class_counts_train": [60, 40]}
    confusion = scores.Confusion(["1", "2"], [[20, 10], [20, 50]])
    assert scores.majority_baseline(data, confusion) == 0.3
    assert scores.majority_baseline({}, confusion) == 0.7
    assert scores.majority_baseline(data, None) == 0.6
    assert scores.majority_baseline({}, None) is None


@pytest.mark.parametrize("matrix", [[[1, 2]], [[1, 2], [3]], [[1, -2], [3, 4]], [[1, "2"], [3, 4]], "no", [], [None]])
def test_what_is_no_confusion_matrix_is_left_out(matrix: Any) -> None:
    assert scores.confusion_of({"confusion": matrix}, [1, 2]) is None


@given(low=st.floats(0, 0.999), width=st.floats(1e-6, 1))
@settings(max_examples=50)
def test_axes(low: float, width: float) -> None:
    high = min(1.0, low + width)
    a, b = share_domain([low, high])
    assert 0 <= a <= low <= high <= b <= 1
    ticks = nice_ticks(a, b)
    assert 2 <= len(ticks) <= 7
    assert a - 1e-9 <= ticks[0] < ticks[-1] <= b + 1e-9
    assert ticks == sorted(ticks)


def test_stages_without_a_start_follow_each_other() -> None:
    bars = bars_of([{"seconds": 2}, {"started": 5, "seconds": 1}, {"seconds": 3}, {"name": "cells"}])
    assert [(bar.start, bar.seconds) for bar in bars] == [(0, 2), (5, 1), (6, 3), (9, None)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_page_is_whole_and_needs_nothing_else(example: str) -> None:
    page = Page(render_report(getattr(report_examples, example)()))
    addresses = [value for _, name, value in page.attributes if name in ("src", "href", "srcset", "action")]
    assert addresses == []
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    referred = [v for _, n, value in page.attributes if n == "aria-labelledby" for v in value.split()]
    assert set(referred) <= set(ids)
    assert page.tags.count("th") == sum(tag == "th" and name == "scope" for tag, name, _ in page.attributes)
    pictures = sum(tag == "svg" and (name, value) == ("role", "img") for tag, name, value in page.attributes)
    assert pictures == page.tags.count("desc") > 0


def test_style_and_script_ask_for_nothing() -> None:
    files = sorted((Path(text.__file__).parent / "templates").iterdir())
    assert {file.suffix for file in files} == {".css", ".js", ".html", ".svg"}
    for file in files:
        content = file.read_text(encoding="utf-8")
        assert not re.search(r"https?:|//[a-z]|url\(|@import|fetch\(|XMLHttp|import\(", content.replace("// C", ""))


def test_result_first() -> None:
    seen = Page(render_report(report_examples.binary())).text
    order = ["a9a", "svm is right on 84.9% of 16,281 test rows", "majority class", " Accuracy ", " Errors ",
             " How it was chosen ", " Curves ", " Stages ", " Data ", " Run it again ", " Details "]  # fmt: skip
    order_found = [re.sub(r"\s+", " ", seen).find(words) for words in order]
    assert -1 not in order_found
    assert order_found == sorted(order_found)
    for words in ("84.37% – 85.47%", "76.4%", "+8.5 points", "41.7 s", "1,171", "5,367 rows/s", "354 MB"):
        assert words in seen, words
    assert "python -m flows.batch --dataset a9a --psi auto --learner svm,ogd" in seen
    assert 'partitioner = "anne"' in seen
    assert "3 tasks already done" in seen
    assert "in the stages 39.3 s (94%) before, between and after the stages 2.4 s (6%) all together 41.7 s" in seen


def test_what_few_want_to_know_is_behind_a_fold() -> None:
    page = Page(render_report(report_examples.binary()))
    folded = page.behind_folds
    shown = page.text.replace(folded, "")
    for words in ("duality gap", "iterations", "updates", "support vectors", "model hash", "SHA-256"):
        assert words in folded, words
        assert page.text.count(words) == folded.count(words), words
    for words in ('partitioner = "anne"', "Versions"):
        assert words in folded, words
    for words in ("Recall and precision of 2 classes", "best of 11 tried", "python -m flows.batch --dataset a9a"):
        assert words in shown, words
        assert words not in folded, words


def test_a_learner_that_did_not_converge_is_told_in_the_open() -> None:
    page = Page(render_report(report_examples.many_classes()))
    assert "svm stopped before reaching the tolerance" in page.text
    assert "svm stopped" not in page.behind_folds
    assert "stopped before" not in Page(render_report(report_examples.binary())).text


@pytest.mark.parametrize("partitioner", ["anne", "iforest"])
def test_words_are_explained_where_they_come_first(partitioner: str) -> None:
    metrics = report_examples.binary()
    metrics["params"]["partitioner"] = partitioner
    seen = Page(render_report(metrics)).text
    first = seen.index(
        "How it was chosen partitioning One way, found at random, to cut the space of all rows into cells"
    )
    terms = [
        "cell One piece of a partitioning.",
        "t = 100 How many partitionings there are.",
        "ψ , cells per partitioning With few, large cells the learner sees only coarse differences",
        "C , weight of errors How much an error on a training row counts",
        "η , step size How far one row that is predicted badly moves the weights",
    ]
    found = [seen.index(term, first) for term in terms]
    assert found == sorted(found)
    assert seen.index("ψ") > first  # not used before it is told
    assert seen.index("η") > first
    # What was said of cells before that says what they are.
    assert "svm is a linear SVM on cells" in seen[:first]
    assert "cut into cells at random, in 100 different ways (partitionings)" in seen[:first]
    assert ("the leaf that it falls into" in seen) == (partitioner == "iforest")


def test_settings_say_which_of_them_were_searched() -> None:
    metrics = report_examples.binary()
    seen = Page(render_report(metrics)).text
    assert "8 best of 11 tried 64 best of 11 tried" in seen
    assert "the rule simple. 1 – η" in seen  # C is given, and ogd has none
    assert "5-fold cross-validation, which trains on part of the training rows" in seen
    metrics["selection"] = None
    assert "Nothing was searched in this run" in Page(render_report(metrics)).text


class Planes(Map):
    """A map of a stranger's package."""

    about = MapAbout(name="planes", title="sides of planes", summary="planes are drawn")
    bits: Annotated[int, Ge(1), Doc("planes of it")] = 3
    spread: Annotated[float, Gt(0), Doc("x"), Symbol("σ<", "how far planes spread", "A wide one is &.")] = 1.5

    def n_cells(self) -> int:
        return 2**self.bits

    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:
        return Anne(t=self.t, psi=self.n_cells()).fit(sample, n_threads)


def test_the_map_of_a_stranger_is_told_by_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parameter is no psi; it says of it what its option's help says, or more."""

    monkeypatch.setitem(MAPS, "planes", Planes)
    metrics = report_examples.binary()
    metrics["params"] |= {"partitioner": "planes", "spread": 2.5}
    metrics["selection"] |= {"parameter": "bits", "bits": metrics["selection"].pop("psi")}
    for learner in metrics["learners"].values():
        learner |= {"parameter": "bits", "value": learner.pop("psi"), "cells": "planes-bits-8"}
    page = render_report(metrics)
    assert "planes are drawn" in page
    assert "<b>bits</b>, planes of it" in page
    assert "Choice of bits" in page
    assert "<b>σ&lt;</b>, how far planes spread<small>A wide one is &amp;.</small>" in page
    assert "ψ, cells per partitioning" not in page


def test_kernels_on_rows_need_no_word_of_cells() -> None:
    metrics = report_examples.stream()
    del metrics["learners"]["ogd"]
    seen = Page(render_report(metrics)).text
    assert "The width of a kernel on the rows themselves is given by it: γ = ln ψ / columns." in seen
    assert "One piece of a partitioning" not in seen


@pytest.mark.parametrize(
    ("test", "rows", "said"),
    [
        ("official", (32561, 16281), "the data set's own test set"),
        ("file", (100, 7), "your test file mine.csv"),
        ("split", (1438, 359), "a random fifth of the rows"),
        ("split", (80, 20), "a random fifth of the rows"),
        ("split", (8, 2), "a random fifth of the rows"),
        ("split", (27, 3), "a random tenth of the rows"),
        ("split", (700, 300), "a random 30% of the rows"),
        ("split", (877, 123), "a random 12.3% of the rows"),
        ("last", (1000, 1000), "the last half of the rows of the file"),
        ("split", (None, None), "rows drawn at random"),
    ],
)
def test_the_test_rows_are_called_what_they_are(test: str, rows: tuple[Any, Any], said: str) -> None:
    metrics = report_examples.binary()
    sources = [{"url": "train.csv"}, {"url": "s3://bucket/mine.csv"}]
    metrics["data"] |= {"test": test, "rows_train": rows[0], "rows_test": rows[1], "sources": sources}
    assert words_for_test_rows(metrics["data"]) == said
    seen = Page(render_report(metrics)).text
    assert f"({said})" in seen
    assert f"test rows are {said}" in seen
    assert ("own test set" in seen) == (test == "official")


def test_a_stream_has_no_test_rows() -> None:
    seen = Page(render_report(report_examples.stream())).text
    assert "ogd predicted 84.0% of 16,281 rows right before it learned from them" in seen
    assert "initial rows 32,561 rows of the stream 16,281" in seen
    assert "kernel-ogd (stopped early)" in seen
    assert "test rows" not in seen.partition(" Details ")[0]


def test_many_classes_are_a_picture_and_a_list() -> None:
    metrics = report_examples.many_classes()
    html = render_report(metrics)
    page = Page(html)
    assert "Most frequent confusions" in page.text
    assert "matrix" not in [value for tag, name, value in page.attributes if (tag, name) == ("table", "class")]
    matrix = metrics["learners"]["svm"]["confusion"]
    # One unit square for every cell that is not zero.
    assert html.count("h1v1h-1z") == sum(n > 0 for row in matrix for n in row)
    assert len(html) < 100_000


def test_gpu_evidence_and_other_records_are_shown() -> None:
    metrics = report_examples.binary() | {"gpu": {"device": "some device", "mismatches": 0}, "note": 7}
    seen = Page(render_report(metrics)).text
    assert "gpu device some device mismatches 0" in seen
    assert "Further records note 7" in seen


HOSTILE = """</style></script><script>alert(1)</script>"'><img src=x onerror=alert(2)>&amp;${style}$"""


def spoiled(value: Any) -> Any:
    """The same structure with every text and every free key replaced by a hostile one."""
    if isinstance(value, dict):
        renamed = {k: (k + HOSTILE if k in ("svm", "ogd", "numpy", "C") else k) for k in value}
        return {renamed[k]: spoiled(v) for k, v in value.items()}
    if isinstance(value, list):
        return [spoiled(v) for v in value]
    return HOSTILE if isinstance(value, str) else value


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("labelled", [False, True])
def test_hostile_text_stays_text(example: str, labelled: bool) -> None:
    metrics = getattr(report_examples, example)()
    if labelled:
        names = [f"{HOSTILE}{label}" for label in metrics["data"]["classes"]]
        metrics["data"]["classes"] = names
        for learner in metrics["learners"].values():
            learner["labels"] = names
    hostile = spoiled(metrics) if not labelled else metrics
    hostile[HOSTILE] = {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}
    page = Page(render_report(hostile, dask_report=HOSTILE))
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "alert(1)" in page.text


def without_each_part(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values of nested dicts, and of the first items of lists."""
    items = value.items() if isinstance(value, dict) else list(enumerate(value))[:2]
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from without_each_part(inner, (*path, key))


SUBSTITUTES: list[Any] = ["missing", None, "text", -1, float("nan"), [], {}, [[]], True, 1e400]


@pytest.mark.slow
@pytest.mark.parametrize("k", range(len(SUBSTITUTES)), ids=map(str, SUBSTITUTES))
def test_any_part_may_be_missing_or_of_another_kind(k: int) -> None:
    """Every part by every fifth substitute, which makes two of them: pages take time."""
    metrics, substitute = report_examples.binary(), SUBSTITUTES[k]
    paths = list(without_each_part(metrics))
    assert len(paths) > 100
    for path in paths[k % 5 :: 5]:
        changed = copy.deepcopy(metrics)
        inner: Any = changed
        for key in path[:-1]:
            inner = inner[key]
        if substitute == "missing":
            del inner[path[-1]]
        else:
            inner[path[-1]] = substitute
        html = render_report(changed)
        assert "Run it again" in html or path[0] == "run", path
        assert not re.search(r'(?:x|y|cx|x1|x2|y1|y2|width|points|d)="[^"]*(?:nan|inf)', html), path


@pytest.mark.parametrize("metrics", [{}, {"learners": {"svm": {"accuracy": 0.5}}}, {"stages": [{}]}, {"data": None}])
def test_almost_nothing_is_still_a_page(metrics: dict[str, Any]) -> None:
    assert "unnamed data set" in Page(render_report(metrics)).text


def test_curves_of_one_point_and_psi_that_is_no_power_of_two() -> None:
    metrics = report_examples.binary()
    metrics["learners"]["ogd"]["curve"] = {"rows": [32561], "accuracy": [0.84]}
    metrics["selection"] |= {"psi": [300], "accuracy": {"ogd": [0.84]}, "chosen": {"ogd": 300}}
    page = Page(render_report(metrics))
    assert "ogd: 84.0% after 32,561 rows" in page.text
    assert "ogd: 84.0% at ψ = 300" in page.text
    assert marks(page) == ["ring s1"]


def marks(page: Page) -> list[str]:
    """Classes of the rings, in order."""
    return [value for tag, name, value in page.attributes if (tag, name) == ("circle", "class") and "ring" in value]


@pytest.mark.parametrize(("example", "svm", "ogd"), [("binary", 8, 64), ("shared_psi", 4096, 4096)])
def test_psi_of_each_learner(example: str, svm: int, ogd: int) -> None:
    page = Page(render_report(getattr(report_examples, example)()))
    assert f"this matters most. {svm} best of 11 tried {ogd} best of 11 tried" in page.text
    assert marks(page) == ["ring s0", "ring s1"]
    for words in (f"svm: 84.7% at ψ = {svm}", f"svm: {svm}", f"ogd: {ogd}", f"svm: chosen 84.7% at ψ = {svm}; ogd"):
        assert words in page.text, words
    assert ("psi svm: 8, ogd: 64" if svm != ogd else "psi 4096") in page.text


def test_what_was_chosen_for_learners_on_rows() -> None:
    page = Page(render_report(report_examples.tuned()))
    assert marks(page) == ["ring s0", "ring s1", "ring s2", "ring s2", "ring s3", "ring s0"]
    for words in (
        "fourier-linear: 84.0% at ψ = 16",
        "kernel-ogd: 84.0% at γ = 0.03125",
        "kernel-svm: 84.0% at γ = 0.0625",
        "two-stage-gmm: 84.0% at λe = 0.0001",
        "kernel-ogd gamma = 0.03125 kernel-svm gamma = 0.0625 two-stage-gmm le = 0.0001",
        "γ, inverse width of the kernel (log scale)",
    ):
        assert words in page.text, words


@pytest.mark.parametrize("tuned", [None, {}, {"ogd": 3}, {"ogd": {}}, {"ogd": {"parameter": "eta", "accuracy": [1]}}])
def test_what_is_not_known_of_a_choice_is_not_drawn(tuned: Any) -> None:
    metrics = report_examples.binary()
    metrics["selection"]["tuned"] = tuned
    assert marks(Page(render_report(metrics))) == ["ring s0", "ring s1"]


@pytest.mark.parametrize("chosen", [None, 8, {}, {"svm": 9}, {"svm": "8"}, {"svm": [8]}, {"tree": 8}])
def test_a_psi_that_is_not_on_the_curve_is_not_marked(chosen: Any) -> None:
    metrics = report_examples.binary()
    metrics["selection"]["chosen"] = chosen
    page = Page(render_report(metrics))
    assert marks(page) == []
    assert "svm: best 84.7% at ψ = 8; ogd: best 84.2% at ψ = 64" in page.text


def test_what_was_not_tried_on_all_folds_is_said_under_the_picture() -> None:
    metrics = report_examples.binary()
    selection = metrics["selection"]
    assert "not tried on all folds" not in Page(render_report(metrics)).text
    best = {"psi": 8, "C": 2.0, "accuracy": 0.8}
    at = {
        "folds": 1, "rows": 4000, "best": best, "candidates": 60, "candidates_left": 3, "left": [8, 16],
        "dropped": [{"psi": 4, "C": 2.0, "behind": 212, "apart": 1300}, {"psi": 4096, "behind": 77, "apart": 190}],
    }  # fmt: skip
    selection["race"] = {"odds": 0.01, "rounds": {"svm": [at, {**at, "folds": 3, "dropped": []}]}}
    text = Page(render_report(metrics)).text
    assert "svm after 1 of 5 folds: ψ = 4 (212 of 1,300), 4096 (77 of 190). In brackets: by how many rows" in text
    note = search_note(selection, "psi", "ψ", in_rows=False)
    assert "svm after 1 of 5 folds: ψ = 4, 4096. Their points" in note
    selection["budget"] = {
        "seconds": 60, "spent": 60.4, "reached": True, "folds": {"svm": 1, "ogd": 1},
        "not_tried": {"svm": [2048, 4096], "ogd": []},
    }  # fmt: skip
    text = Page(render_report(metrics)).text
    assert "The budget of 60 s was spent before everything was scored; svm was chosen on 1 of 5 folds" in text
    assert "not tried for svm: 2048, 4096." in text
    selection |= {"race": {"rounds": {"svm": 3, "ogd": [None, {"dropped": [1]}]}}, "budget": {"reached": True}}
    assert "not tried on all folds" not in Page(render_report(metrics)).text


@pytest.mark.parametrize(("x", "first"), [((1990.0, 2005.0, 2020.0), 1990.0), ((2.0, 5.0, 9.0), 0.0)])
def test_a_curve_far_from_0_takes_the_whole_width(x: tuple[float, ...], first: float) -> None:
    series = [Series("a", [(value, 1.0) for value in x], 0)]
    page = Page(line_chart("key", series, ChartWords(title="t", description="d", x="x", y="y"), unit="number"))
    (path,) = [value for tag, name, value in page.attributes if (tag, name) == ("polyline", "points")]
    begin, *_, end = [float(point.split(",")[0]) for point in path.split()]
    assert begin == pytest.approx(LEFT + (x[0] - first) / (x[-1] - first) * (WIDTH - RIGHT - LEFT), abs=0.01)
    assert end == WIDTH - RIGHT


def test_a_strip_says_which_share_it_shows() -> None:
    said = interval_strip("idk", "share above the threshold", 0.05, (0.04, 0.06), None, (0.0, 1.0))["said"]
    assert said == "idk: share above the threshold 5.00%; 95% interval 4.00% to 6.00%"


points = st.tuples(st.floats(10, 390), st.floats(10, 190))


@pytest.mark.slow
@given(
    marks=st.lists(points, min_size=1, max_size=4),
    width=st.floats(40, 130),
    lines=st.lists(st.lists(points, max_size=12), max_size=4),
)
@settings(max_examples=50)
def test_labels_lie_apart(marks: list[Any], width: float, lines: list[Any]) -> None:
    area = Box(0, 0, 400, 200)
    boxes = place_labels(marks, [width] * len(marks), 20, 9, lines, area)
    assert len(boxes) == len(marks)
    for box in boxes:
        assert -1e-6 <= box.left <= box.right <= 400 + 1e-6
        assert -1e-6 <= box.top <= box.bottom <= 200 + 1e-6
        assert box.right - box.left == pytest.approx(width)
    assert all(a.overlap(b) < 1e-3 for a, b in combinations(boxes, 2))


def test_label_keeps_off_the_line_and_near_its_point() -> None:
    line = [(0.0, 100.0), (200.0, 100.0), (400.0, 40.0)]
    (box,) = place_labels([(200, 100)], [60], 20, 9, [line], Box(0, 0, 400, 200))
    assert box.centre == (200, 81)
    # Below where there is no room above.
    (box,) = place_labels([(200, 5)], [60], 20, 9, [], Box(0, 0, 400, 200))
    assert box.top >= 14


def test_client_memory_and_model_hash_are_shown() -> None:
    metrics = report_examples.binary()
    seen = Page(render_report(metrics)).text
    assert "268 MB of the process that ran the command" in seen
    assert "model hash 5f70bf18a086 16da1e6bbb1b " in seen
    assert metrics["learners"]["svm"]["content_hash"] not in seen
    del metrics["run"]["client_peak_rss_bytes"]
    assert "process that ran" not in Page(render_report(metrics)).text


def test_files_are_known_by_a_checksum_or_a_tag() -> None:
    metrics = report_examples.binary()
    metrics["data"]["sources"] = [
        {"url": "s3://a/b.csv", "size": 8, "etag": "v1-of-b"},
        {"url": "ftp://a/c.csv", "size": 8, "ukey": "key-of-c"},
        {"url": "d.csv", "size": 8, "sha256": "5f70" * 16},
    ]
    folded = Page(render_report(metrics)).behind_folds
    for words in ("ETag v1-of-b", "key key-of-c", f"SHA-256 {'5f70' * 16}"):
        assert words in folded, words


def test_a_stage_that_moved_nothing_has_no_rate() -> None:
    metrics = report_examples.unfinished()
    metrics["stages"] = [report_examples.stage("select", 0.0, 5.0, 100, bytes_read=0, bytes_written=0)]
    assert "MB/s peak" not in Page(render_report(metrics)).text.split("The same in numbers")[0]


def test_written_whole(tmp_path: Path) -> None:
    metrics = report_examples.binary()
    metrics["data"]["name"] = "lone \ud800 surrogate"
    target = tmp_path / "report.html"
    target.write_text("an older report", encoding="utf-8")
    assert write_report(metrics, str(target)) == target
    assert "lone \\ud800 surrogate" in target.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert "dask-report.html" not in target.read_text(encoding="utf-8")
    (tmp_path / "dask-report.html").write_text("", encoding="utf-8")
    write_report(metrics, target)
    assert '<a href="dask-report.html">' in target.read_text(encoding="utf-8")


@pytest.mark.parametrize("example", EXAMPLES)
def test_same_metrics_same_bytes_also_after_json(example: str) -> None:
    metrics = getattr(report_examples, example)()
    assert render_report(json.loads(json.dumps(metrics))) == render_report(metrics)


def test_the_parts_of_the_time_add_up_to_that_of_a_clock_on_the_wall() -> None:
    metrics = report_examples.binary()
    run = metrics["run"]
    run["seconds"] = 1000.0
    run |= {"compile_seconds": 100.0, "start_seconds": 20.0, "stop_seconds": 5.0, "wall_seconds": 1025.0}
    page = render_report(metrics)
    clock = page[page.index('<div class="clock">') :].partition("</div>")[0]
    for said in ("starting", "20.0 s", "compiling", "1 min 40 s", "stopping", "5.0 s", "all together", "17 min 05 s"):
        assert said in clock
    assert "15 min 00 s of it work" in page.replace("\N{NO-BREAK SPACE}", " ")  # beside the total in the first tiles


@pytest.mark.parametrize(
    ("ticks", "texts"),
    [
        ([0.876, 0.878, 0.88], ["0.876", "0.878", "0.88"]),
        ([0.0, 0.5, 1.0], ["0", "0.5", "1"]),
        ([5000.0, 20000.0], ["5000", "20k"]),
        ([1.0], ["1"]),
        ([100000.1, 100000.2], ["100k", "100k"]),
    ],
)
def test_ticks_that_are_near_each_other_are_told_apart(ticks: list[float], texts: list[str]) -> None:
    assert list(map(number_label(ticks), ticks)) == texts


def test_a_share_and_what_it_is_to_be_stand_in_one_picture() -> None:
    traces: dict[str, Any] = {"beyond": [0.2, 0.1], "nu": [0.1, 0.1], "rho": [None, 0.5], "sigma": [None, None]}
    learners: dict[str, Any] = {"norma": {"curve": {"rows": [100, 200]}, "traces": traces}}
    page = traces_section({"learners": learners})
    assert page.count("<figure") == 2  # that of sigma has no point
    assert "norma: nu" in page
    assert "norma: rho" not in page


def test_the_leaderboard_says_what_was_chosen_why_and_what_to_type() -> None:
    metrics = report_examples.raced()
    page = Page(render_report(metrics)).text
    for entry in metrics["choice"]["leaderboard"]:
        assert entry["options"] in page
        assert entry["note"] in page
    assert "sum of boosting shrinkage=0.05 and iforest , chosen 75% boosting shrinkage=0.05, 25% iforest" in page
    assert "0.27511 ± 0.0061 8.2 s 3.4 µs tried on 5 folds" in page
    assert "has the least log loss of 6 models. The losses alone decided." in page
    assert "20,000 training rows in 5 folds" in page
    assert "took 21.4 s of 1 min 00 s" in page
    metrics["choice"]["by_budget"] = True
    assert "The budget decided" in Page(render_report(metrics)).text
    assert "Choice of the model" not in Page(render_report(report_examples.binary())).text
