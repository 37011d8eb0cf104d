"""Let every worker load its libraries and compiled loops as it starts, not in its first tasks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from distributed import WorkerPlugin

MODULES = (
    "pipeline.stages.ingest",
    "pipeline.stages.shuffle",
    "pipeline.stages.select",
    "pipeline.stages.select_cells",
    "pipeline.stages.select_costs",
    "pipeline.stages.select_entrants",
    "pipeline.stages.select_rows",
    "pipeline.stages.partition",
    "pipeline.stages.cells",
    "pipeline.stages.train",
    "pipeline.stages.train_batch",
    "pipeline.stages.train_distributed",
    "pipeline.stages.train_online",
    "pipeline.stages.train_rows",
    "pipeline.stages.stream",
    "pipeline.stages.take_initial",
    "pipeline.stages.evaluate",
    "pipeline.score",
)


class WarmUp(WorkerPlugin):
    """Imports what tasks need, in all workers at once, and in those that join or are restarted later.

    Small runs win most: each stage of theirs may meet a worker that has done nothing before. The imports (about half
    a second) stand in the worker's way, for two threads that import packages with circular imports at the same time
    can get to see half of a module. So does the loading of what has been compiled (as long again, most of it Numba's
    own start). Nothing is compiled here: that is done for all workers together (:mod:`pipeline.compiling`).
    """

    name = "ikmap-warm-up"
    idempotent = True

    def setup(self, worker: Any) -> None:  # noqa: ARG002
        """Called by Dask when a worker starts, or when the plugin is registered."""
        load()
        import_module("pipeline.allocator").keep_freed_memory()
        figures = import_module("pipeline.figures")
        figures.WORK.expose()
        figures.MODELS_READ.expose()


def load() -> None:
    """Import the modules of all stages, load what is compiled of them, and look for the libraries of BLAS."""
    for module in MODULES:
        import_module(module)
    load_compiled()
    with import_module("ikmap._threads").single_threaded_blas:
        pass  # which looks for the libraries of BLAS, once


def load_compiled() -> int:
    """Load the compiled loops that the cache on disk holds, of those declared; compile nothing. Returns how many."""
    compiling = import_module("pipeline.compiling")
    loaded: int = compiling.load(compiling.everything())
    return loaded
