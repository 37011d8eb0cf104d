"""Labels that come after their rows: learned when they come, counted, and the same bits after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.online import OnlineOptions
from ikmap.learners.linear_model import decision_to_index
from ikmap.methods import Sample, StreamLearner
from ikmap.tasks import CLASSIFICATION
from pipeline.errors import InputError
from pipeline.monitoring.events import Events, QuietProgress
from pipeline.params import Params
from pipeline.running.stage import Context as RunContext
from pipeline.runs.metrics import Invocation
from pipeline.runs.online import OnlineParams, run_online
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.feeds.feed import Arrival, Feed
from pipeline.storage.durable import read_json
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.verify import is_verified
from pipeline.streams.label_file import LabelFile
from tests.support.damage import flip
from tests.support.in_process import InProcess
from tests.support.kills import KilledWhen
from tests.support.metrics import check_metrics
from tests.support.one_process import forget, one_process
from tests.support.params_for import params_for
from tests.support.runs import points
from tests.support.sizes import SmallSizes

N, INITIAL, BLOCK = 275, 90, 15
X, CLASSES = points(N, seed=3)
CLASSES = CLASSES.astype(int)
NUMBERS = (X[:, 0] * 3 + X[:, 1]).round(3)


class Rows(Feed):
    """All rows, with labels or without, a chunk at a time; after each go, something may be done.

    With whole chunks, rows are cut into the same ones whatever the timing: with these, labels come.
    """

    replays = True
    url = "given"

    def __init__(self, y: np.ndarray | None = None, then: Callable[[int], None] = lambda _: None) -> None:
        self.y, self.then, self.step = y, then, 2 * BLOCK

    def arrivals(self, taken: Mapping[str, int]) -> Iterator[Arrival | None]:  # noqa: ARG002
        for start in range(0, N, self.step):
            rows = slice(start, min(start + self.step, N))
            y = None if self.y is None else self.y[rows].astype(float)
            yield Arrival(self.url, self.url, start + 1, X[rows], y)
            self.then(rows.stop)


def run(
    folder: Path,
    params: Params,
    feed: Any,
    labels: Path | None,
    events: Events | None = None,
    limit: int = 1000,
    **more: Any,
) -> dict[str, Any]:
    forget()
    asked = OnlineParams(INITIAL, BLOCK, late_labels=labels is not None, label_limit=limit, **more)
    directory = RunDirectory(folder, {"params": params.as_json(), "online": asked.identity()})
    data = ResolvedDataset("stream", "-", task=params.task)
    invocation = Invocation("a command", "", {"kind": "local", "workers": 1, "threads": 1}, dask_report=False)
    context = RunContext(InProcess(), directory, params, events or QuietProgress())
    try:
        return run_online(context, data, invocation, asked, feed=feed, labels=None if labels is None else str(labels))
    finally:
        directory.close()


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch, small_sizes: SmallSizes) -> Iterator[None]:
    small_sizes.stream_chunks(2)
    small_sizes.late_rows(7)
    monkeypatch.setattr("pipeline.streams.label_file.IDLE_SECONDS", 2.0)
    with one_process():
        yield


def write(path: Path, pairs: list[tuple[int, Any]], mode: str = "w") -> None:
    with path.open(mode) as stream:
        stream.writelines(f"{row},{label}\n" for row, label in pairs)


REDRAW = {"drift": "adwin", "drift_delta": 0.9, "on_drift": "redraw", "redraw_rows": 20}
CHANGED = np.where(np.arange(N) < INITIAL + 60, CLASSES, CLASSES.max() - CLASSES)
CASES = [
    pytest.param("ogd", "multiclass", CLASSES, {}, id="ogd"),
    pytest.param("kernel-ogd", "multiclass", CLASSES, {}, id="kernel-ogd"),
    pytest.param("quantile", "regression", NUMBERS, {}, id="quantile"),
    pytest.param("norma", "multiclass", CLASSES, {}, id="norma"),
    pytest.param("ogd", "multiclass", CHANGED, REDRAW, id="ogd-redraw"),
]


def params_of(learner: str, task: str) -> Params:
    more = {"gamma": 1.0} if learner == "kernel-ogd" else {"t": 10, "psi": 8, "partitioner": "iforest"}
    return params_for(learners=(learner,), task=task, order="file", **more)


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "task", "y", "more"), CASES)
def test_labels_that_are_there_as_rows_come_are_learned_as_if_rows_had_them(
    learner: str, task: str, y: np.ndarray, more: dict[str, Any], tmp_path: Path
) -> None:
    """Bit for bit: a label is learned right after the block of its row."""
    write(tmp_path / "labels.csv", list(enumerate(y.tolist())))
    params = params_of(learner, task)
    late = run(tmp_path / "late", params, Rows(), tmp_path / "labels.csv", **more)
    check_metrics(tmp_path / "late")
    along = run(tmp_path / "along", params, Rows(y), None, **more)
    assert len(late["learners"][learner].pop("drifts", [0])) == len(along["learners"][learner].pop("drifts", [0])) > 0
    assert bool(along["learners"][learner].get("redraws")) == bool(more)
    untimed = [name for name in along["learners"][learner] if not name.endswith(("seconds", "curve"))]
    for name in untimed:
        assert late["learners"][learner][name] == along["learners"][learner][name], name
    assert late["learners"][learner]["rows_labelled"] == N - INITIAL
    counts = {"learned": N - INITIAL, "again": 0, "expired": 0, "unknown": 0, "without": 0}
    assert late["online"]["labels"] == {"file": str(tmp_path / "labels.csv"), "limit": 1000, **counts}


def coming(path: Path, y: np.ndarray, delay: int) -> Callable[[int], None]:
    """Labels come `delay` rows after their rows; some are of rows that had one, or that never were."""
    if not path.exists():
        write(path, list(enumerate(y[:INITIAL].tolist())))

    def then(rows: int) -> None:
        text = path.read_text()
        known = len({line.partition(",")[0] for line in text.splitlines()} - {"1000000000"})
        stop = max(INITIAL, rows - delay)
        write(path, [(row, y[row]) for row in range(known, stop)], "a")
        if stop > INITIAL and "1000000000" not in text:
            write(path, [(INITIAL, y[INITIAL]), (3, y[3]), (10**9, y[0])], "a")

    return then


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "task", "y", "more"), CASES[2::2])
def test_killed_and_resumed_the_same_labels_are_learned_at_the_same_places(
    learner: str, task: str, y: np.ndarray, more: dict[str, Any], tmp_path: Path
) -> None:
    params = params_of(learner, task)
    found = []
    for name in ("whole", "killed"):
        path = tmp_path / f"{name}.csv"
        if name == "killed":
            killed_when = KilledWhen(tmp_path / name / "records" / "stream" / f"{learner}-000002.json")
            with pytest.raises(KeyboardInterrupt):
                run(tmp_path / name, params, Rows(then=coming(path, y, 40)), path, killed_when, limit=110, **more)
        metrics = run(tmp_path / name, params, Rows(then=coming(path, y, 40)), path, limit=110, **more)
        check_metrics(tmp_path / name)
        about = {k: v for k, v in metrics["learners"][learner].items() if not k.endswith(("seconds", "curve"))}
        (file,) = (tmp_path / name / "predictions").glob(f"{learner}.*[0-9]")
        found.append((about, file.read_bytes(), {**metrics["online"]["labels"], "file": ""}))
    whole, killed = found
    assert bool(whole[0].get("redraws")) == bool(more)
    assert killed == whole
    labels = whole[2]
    assert (labels["again"], labels["unknown"], labels["expired"]) == (2, 1, 0)
    assert 0 < labels["learned"] == whole[0]["rows_labelled"] < N - INITIAL == labels["learned"] + labels["without"]


@pytest.mark.slow
def test_what_a_late_learner_is_is_written_out(tmp_path: Path) -> None:
    """Predictions of each block are those of a state that has learned from the labels that had come."""
    params, path = params_of("kernel-ogd", "multiclass"), tmp_path / "labels.csv"
    run(tmp_path / "run", params, Rows(then=coming(path, CLASSES, 40)), path)
    about = Sample(INITIAL, X.shape[1], CLASSIFICATION.of([0, 1]), lambda rows: X[:INITIAL][rows], 0, None)
    state = params.learner_as(StreamLearner, "kernel-ogd", 1.0).start(about)
    state.partial_fit(X[:INITIAL], CLASSES[:INITIAL].astype(np.int32))
    predicted, known = [], INITIAL
    for start in range(INITIAL, N, BLOCK):
        chunk = (start - INITIAL) // (2 * BLOCK) * 2 * BLOCK + INITIAL
        stop = max(INITIAL, chunk - 40)  # labels that were there when the chunk was taken in
        state.partial_fit(X[known:stop], CLASSES[known:stop].astype(np.int32))
        known = stop
        predicted.append(decision_to_index(state.decision_function(X[start : min(start + BLOCK, N)])))
    (file,) = (tmp_path / "run" / "predictions").glob("kernel-ogd.int32")
    assert np.array_equal(np.fromfile(file, np.int32), np.concatenate(predicted))


def test_what_waits_and_what_does_not(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    said: list[str] = []
    path.write_text("row,label\n1,a\n0,b\n")
    late = LabelFile(str(path), 2, 10, said.append)
    assert late.of_initial(0, 2).tolist() == ["b", "a"]
    write(path, [(5, "a"), (4, "b"), (40, "a"), (3, "b"), (2, "a")], "a")
    first = late.take(0, 2, 1)  # row 5 has not come: those behind it wait
    assert first.places.tolist() == []
    kept = late.as_json()
    batch = late.take(2, 2, 1)
    assert batch.places.tolist() == [3, 2, 1, 0]  # in the order of the file: all wait for the first of them
    assert batch.before.tolist() == [2, 2, 2, 2]
    assert late.counts.unknown == 1  # row 40 is further ahead than rows may wait
    again = LabelFile(str(path), 2, 10, said.append)
    again.go_on(kept, [first.places])
    assert again.take(2, 2, 1).labels.tolist() == batch.labels.tolist()
    assert again.as_json() == late.as_json()
    write(path, [(5, "b"), (6, "b"), (1, "a"), (50, "a")], "a")
    with path.open("a") as stream:
        stream.write("7,a")  # not whole yet
    batch = late.take(4, 40, 10)
    assert batch.places.tolist() == [4]  # of these rows themselves, however many they are
    assert (late.counts.expired, late.counts.again, late.counts.unknown) == (1, 1, 1)
    with path.open("a") as stream:
        stream.write("\n30,b\n")
    assert late.take(44, 0, 10, last=True).places.tolist() == []
    assert (late.counts.expired, late.counts.unknown) == (3, 2)


@pytest.mark.parametrize("parts", [[2], [1, 1]])
def test_labels_of_initial_rows_may_stand_behind_those_of_later_rows(parts: list[int], tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("row,label\n3,a\n1,b\n1,c\n0,a\n2,b\n0,c\n")
    late = LabelFile(str(path), 2, 10, print)
    late.idle_seconds = 0
    found = [late.of_initial(first, n).tolist() for first, n in zip([0, 1], parts, strict=False)]
    assert [label for labels in found for label in labels] == ["a", "b"]
    kept = json.loads(json.dumps(late.as_json()))
    assert (kept["counts"]["learned"], kept["counts"]["again"]) == (2, 1)
    for one in (late, LabelFile(str(path), 2, 10, print)):
        one.go_on(kept, [])
        batch = one.take(0, 2, 1)
        assert list(zip(batch.places.tolist(), batch.labels.tolist(), strict=True)) == [(1, "a"), (0, "b")]
        assert batch.lines.tolist() == [2, 6]
        assert (one.counts.learned, one.counts.again, one.counts.unknown) == (4, 2, 0)
    assert "initial_end" not in late.as_json()


def test_lines_as_programs_write_them(tmp_path: Path) -> None:
    """A byte order mark, quotes, and a last line without an end, which may not be whole while others may come."""
    path = tmp_path / "labels.csv"
    path.write_text('\ufeff0,"yes"\n"1","a ""b"", c"\n2, no ', encoding="utf-8")
    late = LabelFile(str(path), 3, 10, print)
    late.idle_seconds = 0
    assert late.of_initial(0, 3).tolist() == ["yes", 'a "b", c', "no"]
    with path.open("a") as stream:
        stream.write('\n3,"yes"\n4,no')
    assert late.take(0, 2, 1).lines.tolist() == [4]
    assert late.take(2, 0, 1, last=True).lines.tolist() == [5]
    with path.open("a") as stream:
        stream.write("\n1057")  # which reads as no line yet, and is left out
    assert late.take(2, 0, 1, last=True).lines.tolist() == []
    kept = late.as_json()
    del kept["unquoted"]  # a state of an earlier version, whose labels have their quotes
    late.go_on(kept, [])
    with path.open("a") as stream:
        stream.write(',"yes"\n')
    assert late.take(0, 1100, 1, last=True).labels.tolist() == ['"yes"']
    path.write_text('\ufeff"row","label"\r\n"0","yes"\r\n', encoding="utf-8")
    assert LabelFile(str(path), 1, 10, print).of_initial(0, 1).tolist() == ["yes"]


def test_a_file_that_has_lost_what_was_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("0,a\n1,b\n")
    late = LabelFile(str(path), 2, 10, print)
    late.of_initial(0, 2)
    path.write_text("0,a\n")
    with pytest.raises(InputError, match="found 4 bytes, expected the 8 bytes that were read and perhaps more"):
        late.take(0, 2, 1)
    path.unlink()
    with pytest.raises(InputError, match=r"found no file any more, expected the 8 bytes .*, and give the same command"):
        late.take(0, 2, 1, last=True)


@pytest.mark.parametrize("lines", [[5, 4, 3, 2, 1, 0], [0, 2, 1, 5, 3, 4], [3, 0, 1, 2, 5, 4]])
def test_labels_are_learned_after_the_same_blocks_however_rows_are_cut(tmp_path: Path, lines: list[int]) -> None:
    """All labels are there before any row, of which there are two in a block; none expires before its row is there."""
    path = tmp_path / "labels.csv"
    path.write_text("row,label\n")
    write(path, [(2 + row, "a") for row in lines], "a")
    learned = []
    for cuts in ([0, 6], [0, 2, 4, 6], [0, 4, 6]):
        late, found = LabelFile(str(path), 2, 3 if cuts == [0, 6] else 10, print), []
        for first, end in pairwise(cuts):
            batch = late.take(first, end - first, 2)
            found += [(place, first // 2 + before) for place, before in zip(batch.places, batch.before, strict=True)]
        learned.append([(int(place), int(block)) for place, block in found])
        assert (late.counts.expired, late.counts.learned) == (0, 6)
    assert learned[1:] == learned[:1] * 2
    assert [place for place, _ in learned[0]] == lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0,1\n1 2\n", "line 2: found '1 2', expected ROW,LABEL, such as 17,1"),
        ("0,1\n-1,2\n", "line 2: found '-1,2', expected ROW,LABEL"),
        ("0,1\n", "found no label of row 1 in 0 seconds, expected one for each of the --initial rows"),
    ],
)
def test_bad_files_of_labels(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(text)
    late = LabelFile(str(tmp_path / "labels.csv"), 2, 10, print)
    late.idle_seconds = 0
    with pytest.raises(InputError, match=said):
        late.of_initial(0, 2)


def test_a_label_that_is_none_of_the_initial_ones(tmp_path: Path) -> None:
    pairs: list[tuple[int, Any]] = list(enumerate(CLASSES.tolist()))
    pairs[INITIAL + 3] = (INITIAL + 3, 9)
    write(tmp_path / "labels.csv", pairs)
    with pytest.raises(InputError, match=f"line {INITIAL + 4}: found label 9, expected one of the initial rows: 0, 1"):
        run(tmp_path / "run", params_of("ogd", "multiclass"), Rows(), tmp_path / "labels.csv")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label_limit": 5}, "--label-limit 5: found no --labels-input, expected a file of labels"),
        ({"labels_input": "a", "label": "y"}, "--label and --labels-input: found both"),
        ({"labels_input": "a", "above": 3.0}, "--above 3 and --labels-input: found both; expected classes in the file"),
    ],
)
def test_options_that_make_no_sense_together(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        OnlineOptions(input="-", **options)


def test_novelty_has_no_use_for_them(tmp_path: Path) -> None:
    params = params_for(learners=("norma",), task="novelty", order="file", t=10, psi=8, partitioner="iforest")
    said = "--labels-input .*: found --task novelty, which learns without labels, .*; leave it out: labels"
    with pytest.raises(InputError, match=said):
        run(tmp_path / "run", params, Rows(), tmp_path / "labels.csv")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "task", "y"), [("ogd", "multiclass", CLASSES), ("quantile", "regression", NUMBERS)]
)
def test_decisions_that_wait_for_their_labels_have_a_digest(
    learner: str, task: str, y: np.ndarray, tmp_path: Path
) -> None:
    write(tmp_path / "labels.csv", list(enumerate(y.tolist())))
    run(tmp_path / "run", params_of(learner, task), Rows(), tmp_path / "labels.csv")
    with closing(RunDirectory(tmp_path / "run", read_json(tmp_path / "run/manifest.json")["identity"])) as directory:
        records = [r for name, r in directory.records("stream").items() if name.startswith(f"{learner}-0")]
        assert records
        assert all(record is not None and is_verified(directory, record) for record in records)
        (file,) = (tmp_path / "run/predictions").glob("*.decisions")
        for at in (8, 8 * file.stat().st_size - 8):
            flip(file, at)
            assert sum(record is not None and not is_verified(directory, record) for record in records) == 1
            flip(file, at)
