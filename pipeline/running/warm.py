"""Have every worker load its libraries and compiled loops when it starts, so that its first tasks need not."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module

from distributed import Worker, WorkerPlugin

MODULES = (
    "ikmap.tasks.classification.codec",
    "ikmap.tasks.classification.scorer",
    "pipeline.sources.formats.arrow",
    "pipeline.sources.formats.csv",
    "pipeline.sources.formats.libsvm",
    "pipeline.sources.formats.npy",
    "pipeline.sources.formats.parquet",
    "pipeline.rows.prepared",
    "pipeline.stages.read",
    "pipeline.stages.split",
    "pipeline.stages.encode",
    "pipeline.stages.first_rows",
    "pipeline.stages.scale",
    "pipeline.stages.shuffle",
    "pipeline.stages.choose",
    "pipeline.stages.select",
    "pipeline.stages.select_cells",
    "pipeline.stages.select_costs",
    "pipeline.stages.select_learner",
    "pipeline.stages.select_rows",
    "pipeline.stages.select_sweeps",
    "pipeline.stages.fit_parts",
    "pipeline.stages.sweep_stored",
    "pipeline.stages.partition",
    "pipeline.stages.cells",
    "pipeline.training.train",
    "pipeline.training.runner",
    "pipeline.training.rounds",
    "pipeline.training.engine",
    "pipeline.training.counts",
    "pipeline.training.dual",
    "pipeline.training.sums",
    "pipeline.training.in_memory",
    "pipeline.training.dual_tasks",
    "pipeline.training.stream_runner",
    "pipeline.training.whole_runner",
    "pipeline.streams.learn_chunks",
    "pipeline.streams.map_chunks",
    "pipeline.streams.take_initial",
    "pipeline.stages.calibrate",
    "pipeline.stages.evaluate",
    "pipeline.stages.importance",
    "pipeline.stages.named_rows",
    "pipeline.runs.score",
    "pipeline.runs.study",
)


class WarmUp(WorkerPlugin):
    """A plug-in that imports the modules of tasks in all workers, also in those that join or are restarted later.

    Small runs win most: each of their stages may meet a worker that has done nothing before. The imports (about half a
    second) block the worker, as two threads that import packages with circular imports at the same time can see half
    of a module. The loading of compiled loops blocks it too (as long again, most of it Numba's own start). Nothing is
    compiled here: loops are compiled for all workers together (:mod:`pipeline.running.compiling`).

    Parameters
    ----------
    words : collection of str, optional
        Words of the run (:func:`pipeline.running.compiling.words_of`), whose loops are loaded. Default: all loops.
    """

    name = "ikmap-warm-up"
    idempotent = True

    def __init__(self, words: Collection[str] | None = None) -> None:
        self._words = words

    def setup(self, worker: Worker) -> None:  # noqa: ARG002
        """Load modules and loops: Dask calls it when a worker starts, or when the plug-in is registered."""
        load()
        load_compiled(self._words)
        import_module("pipeline.running.allocator").keep_freed_memory()
        process_metrics = import_module("pipeline.monitoring.process_metrics")
        process_metrics.WORK.expose()
        process_metrics.MODELS_READ.expose()


def load() -> None:
    """Import the modules of all stages, look for the libraries of BLAS, and let Numba start."""
    for module in MODULES:
        import_module(module)
    with import_module("ikmap._threads").single_threaded_blas:
        pass  # it looks for the libraries of BLAS, once
    load_compiled(at_most=1)


def load_compiled(words: Collection[str] | None = None, at_most: int | None = None) -> int:
    """Load those declared loops that the cache on disk holds; compile nothing.

    Parameters
    ----------
    words : collection of str, optional
        Words of the run, to load only its loops.
    at_most : int, optional
        Most loops: the first takes fifty times as long as another, as Numba starts with it.

    Returns
    -------
    int
        Number of loops that were loaded.
    """
    compiling = import_module("pipeline.running.compiling")
    loaded: int = compiling.load(compiling.everything() if words is None else words, at_most=at_most)
    return loaded
