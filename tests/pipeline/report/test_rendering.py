"""Templates show what they are given as text, and are given all that they name."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from jinja2 import TemplateNotFound, UndefinedError

from ikmap.tasks import CLASSIFICATION, Classification
from ikmap.tasks.sections import Part, Section, Table, Text
from pipeline.report import render_report
from pipeline.report.main_metric import Lead
from pipeline.report.rendering import Cell, Templates, render
from pipeline.reproduce.form import link, table
from tests import ROOT
from tests.plugins import registered
from tests.support import report_examples

HOSTILE = """</title><b onload='x'>"&amp;{{ 7 * 7 }}\x1b[31m\u202e"""
SHOWN = "&lt;/title&gt;&lt;b onload=&#39;x&#39;&gt;&#34;&amp;amp;{{ 7 * 7 }}\\x1b[31m\\u202e"


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Templates]:
    """Makes a package with the templates that it is given."""

    def make(*packages: str, **files: str) -> Templates:
        name = f"throwaway_{uuid4().hex}"
        (tmp_path / name / "templates").mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text("")
        for file, content in files.items():
            (tmp_path / name / "templates" / file.replace("_", ".")).write_text(content)
        return Templates(name, *packages)

    monkeypatch.syspath_prepend(str(tmp_path))
    return make


@pytest.mark.parametrize("name", ["a_html", "a_svg", "a_txt"])
@pytest.mark.parametrize("form", ["{{ x }}", '{{ [x, ""]|join }}', "{% set y = x %}{{ y }}", "{{ x ~ '' }}"])
def test_text_is_escaped_whatever_the_template_is_called(
    templates: Callable[..., Templates], name: str, form: str
) -> None:
    assert templates(**{name: form}).render(name.replace("_", "."), x=HOSTILE) == SHOWN


def test_what_a_template_has_made_is_not_escaped_again(templates: Callable[..., Templates]) -> None:
    made = templates(a_html="<i>{{ x }}</i>", b_html="<b>{{ x }}</b>")
    assert made.render("b.html", x=made.render("a.html", x="<")) == "<b><i>&lt;</i></b>"


def test_a_name_that_was_not_given_is_an_error(templates: Callable[..., Templates]) -> None:
    made = templates(a_html="{{ x }}", b_html="{{ x.y }}", c_html="{% if x %}{% endif %}")
    for name in ("a.html", "b.html", "c.html"):
        with pytest.raises(UndefinedError):
            made.render(name, **({"x": {}} if name == "b.html" else {}))
    with pytest.raises(TemplateNotFound):
        made.render("d.html")


def test_a_package_changes_the_look_of_another_one(templates: Callable[..., Templates]) -> None:
    made = templates("pipeline.report", table_html="{{ name }}: {{ rows|length }} rows")
    assert made.render("table.html", name="T", rows=[1, 2]) == "T: 2 rows"
    assert made.render("data.html", rows=[("a", "b")]) == render("data.html", rows=[("a", "b")])


def test_titles_and_tables_of_a_task_are_text() -> None:
    parts: list[Part] = [Text(HOSTILE), Table(HOSTILE, [HOSTILE, HOSTILE], [[HOSTILE, 7], [HOSTILE, HOSTILE]])]

    class Presenter(type(CLASSIFICATION.presenter)):  # type: ignore[misc]
        def sections(self, metrics: Any) -> list[Section]:  # noqa: ARG002
            return [Section("own", HOSTILE, parts)]

    hostile = type("Hostile", (Classification,), {"name": "hostile", "words": (), "presenter": Presenter()})
    metrics = report_examples.binary()
    with registered(hostile):
        page = render_report({**metrics, "data": {**metrics["data"], "task": "hostile"}})
    assert page.count(SHOWN) == 9
    assert f'<h2 id="own-h">{SHOWN}</h2>' in page
    assert f"<h3>{SHOWN}</h3>" in page
    assert f"<p>{SHOWN}</p>" in page
    assert "onload='" not in page


def test_cells_of_a_table() -> None:
    row = {"report": 'a"b/report.html'}
    rows: list[list[str | Cell]] = [
        [link(row, "<x>"), Cell("<y>", strong=True), "<z>"],
        [link({"report": None}, "<x>"), Cell("<y>"), ""],
    ]
    html = re.sub(r">\s+<", "><", table(["", "<h>", "i"], rows, "<n>", texts=2, notes=["<note>"]))
    first = '<th scope="row"><a href="a&#34;b/report.html">&lt;x&gt;</a></th>'
    assert f'<tr>{first}<td class="text"><b>&lt;y&gt;</b></td><td>&lt;z&gt;</td></tr>' in html
    assert '<tr><th scope="row">&lt;x&gt;</th><td class="text">&lt;y&gt;</td><td></td></tr>' in html
    assert '<tr><td></td><th scope="col" class="text">&lt;h&gt;</th><th scope="col">i</th></tr>' in html
    assert 'aria-label="&lt;n&gt;"' in html
    assert html.rstrip().endswith('<p class="note">&lt;note&gt;</p>')


def test_the_first_sentence_of_a_task() -> None:
    lead = Lead.of("takes {rows}, is off by {value} on {rows}", "svm", "3 {rows}", "7 {value} rows", ".")
    assert lead == ("svm", "takes 7 {value} rows, is off by ", "3 {rows}", " on 7 {value} rows.")


@pytest.mark.slow
def test_help_needs_no_templates() -> None:
    code = "import sys; from flows.batch import main\ntry: main(['--help'])\nfinally: print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].startswith("usage")
    assert done.stdout.splitlines()[-1] == "False"
