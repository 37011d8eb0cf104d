"""The NORMA paper: its pass over digits by the rule written out, and how it is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ikmap.kernels import GaussianKernel
from ikmap_papers.norma.forms import Digits
from ikmap_papers.norma.paper import PAPER
from pipeline.reproduce.form import Made, Outcome
from pipeline.reproduce.paper import Request
from pipeline.reproduce.registry import PAPERS
from tests.naive.norma import NaiveNorma

OPTIONS = {"train": 60, "test": 20, "after": 70, "nu": 0.1, "two_sigma_squared": 8.0, "shown": 7, "side": 4}


def digits() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, size=(95, 16)).round(2), rng.integers(10, size=95)


def found_of() -> dict[str, Any]:
    X, y = digits()
    return PAPERS["norma"].study(sp.csr_array(X), y, None, OPTIONS, 0, 0)


def test_the_pass_is_that_of_the_rule_written_out() -> None:
    X, y = digits()
    found, K = found_of(), GaussianKernel(1 / 8.0).matrix(X)
    slower = NaiveNorma(lambda i, j: float(K[i, j]), "novelty", 0.1)
    assert found["decreasing"] == sum(slower.learn(i, 1.0)[1] for i in range(60)) > 0
    naive = NaiveNorma(lambda i, j: float(K[i, j]), "novelty", 0.1, 60**-0.5, False)
    beyond = [naive.learn(i, 1.0)[1] for i in range(60)]
    assert found["margin_errors"] == sum(beyond) > 0
    assert [digit[0] for digit in found["errors"]] == np.flatnonzero(beyond)[:7].tolist()
    for name, first, n in (("train", 0, 60), ("test", 70, 20)):
        scores = np.array([naive.value(first + i) - naive.threshold for i in range(n)])
        assert [digit[0] for digit in found[name]] == np.argsort(scores, kind="stable")[:7].tolist()
        assert [digit[1] for digit in found[name]] == [y[first + digit[0]] for digit in found[name]]
    row, _, _, pixels = found["test"][0]
    assert pixels == np.rint((X[70 + row] + 1) * 127.5).astype(int).tolist()


def test_how_it_is_shown() -> None:
    ((_, experiment),) = PAPER.experiments.items()
    form = Digits(PAPER, experiment)
    (entry,) = form.entries(Request(["usps"]))
    assert (entry.dataset, entry.command, entry.options["parts"]) == ("usps", "study", 1)
    assert list(form.entries(Request(["usps"], systems=["svm"]))) == []
    finished = Outcome("finished", "", {"parts": [found_of()]})
    rows = form.rows(Made([entry], lambda _: finished, {}, {}))
    rows[0]["options"]["side"] = 4
    assert [name for name, _ in form.figures(rows)] == ["figure1-usps", "figure1-last-usps"]
    assert "margin errors" in form.html(rows)
    printed = form.printed_out(rows)
    assert printed is not None
    assert printed[1][0][:2] == ("usps", "5,000")
    stopped = form.rows(Made([entry], lambda _: Outcome("stopped", ""), {}, {}))
    assert form.printed_out(stopped)[1] == []
    assert list(form.figures(stopped)) == []
