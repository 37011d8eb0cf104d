"""Verdicts on a run: log, terminal, report and ``metrics.json`` have the same lines."""

from __future__ import annotations

import json
from html import escape, unescape
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from flows.options.batch import BatchOptions
from pipeline.report import render_report
from pipeline.report.result_tables import print_result
from pipeline.report.results import result_in_words
from pipeline.runs.schema import metrics_schema
from pipeline.runs.verdicts import verdicts_of
from tests.support import report_examples
from tests.support.one_process import Command, Heard, one_process


def table(path: Path, words: bool) -> Path:
    """Rows whose label has nothing to do with their columns, numbered."""
    rng = np.random.default_rng(0)
    second = ["x", "y"] if words else ["0.1", "0.2"]
    lines = [f"{700 + k},{rng.random():.3f},{rng.choice(second)},{rng.choice([0, 0, 0, 1])}" for k in range(200)]
    path.write_text("\n".join(["number,a,b,late", *lines]) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("words", [False, True], ids=["numbers", "words too"])
def test_a_run_that_has_learned_nothing_says_so_everywhere(words: bool, tmp_path: Path) -> None:
    file, heard = table(tmp_path / "rows.csv", words), Heard()
    asked = ["--input", str(file), "--label", "late", *["--t", "8", "--psi", "4", "--C", "1", "--learner", "svm,ogd"]]
    with one_process():
        metrics = Command(BatchOptions.parse(asked)).run(tmp_path / "run", heard=heard)
    found = [(verdict["kind"], verdict["learner"]) for verdict in metrics["verdicts"]]
    assert found == [("nothing", "svm"), ("nothing", "ogd"), ("id", None)]
    assert metrics["data"]["ids"] == ["number"]
    assert not list(Draft202012Validator(metrics_schema()).iter_errors(json.loads(json.dumps(metrics))))
    lines = [verdict["message"] for verdict in metrics["verdicts"]]
    assert [line for line in heard.lines if line in lines] == lines
    assert "--drop number" in lines[-1]
    page, printed = (tmp_path / "run" / "report.html").read_text(), StringIO()
    lead = page.index('class="lead-in"')
    assert page.index(escape(lines[0])) < page.index(escape(lines[1])) < lead < page.index(escape(lines[2]))
    print_result(metrics, printed)
    assert printed.getvalue().splitlines()[-3:] == [f"note: {line}" for line in lines]


def test_a_column_is_named_as_it_can_be_typed() -> None:
    metrics = report_examples.binary()
    metrics["data"]["ids"] = ["Customer ID"]
    (line,) = [verdict["message"] for verdict in verdicts_of(metrics) if verdict["kind"] == "id"]
    assert line is not None
    assert line.startswith("column Customer ID looks like an id, ")
    assert line.endswith(": --id 'Customer ID' keeps it only to tell rows apart, --drop 'Customer ID' leaves it out")
    metrics["data"]["ids"] = ["number, from 1"]
    (line,) = [verdict["message"] for verdict in verdicts_of(metrics) if verdict["kind"] == "id"]
    assert line is not None
    assert """--id 'number, from 1' keeps it only to tell rows apart, --drop '"number, from 1"' leaves it""" in line
    metrics["data"]["ids"] = [""]  # as the index that pandas writes to CSV is called
    (line,) = [verdict["message"] for verdict in verdicts_of(metrics) if verdict["kind"] == "id"]
    assert line is not None
    assert line.startswith('column "" looks like an id, ')
    assert line.endswith(""": --id '""' keeps it only to tell rows apart, --drop '""' leaves it out""")


def test_the_first_line_says_how_good_the_best_learner_is() -> None:
    metrics = report_examples.raced()
    metrics["learners"]["other"] = {**metrics["learners"]["stacking"], "accuracy": 0.7}
    line = (
        "stacking, trained on 32,561 rows, is right on 84.9% of 16,281 test rows, the data set's own test set (95% "
        "interval 84.4% to 85.5%), always answering -1 would be on 76.4%; on training rows that were held out, its log "
        "loss is 0.2751 +- 0.0061, that of a linear model of the columns 0.3321 +- 0.0061"
    )
    first, *others = verdicts_of(metrics)
    assert first == {"kind": "quality", "learner": "stacking", "message": line}
    assert all(verdict["kind"] != "quality" for verdict in others)
    metrics["verdicts"], printed = [first, *others], StringIO()
    print_result(metrics, printed)
    assert f"result: {line}" in printed.getvalue().splitlines()
    page = unescape(render_report(metrics))
    assert page.index("<h1>") < page.index(line) < page.index("is right on <b>")
    assert result_in_words(metrics).startswith(f"{line}. stacking is right on 84.9%")
    metrics["choice"]["name"] = "linear-model"
    assert str(verdicts_of(metrics)[0]["message"]).endswith(
        "; it is itself a linear model of the columns: on training rows that were held out, its log loss is 0.3321 +- "
        "0.0061"
    )
    del metrics["choice"]
    assert str(verdicts_of(metrics)[0]["message"]).endswith("always answering -1 would be on 76.4%")


def test_what_lies_beyond_an_edge_can_be_typed() -> None:
    """C is searched with psi only: where psi is given, that has to be asked for."""
    psi = {"option": "psi", "value": 1024, "largest": True, "beyond": 1437}
    C = {"option": "C", "value": 0.03125, "largest": False, "beyond": 0.0078125}
    depth = {"option": "iforest.max_depth", "value": 64, "largest": True, "beyond": 92}
    selection: dict[str, Any] = {"chosen_C": {"svm": 1, "both": 0.03125}}
    selection["edges"] = {"svm": [psi], "both": [psi, C], "ogd": [depth]}
    data = {"task": "regression"}
    found = [v["message"] for v in verdicts_of({"data": data, "learners": {}, "selection": selection})]
    assert found == [
        "svm: psi 1024 is the largest that was tried; a better one may lie beyond: --psi 1437 --C auto",
        "both: psi 1024 is the largest and C 0.03125 is the smallest that was tried; a better one may lie beyond: "
        "--psi 1437 --C 0.0078125",
        "ogd: iforest.max_depth 64 is the largest that was tried; a better one may lie beyond: --iforest.max-depth 92",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "warned"),
    [
        ("--partitioner anne", True),
        ("--partitioner iforest,anne", True),
        ("--partitioner anne --scale minmax", False),
        ("--partitioner iforest", False),
        ("--learner kernel-svm --kernel gaussian --gamma 1", False),
    ],
)
def test_columns_of_very_different_ranges_under_a_map_of_distances(words: str, warned: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{x:.3f},{z * 500:.1f},{int(x > 0.5)}" for x, z in rng.random((120, 2))]
    (tmp_path / "rows.csv").write_text("\n".join(["a,wide,late", *lines]) + "\n")
    learner = "" if "--learner" in words else "--learner svm --t 4 --psi 4 --C 1"
    asked = ["--input", str(tmp_path / "rows.csv"), "--label", "late", *words.split(), *learner.split()]
    with one_process():
        metrics = Command(BatchOptions.parse(asked)).run(tmp_path / "run")
    said = [verdict["message"] for verdict in metrics["verdicts"] if verdict["kind"] == "scale"]
    assert len(said) == warned
    assert all("those of wide lie up to" in line and "--scale minmax" in line for line in said)
    assert not list(Draft202012Validator(metrics_schema()).iter_errors(json.loads(json.dumps(metrics))))
