"""The cells stage on one worker and on two of the same cluster: what a second core is worth."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from distributed import Client, Worker

from benchmarks.data import find
from benchmarks.harness import Case, Disagreement, Options, Row
from cluster import connect
from pipeline.monitoring.events import QuietProgress
from pipeline.params import Params
from pipeline.rows.block_sizes import cell_layout
from pipeline.rows.prepared import DATA, PreparedRows
from pipeline.running.stage import Context
from pipeline.running.warm import WarmUp
from pipeline.running.workers import workers_of
from pipeline.stages.cells import cells
from pipeline.stages.ingest import ingest
from pipeline.stages.partition import partition
from pipeline.storage.fitted import Fitted
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.store import Store

TITLE = "Two workers against one"
ABOUT = (
    "the cells stage of a batch run (mapping, storing, every result recorded) on a local cluster of one worker and on "
    "one of two, in turns, each started anew, as a run has it and once more; each worker is a process with one thread"
)
T, PSI, QUICK_PSI = 100, 4096, 16


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("covtype-93k",):
        psi = QUICK_PSI if options.quick else PSI
        text = f"cells of {name}, psi {psi}"
        yield Case(text, rows=partial(two_against_one, text, name, psi, options))


@dataclass
class Pass:
    """One time through the stage: seconds by the clock, of its tasks, of processor time; and what it stored."""

    seconds: float
    busy: float
    cpu: float
    tasks: int
    first: np.ndarray


def two_against_one(case: str, name: str, psi: int, options: Options) -> list[Row]:
    """One cluster at a time: another one, though idle, would take its share of two cores."""
    first: dict[int, list[Pass]] = {1: [], 2: []}
    again: dict[int, list[Pass]] = {1: [], 2: []}
    bare: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder:
        params = Params.given(partitioner="anne", learners=("svm", "ogd"), t=T, psi=psi, C=1.0)
        with connect("local", workers=2) as cluster:
            source = _context(Path(folder) / "source", params, cluster.client)
            ingest(source, find(name, options))
            fitted = Fitted(**partition(source, [psi])["fitted"][0])
        for k in range(options.repeats):
            for workers in (1, 2):
                with connect("local", workers=workers) as cluster:
                    client = cluster.client
                    client.register_plugin(WarmUp())
                    for turn, done in enumerate((first, again)):
                        path = Path(folder) / f"{workers}-{k}-{turn}"
                        done[workers].append(one_pass(source, path, client, params, fitted))
                    addresses = sorted(workers_of(client))
                    bare[workers].append(max(client.run(map_share, source.store, fitted, addresses).values()))
    if not np.array_equal(first[1][0].first, first[2][0].first):
        raise Disagreement("one worker and two have stored different cells")
    machine = statistics.median(bare[1]) / statistics.median(bare[2])
    rows = []
    for text, done in ((f"{case}, as in a run", first), (f"{case}, once more", again)):
        alone, both = ([found.seconds for found in done[workers]] for workers in (1, 2))
        row = Row(text, "one worker", both, alone, target=1.7)
        row.value = statistics.median(alone) / statistics.median(both)
        row.notes = [
            *(
                f"{n} worker{'s' if n > 1 else ''}: tasks {_middle(done[n], 'busy'):.2f} s, processor "
                f"{_middle(done[n], 'cpu'):.2f} s"
                for n in (1, 2)
            ),
            f"a task takes {_middle(done[2], 'busy') / _middle(done[1], 'busy'):.2f} times as long beside another",
        ]
        rows.append(row)
    rows[0].notes += [
        f"{first[1][0].tasks} tasks; the same bits",
        "each worker reads the model and makes its index first",
        f"the mapping alone, in the same workers without tasks: {machine:.2f} times, which is what the machine gives",
    ]
    return rows


def _middle(done: list[Pass], key: str) -> float:
    median: float = statistics.median(getattr(found, key) for found in done)
    return median


def _context(path: Path, params: Params, client: Client) -> Context:
    run = RunDirectory(path, {})
    run.close()
    return Context(client, run, params, QuietProgress())


def one_pass(source: Context, path: Path, client: Client, params: Params, fitted: Fitted) -> Pass:
    """Do the stage in a directory of its own, with the rows and models of another run."""
    context = _context(path, params, client)
    for name in (DATA, "partitions"):
        (Path(context.store.path) / name).symlink_to(Path(source.store.path) / name)
    before = _cpu_seconds(client)
    began = time.perf_counter()
    cells(context, [fitted])
    seconds = time.perf_counter() - began
    cpu = _cpu_seconds(client) - before
    record = context.run.manifest["stages"]["cells"]["record"]
    codes = context.store.open_arrays(fitted.cells_name("train"))["codes"]
    assert codes.shards is not None
    first = np.asarray(codes[: codes.shards[0]])
    shutil.rmtree(path)
    return Pass(seconds, sum(w["seconds_busy"] for w in record["workers"]), cpu, record["tasks"], first)


def _cpu_seconds(client: Client) -> float:
    """Processor time of all workers so far."""
    return float(sum(client.run(_cpu_seconds_here).values()))


def _cpu_seconds_here() -> float:
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


def map_share(store: Store, fitted: Fitted, addresses: list[str], dask_worker: Worker) -> float:
    """On every worker at once: map its share of the training rows; returns the seconds of that."""
    rows, model = PreparedRows(store, "train"), fitted.load(store)
    step = cell_layout(rows.n_rows, T).shard_rows
    number = addresses.index(dask_worker.address)
    blocks = [rows.read(start, start + step)[0] for start in range(0, rows.n_rows - step, step)]
    began = time.perf_counter()
    for X in blocks[number :: len(addresses)]:
        model.cells(X, n_threads=1)
    return time.perf_counter() - began
