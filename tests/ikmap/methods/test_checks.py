"""Every method does what all methods have to; and the checks of that find methods that do not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from ikmap.learners.online.ogd import OGDState
from ikmap.methods import methods, option
from ikmap.methods.anne import _Anne
from ikmap.methods.checks import Check, check_method, checks_of, main, memory
from ikmap.methods.kinds import Integer
from ikmap.methods.learners import OnlineOptions, StreamLearner
from ikmap.methods.nogd import NOGD
from ikmap.methods.sample import Sample
from ikmap.methods.search import Search
from ikmap.partitioners import fit_voronoi
from tests.throwaway import counting, forgetting, growing_bins


@pytest.mark.slow
@pytest.mark.parametrize("check", [check for one in methods().values() for check in checks_of(one)], ids=str)
def test_methods_do_what_all_have_to(check: Check) -> None:
    check.run()


# It knows two classes only.
THROWAWAY = [
    *checks_of(growing_bins.METHOD),
    *checks_of(counting.NAIVE_BAYES),
    *checks_of(counting.MEANS),
    *(check for check in checks_of(forgetting.METHOD) if "three labels" not in check.title),
]


@pytest.mark.parametrize("check", THROWAWAY, ids=str)
def test_throwaway_methods_do_too(check: Check) -> None:
    check.run()


def test_a_map_that_grows_otherwise_by_pieces_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def extend(options: Any, model: Any, rows: Any, n_threads: int = 1) -> Any:  # noqa: ARG001
        whole = model.extended(rows[::-1])  # the last row first
        return whole, whole.cells(rows)

    monkeypatch.setattr(type(growing_bins.METHOD), "extend", staticmethod(extend))
    assert any("of the map that grew by pieces: found" in line for line in check_method(growing_bins.METHOD))


def test_a_learner_that_forgets_what_it_learned_as_the_map_grows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def grow(state: Any, old: Any, new: Any) -> None:  # noqa: ARG001
        state.weights = np.zeros(int(new[-1]))

    monkeypatch.setattr(forgetting.Forgetting, "grow", grow)
    assert any("after the map has grown: found" in line for line in check_method(forgetting.METHOD))


def test_counts_that_depend_on_where_rows_are_cut_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(counting.MEANS), "merge", lambda self, a, b: b)  # noqa: ARG005
    assert any("found others than of all rows" in line for line in check_method(counting.MEANS))


@dataclass(frozen=True, kw_only=True)
class _Broken(_Anne):
    how: str = ""

    def search(self, options: Any, n_rows: int, sample: Any = None) -> Search | None:
        return Search("psi", "psi", (4, 2)) if self.how == "values" else super().search(options, n_rows, sample)

    def n_cells(self, options: Any, value: Any) -> int:
        return 1 if self.how == "n_cells" else super().n_cells(options, value)

    def partitions(self, options: Any, points: Any, draws: Any, seed: int, n_threads: int) -> Any:  # noqa: ARG002
        draws = draws[::-1] if self.how == "threads" and n_threads > 1 else draws
        return fit_voronoi(points, draws)

    def path(self, options: Any, values: Any, seed: int, *rest: Any) -> Any:
        return super().path(options, values, seed + 1 if self.how == "path" else seed, *rest)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("values", "values of psi: expected them to ascend"),
        ("n_cells", "n_cells: found 1, the map has"),
        ("threads", "cells of a fit by two threads: found"),
        ("path", "cells of the path at"),
    ],
)
def test_broken_maps_are_found(how: str, said: str) -> None:
    assert any(said in line for line in check_method(_Broken(name="broken", title="x", about="x", how=how)))


def test_a_sound_map_is_not_refused() -> None:
    assert check_method(_Broken(name="sound", title="x", about="x")) == []


class _State(OGDState):
    how: ClassVar[str] = ""

    def partial_fit(self, rows: Any, y: np.ndarray) -> Any:
        # From each piece it leaves out the last row: it matters where rows are cut.
        return super().partial_fit(rows, y) if self.how != "pieces" else _Half(super().partial_fit(rows, y))

    def checkpoint(self) -> dict[str, np.ndarray]:
        kept = super().checkpoint()
        if self.how == "forgets":
            kept["table"] = np.zeros_like(kept["table"])
        if self.how == "objects":
            kept["table"] = kept["table"].astype(object)
        return kept


class _Half:
    def __init__(self, step: Any) -> None:
        self.predicted = np.r_[step.predicted[:-1], 1 - step.predicted[-1]]


class _Options(OnlineOptions):
    depth: int = option(2, Integer(1), help=" ")


@dataclass(frozen=True, kw_only=True)
class _Learner(StreamLearner):
    how: str = ""
    Options = OnlineOptions

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:  # noqa: ARG002
        assert sample.offsets is not None
        kind = type("State", (_State,), {"how": self.how})
        eta = options.eta * n_threads if self.how == "threads" else options.eta
        return kind.start(int(sample.offsets[-1]), sample.n_classes, eta=eta, divisor=5.0)

    def facts(self, state: Any) -> dict[str, Any]:
        return {"n": state.n_updates} if self.how == "facts" else {}


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("pieces", "predictions while learning from pieces that begin at"),
        ("forgets", "after going on from a checkpoint: found"),
        ("objects", "of the checkpoint: found object, expected numbers"),
        ("threads", "decisions of two threads: found"),
        ("facts", "facts: found"),
    ],
)
def test_broken_learners_are_found(how: str, said: str) -> None:
    found = check_method(_Learner(name="broken", title="x", on="cells", how=how))
    assert any(said in line for line in found), found


def test_an_option_without_help_is_found() -> None:
    kind = type("Mute", (_Learner,), {"Options": _Options})
    found = check_method(kind(name="mute", title="x", on="cells"))
    assert [line for line in found if "option 'depth': found no help" in line]


def test_a_task_that_is_not_there_is_found() -> None:
    kind = type("Other", (_Learner,), {})
    found = check_method(kind(name="other", title="x", on="cells", tasks=frozenset({"juggling"})))
    assert any("tasks has 'juggling', expected some of classification" in line for line in found), found


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([NOGD.name]) == 0
    assert capsys.readouterr().out == "nogd: passed\n"


@pytest.mark.slow
def test_memory_is_what_a_method_says_it_is() -> None:
    """One of them, of one size; the command does all of them."""
    words = [sys.executable, "-m", "ikmap.methods.checks.memory", "fourier-linear", "--measure", "40000"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    said, took = map(int, done.stdout.split())
    assert 0.5 * said < took < said + memory.SLACK


def test_a_method_that_takes_more_memory_than_it_says_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory, "measured", lambda _: iter([(1000, 10**6, 10**9)]))
    assert memory.main([NOGD.name]) == 1
    assert capsys.readouterr().out == "nogd, 1,000 rows: says 1 MB, took 1,000 MB, which is more\n"


def test_the_memory_check_names_the_methods_that_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert memory.main(["nobody"]) == 2
    assert capsys.readouterr().out.startswith("nobody: no method of that name can be measured, expected some of anne")
    with pytest.raises(SystemExit) as left:
        memory.main(["--help"])
    assert left.value.code == 0
