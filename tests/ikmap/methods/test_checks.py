"""Every method does what all methods have to; and the checks of that find methods that do not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
from annotated_types import Ge

from ikmap.cells import Cells
from ikmap.conformance import faults_of
from ikmap.learners.online.ogd import OGDState
from ikmap.learners.rows import Block
from ikmap.methods import (
    Candidates,
    CountsLearner,
    Doc,
    LearnerAbout,
    Map,
    MapAbout,
    MapMemory,
    Method,
    RowsInfo,
    Sample,
    SearchSpace,
    methods,
)
from ikmap.methods.anne import Anne
from ikmap.methods.checks import Check, check_method, checks_of, main, memory
from ikmap.methods.learner import GradientLearner
from ikmap.methods.method import Number
from ikmap.methods.registry import PackageError, register
from ikmap.methods.stacking import Stacking
from ikmap.partitioners import Partitions, VoronoiPartitions, fit_voronoi
from ikmap.rows import Rows, as_dense
from tests.plugins.counting import NaiveBayes, NearestMean
from tests.plugins.forgetting import Forgets, Forgetting
from tests.plugins.growing_bins import Bins, GrowingBins

FEW = {"stacking": Stacking(rounds=20, t=20, n_folds=3)}
"""Methods that are checked with fewer models than by default, of which there are several."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "check", [check for name, one in methods().items() for check in checks_of(FEW.get(name, one))], ids=str
)
def test_methods_do_what_all_have_to(check: Check) -> None:
    check.run()


# It knows two classes only.
THROWAWAY = [
    *checks_of(GrowingBins),
    *checks_of(NaiveBayes),
    *checks_of(NearestMean),
    *(check for check in checks_of(Forgets) if "three labels" not in check.title),
]


@pytest.mark.parametrize("check", THROWAWAY, ids=str)
def test_throwaway_methods_do_too(check: Check) -> None:
    check.run()


def test_a_class_and_an_object_of_it_are_checked_alike() -> None:
    assert list(map(str, checks_of(Anne))) == list(map(str, checks_of(Anne(psi=4))))
    assert check_method(Anne(psi=4, t=3)) == []


def the_line(one: type[Method] | Method, *parts: str) -> str:
    """Return the line about a method that has all of some words, and refuse lines that are several."""
    lines = check_method(one)
    assert all("\n" not in line for line in lines)
    found = [line for line in lines if all(part in line for part in parts)]
    assert found, lines
    return found[0]


# Maps


class LastRowFirst(GrowingBins):
    def extend(self, model: Any, rows: Rows, n_threads: int = 1) -> tuple[Bins, Cells]:  # noqa: ARG002
        whole = model.extended(rows[::-1])
        return whole, whole.cells(rows)


def test_a_map_that_grows_otherwise_by_pieces_is_found() -> None:
    assert the_line(LastRowFirst, "LastRowFirst.extend: ", "of the map that grew by pieces: found")


class Sound(Anne):
    about: ClassVar[MapAbout] = MapAbout(name="broken", title="x", summary="x", by_size=True)


class Descending(Sound):
    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:  # noqa: ARG002
        return {"psi": Candidates((4, 2))}


class FewCells(Sound):
    def n_cells(self) -> int:
        return 1


class ByThreads(Sound):
    def partitions(self, points: Rows, draws: np.ndarray, seed: int, n_threads: int) -> Partitions:  # noqa: ARG002
        return fit_voronoi(points, draws[::-1] if n_threads > 1 else draws)


class OtherPath(Sound):
    def path(
        self, values: Sequence[Mapping[str, Number]], sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> Iterator[list[Cells]]:
        yield from super().path(values, Sample(*_first(sample), sample.seed + 1), map_rows, n_threads)


def _first(sample: Sample) -> tuple[int, int, None, Any]:
    return sample.n_rows, sample.n_columns, None, sample.take


class Raising(Sound):
    def partitions(self, points: Rows, draws: np.ndarray, seed: int, n_threads: int) -> Partitions:  # noqa: ARG002
        raise ZeroDivisionError("nothing to divide by\nat all")


class FewPartitionings(Sound):
    def partitions(self, points: Rows, draws: np.ndarray, seed: int, n_threads: int) -> Partitions:  # noqa: ARG002
        return fit_voronoi(points, draws[:-1])


class NoModel(Sound):
    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:  # noqa: ARG002
        return sample  # type: ignore[return-value]


class Outside(Sound):
    def partitions(self, points: Rows, draws: np.ndarray, seed: int, n_threads: int) -> Partitions:  # noqa: ARG002
        model = fit_voronoi(points, draws)
        return BeyondCells(**{field.name: getattr(model, field.name) for field in fields(model) if field.init})


class BeyondCells(VoronoiPartitions):
    kind: ClassVar[str] = "throwaway-beyond"

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        cells = super().cells(X, n_threads)
        return Cells(cells.codes + np.int32(self.offsets[1]), cells.offsets)


class Shrinking(Sound):
    def memory(self, rows: RowsInfo) -> MapMemory:
        return MapMemory(1e9 / rows.n)


@dataclass(frozen=True, eq=False)
class Hoard(Partitions):
    """One cell for all rows, and these beside it."""

    kind: ClassVar[str] = "throwaway-hoard"

    rows: np.ndarray
    t: int

    @property
    def n_partitions(self) -> int:
        return self.t

    @property
    def offsets(self) -> np.ndarray:
        return np.arange(self.t + 1, dtype=np.int64)

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:  # noqa: ARG002
        return Cells(np.zeros((X.shape[0], self.t), dtype=np.int32), self.offsets)


class Hoarder(Sound):
    """Its model has all rows, of which it says nothing."""

    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:  # noqa: ARG002
        return Hoard(as_dense(sample.take(np.arange(sample.n_rows))), self.t)

    def memory(self, rows: RowsInfo) -> MapMemory:
        return MapMemory(float(rows.n))


@pytest.mark.parametrize(
    ("one", "parts"),
    [
        (Descending, ("Descending.search_space: ", "values of psi: expected them to ascend")),
        (FewCells, ("FewCells.n_cells: found 1, the map has",)),
        (ByThreads, ("ByThreads.fit: cells of a fit by two threads: found",)),
        (OtherPath, ("OtherPath.path: cells of the path at",)),
        (Raising, ("Raising.fit raises ZeroDivisionError: nothing to divide by",)),
        (FewPartitionings, ("FewPartitionings.fit: found 4 partitionings, expected 5",)),
        (NoModel, ("NoModel.fit: found a Sample, expected ikmap.partitioners.Partitions",)),
        (Outside, ("BeyondCells.cells: found cells that are not there, 16 to 31",)),
        (Shrinking, ("Shrinking.memory: found", "less than of fewer")),
        (Hoarder, ("Hoarder.memory: found 20,000 bytes for the model of 20,000 rows, which has",)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_broken_maps_are_found(one: type[Map], parts: tuple[str, ...]) -> None:
    the_line(one, *parts)


def test_a_sound_map_is_not_refused() -> None:
    assert check_method(Sound) == []


class Unfinished(Map):
    about: ClassVar[MapAbout] = MapAbout(name="unfinished", title="x", summary="x")

    def n_cells(self) -> int:
        return 1


class Nameless(Map):
    def n_cells(self) -> int:
        return 1

    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:
        raise NotImplementedError


def test_a_class_that_lacks_a_member_is_found() -> None:
    assert check_method(Unfinished) == ["Unfinished lacks the member fit"]
    assert check_method(Nameless) == ["Nameless lacks the member about"]
    with pytest.raises(PackageError, match="its method Unfinished lacks fit; pip uninstall strange"):
        register(Unfinished, "strange")


# Learners


class BeginningAnew(Forgetting):
    def grow(self, old: np.ndarray, new: np.ndarray) -> None:  # noqa: ARG002
        self.weights = np.zeros(int(new[-1]))


class BeginsAnew(Forgets):
    def start(self, sample: Sample, n_threads: int = 1) -> Forgetting:
        return BeginningAnew(**vars(super().start(sample, n_threads)))


def test_a_learner_that_forgets_what_it_learned_as_the_map_grows_is_found() -> None:
    the_line(BeginsAnew, "BeginningAnew.grow: decisions after the map has grown: found")


class LastBlockOnly(NearestMean):
    def merge(self, a: Any, b: Any) -> Any:  # noqa: ARG002
        return b


def test_counts_that_depend_on_where_rows_are_cut_are_found() -> None:
    the_line(LastBlockOnly, "LastBlockOnly.merge: ", "found others than of all rows")


class _State(OGDState):
    how: ClassVar[str] = ""

    def partial_fit(self, rows: Any, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Any:  # noqa: ARG002
        # From each piece it leaves out the last row: it matters where rows are cut.
        return super().partial_fit(rows, y) if self.how != "pieces" else _Half(super().partial_fit(rows, y))

    @classmethod
    def restore(cls, arrays: Any) -> Any:
        return _Lost() if cls.how == "lost" else super().restore(arrays)

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


class _Lost:
    """A restored state that cannot learn."""

    n_seen = 37

    def partial_fit(self, rows: Any, y: np.ndarray) -> Any:  # noqa: ARG002
        raise LookupError("nothing was kept")


class _Demanding(_State):
    def model(self, classes: Any, params: Any) -> Any:  # type: ignore[override]
        return super().model(classes, params)


class _Particular(_State):
    def model(self, classes: Any, params: Any = None) -> Any:  # type: ignore[override]
        return super().model(classes, {"eta": 1.0} if params is None else params)


class BrokenLearner(GradientLearner):
    about: ClassVar[LearnerAbout] = LearnerAbout(name="broken", title="x")
    how: ClassVar[str] = ""

    def start(self, sample: Sample, n_threads: int = 1) -> Any:
        assert sample.offsets is not None
        base = {"demanding": _Demanding, "particular": _Particular}.get(self.how, _State)
        kind: type[_State] = type("State", (base,), {"how": self.how})
        eta = self.eta * n_threads if self.how == "threads" else self.eta
        return kind.start(int(sample.offsets[-1]), sample.n_classes, eta=eta, divisor=5.0)

    def summary(self, state: Any) -> dict[str, Any]:
        return {"n": state.n_updates} if self.how == "summary" else {}


@pytest.mark.parametrize(
    ("how", "parts"),
    [
        ("pieces", ("State.partial_fit: predictions while learning from pieces that begin at",)),
        ("forgets", ("State.restore: ", "after going on from a checkpoint: found")),
        ("objects", ("State.checkpoint: ", "of the checkpoint: found object, expected numbers")),
        ("lost", ("checkpoint on ", "_Lost.partial_fit raises LookupError: nothing was kept")),
        ("demanding", ("stream of ", "State.model raises TypeError: ", "params")),
        ("particular", ("State.model: found another model with no parameters",)),
        ("threads", ("Broken.start: decisions of two threads: found",)),
        ("summary", ("Broken.summary: summary: found",)),
    ],
)
def test_broken_learners_are_found(how: str, parts: tuple[str, ...]) -> None:
    the_line(type("Broken", (BrokenLearner,), {"how": how}), *parts)


class Mute(BrokenLearner):
    depth: Annotated[int, Ge(1), Doc(" ")] = 2


class Juggler(BrokenLearner):
    about: ClassVar[LearnerAbout] = LearnerAbout(name="other", title="x", tasks=frozenset({"juggling"}))


def test_a_field_without_help_is_found() -> None:
    the_line(Mute, "Mute.depth: option 'depth': found no Doc, expected what it does")


def test_a_task_that_is_not_there_is_found() -> None:
    the_line(Juggler, "Juggler.about: tasks has 'juggling', expected some of classification")


class Stateless(BrokenLearner):
    def start(self, sample: Sample, n_threads: int = 1) -> Any:  # noqa: ARG002
        return object()


class Stubborn(CountsLearner):
    about: ClassVar[LearnerAbout] = LearnerAbout(name="stubborn", title="x")

    def count(self, block: Block, sample: Sample) -> dict[str, np.ndarray]:  # noqa: ARG002
        raise KeyError("no such row")

    def finish(self, counts: Any, sample: Sample) -> Any:
        raise NotImplementedError


def test_states_that_lack_a_member_and_learners_that_raise_are_found() -> None:
    the_line(Stateless, "object lacks the member partial_fit")
    the_line(Stubborn, "Stubborn.count raises KeyError: 'no such row'")


class Strange:
    def work(self) -> None:
        raise KeyError("lost")


def test_a_line_has_class_and_member_wherever_a_check_meets_the_error() -> None:
    assert faults_of([Check("strange", "work", Strange().work)]) == [
        "strange, work: Strange.work raises KeyError: 'lost'"
    ]


def test_a_fault_that_several_checks_meet_has_one_line() -> None:
    checks = [Check("strange", title, Strange().work) for title in ("work", "more work")]
    assert faults_of(checks) == ["strange, work: Strange.work raises KeyError: 'lost'"]


# The commands


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel-ogd", "anne,iforest"]) == 0
    assert capsys.readouterr().out == "kernel-ogd: passed\nanne,iforest: passed\n"
    assert main(["nobody"]) == 1
    assert capsys.readouterr().out.startswith("method 'nobody' is not known on")


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
    assert memory.main(["kernel-ogd"]) == 1
    kind = methods()["kernel-ogd"].__name__
    assert capsys.readouterr().out == f"kernel-ogd, 1,000 rows: {kind}.memory says 1 MB, took 1,000 MB, which is more\n"


def test_the_memory_check_names_the_methods_that_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert memory.main(["nobody"]) == 2
    assert capsys.readouterr().out.startswith("nobody: no method of that name can be measured, expected some of anne")
    with pytest.raises(SystemExit) as left:
        memory.main(["--help"])
    assert left.value.code == 0
