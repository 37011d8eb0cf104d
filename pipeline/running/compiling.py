"""Compile the loops of a run before it begins: each loop once on a host, shared out over the host's workers.

Loops declare the runs that need them (:mod:`ikmap.compiled`), by words that describe a run: :func:`words_of`. Words of
methods follow from their names and kinds; methods declare further words, and their own modules of loops. Loops that are
in the cache on the disk are only loaded. A loop that was not declared for some type is compiled by the task that calls
it; :mod:`pipeline.running.working_clock` measures the time, which counts for no stage.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from ikmap.methods import Growable, Learner, Map, StreamLearner, capability, methods
from ikmap.methods.composed import names_of
from ikmap.methods.values import sweepable
from ikmap.tasks import TASKS
from ikmap.tasks.capabilities import NeedsLoops
from pipeline.running.workers import workers_of

if TYPE_CHECKING:
    from distributed import Client, Future

    from pipeline.params import Params

PACKAGES = ("ikmap", "pipeline")
"""Packages whose modules of compiled loops are found by their names: ``_*_loops.py``."""
EVERY_SECONDS = 5.0
"""Seconds between two lines of progress."""
NARROW = 256
"""Most cells of a partitioning that are packed into one byte each."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """A loop to compile.

    Attributes
    ----------
    name : str
        Module and name.
    signatures : tuple of str
    weight : int
        Rough time of compiling, relative to other loops.
    """

    name: str
    signatures: tuple[str, ...]
    weight: int


def words_of_rows(formats: Iterable[str]) -> frozenset[str]:
    """Return the words of the loops that reading, splitting and counting rows of files of these formats needs."""
    return frozenset({"rows", *formats})


def words_of(
    params: Params,
    *,
    dense: bool | None = None,
    task: Collection[str] | None = None,
    n_cells: Collection[int] = (),
) -> frozenset[str]:
    """Return the words of the loops that a run needs; ``None`` stands for all that the run may turn out to be.

    Parameters
    ----------
    dense : bool, optional
        Whether the rows are stored dense.
    task : collection of str, optional
        Words of the task (:attr:`~ikmap.tasks.capabilities.NeedsLoops`).
    n_cells : collection of int
        Numbers of cells of a partitioning, as chosen or given; empty if they are still to be searched for.
    """
    words = set[str]()
    for alternative in params.alternatives():
        words |= set().union(*(words_of_learner(alternative.of(name)) for name in alternative.learners))
        if alternative.on_cells:
            words |= words_of_map(alternative.map)
            if sweepable(alternative.map, alternative.map_searched) is not None:
                words |= {"sweep"}
    words |= {"dense", "sparse"} if dense is None else {"dense" if dense else "sparse"}
    needs = [needs_loops.all_loops for kind in TASKS.values() if (needs_loops := capability(kind, NeedsLoops))]
    words |= set().union(*needs) if task is None else set(task)
    # A search packs all cells into two bytes each.
    words |= {"narrow" if n <= NARROW else "wide" for n in n_cells} if n_cells else {"wide"}
    return frozenset(words)


def words_of_learner(learner: Learner, *, scoring: bool = False) -> frozenset[str]:
    """Return the words of the loops that a learner needs: to learn, or to score with its model."""
    description = learner.about
    if scoring:
        return frozenset({"cells-online"} if description.on == "cells" else ())
    kind = "batch" if capability(learner, StreamLearner) is None else "online"
    equivalent = set() if description.equivalent_to is None else {description.equivalent_to}
    return frozenset({description.name, f"{description.on}-{kind}", *equivalent}) | description.loop_words


def words_of_map(of_map: Map) -> frozenset[str]:
    """Return the words of the loops that a map needs."""
    description = of_map.description
    # As it grows, its cells may need two bytes each instead of one.
    growth = set() if capability(of_map, Growable) is None else {"narrow", "wide"}
    return frozenset({*names_of(description.name), *growth}) | description.loop_words


def everything() -> frozenset[str]:
    """Return all words of all declarations."""
    _import_loops()
    loops = import_module("ikmap.compiled").LOOPS.values()
    return frozenset(word for loop in loops for groups in loop.variants.values() for group in groups for word in group)


def needed(words: Collection[str]) -> list[Job]:
    """Return the jobs for runs that the words describe, those that take longest first."""
    _import_loops()
    signatures: dict[str, list[str]] = defaultdict(list)
    weights = {}
    for loop, signature in import_module("ikmap.compiled").needed(words):
        signatures[loop.name].append(signature)
        weights[loop.name] = loop.weight
    jobs = [Job(name, tuple(types), weights[name] * len(types)) for name, types in signatures.items()]
    return sorted(jobs, key=lambda job: (-job.weight, job.name))


def missing(words: Collection[str]) -> list[Job]:
    """Return the needed jobs without the loops that the cache of this host holds."""
    loops = import_module("ikmap.compiled").LOOPS
    jobs = []
    for job in needed(words):
        absent = tuple(s for s in job.signatures if not loops[job.name].is_cached(s))
        if absent:
            jobs.append(Job(job.name, absent, job.weight * len(absent) // len(job.signatures)))
    return jobs


def by_module(jobs: Iterable[Job]) -> list[list[Job]]:
    """Return the jobs of each module, those that take longest first.

    Loops of a module call the same functions, which a process compiles once.
    """
    groups: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.name.rpartition(".")[0]].append(job)
    return sorted(groups.values(), key=lambda group: -sum(job.weight for job in group))


def compile_jobs(jobs: Sequence[Job]) -> list[str]:
    """Task: compile loops, or load them; return a line for each that cannot be compiled."""
    failed = []
    for job in jobs:
        try:
            _import_module_of(job.name)
            loop = import_module("ikmap.compiled").LOOPS[job.name]
            for signature in job.signatures:
                loop.compile(signature)
        except Exception as error:
            failed.append(f"{job.name}: {' '.join(str(error).split())[:200]}")
    return failed


def load(words: Collection[str], *, only_cached: bool = True, at_most: int | None = None) -> int:
    """Load the loops of runs that the words describe into this process; return the number of signatures.

    Loops that the cache does not hold are left out, or compiled.
    """
    loaded = 0
    loops = import_module("ikmap.compiled").LOOPS
    for job in needed(words):
        for signature in job.signatures:
            if loaded == at_most:
                return loaded
            # At an error (a damaged file, another Numba) the task that needs the loop compiles it.
            with suppress(Exception):
                if not only_cached or loops[job.name].is_cached(signature):
                    loops[job.name].compile(signature)
                    loaded += 1
    return loaded


def prepare(client: Client, words: Collection[str], say: Say) -> float:
    """Have every worker load the loops of a run, compiled once on each host; return the seconds of compiling.

    Where workers have no folder to store loops in, each compiles for itself, and a message says so.
    """
    if not words:
        return 0.0
    workers = workers_of(client)
    by_host: dict[str, list[str]] = defaultdict(list)
    for address, worker in workers.items():
        by_host[worker["host"]].append(address)
    firsts = [addresses[0] for addresses in by_host.values()]
    futures = [_submit(client, address, _look, words) for address in firsts]
    missing_by_host = dict(zip(by_host, _results(client, futures), strict=True))
    if not any(jobs for jobs, _ in missing_by_host.values()):
        return 0.0
    if unwritable := [folder for jobs, folder in missing_by_host.values() if jobs and folder is not None]:
        say(
            f"compiled loops cannot be stored in {unwritable[0]}: each worker compiles for itself, in every run; "
            "NUMBA_CACHE_DIR can name a folder of yours that can be written"
        )
    progress = Progress([job for jobs, _ in missing_by_host.values() for job in jobs], say)
    queues = {host: by_module(jobs) for host, (jobs, folder) in missing_by_host.items() if folder is None}
    _run(client, {host: by_host[host] for host in queues}, queues, progress)
    # Now all workers load the loops; where none could be stored, they compile now. (Another may do it for a dead one.)
    _results(client, [_submit(client, address, load, words, only_cached=False) for address in workers])
    return progress.finish()


def _submit[**P, R](
    client: Client, address: str, function: Callable[P, R], *args: P.args, **options: P.kwargs
) -> Future[R]:
    """Have a worker, or another if it dies, call a function; Dask's dashboard shows all calls as one group."""
    key = f"compile-{uuid4().hex[:8]}-{function.__name__.strip('_')}-{uuid4().hex[:8]}"
    return client.submit(function, *args, key=key, pure=False, workers=[address], allow_other_workers=True, **options)


def _results[R](client: Client, futures: Sequence[Future[R]]) -> list[R]:
    """Return the results of the futures in their order; raise `ClusterLost` if workers or scheduler are gone."""
    from pipeline.running.dispatch import LOOK_SECONDS, Watch, next_done, result_of

    watch, left = Watch(client), dict.fromkeys(futures)
    while left:
        for future in next_done(client, left, watch, LOOK_SECONDS):
            del left[future]
    return [result_of(future) for future in futures]


def _run(
    client: Client, hosts: Mapping[str, list[str]], queues: Mapping[str, list[list[Job]]], progress: Progress
) -> None:
    """Share each host's modules out over its workers, one at a time: a free worker takes the longest one left."""
    from pipeline.running.dispatch import LOOK_SECONDS, Watch, next_done

    watch = Watch(client)
    running: dict[Future[list[str]], tuple[str, str, list[Job]]] = {}

    def give(host: str, address: str) -> None:
        if queues[host]:
            jobs = queues[host].pop(0)
            future = _submit(client, address, compile_jobs, jobs)
            running[future] = host, address, jobs

    for host, addresses in hosts.items():
        for address in addresses:
            give(host, address)
    while running:
        for future in next_done(client, running, watch, LOOK_SECONDS):
            host, address, jobs = running.pop(future)
            # A loop that cannot be compiled is an error of the task that calls it, if any does.
            progress.done(jobs)
            give(host, address)
        progress.tell()


def _look(words: Collection[str]) -> tuple[list[Job], str | None]:
    """Return the jobs that are missing on this host, and the folder of the cache if it cannot be written."""
    cache = import_module("ikmap._compiled_cache")
    return missing(words), None if cache.writable() else str(cache.folder())


class Progress:
    """The progress of compiling.

    Parameters
    ----------
    jobs : sequence of Job
    say : callable
        Function that shows a line.
    every : float
        Seconds between two lines.
    """

    def __init__(self, jobs: Sequence[Job], say: Say, every: float = EVERY_SECONDS) -> None:
        self._total, self._say, self._every = len(jobs), say, every
        self._weight, self._done, self._n = sum(job.weight for job in jobs), 0, 0
        self._began = self._told = time.monotonic()
        say(self.line())

    def done(self, jobs: Sequence[Job]) -> None:
        """Count jobs that are done."""
        self._n += len(jobs)
        self._done += sum(job.weight for job in jobs)

    def tell(self) -> None:
        """Show the progress now and then."""
        now = time.monotonic()
        if now - self._told >= self._every and self._n < self._total:
            self._told = now
            self._say(self.line())

    def line(self) -> str:
        """Return the progress as a line."""
        elapsed = time.monotonic() - self._began
        left = elapsed * (self._weight - self._done) / self._done if self._done else None
        rest = "" if left is None else f", about {left:.0f} s left"
        return f"compiling for this processor, once per installation: {self._n} of {self._total}{rest}"

    def finish(self) -> float:
        """Show that all is done; return the seconds."""
        seconds = time.monotonic() - self._began
        self._say(f"compiled {self._total} {'loop' if self._total == 1 else 'loops'} in {seconds:.1f} s")
        return seconds


def _import_loops() -> None:
    """Import all modules of compiled loops."""
    for module in _modules():
        import_module(module)


def _modules() -> Iterator[str]:
    for package in PACKAGES:
        root = Path(import_module(package).__path__[0])
        for file in sorted(root.rglob("_*_loops.py")):
            yield ".".join((package, *file.relative_to(root).with_suffix("").parts))
    yield from sorted({module for method in methods().values() for module in method.about.loops})


def _import_module_of(name: str) -> None:
    import_module(name.rpartition(".")[0])
