"""Tables that arrive: words, dates, missing cells, ids and weights by standard input and from a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from flows.options.online import OnlineOptions
from flows.runs.online import check_unbounded, open_feed
from ikmap.arrays import Floats
from ikmap.tables import CATEGORY, NUMBER, TIME, ColumnPlan, EncodingRequest, RawTable, Statistics, choose, fit
from ikmap.tables.raw import coded
from pipeline.errors import InputError
from pipeline.monitoring.events import Events, QuietProgress
from pipeline.params import Params
from pipeline.running.stage import Context as RunContext
from pipeline.runs.metrics import Invocation
from pipeline.runs.online import OnlineParams, run_online
from pipeline.runs.trained import load_run
from pipeline.sources import CsvFormat, ReadRequest, open_source
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.feeds.directory import DirectoryFeed
from pipeline.sources.feeds.feed import Arrival, Feed
from pipeline.sources.feeds.pipe import PipeFeed
from pipeline.storage.rundir import RunDirectory
from pipeline.streams.arrived import joined
from tests.support.in_process import InProcess
from tests.support.kills import KilledWhen
from tests.support.metrics import check_metrics
from tests.support.narrow import present
from tests.support.one_process import forget, one_process
from tests.support.params_for import params_for
from tests.support.sizes import SmallSizes

N, INITIAL, BLOCK = 340, 120, 20
RNG = np.random.default_rng(11)
DISTANCE = np.where(RNG.random(N) < 0.1, np.nan, (RNG.normal(size=N) * 50).round(2))
DISTANCE[0] = np.nan
DAYS = np.array([f"2001-{m:02d}-{d:02d}" for m, d in zip(RNG.integers(1, 13, N), RNG.integers(1, 29, N), strict=True)])
CARRIERS = np.array(["AA", "B6", "", "7"], dtype="U3")[RNG.integers(0, 4, N)]
CARRIERS[0] = "AA"
CARRIERS[250:260] = "NEW"  # a word that no initial row has
CARRIERS[270:] = "7"  # as if it were a number
WEIGHTS = RNG.integers(0, 4, N).astype(float)
LABELS = np.where(np.nan_to_num(DISTANCE) + 20 * (CARRIERS == "AA") + 10 * RNG.normal(size=N) > 5, "late", "on time")
TABLE = TableRequest(id="who", weight="w")
COLUMNS = [ColumnPlan("distance", NUMBER), ColumnPlan("day", TIME), ColumnPlan("carrier", CATEGORY)]
LEARNERS = ("ogd",)


def cell(value: float) -> str:
    return "" if np.isnan(value) else repr(float(value))


def csv_text(rows: slice = slice(None), names: bool = True) -> bytes:
    lines = [f"p{k},{cell(DISTANCE[k])},{DAYS[k]},{CARRIERS[k]},{WEIGHTS[k]:g},{LABELS[k]}" for k in range(N)[rows]]
    return "\n".join([*(["who,distance,day,carrier,w,delay"] if names else []), *lines, ""]).encode()


def arrow_table(rows: slice) -> pa.Table:
    """Typed columns; those of later files are in another order."""
    columns = {
        "who": [f"p{k}" for k in range(N)[rows]],
        "distance": pa.array(DISTANCE[rows], from_pandas=True),
        "day": pa.array(DAYS[rows].astype("datetime64[D]")),
        "carrier": pa.array([word or None for word in CARRIERS[rows]], pa.string()),
        "w": WEIGHTS[rows],
        "delay": LABELS[rows],
    }
    return pa.table(dict(reversed(columns.items())) if rows.start else columns)


REQUEST = ReadRequest(label="delay", table=TABLE)


def piped(text: bytes, request: ReadRequest = REQUEST, at_a_time: int = 1 << 16, format: str = "csv") -> PipeFeed:
    """A feed from a pipe into which a thread writes."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as stream:
            for start in range(0, len(text), at_a_time):
                stream.write(text[start : start + at_a_time])
                stream.flush()

    Thread(target=write, daemon=True).start()
    return PipeFeed(format, request, INITIAL, reading)


def json_text(rows: slice) -> str:
    table = arrow_table(rows)
    table = table.set_column(table.column_names.index("day"), "day", table["day"].cast(pa.string()))
    return "".join(json.dumps(row) + "\n" for row in table.to_pylist())


CUTS = [0, 130, 280, N]
WRITE: dict[str, Callable[[Path, slice], object]] = {
    "csv": lambda path, rows: path.write_bytes(csv_text(rows)),
    "parquet": lambda path, rows: pq.write_table(arrow_table(rows), path, row_group_size=50),
    "jsonl": lambda path, rows: path.write_text(json_text(rows)),
    "arrow": lambda path, rows: pyarrow.feather.write_feather(arrow_table(rows), str(path)),
}


def folder_of(path: Path, ending: str, last: int = 3) -> DirectoryFeed:
    path.mkdir(exist_ok=True)
    for k in range(last):
        WRITE[ending](path / f"{k}.{ending}", slice(CUTS[k], CUTS[k + 1]))
    return DirectoryFeed(str(path), "auto", REQUEST, 0.2, print)


class Encoded(Feed):
    """Features that were made beforehand."""

    url = "encoded"
    replays = True

    def __init__(self, X: Floats) -> None:
        self.X = X

    def arrivals(self, taken: Mapping[str, int]) -> Iterator[Arrival | None]:  # noqa: ARG002
        yield Arrival(self.url, self.url, 1, self.X, LABELS.astype(object), weights=WEIGHTS)


def params() -> Params:
    return params_for(learners=LEARNERS, order="file", partitioner="iforest", t=10, psi=8)


def run(
    folder: Path,
    feed: Feed | None,
    table: TableRequest = TABLE,
    of_params: Params | None = None,
    alerts: str | None = None,
    file: Path | None = None,
    events: Events | None = None,
) -> dict[str, Any]:
    forget()
    chosen = of_params or params()
    online = OnlineParams(INITIAL, BLOCK, alerts=alerts is not None)
    directory = RunDirectory(
        folder,
        {
            "params": chosen.as_json(),
            "online": online.identity(),
            "data": {"label": "delay", "table": dict(table.as_json())},
        },
    )
    data = ResolvedDataset("stream", "-" if file is None else str(file), label="delay", table=table, task=chosen.task)
    invocation = Invocation("a command", "", {"kind": "local", "workers": 1, "threads": 1}, dask_report=False)
    context = RunContext(InProcess(), directory, chosen, events or QuietProgress())
    try:
        return run_online(context, data, invocation, online, feed=feed, alerts=alerts)
    finally:
        directory.close()


def predictions(folder: Path) -> bytes:
    return (folder / "predictions" / "ogd.int32").read_bytes()


@pytest.fixture(autouse=True)
def _small_chunks(small_sizes: SmallSizes) -> Iterator[None]:
    small_sizes.stream_chunks(2)
    with one_process():
        yield


def seconds_of(days: Sequence[str] | np.ndarray) -> Floats:
    return np.array(days, dtype="datetime64[s]").astype(float)


def encoded_by_hand() -> Floats:
    """Features of all rows, by an encoder that has seen the initial ones."""
    codes, words = coded([word or None for word in CARRIERS])
    table = RawTable(np.stack([DISTANCE, seconds_of(DAYS), codes], axis=1), (None, None, words))
    initial = table.take(slice(0, INITIAL))
    nothing, every = np.zeros(INITIAL, dtype=np.int64), np.ones(INITIAL, dtype=np.bool_)
    kinds = [column.kind for column in COLUMNS]
    statistics = Statistics.of(initial, kinds, nothing, np.zeros((INITIAL, 0), dtype=np.int64), every)
    encoder = fit(choose(COLUMNS, statistics, EncodingRequest()), statistics, unit=1.0, outputs=[""])
    assert len(encoder.names) > 5
    return encoder.encode(table)


@pytest.fixture(scope="module")
def beforehand(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Predictions for rows that were encoded before the run."""
    folder = tmp_path_factory.mktemp("beforehand")
    with one_process():
        run(folder, Encoded(encoded_by_hand()), TableRequest(weight="w"))
    return predictions(folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "pipe of JSON lines", "csv", "parquet", "arrow", "jsonl"])
def test_predictions_are_those_for_rows_encoded_beforehand(kind: str, beforehand: bytes, tmp_path: Path) -> None:
    feed: Feed
    if kind == "pipe":
        feed = piped(csv_text(), at_a_time=701)
    elif kind == "pipe of JSON lines":
        feed = piped(json_text(slice(0, N)).encode(), at_a_time=701, format="auto")
    else:
        feed = folder_of(tmp_path / "incoming", kind)
    metrics = run(tmp_path / "run", feed)
    assert predictions(tmp_path / "run") == beforehand
    assert len(set(beforehand)) > 1
    check_metrics(tmp_path / "run")
    data = metrics["data"]
    assert (data["id"], data["weight"]) == ("who", "w")
    assert {column["name"]: column["kind"] for column in data["columns_plan"]} == {
        "distance": NUMBER, "day": TIME, "carrier": CATEGORY,
    }  # fmt: skip
    assert '["carrier"]\nkind = "category"' in (tmp_path / "run" / "columns-plan.toml").read_text()
    named = [row for rows in metrics["learners"]["ogd"].values() if isinstance(rows, list)
             for row in rows if isinstance(row, dict) and "row" in row]  # fmt: skip
    assert named
    assert all(row["id"] == f"p{row['row']}" for row in named)


def test_weights_matter(beforehand: bytes, tmp_path: Path) -> None:
    class Unweighted(Encoded):
        def arrivals(self, taken: Mapping[str, int]) -> Iterator[Arrival | None]:
            for arrival in super().arrivals(taken):
                yield None if arrival is None else replace(arrival, weights=None)

    run(tmp_path, Unweighted(encoded_by_hand()), TableRequest())
    assert len(predictions(tmp_path)) == len(beforehand)
    assert predictions(tmp_path) != beforehand


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "csv"])
def test_killed_and_resumed_it_ends_with_the_same_bits(kind: str, beforehand: bytes, tmp_path: Path) -> None:
    """Columns stay as they were found at first, though the rows that follow would tell otherwise."""

    def feed(last: int) -> Feed:
        return piped(csv_text(slice(0, CUTS[last]))) if kind == "pipe" else folder_of(tmp_path / "incoming", kind, last)

    killed = KilledWhen(tmp_path / "run" / "records" / "stream" / "ogd-000003.json")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", feed(2), events=killed)
    assert 0 < len(predictions(tmp_path / "run")) < len(beforehand)
    if kind != "pipe":
        (tmp_path / "incoming" / f"0.{kind}").unlink()
        WRITE[kind](tmp_path / "incoming" / f"2.{kind}", slice(CUTS[2], N))
        again: Feed = DirectoryFeed(str(tmp_path / "incoming"), "auto", REQUEST, 0.2, print)
    else:
        again = feed(3)
    run(tmp_path / "run", again)
    assert predictions(tmp_path / "run") == beforehand


@pytest.mark.slow
def test_other_words_than_before_are_noticed(tmp_path: Path) -> None:
    killed = KilledWhen(tmp_path / "records" / "stream" / "ogd-000001.json")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, piped(csv_text()), events=killed)
    lines = csv_text().splitlines()
    lines[60] = lines[60].replace(CARRIERS[59].encode() + b"," + f"{WEIGHTS[59]:g}".encode(), b"ZZ,1")
    with pytest.raises(InputError, match=r"rows 41 to 80 are not those taken in before"):
        run(tmp_path, piped(b"\n".join(lines)))


def changed(row: int, column: int, word: str, given: bytes | None = None) -> bytes:
    lines = (given or csv_text()).splitlines()
    cells = lines[row + 1].split(b",")
    cells[column] = word.encode()
    lines[row + 1] = b",".join(cells)
    return b"\n".join(lines)


def plain_text() -> bytes:
    return "\n".join(["a,b,w,delay", *(f"{k % 7},{k % 5},{k % 4},{k * k % 3 % 2}" for k in range(N))]).encode()


@pytest.mark.slow
def test_weights_of_a_file_and_of_a_pipe_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(plain_text())
    found = []
    for table in (TableRequest(weight="w"), TableRequest(drop=("w",))):
        name = "weighted" if table.weight else "unweighted"
        run(tmp_path / f"file-{name}", None, table, file=tmp_path / "rows.csv")
        found.append(predictions(tmp_path / f"file-{name}"))
    weighted = TableRequest(weight="w")
    run(tmp_path / "pipe", piped(plain_text(), replace(PLAIN, table=weighted)), weighted)
    assert predictions(tmp_path / "pipe") == found[0] != found[1]


PLAIN = ReadRequest(label="delay")


@pytest.mark.parametrize(
    ("text", "request_of_rows", "said"),
    [
        (
            changed(300, 1, "far"),
            REQUEST,
            "standard input: line 302, column 'distance': found 'far', expected a number; if its cells are words, "
            "train with --category distance; if this one stands for nothing, train with --missing '?,N/A,NA,NULL,NaN",
        ),
        (
            changed(300, 2, "soon"),
            REQUEST,
            "standard input: line 302, column 'day': found 'soon', expected a date or time such as",
        ),
        (
            changed(300, 4, "heavy"),
            REQUEST,
            "standard input: line 302, column 'w': found 'heavy', expected a finite number >= 0 in every row (the "
            "weight; --weight)",
        ),
        (changed(300, 4, ""), REQUEST, "standard input: line 302, column 'w': found an empty cell"),
        (
            changed(300, 5, "early"),
            REQUEST,
            "standard input: line 302: found label 'early', expected one of the initial",
        ),
        (
            changed(300, 0, "", plain_text()),
            PLAIN,
            "standard input: line 302, column 'a': found a missing value, of which the initial rows had none",
        ),
        (
            changed(300, 1, "word", plain_text()),
            PLAIN,
            "standard input: line 302, column 'b': found 'word', expected a number",
        ),
        (
            csv_text(),
            replace(REQUEST, table=replace(TABLE, id="whom")),
            "standard input: found no column 'whom' (--id), expected one of who, distance",
        ),
    ],
)
def test_what_changes_in_mid_stream_is_told_with_its_place(
    text: bytes, request_of_rows: ReadRequest, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refused:
        run(tmp_path, piped(text, request_of_rows), request_of_rows.table)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_file_with_other_columns_or_of_another_format_is_refused(tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    folder_of(incoming, "csv", 2)
    lines = [b",".join(line.split(b",")[1:]) for line in csv_text(slice(CUTS[2], N)).splitlines()]
    (incoming / "2.csv").write_bytes(b"\n".join(lines))
    with pytest.raises(InputError, match=r"2.csv: found no column 'who' \(--id\)"):
        run(tmp_path / "a", DirectoryFeed(str(incoming), "auto", REQUEST, 0.2, print))
    (incoming / "2.csv").unlink()
    WRITE["parquet"](incoming / "3.parquet", slice(CUTS[2], N))
    with pytest.raises(InputError, match=r"3.parquet: found a file of format parquet, expected csv as .*0.csv is"):
        run(tmp_path / "b", DirectoryFeed(str(incoming), "auto", REQUEST, 0.2, print))


def parts(incoming: Path, *tables: pa.Table) -> list[str]:
    """Write files, and return their names."""
    incoming.mkdir()
    names = [str(incoming / f"{k}.parquet") for k in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        pq.write_table(table, name)
    return names


def arrived_labels(feed: Feed) -> list[Any]:
    return [label for item in feed.arrivals({}) if item is not None for label in present(item.y)]


LABEL = ReadRequest(label="y")


@pytest.mark.parametrize("resumed", [False, True])
def test_labels_of_another_type_are_those_of_the_first_file(resumed: bool, tmp_path: Path) -> None:
    """As files and as a feed, also where the first file was taken in before: true and false, then 1 and 0."""
    a = pa.array([0.5, 1.5, 2.5])
    tables = [pa.table({"a": a, "y": labels}) for labels in ([True, False, True], [1, 0, 1])]
    files = parts(tmp_path / "incoming", *tables)
    source = open_source(str(tmp_path / "incoming"), request=LABEL)
    as_files = [label for part in source.fragments() for rows in source.read(part) for label in present(rows.y)]
    feed = DirectoryFeed(str(tmp_path / "incoming"), "auto", LABEL, 0.1, print)
    assert arrived_labels(feed) == as_files == ["true", "false", "true"] * 2
    if resumed:
        assert feed.known is not None
        Path(files[0]).unlink()
        again = DirectoryFeed(str(tmp_path / "incoming"), "auto", LABEL, 0.1, print)
        again.known = Plan.from_json(json.loads(json.dumps(feed.known.as_json())))
        assert again.known == feed.known
        assert arrived_labels(again) == as_files[3:]


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ({"a": [1.0, 2.0], "y": [1, 2], "who": [1, 2]}, {"a": [1.0], "y": [1], "who": ["p1"]}, "column 'who' (--id)"),
        ({"a": [1.0, 2.0], "y": [1, 2], "who": [1, 2]}, {"a": [1.0], "who": [1]}, "found no column 'y'"),
        ({"a": [1.0, 2.0], "y": [1, 2], "who": [1, 2]}, {"a": [1.0], "y": [1]}, "found no column 'who' (--id)"),
    ],
)
def test_a_file_that_files_would_refuse_is_refused_in_a_folder_that_grows(
    first: dict[str, Any], then: dict[str, Any], said: str, tmp_path: Path
) -> None:
    parts(tmp_path / "incoming", pa.table(first), pa.table(then))
    request = ReadRequest(label="y", require_label=False, table=TableRequest(id="who"))
    source = open_source(str(tmp_path / "incoming" / "0.parquet"), request=request)
    assert source.plan.label == "y"
    with pytest.raises(InputError) as refused:
        list(DirectoryFeed(str(tmp_path / "incoming"), "auto", request, 0.1, print).arrivals({}))
    assert said in str(refused.value)
    assert "1.parquet: " in str(refused.value)
    assert "0.parquet" in str(refused.value)


def test_labels_that_the_first_file_lacks_are_left_alone(tmp_path: Path) -> None:
    parts(tmp_path / "incoming", pa.table({"a": [1.0, 2.0]}), pa.table({"a": [1.0], "y": [1]}))
    feed = DirectoryFeed(str(tmp_path / "incoming"), "auto", ReadRequest(require_label=False), 0.1, print)
    assert [item.y for item in feed.arrivals({}) if item is not None] == [None, None]


@pytest.mark.parametrize(
    "arrow_type", [pa.bool_(), pa.dictionary(pa.int8(), pa.string()), pa.timestamp("us", "UTC"), pa.decimal128(9, 2)]
)
def test_a_plan_is_kept_as_json(arrow_type: pa.DataType) -> None:
    plan = Plan(
        (ColumnPlan("a", TIME, why="by its type"), ColumnPlan("b", CATEGORY, "onehot")),
        ("a", "b"),
        label="y",
        text_labels=True,
        label_type=arrow_type,
        request=TableRequest(id="who", missing=("-",), plan={"b": ColumnPlan("b", CATEGORY, "onehot")}),
        split_column=ColumnPlan("day", TIME),
        id_type=arrow_type,
        first="a.parquet",
    )
    for kept in (plan, Plan(3), Plan(None)):
        assert Plan.from_json(json.loads(json.dumps(kept.as_json()))) == kept


def test_a_learner_that_counts_every_row_once_is_refused_before_a_row_is_read(tmp_path: Path) -> None:
    wanted = params_for(learners=("norma",), order="file", partitioner="iforest", t=10, psi=8)
    with pytest.raises(InputError, match=r"--weight w: found --learner norma, which counts every row once"):
        run(tmp_path, piped(b"", REQUEST), of_params=wanted)


@pytest.mark.slow
def test_alerts_name_their_rows(tmp_path: Path) -> None:
    wanted = params_for(
        learners=("idk",), order="file", partitioner="iforest", t=20, psi=8, task="novelty", alert_rate=0.1
    )
    far = np.where(np.arange(N) % 23 == 7, 900.0, np.nan_to_num(DISTANCE))
    lines = [f"p{k},{far[k]},{CARRIERS[k]}" for k in range(N)]
    text = "\n".join(["who,distance,carrier", *lines]).encode()
    table = TableRequest(id="who")
    request = ReadRequest(require_label=False, table=table)
    run(tmp_path, piped(text, request), table, wanted, alerts=str(tmp_path / "alerts.jsonl"))
    alerts = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert alerts
    assert all(alert["id"] == f"p{alert['row']}" for alert in alerts)


@pytest.mark.slow
def test_the_model_of_a_stream_takes_rows_as_they_come(tmp_path: Path) -> None:
    run(tmp_path, piped(csv_text()))
    model = load_run(tmp_path)
    assert model.feature_names_in_ == ["distance", "day", "carrier"]
    frame = arrow_table(slice(250, N)).select(["carrier", "day", "distance"])
    assert set(model.predict(frame)) == {"late", "on time"}


@pytest.mark.parametrize("format", ["auto", "jsonl"])
def test_json_lines_on_a_pipe_end_with_each_line_whatever_quotes_are_in_it(format: str) -> None:
    """An odd number of quotes in each line; of a column of words, some are numbers further down; a blank line."""
    lines = [json.dumps({"a": f'{k % 7}" pipe', "n": k, "delay": k % 2}) for k in range(INITIAL + 30)]
    lines.insert(INITIAL + 5, "")
    for size in (100, 1 << 16):
        feed = piped("\n".join(lines).encode(), PLAIN, size, format)
        arrived = [item for item in feed.arrivals({}) if item is not None]
        together = joined(arrived)
        assert together.levels == (tuple(f'{k}" pipe' for k in range(7)), None)
        assert together.X[:, 1].tolist() == list(range(INITIAL + 30))
        assert sum(item.rows for item in arrived) == INITIAL + 30
        assert feed.source is not None
        assert feed.source.format == "jsonl"


def test_the_columns_of_text_on_a_pipe_do_not_depend_on_how_it_comes() -> None:
    """A key that JSON lines have only behind the first 256 KiB is no column, though it may have come already."""
    lines = [json.dumps({"a": "x" * 9000, "n": k, "delay": k % 2} | ({"new": 1} if k > 40 else {})) for k in range(80)]
    for size in (1 << 15, 1 << 22):
        feed = piped("\n".join(lines).encode(), PLAIN, size, "jsonl")
        assert sum(item.rows for item in feed.arrivals({}) if item is not None) == 80
        assert feed.column_names == ("a", "n")


def test_text_in_another_encoding() -> None:
    request = ReadRequest(label="y", csv=CsvFormat(encoding="latin-1", delimiter=";"))
    text = "ort;n;y\nKöln;1;a\nBonn;2;b\nMünster;3;a\n".encode("latin-1")
    for size in (5, 1000):
        arrived = [item for item in piped(text, request, size).arrivals({}) if item is not None]
        together = joined(arrived)
        assert together.levels == (("Bonn", "Köln", "Münster"), None)
        assert together.X[:, 0].tolist() == [1.0, 0.0, 2.0]


def test_the_same_rows_are_the_same_arrays_however_they_are_cut() -> None:
    (whole,) = [item for item in piped(csv_text()).arrivals({}) if item is not None]
    cuts = [0, 3, 100, 101, 300, N]
    parts = [whole.part(start, stop) for start, stop in pairwise(cuts)]
    together, again = joined([whole]), joined(parts)
    assert together.levels == again.levels == (None, None, ("7", "AA", "B6", "NEW"))
    assert np.array_equal(together.X, again.X, equal_nan=True)
    assert joined([whole.part(271, 290)]).levels == (None, None, ("7",))
    assert together.weights is not None
    assert np.array_equal(together.weights, WEIGHTS)


@contextmanager
def standard_input(reading: int) -> Iterator[None]:
    """Let the process read its standard input from a pipe."""
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def test_options_of_tables_reach_the_feed() -> None:
    options = OnlineOptions(
        input="-", initial=5, label="delay", drop=("who",), weight="w", category=("day",), delimiter=",", above=None
    )
    check_unbounded(options)
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stream:
        stream.write(csv_text(slice(0, 50)))
    feed = open_feed(options, print)
    with standard_input(reading):
        rows = [item for item in feed.arrivals({}) if item is not None]
    assert feed.column_names == ("distance", "day", "carrier")
    levels = joined(rows).levels
    assert levels is not None
    assert levels[1] == tuple(sorted(set(DAYS[:50])))
    os.close(reading)
