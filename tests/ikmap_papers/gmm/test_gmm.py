"""The GMM paper: its protocol by a plain loop, its printed numbers, and a study that is stopped and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

from flows.options.reproduce import ReproduceOptions
from flows.runs.local_data import LocalData
from flows.runs.reproduce import run
from ikmap.kernels import MinMaxKernel
from ikmap.maps.fourier import FourierMap
from ikmap.partitioners.gcws import GCWSPartitions
from ikmap.seeds import generator
from ikmap_papers.gmm import hashed
from ikmap_papers.gmm.best_on_test import CS, CV_CS, SPLIT, best_on_test, halves, kernels_of
from ikmap_papers.gmm.forms import BestOnTest
from ikmap_papers.gmm.hashed import CS as HASHED_CS
from ikmap_papers.gmm.hashed import HASHES, hashed_on_test
from ikmap_papers.gmm.hashed_form import Hashed
from ikmap_papers.gmm.linearised import BITS, CODES, FEATURES
from ikmap_papers.gmm.linearised_form import Linearised
from ikmap_papers.gmm.noise import WIDTHS, noisy
from ikmap_papers.gmm.paper import PAPER
from ikmap_papers.gmm.pictures import reduction
from pipeline.reproduce.form import Made, Outcome
from pipeline.reproduce.paper import Request
from pipeline.reproduce.registry import PAPERS
from tests.naive.gcws import pgmm
from tests.support.calls import counted

GRIDS = PAPER.about["grids"]


def rows(n: int = 90, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return rng.lognormal(0, 1, (n, 5)) * (1 + 2 * np.eye(5)[y]) * (rng.random((n, 5)) < 0.8), y


def test_the_best_of_the_grid_is_that_of_a_loop_over_it() -> None:
    X, y = rows()
    grid = {"p": [0.5, 1.0, 3.0], "gamma": [1.0, 2.0]}
    found = best_on_test(X, y, None, {"kernel": "p-gamma-gmm", "grid": grid, "parts": 2, "cv_each": 1}, 3, 1)
    order = generator(3, SPLIT, 1).permutation(90)
    train, test = order[:45], order[45:]
    expected = []
    for p, gamma in product(*grid.values()):
        K = MinMaxKernel(p, gamma).matrix(X)
        for C in CS[::5]:
            svc = SVC(C=C, kernel="precomputed").fit(K[np.ix_(train, train)], y[train])
            expected.append(100 * svc.score(K[np.ix_(test, train)], y[test]))
    ours = np.array(found["grid"]["accuracy"])[:, ::5].ravel()
    assert np.abs(ours - expected).max() <= 100 * 2 / 45
    assert np.mean(ours != np.round(expected, 4)) < 0.1
    assert found["accuracy"] == np.max(found["grid"]["accuracy"])
    at = found["grid"]["values"].index(list(found["chosen"].values()))
    assert found["grid"]["accuracy"][at][CS.index(found["C"])] == found["accuracy"]
    chosen = found["grid"]["values"].index(list(found["cv"]["chosen"].values()))
    assert found["cv"]["C"] in CV_CS
    assert found["grid"]["accuracy"][chosen][CS.index(found["cv"]["C"])] == found["cv"]["accuracy"]
    json.dumps(found)


def test_two_parameters_are_combined_at_the_p_that_cross_validation_chooses_for_one() -> None:
    X, y = rows(120)
    ps = [0.1, 0.4, 0.9, 2.0, 7.0]
    asked: dict[str, Any] = {"kernel": "p-gamma-gmm", "grid": {"p": [1.0, 30.0], "gamma": [1.0, 2.0]}, "cv_each": 1}
    found = best_on_test(X, y, None, {**asked, "first": {"kernel": "pgmm", "grid": {"p": ps}}}, 5, 0)
    alone = best_on_test(X, y, None, {"kernel": "pgmm", "grid": {"p": ps}, "cv_each": 1}, 5, 0)
    best = alone["cv"]["chosen"]["p"]
    assert best in ps
    combined = [list(pair) for pair in product(sorted([1.0, 30.0, best]), [1.0, 2.0])]
    assert found["grid"]["values"] == combined
    at = combined.index([best, 1.0])
    assert found["grid"]["accuracy"][at] == alone["grid"]["accuracy"][ps.index(best)]
    # The folds are the same, so where gamma adds nothing, the choice is the same, too.
    assert found == best_on_test(X, y, None, {**asked, "grid": {**asked["grid"], "p": sorted([1.0, 30.0, best])}}, 5, 0)


def test_halves_are_those_of_the_shuffle_for_every_kernel_and_rows_may_be_fewer() -> None:
    X, y = rows(61, 3)
    X = np.c_[X, np.eye(3)[y]]
    names = [*"abcde", "one", "two", "three"]
    options: dict[str, Any] = {"kernel": "gmm", "grid": {}, "parts": 1}
    leaking = best_on_test(X, y, names, options, 0, 0)
    without = best_on_test(X, y, names, {**options, "drop": ["one", "two", "three"]}, 0, 0)
    assert without == best_on_test(X[:, :5], y, names[:5], options, 0, 0)
    assert leaking["accuracy"] > without["accuracy"]
    few = best_on_test(X, y, names, {**options, "rows": 20}, 0, 0)
    assert (few["accuracy"] / 5).is_integer()  # 20 test rows


def test_a_pass_over_the_rows_serves_all_kernels_that_share_it() -> None:
    X, _ = rows(40)
    grid = {"p": [0.5, 2.0], "le": [0.1, 1.0, 9.0]}
    with counted(MinMaxKernel.shared, note=lambda of: of["self"].p) as passes:
        found = dict(kernels_of("ep-gmm", ("p", "le"), grid, X[:25], X[25:]))
    assert sorted(passes.notes) == [0.5, 0.5, 2.0, 2.0]  # the learned ones among themselves, and with the others
    for (p, le), K in found.items():
        np.testing.assert_array_equal(K, MinMaxKernel(p, 1.0, le).matrix(X[:25], X[[*range(25), *range(25, 40)]]))
    assert list(found) == list(product(*grid.values()))


def test_noise_is_seeded_uniform_and_the_more_alike_the_lower_the_level() -> None:
    black = np.zeros((300, 64))
    black[0, 0] = 1.0
    alike = []
    for level in WIDTHS:
        images = noisy(black, level, 5)
        np.testing.assert_array_equal(noisy(black[:50], level, 5), images[:50])
        assert ((images >= 0) & (images <= 1)).all()
        field = images[1:].reshape(-1, 8, 8)
        assert np.abs(np.quantile(field, [0.25, 0.5, 0.75]) - [0.25, 0.5, 0.75]).max() < 0.05
        alike.append(np.corrcoef(field[:, :, :-1].ravel(), field[:, :, 1:].ravel())[0, 1])
    assert alike == sorted(alike, reverse=True)
    assert alike[0] > 0.8
    assert (noisy(np.ones((2, 16)) * [[0], [1]], 1, 0)[1] == 1).all()


def test_what_is_printed_is_there() -> None:
    """Grids and tables have the sizes and sums that the paper has."""
    published = PAPER.published
    assert [len(GRIDS[name]) for name in ("le", "p", "gamma")] == [58, 27, 63]
    assert all(values == sorted(set(values)) for values in GRIDS.values())
    assert len(published["table1"]) == 57
    assert len(published["table2"]) == 11
    better = [reduction(values) for values in published["table1"].values()]
    for at, limit, key in ((0, 1, "abs_error_reduction_over_1"), (0, 5, "abs_error_reduction_over_5"),
                           (1, 10, "rel_error_reduction_over_10"), (1, 45, "rel_error_reduction_over_45")):  # fmt: skip
        share = np.mean([one[at] > limit for one in better])
        assert share == pytest.approx(published["figure3"][f"share_{key}_percent"], abs=0.03)
    for name, values in published["table2"].items():
        for system, errors in published["table3"].items():
            if system in values and name in errors and (system, name) not in {
                ("gmm", "M-Basic"), ("p_gamma_gmm", "M-Rand"), ("p_gamma_gmm", "M-RotImg"),
            }:  # fmt: skip
                assert errors[name] == pytest.approx(100 - values[system])


def test_runs_of_a_table_with_what_leaks_and_without() -> None:
    form = BestOnTest(PAPER, PAPER.find("table", "1"))
    entries = list(form.entries(Request(["spambase", "ctg"], {"repeats": 2}, systems=["gmm", "pgmm"])))
    assert [(entry.key, entry.options["parts"], "drop" in entry.options) for entry in entries] == [
        ("spambase/gmm", 2, False), ("spambase/pgmm", 2, False), ("ctg/gmm", 2, False), ("ctg/pgmm", 2, False),
        ("ctg/gmm-without-its-leak", 2, True), ("ctg/pgmm-without-its-leak", 2, True),
    ]  # fmt: skip
    assert PAPERS["gmm"] is PAPER


def same_for_all(outcome: Outcome) -> Callable[[Any], Outcome]:
    return lambda _: outcome


def test_every_printed_number_of_a_data_set_has_the_same_tolerance() -> None:
    form = BestOnTest(PAPER, PAPER.find("table", "1"))
    entries = list(form.entries(Request(["spambase", "ctg"], {"repeats": 1})))
    part = {"chosen": {}, "C": 1.0, "Cs": [1.0], "converged": [1.0], "least_eigenvalue": {}}
    tolerances = {"spambase": 1.0, "ctg": 2.0}
    for off, within in ((0.0, True), (0.99, True), (-1.01, False)):
        for entry in entries:
            name, _, way = entry.system.partition("|")
            printed = PAPER.published["table1"][{"spambase": "SpamBase", "ctg": "CTG"}[entry.dataset]].get(name)
            ours = (printed or 50.0) + off * tolerances[entry.dataset]
            found: dict[str, Any] = {
                "accuracy": ours,
                "grid": {"accuracy": [[ours]]},
                "cv": {"accuracy": ours, "chosen": {}, "C": 1.0},
            }
            outcome = Outcome("finished", "", {"parts": [part | found]})
            (row,) = form.rows(Made([entry], same_for_all(outcome), {}, {}))
            compared = printed is not None and not way
            assert row["within"] == (within if compared else None)
            assert row["tolerance"] == (tolerances[entry.dataset] if compared else None)
            assert compared == (not way and name not in ("linear_unit", "linear_raw"))


@pytest.mark.slow
def test_hashes_of_the_grid_are_those_of_each_setting_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashed, "PARAMS", replace(hashed.PARAMS, tol=1e-6, max_iter=10**4))
    Cs = HASHED_CS[:7:2]
    monkeypatch.setattr(hashed, "CS", Cs)
    X, y = rows(120, 3)
    X[::9] = 0.0
    found = hashed_on_test(X, y, None, {"hashes": {"p": [0.5, 2.0], "k": [8, 64], "b": [2, 6]}, "parts": 1}, 7, 1)
    assert [tuple(setting) for *setting, _ in found["grid"]] == list(product([0.5, 2.0], [8, 64], [2, 6]))
    assert found["accuracy"] == max(max(by_C) for *_, by_C in found["grid"])
    halved, truth, half = halves(X, y, None, {}, 7, 1)
    seed = int(generator(7, HASHES, 1).integers(2**31))
    off = []
    for p, k, b, by_C in found["grid"]:
        hashes = GCWSPartitions(seed=seed, t=k, p=p, b=b, gamma=1, full=True, n_features=5)
        features = hashes.cells(halved, 1).to_csr()
        for C, ours in zip(Cs, by_C, strict=True):
            svm = LinearSVC(C=C, intercept_scaling=1.0, tol=1e-4, max_iter=10**5, random_state=0)
            svm.fit(features[:half], truth[:half])
            off.append(abs(100 * svm.score(features[half:], truth[half:]) - ours) / (100 / 60))
    assert np.mean(off) < 0.2
    assert max(off) < 3.5  # rows of 60
    json.dumps(found)


@pytest.mark.slow
def test_figures_of_hashes_are_shown_beside_the_kernel() -> None:
    form = Hashed(PAPER, PAPER.find("figure", "6"))
    entries = list(form.entries(Request(["ctg"], {"repeats": 3})))
    assert [(entry.key, entry.options["parts"]) for entry in entries] == [
        ("ctg/figure6-gcws", 3), ("ctg/figure6-pgmm", 3), ("ctg/figure6-linear", 3),
    ]  # fmt: skip
    X, y = rows(80, 2)
    about = {**form.experiment.about, "p": [0.5, 1.0], "k": [8, 32], "b": [4, 2]}
    form = Hashed(PAPER, replace(form.experiment, about=about))
    outcomes = {}
    for entry in form.entries(Request(["ctg"], {"repeats": 2})):
        parts = [PAPER.study(X, y, None, entry.options, 0, part) for part in range(2)]
        outcomes[entry.key] = Outcome("finished", "", {"parts": parts})
    entries = list(form.entries(Request(["ctg"], {"repeats": 2})))
    made = Made(entries, lambda entry: outcomes[entry.key], {}, {})
    found = form.rows(made)
    assert len(found) == 2 * 2 * 2 + 2 + 1
    head, lines = form.printed_out(found)
    assert head[3:5] == ("k = 8", "k = 32")
    assert [line[:3] for line in lines] == [
        ("ctg", "0.5", "4"),
        ("ctg", "0.5", "2"),
        ("ctg", "1", "4"),
        ("ctg", "1", "2"),
    ]
    grids = [part["grid"] for part in outcomes["ctg/figure6-gcws"].metrics["parts"]]  # type: ignore[index]
    expected = np.mean([max(by_C) for grid in grids for p, k, b, by_C in grid if (p, k, b) == (0.5, 32, 2)])
    assert lines[1][4] == f"{expected:.2f}"
    ((name, figure),) = form.figures(found)
    assert name == "figure6-ctg"
    assert [axes.get_title() for axes in figure.axes] == [
        "p = 0.5, b = 4", "p = 1, b = 4", "p = 0.5, b = 2", "p = 1, b = 2",
    ]  # fmt: skip
    last = figure.axes[2]
    assert last.get_xlabel() == "C"
    assert [line.get_label() for line in last.lines] == ["hashed, k = 8", "hashed, k = 32", "pGMM kernel", "linear"]
    (curve,) = [by_C for p, k, b, by_C in grids[0] if (p, k, b) == (0.5, 32, 2)]
    (other,) = [by_C for p, k, b, by_C in grids[1] if (p, k, b) == (0.5, 32, 2)]
    np.testing.assert_allclose(np.asarray(last.lines[1].get_ydata()), np.mean([curve, other], axis=0), atol=1e-4)
    assert list(np.asarray(last.lines[1].get_xdata())) == list(HASHED_CS)
    kernel = outcomes["ctg/figure6-pgmm"].metrics["parts"]  # type: ignore[index]
    at = [part["Cs"].index(HASHED_CS[0]) for part in kernel]
    at_first = np.mean([part["grid"]["accuracy"][0][i] for part, i in zip(kernel, at, strict=True)])
    assert np.asarray(last.lines[2].get_ydata())[0] == pytest.approx(at_first, abs=1e-4)
    assert "k = 32" in form.html(found)


@pytest.mark.slow
def test_features_come_nearer_to_their_kernel_the_more_there_are() -> None:
    X, y = rows(200, 2)
    form = Linearised(PAPER, PAPER.find("section", "linearised"))
    form = Linearised(PAPER, replace(form.experiment, about={**form.experiment.about, "features": [16, 100, 400]}))
    (entry,) = form.entries(Request(["spambase"], {"repeats": 2}))
    parts = [PAPER.study(X, y, None, entry.options, 0, part) for part in range(2)]
    errors = np.array([error for _, _, error, _ in parts[0]["grid"]]).reshape(3, 3)
    assert (np.diff(errors[:, 0]) < 0).all()
    assert errors[2, 0] > 0.02
    assert (errors[1:, 1:] < 1e-6).all()  # Nystroem on all 100 rows to learn from
    halved, _, half = halves(X, y, None, {}, 0, 0)
    K = np.exp(-(1 - pgmm(halved[:half], halved[:half], 1.0)))
    seed = int(generator(0, FEATURES, 0).integers(2**31))
    hashes = GCWSPartitions(seed=seed, t=CODES, p=1.0, b=BITS, gamma=1, full=True, n_features=5)
    codes = hashes.cells(halved[:half], 1).to_csr()
    near = FourierMap.gaussian(200, codes.shape[1], 0.5, seed).transform(codes)
    assert errors[2, 0] == pytest.approx(np.linalg.norm(near @ near.T - K) / np.linalg.norm(K), abs=1e-5)
    found = form.rows(Made([entry], lambda _: Outcome("finished", "", {"parts": parts}), {}, {}))
    head, lines = form.printed_out(found)
    assert (len(head), len(lines)) == (8, 3)
    assert lines[0][2] == f"{np.mean([part['grid'][0][2] for part in parts]):.3f}"
    assert "Nystroem GMM: accuracy" in form.html(found)


@pytest.mark.slow
@pytest.mark.system
def test_a_study_goes_on_with_more_parts_and_shows_what_it_found(tmp_path: Path) -> None:
    X, y = rows(80, 2)
    table = np.c_[X, y]
    np.savetxt(tmp_path / "spambase.csv", table, delimiter=",", fmt="%.6f", header="a,b,c,d,e,class", comments="")
    (tmp_path / "sets.toml").write_text(
        '[dataset.mails]\ntask = "binary"\nformat = "csv"\ntrain = "spambase.csv"\nlabel = "class"\n'
        'split = { rule = "shuffle", fraction = 0.5 }\n'
    )

    def found(repeats: int) -> Any:
        options = ReproduceOptions(
            paper="gmm", table=("1",), figure=("2", "3"), datasets=("mails",), systems=("linear", "gmm", "pgmm"),
            repeats=repeats, data_dir=str(tmp_path), dataset_file=str(tmp_path / "sets.toml"), workers=1,
            run_dir=str(tmp_path / "runs"), quiet=True,
        )  # fmt: skip
        return run(options)["experiments"][0]["rows"]

    first, second = found(1), found(2)
    assert [row["system"] for row in second] == ["linear", "gmm", "pgmm"]
    parts = {}
    for row in second:
        metrics = json.loads((tmp_path / "runs" / "mails" / row["system"] / "metrics.json").read_text())
        parts[row["system"]] = [part["accuracy"] for part in metrics["parts"]]
        assert row["accuracy"] == pytest.approx(np.mean(parts[row["system"]]), abs=1e-4)
        assert len(row["by_C"]) == len(row["Cs"])
        assert row["Cs"][-1] == (256.0 if row["system"] == "linear" else max(row["Cs"][-1], CS[-1]))
        assert row["status"] == "finished"
    assert [row["accuracy"] for row in first] == pytest.approx([parts[row["system"]][0] for row in first], abs=1e-4)
    page = (tmp_path / "runs" / "report.html").read_text()
    for text in ("Best on test", "accuracy by C", "linear", "pGMM", 'src="data:image/svg+xml;base64,'):
        assert text in page
    assert (tmp_path / "runs" / "figure2-mails.png").exists()


def test_ctg_has_the_columns_that_are_its_class(tmp_path: Path) -> None:
    """The paper has them; the data set of the product leaves them out, and so do other papers."""
    (tmp_path / "ctg.csv").write_text("a,Class\n1,2\n")
    (tmp_path / "own.toml").write_text("[dataset.own]\ntrain = 'ctg.csv'\nlabel = 'Class'\ndrop = ['a']\n")
    own = str(tmp_path / "own.toml")
    for paper, table, dropped in (("gmm", "1", ()), ("isolation-kernel", "5", tuple(f"V{k}" for k in range(26, 36)))):
        there = LocalData(ReproduceOptions(paper=paper, table=(table,), data_dir=str(tmp_path), dataset_file=own))
        for name in ("ctg", "own"):
            there.look_for(name)
        assert (there.there["ctg"].drop, there.there["own"].drop) == (dropped, ("a",))
