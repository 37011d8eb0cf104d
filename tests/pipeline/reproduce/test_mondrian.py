"""The Mondrian paper on few rows and points: what its studies find, and that each figure can be drawn and printed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ikmap.kernels import LaplacianKernel
from ikmap.learners.ridge.kernel_ridge import fit_kernel_ridge
from pipeline.reproduce.papers.mondrian import PAPER
from pipeline.reproduce.papers.mondrian.cpu import widths
from pipeline.reproduce.papers.mondrian.forms import FORMS
from pipeline.reproduce.papers.mondrian.splits import Splits

SMALL: dict[str, dict[str, Any]] = {
    "figure 5": {"points": 20, "D": [2, 1], "M": [2, 5, 20]},
    "figure 6": {"M": [2, 20], "beyond": [40], "lifetime": 2.0, "exact": [0.5]},
    "figure 7": {"points": 40, "M": 8, "terminal": 30.0},
    "figure 8": {"M": 8, "terminal": 4.0, "epochs": 1, "evaluations": 9},
    "figure 9": {"M": 5, "terminal": 6.0, "lifetime": 2.0},
    "figure 10": {"M": 5, "terminal": 6.0, "lifetime": 2.0},
}


def rows(n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.random((n, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] + 4


def studied(label: str, parts: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kind, name = label.split()
    about = PAPER.experiments[kind, name].about
    options = {**about, **SMALL[label]}
    return options, [PAPER.study(*rows(), None, options, 0, part) for part in range(parts)]


@pytest.mark.parametrize("label", SMALL)
def test_each_figure_is_found_drawn_and_printed(label: str) -> None:
    options, parts = studied(label, 2)
    assert json.loads(json.dumps(parts)) == parts
    assert parts == studied(label, 2)[1] or label == "figure 8"  # which has seconds
    form = FORMS[label]
    head, lines = form.lines(options, parts)
    assert lines
    assert {len(line) for line in lines} == {len(head)}
    figure = form.picture("few", options, parts)
    figure.draw_without_rendering()


def test_many_trees_are_added_up_and_near_the_exact_kernel() -> None:
    options, parts = studied("figure 6", 2)
    assert [len(part["beyond"]) for part in parts] == [1, 0]
    splits = Splits.of(*rows(), 0, 0)
    model = fit_kernel_ridge(*splits.train, LaplacianKernel(options["lifetime"]), 1e-4)
    assert parts[0]["error"] == splits.error(model.predict(splits.test[0]), splits.test)
    few, many = parts[0]["curves"]["mondrian"][0], parts[0]["beyond"][0]
    assert abs(many - parts[0]["error"]) < abs(few - parts[0]["error"])


def test_searches_double_halve_and_then_bisect() -> None:
    tried: dict[float, float] = {}
    for lifetime in widths(1.0, tried, 40):
        tried[lifetime] = 1 + np.log2(lifetime / 0.1) ** 2
    assert abs(np.log2(min(tried, key=lambda one: tried[one]) / 0.1)) < 0.5
    order = list(tried)
    assert set(order[:3]) == {1.0, 2.0, 0.5}
    assert len(order) < 20
