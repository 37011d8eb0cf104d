"""Let every worker load its libraries as it starts, not in its first tasks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from distributed import WorkerPlugin

MODULES = (
    "pipeline.stages.ingest",
    "pipeline.stages.select",
    "pipeline.stages.partition",
    "pipeline.stages.cells",
    "pipeline.stages.train",
    "pipeline.stages.train_batch",
    "pipeline.stages.train_distributed",
    "pipeline.stages.train_ogd",
    "pipeline.stages.evaluate",
    "pipeline.score",
)


class WarmUp(WorkerPlugin):
    """Imports what tasks need, in all workers at once, and in those that join or are restarted later.

    Small runs win most: each stage of theirs may meet a worker that has done nothing before. The imports (about half
    a second) stand in the worker's way, for two threads that import packages with circular imports at the same time
    can get to see half of a module. Compiling is left to the tasks: with nothing cached it takes far longer.
    """

    name = "ikmap-warm-up"
    idempotent = True

    def setup(self, worker: Any) -> None:  # noqa: ARG002
        """Called by Dask when a worker starts, or when the plugin is registered."""
        for module in MODULES:
            import_module(module)
