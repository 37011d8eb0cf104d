"""The Mondrian paper on few rows and points: what its studies find, and that each figure can be drawn and printed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ikmap.kernels import LaplacianKernel
from ikmap.learners.ridge.kernel_ridge import fit_kernel_ridge
from ikmap.partitioners.mondrian import fit_mondrian, mondrian_splits
from ikmap_papers.mondrian.cpu import widths
from ikmap_papers.mondrian.forms import FORMS
from ikmap_papers.mondrian.paper import PAPER
from ikmap_papers.mondrian.splits import Splits, ridge_on_cells, ridge_on_features, swept
from pipeline.reproduce.paper import Request
from tests.support.sweeps import offsets_and_order

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


BY_SGD = [label for label in SMALL if "sgd" in PAPER.experiments["figure", label.split()[1]].about]


def studied(label: str, parts: int, solver: str = "exact") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    (entry,) = FORMS[label](PAPER, PAPER.find("figure", label.split()[1])).entries(
        Request(["few"], {"ridge_solver": solver})
    )
    options = {**entry.options, **SMALL[label]}
    return options, [PAPER.study(*rows(), None, options, 0, part) for part in range(parts)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "solver"), [*((label, "exact") for label in SMALL), *((label, "sgd") for label in BY_SGD)]
)
def test_each_figure_is_found_drawn_and_printed(label: str, solver: str) -> None:
    options, parts = studied(label, 2, solver)
    assert options.get("solver", "exact") == solver
    assert json.loads(json.dumps(parts)) == parts
    assert parts == studied(label, 2, solver)[1] or label == "figure 8"  # which has seconds
    form: Any = FORMS[label]
    head, lines = form.lines(options, parts)
    assert lines
    assert {len(line) for line in lines} == {len(head)}
    figure = form.picture("few", options, parts)
    figure.draw_without_rendering()


def test_figures_of_ridge_regression_have_both_solvers() -> None:
    assert BY_SGD == ["figure 6", "figure 7", "figure 9", "figure 10"]
    for label, form in FORMS.items():
        experiment = PAPER.find("figure", label.split()[1])
        keys = {
            solver: [entry.key for entry in form(PAPER, experiment).entries(Request(["few"], {"ridge_solver": solver}))]
            for solver in ("all", "exact", "sgd")
        }
        place = f"{'few' if 'datasets' not in experiment.about else 'generated'}/{experiment.about['of']}"
        both = [place, f"{place}-sgd"] if label in BY_SGD else [place]
        assert keys == {"all": both, "exact": both[:1], "sgd": both[-1:]}


def test_descent_comes_near_the_exact_solution() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((200, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    y -= y.mean()
    cells = [fit_mondrian(X, 20, 2.0, 1).cells(X)] * 2
    exact, near = (
        ridge_on_cells({"solver": solver, "eta": 0.1, "epochs": 300}, cells, y)[0] for solver in ("exact", "sgd")
    )
    assert np.linalg.norm(near - exact) < 0.03 * np.linalg.norm(y)
    # Features that are those of the cells take the same steps.
    features = [cells[0].to_csr().toarray()] * 2
    options = {"solver": "sgd", "eta": 0.3, "epochs": 2}
    dense, sparse = ridge_on_features(options, features, y)[0], ridge_on_cells(options, cells, y)[0]
    np.testing.assert_allclose(dense, sparse, rtol=1e-9, atol=1e-12)


def test_models_along_a_sweep_are_those_of_each_lifetime() -> None:
    X, y = rows()
    model = fit_mondrian(X, 6, 5.0, 2)
    for solver in ("exact", "sgd"):
        start, splits = mondrian_splits(model, [X, X[:20]])
        options = {"solver": solver, "eta": 0.2}
        for fitted in swept(options, start, y - y.mean(), splits, growth=0.3):
            cells = model.at(fitted.value).cells(X[:20])
            _, order = offsets_and_order(fitted.columns)
            expected = cells.to_csr() @ fitted.weights[order]
            np.testing.assert_allclose(fitted.decisions(1), expected, rtol=1e-9, atol=1e-12)
            assert (fitted.log_likelihood is None) == (solver == "sgd")


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
