"""Let every worker load its libraries and compiled loops as it starts, not in its first tasks."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from distributed import WorkerPlugin

MODULES = (
    "pipeline.stages.ingest",
    "pipeline.stages.shuffle",
    "pipeline.stages.select",
    "pipeline.stages.select_cells",
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
_OURS = ("ikmap", "pipeline")


class WarmUp(WorkerPlugin):
    """Imports what tasks need, in all workers at once, and in those that join or are restarted later.

    Small runs win most: each stage of theirs may meet a worker that has done nothing before. The imports (about half
    a second) stand in the worker's way, for two threads that import packages with circular imports at the same time
    can get to see half of a module. So does the loading of what has been compiled (as long again, most of it Numba's
    own start). Compiling is left to the tasks: with nothing cached it takes far longer.
    """

    name = "ikmap-warm-up"
    idempotent = True

    def setup(self, worker: Any) -> None:  # noqa: ARG002
        """Called by Dask when a worker starts, or when the plugin is registered."""
        for module in MODULES:
            import_module(module)
        load_compiled()
        with import_module("ikmap._threads").single_threaded_blas:
            pass  # which looks for the libraries of BLAS, once
        import_module("pipeline.allocator").keep_freed_memory()
        figures = import_module("pipeline.figures")
        figures.WORK.expose()
        figures.MODELS_READ.expose()


def load_compiled() -> int:
    """Load the compiled loops that Numba's cache on disk holds; compile nothing. Returns how many there are.

    Which loops a run needs for which types, its data and plans decide; what earlier runs needed is the best guess.
    """
    from numba.core.dispatcher import Dispatcher

    loops = {
        value
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in _OURS
        for value in list(vars(module).values())
        if isinstance(value, Dispatcher)
    }
    loaded = 0
    for loop in loops:
        # Whatever goes wrong (a damaged file in the cache, another Numba), the task that needs the loop sees to it.
        with suppress(Exception):
            for signature in _cached_signatures(loop):
                loop.compile(signature)
                loaded += 1
    return loaded


def _cached_signatures(loop: Any) -> list[Any]:
    """Types for which a loop, as it stands and on this kind of processor, is in the cache."""
    # Numba has no public way to ask.
    cache, codegen = loop._cache, loop.targetctx.codegen()
    return [key[0] for key in cache._cache_file._load_index() if key == cache._index_key(key[0], codegen)]
