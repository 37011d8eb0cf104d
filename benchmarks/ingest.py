"""Tables into the store: rows a second, beside the bare reading and writing; and peak memory as rows grow fourfold.

Run as a program, ``python -m benchmarks.ingest FILE FOLDER WORKERS OPTION ...``, it ingests one file and prints what
that took.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.harness import ROOT, Case, Options, Row
from pipeline.storage.durable import promised
from pipeline.storage.store import Store

TITLE = "Tables into the store"
ABOUT = (
    "the ingest of `python -m flows.batch` on flights-3m (Parquet: a date, a number, two columns of 229 airports; "
    "label by `--above 15`), from the first read to the fitted encoder, every row stored and flushed: against two "
    "million rows a second, and against Arrow reading the same columns and the store writing the same arrays in as "
    "many processes; the same of a small file of 9,000 columns of numbers"
)

type Work = Callable[[Path, Path, int], dict[str, Any]]
"""Of a file, the folder of a run, and the number of workers."""

FILE = "flights-3m.parquet"
TARGET = 2e6
"""Rows a second."""
WORDS = ("--label", "delay", "--above", "15", "--memory-limit", "2GB")
LEARNED = ("--partitioner", "iforest", "--psi", "1024", "--C", "2", "--learner", "logistic")
"""Of the whole run."""
ENCODED_ROWS = 1 << 16
"""Of training rows, at once, that are read to see how fast they are encoded."""
WIDE_ROWS, WIDE_COLUMNS, WIDE_SECONDS = 250, 9_000, 0.5
WIDE_WORDS = ("--label", "y", "--memory-limit", "2GB")


def cases(options: Options) -> Iterator[Case]:
    whole = options.data_dir / FILE
    yield Case(FILE, rows=partial(rate, whole, options))
    yield Case("a wide table", rows=partial(wide, options))
    for name, work, shares in GROWN:
        yield Case(f"{FILE}, {name}, four times the rows", rows=partial(growth, name, work, shares, whole, options))


def rate(whole: Path, options: Options) -> list[Row]:
    """Rows a second, and seconds beside those of the bare work."""
    ours, bare, last = [], [], {}
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder:
        path = _part(whole, Path(folder) / "rows.parquet", 0.05) if options.quick else whole
        for k in range(options.repeats):
            last = ingested(path, Path(folder) / f"run-{k}", options.threads)
            ours.append(last["seconds"])
            bare.append(bare_seconds(path, Path(folder) / f"run-{k}", options.threads))
    rows = int(last["rows"])
    found = rows / statistics.median(ours)
    fast = Row(FILE, "rows a second, in millions", ours, value=found / 1e6, target=TARGET / 1e6)
    fast.notes = [
        f"{rows:,} rows, {last['features']} features",
        f"tasks: {last['busy']:.2f} s on {options.threads} workers",
        f"encoded as they are read, {last['encoded_rows'] / last['encoded_seconds'] / 1e6:.2f} M rows/s a worker",
    ]
    beside = Row(FILE, "Arrow reads, the store writes", ours, bare, target=2.0)
    beside.value = statistics.median(ours) / statistics.median(bare)
    beside.relation = "<="
    beside.notes = [f"the bare work: {rows / statistics.median(bare) / 1e6:.2f} M rows/s"]
    return [fast, beside]


def wide(options: Options) -> list[Row]:
    """Seconds for thousands of columns and few rows, as Parquet and as CSV, and beside the bare reading of Parquet."""
    n_columns = 90 if options.quick else WIDE_COLUMNS
    numbers = np.random.default_rng(0).random((WIDE_ROWS, n_columns))
    table = pa.table({f"x{j}": numbers[:, j] for j in range(n_columns)} | {"y": numbers[:, 0]})
    name = f"{WIDE_ROWS:,} rows, {n_columns:,} columns"
    found = []
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder:
        paths = {ending: Path(folder) / f"wide.{ending}" for ending in ("parquet", "csv")}
        pq.write_table(table, paths["parquet"])
        pa.csv.write_csv(table, paths["csv"])
        ours: dict[str, list[float]] = {ending: [] for ending in paths}
        bare = []
        for k in range(options.repeats):
            for ending, path in paths.items():
                run = Path(folder) / f"{ending}-{k}"
                ours[ending].append(ingested(path, run, options.threads, WIDE_WORDS)["seconds"])
            bare.append(bare_seconds(paths["parquet"], Path(folder) / f"parquet-{k}", options.threads))
    for ending, seconds in ours.items():
        row = Row(f"{name}, {ending}", "seconds", seconds, target=WIDE_SECONDS, relation="<=")
        row.value = statistics.median(seconds)
        found.append(row)
    beside = Row(f"{name}, parquet", "Arrow reads, the store writes", ours["parquet"], bare)
    beside.value = statistics.median(ours["parquet"]) / statistics.median(bare)
    beside.notes = ["the bare work has read a row of each column before, ours opens the file for the first time, twice"]
    return [*found, beside]


def growth(name: str, work: Work, shares: Sequence[float], whole: Path, options: Options) -> list[Row]:
    """Peak memory of a worker at three sizes."""
    shares = (0.01, 0.02, 0.04) if options.quick else shares
    found = []
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder:
        for share in shares:
            path = _part(whole, Path(folder) / f"{share:g}.parquet", share)
            found.append(work(path, Path(folder) / f"run-{share:g}", options.threads))
    peaks = [one["peak_rss_bytes"] for one in found]
    row = Row(f"{FILE}, {name}, four times the rows", "peak memory of a worker", target=1.1, relation="<=")
    row.value = peaks[-1] / peaks[0]
    row.ours_bytes, row.theirs_bytes = peaks[-1], peaks[0]
    row.notes = [
        "ours: four times as many rows, theirs: the fewest",
        *(f"{one['rows']:,} rows: {one['peak_rss_bytes'] / 2**20:.0f} MiB, {one['seconds']:.3g} s" for one in found),
    ]
    if "train_bytes" in found[0]:
        row.notes.append("in training: " + ", ".join(f"{one['train_bytes'] / 2**20:.0f} MiB" for one in found))
    return [row]


def _part(whole: Path, path: Path, share: float) -> Path:
    """A file of the first rows of another, or of all its rows again and again, in row groups of the same size."""
    with pq.ParquetFile(whole) as file:
        rows = round(share * file.metadata.num_rows)
        table = pa.concat_tables([pq.read_table(whole)] * math.ceil(share)).slice(0, rows)
        pq.write_table(table, path, row_group_size=file.metadata.row_group(0).num_rows, compression="zstd")
    return path


def ingested(path: Path, folder: Path, workers: int, words: Sequence[str] = WORDS) -> dict[str, Any]:
    """What an ingest in a program of its own took."""
    command = [sys.executable, "-m", "benchmarks.ingest", str(path), str(folder), str(workers), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def whole_run(path: Path, folder: Path, workers: int) -> dict[str, Any]:
    """What a run with trees and logistic regression took, and its peaks up to the cells and in all.

    Training keeps cells in memory as long as there is room.
    """
    words = ["--input", str(path), "--run-dir", str(folder), "--workers", str(workers), "--quiet", *WORDS, *LEARNED]
    subprocess.run([sys.executable, "-m", "flows.batch", *words], check=True, capture_output=True, text=True, cwd=ROOT)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    peaks = {stage["name"].partition(":")[0]: stage["peak_rss_bytes"] for stage in metrics["stages"]}
    return {
        "rows": metrics["data"]["rows_train"] + metrics["data"]["rows_test"],
        "seconds": metrics["run"]["seconds"],
        "peak_rss_bytes": max(peaks["ingest"], peaks["cells"]),
        "train_bytes": peaks["train"],
    }


def bare_seconds(path: Path, run: Path, processes: int) -> float:
    """Seconds in which Arrow reads the columns of a file, and the store writes the arrays that a run has stored."""
    store = Store(run / "store.zarr")
    parts = [part["name"] for part in store.need("data")["sides"]["train"]["parts"]]
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(processes + 1)
    workers = [
        context.Process(target=_bare_work, args=(str(path), str(run), parts, k, processes, start))
        for k in range(processes)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    begin = time.perf_counter()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - begin
    if any(worker.exitcode for worker in workers):
        raise RuntimeError("the bare work failed")
    return seconds


def _bare_work(path: str, run: str, parts: Sequence[str], k: int, of: int, start: Any) -> None:
    """Read every `of`-th row group, and write every `of`-th part."""
    store, other = Store(f"{run}/store.zarr"), Store(f"{run}/bare.zarr")
    own = [store.read_group(name)[1] for name in parts[k::of]]
    if k == 0:
        other.create()
    next(pq.ParquetFile(path).iter_batches(batch_size=1))
    start.wait()
    with pq.ParquetFile(path) as file:
        words = [field.name for field in file.schema_arrow if "string" in str(field.type)]
        groups = list(range(file.metadata.num_row_groups))[k::of]
    with pq.ParquetFile(path, read_dictionary=words) as file:
        for batch in file.iter_batches(batch_size=1 << 19, row_groups=groups, use_threads=False):
            del batch
    for number, arrays in enumerate(own):
        with promised():
            other.write_group(f"{k}-{number}", arrays, {})


GROWN: tuple[tuple[str, Work, tuple[float, ...]], ...] = (
    ("ingest", ingested, (1.0, 2.0, 4.0)),
    ("a whole run up to the cells", whole_run, (0.25, 0.5, 1.0)),
)
"""Whose memory is measured, and at which shares of the rows of the file.

Of a quarter of the rows each worker stores a piece or two, and a later one may come before all of the first is given
back: ingest is measured from where each worker has stored several.
"""


def main(path: str, folder: str, workers: str, *given: str) -> int:
    """Ingest a file, then read some of its training rows encoded; print the figures as JSON."""
    from flows.options.batch import BatchOptions
    from flows.runs.batch import listening, run_pipeline, starting

    words = ["--input", path, "--run-dir", folder, "--workers", workers, "--quiet", "--no-dask-report", *given]
    options = BatchOptions.parse(words)
    events = listening(options, None)
    starting(options, events)
    print(json.dumps(run_pipeline(options, _only_ingest, {}, events=events)))
    return 0


def _only_ingest(context: Any, data: Any, invocation: Any, *, call: Any) -> dict[str, Any]:  # noqa: ARG001
    from pipeline.rows.prepared import PreparedRows
    from pipeline.running.compiling import words_of_rows
    from pipeline.runs.batch import compile_words
    from pipeline.stages.ingest import ingest

    compile_words(context, words_of_rows(source.format for source in data.sources if source))
    with promised():
        ingest(context, data)
    stage = context.run.manifest["stages"]["ingest"]["record"]
    rows = PreparedRows(context.store, "train")
    rows.take(np.arange(1))  # loads the loops
    begin, numbers = time.perf_counter(), 0
    for at in range(0, rows.n_rows, ENCODED_ROWS):
        numbers += rows.take(np.arange(at, min(at + ENCODED_ROWS, rows.n_rows))).y.size
    return {
        "rows": stage["rows"],
        "seconds": stage["seconds"],
        "busy": sum(worker["seconds_busy"] for worker in stage["workers"]),
        "peak_rss_bytes": stage["peak_rss_bytes"],
        "features": rows.preparation.n_columns,
        "encoded_rows": numbers,
        "encoded_seconds": time.perf_counter() - begin,
    }


if __name__ == "__main__":
    from benchmarks import ingest as own

    sys.exit(own.main(*sys.argv[1:]))
