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
from typing import Any

import numpy as np
import psutil
from distributed import Client

from benchmarks.data import find
from benchmarks.harness import Case, Disagreement, Options, Row
from cluster import connect
from pipeline.engine import Context
from pipeline.layout import cell_layout
from pipeline.params import Params
from pipeline.prepared import DATA, PreparedRows
from pipeline.progress import QuietProgress
from pipeline.rundir import RunDirectory
from pipeline.stages.cells import cells, cells_name
from pipeline.stages.ingest import ingest
from pipeline.stages.partition import Fitted, partition
from pipeline.store import Store
from pipeline.warm import WarmUp

TITLE = "Two workers against one"
ABOUT = (
    "the cells stage of a batch run (mapping, storing, every result recorded) on a local cluster of one worker and on "
    "one of two, in turns, warm and the first time; each worker is a process with one thread"
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
    """Both clusters stand side by side; one of them is idle."""
    done: dict[int, list[Pass]] = {1: [], 2: []}
    first: dict[int, list[Pass]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder:
        with connect("local", workers=1) as one, connect("local", workers=2) as two:
            clients = {1: one.client, 2: two.client}
            for client in clients.values():
                client.register_plugin(WarmUp())
            params = Params(t=T, psi=psi, C=1.0)
            source = _context(Path(folder) / "source", params, two.client)
            ingest(source, find(name, options))
            fitted = Fitted(**partition(source, [psi])["fitted"][0])
            for k in range(options.repeats + 1):
                for workers, client in clients.items():
                    found = one_pass(source, Path(folder) / f"{workers}-{k}", client, params, fitted)
                    (done if k else first)[workers].append(found)
        steps = steps_of_a_task(source.store, fitted)
    if not np.array_equal(done[1][0].first, done[2][0].first):
        raise Disagreement("one worker and two have stored different cells")
    alone, both = ([found.seconds for found in done[workers]] for workers in (1, 2))
    row = Row(case, "one worker", both, alone, target=1.7)
    row.value = statistics.median(alone) / statistics.median(both)
    middle = {n: {key: statistics.median(getattr(p, key) for p in done[n]) for key in ("busy", "cpu")} for n in (1, 2)}
    row.notes = [
        f"{done[1][0].tasks} tasks; the same bits",
        *(
            f"{n} worker{'s' if n > 1 else ''}: tasks {middle[n]['busy']:.2f} s, processor {middle[n]['cpu']:.2f} s"
            for n in (1, 2)
        ),
        f"so a task takes {middle[2]['busy'] / middle[1]['busy']:.2f} times as long beside another, of which the "
        f"processor is at work {middle[2]['cpu'] / middle[1]['cpu']:.2f} times as long; no stage can gain more than "
        f"{2 * middle[1]['busy'] / middle[2]['busy']:.2f}",
        "a task on a thread alone: " + ", ".join(f"{key} {value * 1e3:.0f} ms" for key, value in steps.items()),
    ]
    once = Row(f"{case}, the first time", "one worker", target=1.7)
    once.ours, once.theirs = ([found.seconds for found in first[workers]] for workers in (2, 1))
    once.value = once.theirs[0] / once.ours[0]
    once.notes = [
        f"each worker reads the model and makes its index first: processor {first[1][0].cpu:.2f} s of one worker, "
        f"{first[2][0].cpu:.2f} s of two"
    ]
    return [row, once]


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
    codes = context.store.open_arrays(cells_name(fitted.psi, "train"))["codes"]
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


def steps_of_a_task(store: Store, fitted: Fitted) -> dict[str, float]:
    """Processor seconds, in this process, of the parts of a task: reading rows, mapping them, storing the cells."""
    rows, model = PreparedRows(store, "train"), fitted.load(store)
    layout = cell_layout(rows.n_rows, T)
    n = min(rows.n_rows, layout.shard_rows)
    X, _ = rows.read(0, n)
    codes = model.cells(X, n_threads=1).codes  # with all that the first call prepares
    found: dict[str, float] = {}
    steps: dict[str, Any] = {
        "read": lambda: rows.read(0, n),
        "map": lambda: model.cells(X, n_threads=1),
        "store": lambda: store.write_shards("cells/steps", 0, codes),
    }
    cut = {"shard_rows": layout.shard_rows, "chunk_rows": layout.chunk_rows}
    store.create_sharded("cells/steps", codes.shape, np.int32, **cut)
    for name, step in steps.items():
        tries = []
        for _ in range(3):
            began = time.process_time()
            step()
            tries.append(time.process_time() - began)
        found[name] = min(tries)
    return found
