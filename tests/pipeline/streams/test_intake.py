"""Streams without an end: the same bits as from a file, only whole blocks, bounded reading ahead, resumed."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster import ClusterHandle
from flows.options.online import OnlineOptions
from flows.runs.online import check_unbounded, is_unbounded
from ikmap.tasks import CLASSIFICATION
from pipeline.errors import InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.params import Params
from pipeline.rows.parts import read_part
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.stream_data import Stream, chunk_name
from pipeline.running.stage import Context
from pipeline.runs.metrics import Invocation
from pipeline.runs.online import OnlineParams, run_online
from pipeline.sources import ReadRequest
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.feeds.directory import DirectoryFeed
from pipeline.sources.feeds.feed import Arrival, Feed
from pipeline.sources.feeds.pipe import PipeFeed
from pipeline.sources.named import named_files
from pipeline.storage.durable import promised, taken
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.store import Store
from pipeline.streams import intake as intake_module
from pipeline.streams.intake import Intake
from pipeline.streams.take_initial import take_initial
from tests.support.metrics import check_metrics
from tests.support.narrow import present
from tests.support.params_for import params_for
from tests.support.runs import context, points, sparse
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.system

N, INITIAL, BLOCK = 700, 200, 30
X, Y = points(N, seed=3)
Y = Y.astype(int)
LEARNERS = ("ogd", "kernel-ogd")
DATA = ResolvedDataset("stream", "-")


def csv_text(rows: slice = slice(None)) -> bytes:
    lines = [",".join(map(repr, row.tolist())) + f",{label}" for row, label in zip(X[rows], Y[rows], strict=True)]
    return "\n".join(["a,b,c,d,y", *lines]).encode()


def libsvm_text() -> bytes:
    found = sparse(X)
    lines = []
    for k, label in enumerate(Y):
        row = found[[k]]
        lines.append(
            f"{label} " + " ".join(f"{j + 1}:{v!r}" for j, v in zip(row.indices, row.data.tolist(), strict=True))
        )
    return "\n".join(lines).encode()


def write_parquet(path: Path, rows: slice, label: Any = None) -> None:
    columns = {name: X[rows, j] for j, name in enumerate("abcd")}
    y = Y[rows].copy()
    if label is not None:
        y[-1] = label
    pq.write_table(pa.table({**columns, "y": y}), path, row_group_size=64)


def piped(text: bytes, at_a_time: int = 1 << 16, **more: Any) -> PipeFeed:
    """A feed from a pipe into which a thread writes."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as stream:
            for start in range(0, len(text), at_a_time):
                stream.write(text[start : start + at_a_time])
                stream.flush()

    Thread(target=write, daemon=True).start()
    wanted = {"format": "csv", "head_rows": INITIAL, "request": ReadRequest(label="y"), **more}
    return PipeFeed(handle=reading, **wanted)


def directory(path: Path, idle_seconds: float = 30.0, say: Callable[[str], None] = print) -> DirectoryFeed:
    return DirectoryFeed(str(path), "auto", ReadRequest(label="y"), idle_seconds, say)


def run(
    cluster: ClusterHandle, folder: Path, params: Params, data: ResolvedDataset, feed: Feed | None
) -> dict[str, Any]:
    run_directory = RunDirectory(folder, {"params": params.as_json(), "online": {}})
    try:
        return run_online(
            Context(cluster.client, run_directory, params, QuietProgress()),
            data,
            Invocation("a command", "", {"kind": "local", "workers": 2, "threads": 2}),
            OnlineParams(INITIAL, BLOCK),
            feed=feed,
        )
    finally:
        run_directory.close()


def predictions(folder: Path) -> list[bytes]:
    return [(folder / "predictions" / f"{name}.int32").read_bytes() for name in LEARNERS]


@pytest.fixture(scope="module")
def from_file(two_workers: ClusterHandle, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A run with all rows in a file, which the others must equal; one for each scale."""
    made: dict[str, Path] = {}

    def folder(scale: str) -> Path:
        if scale not in made:
            base = tmp_path_factory.mktemp("file")
            (base / "rows.csv").write_bytes(csv_text())
            data = ResolvedDataset("stream", str(base / "rows.csv"), None, label="y")
            run(two_workers, base / "run", params(scale), data, None)
            made[scale] = base / "run"
        return made[scale]

    return folder


def params(scale: str = "none") -> Params:
    return params_for(t=10, psi=8, learners=LEARNERS, order="file", scale=scale)


@pytest.mark.parametrize("scale", ["none", "minmax"])
def test_a_pipe_gives_the_same_bits_as_a_file(
    scale: str, two_workers: ClusterHandle, from_file: Callable[..., Path], tmp_path: Path
) -> None:
    metrics = run(two_workers, tmp_path, params(scale), DATA, piped(csv_text(), 997))
    assert predictions(tmp_path) == predictions(from_file(scale))
    assert len(predictions(tmp_path)[0]) == 4 * (N - INITIAL)
    expected = json.loads((from_file(scale) / "metrics.json").read_text())["learners"]
    for name in LEARNERS:
        for key in ("accuracy", "n_support", "rows", "content_hash"):
            assert metrics["learners"][name][key] == expected[name][key]
        assert metrics["learners"][name]["curve"]["rows"] == expected[name]["curve"]["rows"]
    assert metrics["online"]["rows_stream"] == metrics["data"]["rows_test"] == N - INITIAL
    check_metrics(tmp_path)
    assert "Accuracy so far" in (tmp_path / "report.html").read_text()


def test_a_growing_directory_gives_the_same_bits_as_a_file(
    two_workers: ClusterHandle, from_file: Callable[..., Path], tmp_path: Path
) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    write_parquet(incoming / "a.parquet", slice(0, 333))

    def grow() -> None:
        while not list((tmp_path / "run" / "records" / "stream").glob("ogd-0*.json")):
            time.sleep(0.01)
        write_parquet(tmp_path / "b.parquet", slice(333, N))
        (tmp_path / "b.parquet").rename(incoming / "b.parquet")
        (incoming / "_SUCCESS").touch()

    thread = Thread(target=grow)
    thread.start()
    run(two_workers, tmp_path / "run", params(), ResolvedDataset("stream", str(incoming)), directory(incoming))
    thread.join()
    assert predictions(tmp_path / "run") == predictions(from_file("none"))


def test_sparse_text_on_a_pipe_gives_the_same_bits_as_a_file(two_workers: ClusterHandle, tmp_path: Path) -> None:
    (tmp_path / "rows.svm").write_bytes(libsvm_text())
    run(two_workers, tmp_path / "file", params(), ResolvedDataset("stream", str(tmp_path / "rows.svm")), None)
    feed = piped(libsvm_text(), 5000, format="libsvm")
    run(two_workers, tmp_path / "pipe", params(), DATA, feed)
    assert predictions(tmp_path / "pipe") == predictions(tmp_path / "file")


class Stops(Feed):
    """A feed that is interrupted when a learner has done some chunks."""

    def __init__(self, feed: Feed, records: Path) -> None:
        self.feed, self.records = feed, records
        self.url, self.replays = feed.url, feed.replays

    def arrivals(self, taken: Mapping[str, int]) -> Iterator[Arrival | None]:
        for arrival in self.feed.arrivals(taken):
            self.source, self.known = self.feed.source, self.feed.known
            yield arrival
        while not (list(self.records.glob("kernel-ogd-0*.json")) and list(self.records.glob("ogd-0*.json"))):
            yield None
            time.sleep(0.01)
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_interrupted_and_given_again_it_ends_with_the_same_bits(
    kind: str, two_workers: ClusterHandle, from_file: Callable[..., Path], tmp_path: Path
) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    cuts = [0, 250, 471, N]

    def feed(last: int) -> Feed:
        if kind == "pipe":
            return piped(csv_text(slice(0, cuts[last])))
        for k in range(last):
            write_parquet(incoming / f"{k}.parquet", slice(cuts[k], cuts[k + 1]))
        return directory(incoming, 0.3)

    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(two_workers, folder, params(), DATA, Stops(feed(2), folder / "records" / "stream"))
    assert 0 < len(predictions(folder)[1]) < 4 * (N - INITIAL)
    run(two_workers, folder, params(), DATA, feed(3))
    assert predictions(folder) == predictions(from_file("none"))


def test_a_pipe_that_ended_because_its_producer_was_stopped_too_goes_on(
    two_workers: ClusterHandle, from_file: Callable[..., Path], tmp_path: Path
) -> None:
    """Its last block is short, and stored, and no learner has come to it."""
    folder = tmp_path / "run"
    records = folder / "records" / "stream"
    with pytest.raises(KeyboardInterrupt):
        run(two_workers, folder, params(), DATA, Stops(piped(csv_text(slice(0, 471))), records))
    store = Store(folder / "store.zarr")
    last = max(k for k in range(N) if store.attributes(chunk_name(k)) is not None)
    assert [store.need(chunk_name(k))["rows"] % BLOCK for k in range(last + 1)] == [0] * (last + 1)
    intake = Intake(store, piped(csv_text(slice(0, 471))), BLOCK, CLASSIFICATION, print)
    with intake:
        intake.start()
        until(lambda: intake.ended)
    assert (intake.rows, intake.rows % BLOCK) == (271, 1)
    run(two_workers, folder, params(), DATA, piped(csv_text()))
    assert predictions(folder) == predictions(from_file("none"))


# --- what is taken in, without learners


class Given(Feed):
    """A feed of rows in memory, which counts those that were asked for and waits where it is told to."""

    replays = True
    url = "given"

    def __init__(self, sizes: list[int], go_on: Mapping[int, Event] | None = None) -> None:
        self.sizes, self.go_on = sizes, go_on or {}
        self.given = 0

    def arrivals(self, taken: Mapping[str, int]) -> Iterator[Arrival | None]:  # noqa: ARG002
        for k, size in enumerate(self.sizes):
            while k in self.go_on and not self.go_on[k].is_set():
                yield None
                time.sleep(0.001)
            rows = slice(self.given, self.given + size)
            self.given += size
            yield Arrival(self.url, self.url, rows.start + 1, X[rows], Y[rows].astype(float))


def begun(path: Path, feed: Any, block_rows: int = BLOCK, n: int = INITIAL) -> tuple[Context, Intake]:
    """A run whose initial rows are there."""
    ctx = context(path, params_for(learners=("ogd",)))
    intake = Intake(ctx.store, feed, block_rows, CLASSIFICATION, print)
    take_initial(ctx, intake, DATA, n)
    return ctx, intake


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def taken_in(ctx: Context, chunks: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """All rows in the store, their classes, and the rows of the chunks."""
    rows = PreparedRows(ctx.store, "train")
    stream = Stream(ctx.store, BLOCK)
    sizes = [stream.rows_of(k) for k in range(chunks)]
    parts = [rows.read(0, rows.n_rows)[:2]]
    parts += [read_part(ctx.store, chunk_name(k), 0, size, rows.preparation) for k, size in enumerate(sizes)]
    return np.concatenate([part for part, _ in parts]), np.concatenate([y for _, y in parts]), sizes


def test_only_whole_blocks_are_stored_before_the_end(tmp_path: Path) -> None:
    last = Event()
    ctx, intake = begun(tmp_path, Given([150, 90, 45, N - 285], {3: last}))
    with intake:
        intake.learned(1)  # all that there is, and more
        intake.start()
        until(lambda: intake.rows == 60)
        assert not intake.ended
        last.set()
        until(lambda: intake.ended)
    X_found, y_found, sizes = taken_in(ctx, intake.chunks)
    assert np.array_equal(X_found, X)
    assert np.array_equal(y_found, Y)
    assert all(size % BLOCK == 0 for size in sizes[:-1])
    assert sizes[-1] % BLOCK == (N - INITIAL) % BLOCK


def test_the_last_short_block_of_a_pipe_that_ends_as_the_run_is_stopped_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a shell stops the program that writes, too: what it wrote last may not be the end."""
    monkeypatch.setattr(intake_module, "STOP_SECONDS", 60.0)
    feed = Given([INITIAL, 90, 11])
    _, intake = begun(tmp_path, feed)
    with intake:
        intake.learned(1)
        intake.start()
        until(lambda: intake.rows == 90 and feed.given == INITIAL + 101)
    assert (intake.rows, intake.ended) == (90, False)


def test_the_source_is_not_read_far_ahead_of_the_learners(tmp_path: Path, small_sizes: SmallSizes) -> None:
    small_sizes.stream_chunks(1)
    feed = Given([10] * 70)
    _, intake = begun(tmp_path, feed, block_rows=10)
    with intake:
        intake.start()
        until(lambda: intake.chunks == intake_module.AHEAD)
        time.sleep(0.2)
        assert feed.given == INITIAL + 10 * intake_module.AHEAD
        intake.learned(3)
        until(lambda: intake.chunks == intake_module.AHEAD + 3)
        assert feed.given <= INITIAL + 10 * (intake_module.AHEAD + 3)


@pytest.mark.parametrize("again", ["the same", "other rows", "too few", "nothing"])
def test_rows_that_are_replayed_must_be_those_of_before(again: str, tmp_path: Path) -> None:
    ctx, intake = begun(tmp_path, Given([INITIAL, 190, N], {2: Event()}))
    with intake:
        intake.learned(0)
        intake.start()
        until(lambda: intake.rows == 180)
    text = {
        "the same": csv_text(),
        "other rows": csv_text().replace(repr(float(X[300, 1])).encode(), b"0.5"),
        "too few": csv_text(slice(0, 250)),
        "nothing": b"",
    }[again]
    said: list[str] = []
    resumed = Intake(ctx.store, piped(text), BLOCK, CLASSIFICATION, said.append)
    with resumed:
        resumed.start()
        assert resumed.rows == 180
        until(lambda: resumed.ended or resumed._error is not None)
    if again == "the same":
        X_found, _, _ = taken_in(ctx, resumed.chunks)
        assert np.array_equal(X_found, X)
    elif again == "nothing":
        resumed.check()
        assert "nothing came" in said[0]
    else:
        wanted = "rows 201 to" if again == "other rows" else "found 250 rows, expected the 380 taken in before"
        with pytest.raises(InputError, match=wanted):
            resumed.check()


speaker: ContextVar[str] = ContextVar("speaker", default="nobody")


def test_lines_of_the_thread_are_said_in_the_context_of_the_stage(tmp_path: Path) -> None:
    """By it Prefect knows of which run a line is; without it, it takes none."""
    ctx, intake = begun(tmp_path, Given([INITIAL, 190, N], {2: Event()}))
    with intake:
        intake.learned(0)
        intake.start()
        until(lambda: intake.rows == 180)
    said: list[str] = []
    resumed = Intake(ctx.store, piped(b""), BLOCK, CLASSIFICATION, lambda _: said.append(speaker.get()))
    token = speaker.set("stage")
    try:
        with resumed:
            resumed.start()
            until(lambda: resumed.ended or resumed._error is not None)
    finally:
        speaker.reset(token)
    assert said == ["stage"]


def test_chunks_are_on_the_disk_before_learners_see_them(tmp_path: Path) -> None:
    """The stage, whose thread flushes what was written as it likes, does not promise them."""
    _, intake = begun(tmp_path, Given([INITIAL, 190]))
    with promised():
        with intake:
            intake.learned(1000)
            intake.start()
            until(lambda: intake.ended)
        intake.check()
        assert not [path for path in taken() if chunk_name(0) in path]


def damage(ctx: Context, chunk: int) -> None:
    """Take away what a chunk is verified by, as if the process had been stopped while it was written."""
    (file,) = Path(ctx.store.path, chunk_name(chunk)).glob("zarr.json")
    file.unlink()


def test_a_folder_gives_the_rows_of_damaged_chunks_again_to_the_same_process(tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for k, rows in enumerate([slice(0, 250), slice(250, 471), slice(471, N)]):
        write_parquet(incoming / f"{k}.parquet", rows)
    ctx, intake = begun(tmp_path / "run", directory(incoming, 0.1))
    for _ in range(3):
        with intake:
            intake.learned(1000)
            intake.start()
            until(lambda: intake.ended or intake._error is not None)
            intake.check()
        X_found, _, sizes = taken_in(ctx, intake.chunks)
        assert np.array_equal(X_found, X)
        damage(ctx, len(sizes) - 2)


def test_a_pipe_that_cannot_give_the_rows_of_damaged_chunks_again_is_not_gone_on_with(tmp_path: Path) -> None:
    ctx, intake = begun(tmp_path, Given([INITIAL, 190, N], {2: Event()}))
    with intake:
        intake.learned(1000)
        intake.start()
        until(lambda: intake.rows == 180)
    with intake:
        intake.start()  # nothing is lost
        assert intake.rows == 180
    damage(ctx, intake.chunks - 1)
    with intake, pytest.raises(InputError, match="give the same command again, with the same rows"):
        intake.start()


# --- the sources


def arrivals(feed: Feed, taken: Mapping[str, int] | None = None) -> list[Arrival]:
    return [item for item in feed.arrivals(taken or {}) if item is not None]


def test_files_of_a_directory_in_order_of_name(tmp_path: Path) -> None:
    for name, rows in {"b": slice(10, 30), "a": slice(0, 10), ".c": slice(0, 3), "_d": slice(0, 3)}.items():
        write_parquet(tmp_path / name, rows)
    write_parquet(tmp_path / "e.tmp", slice(0, 3))
    write_parquet(tmp_path / "empty", slice(0, 0))
    said: list[str] = []
    found = []
    for item in directory(tmp_path, 0.5, said.append).arrivals({}):
        if item is not None:
            found.append(item)
            if item.origin == "b":  # now, that is too late
                write_parquet(tmp_path / "aa", slice(0, 5))
    assert [(item.origin, item.first_row, item.rows) for item in found] == [("a", 1, 10), ("b", 1, 20)]
    assert np.array_equal(np.concatenate([item.X for item in found]), X[:30])
    assert len(said) == 1
    assert "aa: came when b was taken in already" in said[0] or "aa: came when empty was" in said[0]
    (rest,) = arrivals(directory(tmp_path, 0.2), {"a": 10, "b": 13})
    assert (rest.origin, rest.first_row) == ("b", 14)
    assert np.array_equal(rest.X, X[23:30])


def test_a_file_of_a_directory_that_is_filled_later_is_read_then(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    write_parquet(tmp_path / "a", slice(0, 10))
    found = []
    for item in directory(tmp_path, 0.5).arrivals({}):
        if item is not None:
            found.append(item.origin)
        elif found == ["a"]:
            write_parquet(tmp_path / "b", slice(10, 20))
    assert found == ["a", "b"]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_folder_that_grows_has_the_same_files_as_one_that_is_all_there(compressed: bool, tmp_path: Path) -> None:
    for name in ("1.csv", "2.CSV"):
        text = csv_text(slice(0, 5))
        path = tmp_path / f"{name}.gz" if compressed else tmp_path / name
        path.write_bytes(gzip.compress(text) if compressed else text)
    for name in ("README.md", "dataset_info.json", "0.csv.tmp", ".3.csv", "_3.csv", "_SUCCESS"):
        (tmp_path / name).write_text("# rows\n")
    files = [Path(file.url).name for file in named_files(str(tmp_path))]
    assert len(files) == 2
    assert [item.origin for item in arrivals(directory(tmp_path, 5))] == files
    (tmp_path / files[0]).unlink()
    (tmp_path / files[1]).rename(tmp_path / "4.csv")  # it is told by its content that it is compressed
    assert [item.origin for item in arrivals(directory(tmp_path, 5), {files[0]: 5, "4.csv": 4})] == ["4.csv"]


def test_text_with_quotes_and_blank_lines_on_a_pipe() -> None:
    text = b'\n"a","y"\n1,"one\nor two"\n\n2,three\n3,"one\nor two"'
    for size in (1, 7, 100):
        found = arrivals(piped(text, size, format="auto", head_rows=2))
        assert [label for item in found for label in present(item.y)] == ["one\nor two", "three", "one\nor two"]
        assert [v for item in found for v in item.X[:, 0]] == [1, 2, 3]
        firsts = [item.first_row for item in found]
        assert firsts == [1 + sum(item.rows for item in found[:k]) for k in range(len(found))]


def unknown_label(path: Path) -> Any:
    write_parquet(path / "a.parquet", slice(0, N), 7)
    return directory(path, 0.1)


def unknown_label_in_text(path: Path) -> Any:
    (path / "a.csv").write_bytes(csv_text().replace(b"\n", b"\n\n", 2) + b"\n1,2,3,4,7\n")
    return directory(path, 0.1)


@pytest.mark.parametrize(("feed", "said"), [
    (lambda _: piped(csv_text() + b"\n1,2,3,4,7\n"), "standard input: line 702: found label 7, expected"),
    (lambda _: piped(libsvm_text() + b"\n1 9:1\n", format="libsvm"), "line 701: found index 9, expected at most 4"),
    (lambda _: piped(csv_text(slice(0, 50))), "--initial 200"),
    (lambda _: piped(b""), "found 0 rows"),
    (lambda _: piped(gzip.compress(csv_text())), r"standard input: found a \.gz stream"),
    (lambda _: piped(csv_text() + b"\n1,2,x,4,1\n"), "standard input: line 702, column 'c': found 'x'"),
    (lambda _: piped(b"\n\n" + csv_text() + b"\n\n1,2,3,4,7\n"), "standard input: line 705: found label 7, expected"),
    (unknown_label_in_text, "a.csv: line 704: found label 7"),
    (unknown_label,
     "a.parquet: row 700: found label 7"),
    (lambda path: ((path / "a.parquet").write_bytes(b"PAR1 and more"), directory(path, 0.1))[1], "rename them into"),
])  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(feed: Callable[[Path], Any], said: str, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()

    def all_of_it() -> None:
        _, intake = begun(tmp_path / "run", feed(incoming))
        with intake:
            intake.start()
            until(lambda: intake.ended or intake._error is not None)
        intake.check()

    with pytest.raises(InputError, match=said) as found:
        all_of_it()
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(("options", "said"), [
    ({"input": "-"}, "--initial"),
    ({"input": "-", "initial": 5, "order": "shuffled"}, "--order shuffled"),
    ({"input": "-", "initial": 5, "format": "parquet"}, "--format parquet"),
    ({"input": "-", "initial": 5, "idle_seconds": 3.0}, "--idle-seconds"),
    ({"input": "-", "initial": 5, "test_input": "x"}, "--test-input"),
    ({"input": ".", "initial": 5, "format": "npy"}, "--format npy"),
])  # fmt: skip
def test_options_that_a_stream_without_an_end_cannot_have(options: dict[str, Any], said: str) -> None:
    asked = OnlineOptions(**options)
    assert is_unbounded(asked)
    with pytest.raises(InputError, match=said):
        check_unbounded(asked)
