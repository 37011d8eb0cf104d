"""Compile what a run needs before it begins: each loop once on a host, shared out over the host's workers.

Which loops those are stands beside the loops (:mod:`ikmap._compiled`), by words that describe a run: :func:`words_of`.
Words of methods follow from their names and kinds; methods say which others they need, and in which modules of their
own there are loops.
What is in the cache on the disk is only loaded. A loop that nobody declared for some type is compiled by the task that
calls it; the time is told by :mod:`pipeline.running.working_clock` and counts for no stage.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from ikmap.methods import Growable, Learner, Map, StreamLearner, capability, methods
from ikmap.methods.composed import names_of
from ikmap.methods.search import sweepable
from ikmap.tasks import TASKS
from ikmap.tasks.capabilities import NeedsLoops
from pipeline.record_types import Record

if TYPE_CHECKING:
    from distributed import Client, Future

    from pipeline.params import Params

PACKAGES = ("ikmap", "pipeline")
"""Where modules of compiled loops are looked for, by their names: ``_*_loops.py``."""
EVERY_SECONDS = 5.0
"""How often a line tells how far it is."""
NARROW = 256
"""The most cells of a partitioning that are packed into one byte each."""

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
        How long it takes beside others, roughly.
    """

    name: str
    signatures: tuple[str, ...]
    weight: int


def words_of(
    params: Params,
    *,
    dense: bool | None = None,
    task: Collection[str] | None = None,
    n_cells: Collection[int] = (),
) -> frozenset[str]:
    """Words that describe what a run needs; ``None`` stands for all that it may turn out to be.

    Parameters
    ----------
    dense : bool, optional
        How the rows are stored.
    task : collection of str, optional
        Words of the task (:attr:`~ikmap.tasks.capabilities.NeedsLoops`).
    n_cells : collection of int
        In a partitioning, as chosen or given; with none they are still to be searched for.
    """
    words = set[str]()
    for each in params.alternatives():
        words |= set().union(*(words_of_learner(each.of(name)) for name in each.learners))
        if each.on_cells:
            words |= words_of_map(each.map)
            if sweepable(each.map, each.map_searched) is not None:
                words |= {"sweep"}
    words |= {"dense", "sparse"} if dense is None else {"dense" if dense else "sparse"}
    needs = [one.all_loops for kind in TASKS.values() if (one := capability(kind, NeedsLoops))]
    words |= set().union(*needs) if task is None else set(task)
    # A search packs all cells into two bytes each.
    words |= {"narrow" if n <= NARROW else "wide" for n in n_cells} if n_cells else {"wide"}
    return frozenset(words)


def words_of_learner(learner: Learner, *, scoring: bool = False) -> frozenset[str]:
    """Return the words by which loops say that a learner needs them: to learn, or to score with its model."""
    about = learner.about
    if scoring:
        return frozenset({"cells-online"} if about.on == "cells" else ())
    way = "batch" if capability(learner, StreamLearner) is None else "online"
    alike = set() if about.equivalent_to is None else {about.equivalent_to}
    return frozenset({about.name, f"{about.on}-{way}", *alike}) | about.loop_words


def words_of_map(of_map: Map) -> frozenset[str]:
    """Return the words by which loops say that a map needs them."""
    about = of_map.description
    # As it grows, its cells may need two bytes each instead of one.
    growth = set() if capability(of_map, Growable) is None else {"narrow", "wide"}
    return frozenset({*names_of(about.name), *growth}) | about.loop_words


def everything() -> frozenset[str]:
    """All words that any declaration has."""
    _import_loops()
    loops = import_module("ikmap._compiled").LOOPS.values()
    return frozenset(word for loop in loops for groups in loop.variants.values() for group in groups for word in group)


def needed(words: Collection[str]) -> list[Job]:
    """What runs described by these words need, what takes longest first."""
    _import_loops()
    signatures: dict[str, list[str]] = defaultdict(list)
    weights = {}
    for loop, signature in import_module("ikmap._compiled").needed(words):
        signatures[loop.name].append(signature)
        weights[loop.name] = loop.weight
    jobs = [Job(name, tuple(found), weights[name] * len(found)) for name, found in signatures.items()]
    return sorted(jobs, key=lambda job: (-job.weight, job.name))


def missing(words: Collection[str]) -> list[Job]:
    """Those of the needed ones that the cache of this host does not hold."""
    loops = import_module("ikmap._compiled").LOOPS
    left = []
    for job in needed(words):
        absent = tuple(s for s in job.signatures if not loops[job.name].is_cached(s))
        if absent:
            left.append(Job(job.name, absent, job.weight * len(absent) // len(job.signatures)))
    return left


def compile_job(job: Job) -> Record:
    """Task: compile a loop, or load it."""
    _import_module_of(job.name)
    loop = import_module("ikmap._compiled").LOOPS[job.name]
    for signature in job.signatures:
        loop.compile(signature)
    return {"name": job.name}


def load(words: Collection[str], *, only_cached: bool = True, at_most: int | None = None) -> int:
    """Load what runs described by these words need into this process; returns how many signatures.

    What the cache does not hold is left out, or compiled.
    """
    loaded = 0
    loops = import_module("ikmap._compiled").LOOPS
    for job in needed(words):
        for signature in job.signatures:
            if loaded == at_most:
                return loaded
            # Whatever goes wrong (a damaged file, another Numba), the task that needs the loop sees to it.
            with suppress(Exception):
                if not only_cached or loops[job.name].is_cached(signature):
                    loops[job.name].compile(signature)
                    loaded += 1
    return loaded


def prepare(client: Client, words: Collection[str], say: Say) -> float:
    """Have every worker hold what a run needs, compiled once on each host; returns the seconds of compiling.

    Where no worker has a folder to store it in, each compiles for itself, and the user is told.
    """
    if not words:
        return 0.0
    workers = client.scheduler_info(n_workers=-1)["workers"]
    by_host: dict[str, list[str]] = defaultdict(list)
    for address, about in workers.items():
        by_host[about["host"]].append(address)
    firsts = [addresses[0] for addresses in by_host.values()]
    futures = [_submit(client, address, _look, words) for address in firsts]
    found = dict(zip(by_host, client.gather(futures), strict=True))
    if not any(jobs for jobs, _ in found.values()):
        return 0.0
    if unwritable := [folder for jobs, folder in found.values() if jobs and folder is not None]:
        say(
            f"compiled loops cannot be stored in {unwritable[0]}: each worker compiles for itself, in every run; "
            "NUMBA_CACHE_DIR can name a folder of yours that can be written"
        )
    progress = Progress([job for jobs, _ in found.values() for job in jobs], say)
    queues = {host: list(jobs) for host, (jobs, folder) in found.items() if folder is None}
    _run(client, {host: by_host[host] for host in queues}, queues, progress)
    # Now all load it; where nothing could be stored, this is where they compile. (Another may do it for one that died.)
    client.gather([_submit(client, address, load, words, only_cached=False) for address in workers])
    return progress.finish()


def _submit[**P](
    client: Client, address: str, function: Callable[P, object], *args: P.args, **options: P.kwargs
) -> Future[object]:
    """Have a worker, or another if it dies, call a function; Dask's dashboard shows all of it as one group."""
    key = f"compile-{uuid4().hex[:8]}-{function.__name__.strip('_')}-{uuid4().hex[:8]}"
    return client.submit(function, *args, key=key, pure=False, workers=[address], allow_other_workers=True, **options)


def _run(client: Client, hosts: Mapping[str, list[str]], queues: Mapping[str, list[Job]], progress: Progress) -> None:
    """Share each host's jobs out over its workers, one at a time: whoever is free takes the longest one left."""
    from distributed import wait

    running: dict[Future[object], tuple[str, str, Job]] = {}

    def give(host: str, address: str) -> None:
        if queues[host]:
            job = queues[host].pop(0)
            future = _submit(client, address, compile_job, job)
            running[future] = host, address, job

    for host, addresses in hosts.items():
        for address in addresses:
            give(host, address)
    while running:
        try:
            with client.as_current():
                done = wait(list(running), timeout=1.0, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            done = set()
        for future in done:
            host, address, job = running.pop(future)
            # A loop that cannot be compiled is an error of the task that calls it, if any does.
            progress.done(job)
            give(host, address)
        progress.tell()


def _look(words: Collection[str]) -> tuple[list[Job], str | None]:
    """What is missing on this host, and the folder that it cannot be stored in, if so."""
    cache = import_module("ikmap._compiled_cache")
    return missing(words), None if cache.writable() else str(cache.folder())


class Progress:
    """Says how far the compiler is.

    Parameters
    ----------
    jobs : sequence of Job
    say : callable
        Takes a line.
    every : float
        Seconds between two lines.
    """

    def __init__(self, jobs: Sequence[Job], say: Say, every: float = EVERY_SECONDS) -> None:
        self._total, self._say, self._every = len(jobs), say, every
        self._weight, self._done, self._n = sum(job.weight for job in jobs), 0, 0
        self._began = self._told = time.monotonic()
        say(self.line())

    def done(self, job: Job) -> None:
        """One more is compiled."""
        self._n += 1
        self._done += job.weight

    def tell(self) -> None:
        """Say how it stands, now and then."""
        now = time.monotonic()
        if now - self._told >= self._every and self._n < self._total:
            self._told = now
            self._say(self.line())

    def line(self) -> str:
        """How it stands."""
        elapsed = time.monotonic() - self._began
        left = elapsed * (self._weight - self._done) / self._done if self._done else None
        about = "" if left is None else f", about {left:.0f} s left"
        return f"compiling for this processor, once per installation: {self._n} of {self._total}{about}"

    def finish(self) -> float:
        """Say that it is done; returns the seconds."""
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
    yield from sorted({module for one in methods().values() for module in one.about.loops})


def _import_module_of(name: str) -> None:
    import_module(name.rpartition(".")[0])
