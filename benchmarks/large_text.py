"""One large text file into NumPy, in byte ranges: with one process and two, beside other readers of CSV."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks import peers
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from pipeline.sources import Fragment, ReadRequest, Source, open_source

TITLE = "One large text file"
ABOUT = (
    "a file of 2 GB, which is cut into byte ranges by a survey of its quotes and line ends: opening, the survey, and "
    "every row as NumPy arrays, by two processes of one thread; against one such process, and against polars, "
    "pyarrow.dataset and DuckDB with two threads (which hold the whole table; ours holds a block for each process)"
)
FILE = "flights-3m.parquet"
BYTES = 2 * 10**9
TARGET = 1.6
"""Times as fast with two processes."""


class Sums(NamedTuple):
    """Rows, sum of the labels, and sum of a column of features: every reader has to find the same."""

    rows: int
    labels: float
    numbers: float


def cases(options: Options) -> Iterator[Case]:
    yield Case(f"CSV, {FILE} again and again", partial(csv, options))
    yield Case("LIBSVM text, 20 numbers a row", partial(libsvm, options))


def csv(options: Options) -> Comparison:
    """Compare readers of CSV."""
    path = _folder() / "rows.csv"
    table = pq.read_table(options.data_dir / FILE)
    table = table.slice(0, 20_000) if options.quick else table
    with path.open("wb") as stream:
        pa.csv.write_csv(table, stream)
        while not options.quick and stream.tell() < BYTES:
            pa.csv.write_csv(table, stream, pa.csv.WriteOptions(include_header=False))
    request = ReadRequest(label="delay")
    read = partial(_read, str(path), "csv", request)
    polars, duckdb = peers.find("polars"), peers.find("duckdb")
    others = [
        Side("pyarrow.dataset", lambda: _arrow(path)),
        Side("polars", lambda: _polars(polars, path)) if polars else Side.absent("polars", "polars"),
        Side("DuckDB", lambda: _duckdb(duckdb, path)) if duckdb else Side.absent("DuckDB", "duckdb"),
    ]
    return _comparison(path, read, others)


def libsvm(options: Options) -> Comparison:
    """Compare one process with two on LIBSVM text."""
    path, rng = _folder() / "rows.libsvm", np.random.default_rng(0)
    block = "".join(
        f"{row[0]:.0f} " + " ".join(f"{j}:{value!r}" for j, value in enumerate(row[1:].tolist(), start=1)) + "\n"
        for row in np.column_stack([rng.integers(0, 2, 20_000), rng.normal(size=(20_000, 20)).round(6)])
    ).encode()
    with path.open("wb") as stream:
        stream.write(block)
        while not options.quick and stream.tell() < BYTES:
            stream.write(block)
    return _comparison(path, partial(_read, str(path), "libsvm", ReadRequest(columns=20)), [])


def _comparison(path: Path, read: Callable[[Pool], Sums], others: list[Side]) -> Comparison:
    size = path.stat().st_size
    two, one = _pool(2), _pool(1)

    def check(results: dict[str, Sums]) -> str:
        ours = results["ours"]
        for who, sums in results.items():
            if sums.rows != ours.rows or not np.allclose(sums[1:], ours[1:], rtol=1e-9):
                raise Disagreement(f"{who} reads {sums}, ours {ours}")
        return f"{ours.rows:,} rows, {size / 1e9:.2f} GB; rows and sums of two columns agree"

    return Comparison(
        Side("ours", lambda: read(two), input_bytes=size),
        [Side("ours, one process", lambda: read(one), target=TARGET), *others],
        check,
    )


def _read(path: str, format: str, request: ReadRequest, pool: Pool) -> Sums:
    """Open a file, cut it, and let processes read its fragments."""
    source = open_source(path, format, request)
    sums = list(pool.imap_unordered(partial(_sums, source), source.fragments()))
    return Sums(sum(each.rows for each in sums), sum(s.labels for s in sums), sum(s.numbers for s in sums))


def _sums(source: Source, fragment: Fragment) -> Sums:
    rows, labels, numbers = 0, 0.0, 0.0
    column = source.column_names.index("distance") if source.column_names else 0
    for block in source.read(fragment):
        assert block.y is not None
        rows, labels = rows + block.y.size, labels + float(block.y.sum())
        numbers += float(block.X[:, [column]].sum())
    return Sums(rows, labels, numbers)


def _arrow(path: Path) -> Sums:
    pa.set_cpu_count(2)
    table = ds.dataset(path, format="csv").to_table()
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    return Sums(table.num_rows, float(columns["delay"].sum()), float(columns["distance"].sum()))


def _polars(polars: Any, path: Path) -> Sums:
    frame = polars.read_csv(path)
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    return Sums(frame.height, float(columns["delay"].sum()), float(columns["distance"].sum()))


def _duckdb(duckdb: Any, path: Path) -> Sums:
    connection = duckdb.connect(config={"threads": 2})
    columns = connection.execute(f"select * from read_csv('{path}')").fetchnumpy()
    return Sums(len(columns["delay"]), float(columns["delay"].sum()), float(columns["distance"].sum()))


def _folder() -> Path:
    """Return a folder that is removed when the program ends."""
    folder = Path(tempfile.mkdtemp(prefix="ikmap-benchmarks-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _pool(processes: int) -> Pool:
    """Return processes of one thread that have imported everything."""
    os.environ["OMP_NUM_THREADS"] = "1"
    pool = multiprocessing.get_context("forkserver").Pool(processes)
    pool.map(_warm, range(4 * processes))
    return pool


def _warm(_: int) -> None:
    pa.set_cpu_count(1)
