"""The data pipeline: it reads files, fills a Zarr store, trains and evaluates on Dask workers, and writes reports.

Each folder is a room that imports only the rooms before it; ``docs/architecture.md`` shows them in order. Open
``runs/batch.py`` first: it calls the stages of a batch run one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.runs.trained import RunModel, load_predictions, load_run

__all__ = ["RunModel", "load_predictions", "load_run"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import on first use, so that the command lines, which import parts of this package, answer at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipeline.runs import trained

    return getattr(trained, name)
