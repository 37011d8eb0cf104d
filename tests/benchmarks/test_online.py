"""The benchmarks of online learners at sizes that take no time: do the sides do the same work?"""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from benchmarks import kol, peers
from benchmarks.data import load
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side, compare
from ikmap.methods.registry import has_papers
from tests.support.narrow import present

if not has_papers():
    pytest.skip("it compares with learners of ikmap_papers, which is not installed", allow_module_level=True)

from benchmarks import online, predictor

pytestmark = pytest.mark.slow

OPTIONS = Options(repeats=1, quick=True, datasets=("digits",), threads=1, limit=4.0)
"""Options that no other file of tests has, as the benchmarks remember what they read by these."""


@pytest.fixture(scope="module", autouse=True)
def _few_rows() -> Iterator[None]:
    """Read so many rows as show that the sides agree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.data.QUICK_ROWS", 400)
        yield


#: A program with the command line of KOL: learns by kernel OGD, row by row, in plain Python.
STAND_IN = """#!{python}
import sys
import numpy as np

given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
points, signs = [], []

def read(name):
    lines = [line.split() for line in open(name)]
    X = np.zeros((len(lines), 64))
    for row, (_, *entries) in zip(X, lines):
        for column, number in (entry.split(":") for entry in entries):
            row[int(column) - 1] = float(number)
    return X, np.array([float(line[0]) for line in lines])

X, y = read(given["-i"])

def value(x):
    if not points:
        return 0.0
    away = ((np.array(points) - x) ** 2).sum(axis=1)
    return 0.5 * (np.array(signs) * np.exp(-float(given["-gamma"]) * away)).sum()

wrong = 0
for x, c in zip(X, y):
    f = value(x)
    wrong += (f >= 0) != (c > 0)
    if c * f < 1:
        points.append(x)
        signs.append(c)
print("Algorithm: kernel_ogd")
print(f"\\n#Training Instances:{{y.size}}\\nLearn acuracy: {{100 - 100 * wrong / y.size:.6f}}%")
print(f"#SV:{{len(points) + {more}}}\\nLearning time: 7.5 s")
if "-t" in given:
    right = np.mean([(value(x) >= 0) == (c > 0) for x, c in zip(*read(given["-t"]))])
    print(f"Test acuracy: {{100 * right:.6f}} %\\nTest time: 2.250000 s")
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, more: int = 0) -> Path:
    path = folder / "KOL"
    path.write_text(STAND_IN.format(python=sys.executable, more=more), encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(kol.VARIABLE, str(path))
    return path


@pytest.mark.parametrize(("part", "seconds"), [("training", 7.5), ("testing", 2.25)])
def test_kernel_ogd_does_what_the_peer_does(
    part: online.Part, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    work = online.kernel_ogd("digits", part, 1, OPTIONS)
    (row,) = compare("online", Case("case", lambda: replace(work, memory=False)), OPTIONS)
    assert row.theirs == [seconds]  # what it printed, not what the process took
    assert row.target == 5.0
    assert "support points" in row.notes[0]
    assert "rows wrong" in row.notes[0]
    assert work.bound is not None
    assert "M pairs" in work.bound(0.1)


def test_a_peer_that_does_other_work_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, more=50)
    work = online.kernel_ogd("digits", "training", 1, OPTIONS)
    with pytest.raises(Disagreement, match="support points"):
        compare("online", Case("case", lambda: replace(work, memory=False)), OPTIONS)
    right = kol.KOLRun(1.0, 1.0, 10, 200, 3, 0)
    ours = online.Outcome(10, 200, 3)
    plain = online.against_kol("kernel-ogd", lambda: None, lambda *_: "", 1e-4, 5.0, "digits", "training", OPTIONS)
    assert plain.check({"ours": ours, "KOL": right})
    for wrong in (replace(right, train_errors=203), replace(right, test_errors=6)):
        with pytest.raises(Disagreement, match="errors"):
            plain.check({"ours": ours, "KOL": wrong})


@pytest.mark.parametrize("variable", [None, "/no/such/program"])
def test_without_the_peer_its_rows_say_so(variable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kol.VARIABLE, raising=False)
    if variable:
        monkeypatch.setenv(kol.VARIABLE, variable)
    assert peers.find_program(kol.VARIABLE) is None
    for learner in (online.kernel_ogd, online.nogd):
        work = learner("digits", "testing", 1, OPTIONS)
        (row,) = compare("online", Case("case", lambda work=work: replace(work, memory=False)), OPTIONS)  # type: ignore[misc]
        assert len(row.ours) == 1
        assert row.theirs == []
        assert row.notes == ["KOL ($IKMAP_KOL names its program) is not installed"]


def test_rows_reach_the_peer_as_they_are() -> None:
    data = load("digits", OPTIONS)
    texts = kol.Texts()
    path = texts.write("rows", data.X[:20], data.two_classes[:20])
    X, labels = load_svmlight_file(str(path), n_features=data.X.shape[1])
    np.testing.assert_array_equal(X.toarray(), np.asarray(data.dense)[:20])
    np.testing.assert_array_equal(labels, 2 * data.two_classes[:20] - 1)
    assert not any(line.startswith("0:") for line in path.read_text().split())  # columns count from 1


def test_a_peer_that_fails_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "KOL"
    program.write_text("#!/bin/sh\necho ERROR: no such option >&2\nexit 3\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(RuntimeError, match="no such option"):
        kol.run(str(program), tmp_path / "a", None, "kernel-ogd")


def test_memory_of_a_program_is_its_own(tmp_path: Path) -> None:
    program = tmp_path / "KOL"
    program.write_text(
        f"#!{sys.executable}\nimport time\nheld = bytearray(1 << 26)\ntime.sleep(0.2)\n"
        "print('Learn acuracy: 50%\\n#SV:1\\nLearning time: 1.5e-3 s')\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    (tmp_path / "rows").write_text("1 1:1\n" * 10, encoding="utf-8")
    run = kol.run(str(program), tmp_path / "rows", None, "kernel-ogd")
    assert 1 << 26 <= run.peak_bytes < 1 << 28
    assert (run.train_seconds, run.n_support, run.train_errors, run.test_errors) == (1.5e-3, 1, 5, 0)
    side = Side("program", lambda: run, seconds=lambda found: found.train_seconds, peak=lambda found: found.peak_bytes)
    ours = Side("ours", lambda: None)
    work = Comparison(ours, [side], lambda _: "", memory=False)
    (row,) = compare("none", Case("case", lambda: work), OPTIONS)
    assert row.theirs == [1.5e-3]


@pytest.mark.parametrize("method", ["anne", "iforest"])
@pytest.mark.parametrize("mapping", [False, True])
def test_stream_of_primal_and_dual(method: str, mapping: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kol.VARIABLE, raising=False)
    work = online.stream_against_kernels("digits", method, 16, mapping, OPTIONS)
    results: dict[str, Any] = {side.name: side.work() for side in (work.ours, *work.peers) if side.work}
    assert "primal and dual equal" in work.check(results)
    assert work.bound is not None
    assert "ns a cell" in work.bound(0.1)
    predicted, n_support = results["ours"]
    rows = online.stream("digits", OPTIONS)
    assert predicted.size == rows.y.size - rows.n_initial
    for wrong in ((~predicted, n_support), (predicted, n_support + 1)):
        with pytest.raises(Disagreement):
            work.check({**results, "ours": wrong})


def test_stream_is_all_rows_in_a_seeded_order() -> None:
    data, rows = load("digits", OPTIONS), online.stream("digits", OPTIONS)
    both = np.concatenate([data.dense, np.asarray(data.X_test)])
    assert rows.n_initial == data.y.size
    assert not np.array_equal(rows.X, both)
    np.testing.assert_array_equal(np.sort(rows.dense, axis=0), np.sort(both, axis=0))
    covered = np.concatenate([np.arange(rows.y.size)[block] for block in rows.blocks])
    np.testing.assert_array_equal(covered, np.arange(rows.n_initial, rows.y.size))


def test_stream_is_predicted_before_it_is_learned() -> None:
    rows = online.stream("digits", OPTIONS)
    seen: list[tuple[str, int]] = []

    class Watched:
        n_support = 0

        def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
            np.testing.assert_array_equal(
                rows.y[[np.flatnonzero((rows.dense == x).all(axis=1))[0] for x in X[:3]]], y[:3]
            )
            seen.append(("learn", y.size))

        def decision_function(self, X: np.ndarray) -> np.ndarray:
            seen.append(("predict", X.shape[0]))
            return np.ones((X.shape[0], 1))

    rows.follow(Watched(), rows.dense)
    sizes = [block.stop - block.start for block in rows.blocks]
    expected = [("learn", rows.n_initial)]
    for size in sizes:
        expected += [("predict", size), ("learn", size)]
    assert seen == expected


def test_shares_of_the_predictor() -> None:
    rows = predictor.share("case", "digits", "iforest", 16, OPTIONS)
    assert [row.case for row in rows] == ["case, primal: predictions and steps", *["case, dual: predictions"] * 2]
    for row in rows:
        assert row.value == pytest.approx(np.median(np.divide(row.ours, row.theirs)))
        assert 0 < present(row.value) < 1  # what is inside is part of the whole
    assert rows[1].ours == rows[2].ours
    assert rows[1].theirs[0] > rows[2].theirs[0]


def test_clock_counts_what_is_inside() -> None:
    clock = predictor.Clock()
    assert clock.around(lambda a, b: a + b)(1, 2) == 3
    once = clock.seconds
    clock.around(sorted)(list(range(10_000)))
    assert clock.seconds > once > 0


def test_full_products_do_the_same_work() -> None:
    work = predictor.indexed_against_naive("digits", 16, OPTIONS)
    results = {side.name: side.work() for side in (work.ours, *work.peers) if side.work}
    assert "weights equal" in work.check(results)
    assert work.ours.calibrate is not None
    assert "ms more" in (work.ours.calibrate() or "")
    predicted, weights = results["ours"]
    for wrong in ((1 - predicted, weights), (predicted, weights + 1)):
        with pytest.raises(Disagreement):
            work.check({**results, "ours": wrong})


def test_growth_is_an_exponent() -> None:
    ik, nogd = predictor.growth("digits", OPTIONS)
    assert (ik.case, nogd.case) == ("digits, IK-OGD iforest, t = 100", "digits, NOGD, b = 100")
    for row in (ik, nogd):
        assert row.value == pytest.approx(np.log10(np.median(row.ours) / np.median(row.theirs)))
    assert ik.relation == "<="
    assert "accuracy" in ik.notes[0]
