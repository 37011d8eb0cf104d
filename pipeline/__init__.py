"""The data plane: data sets, the Zarr store, stages over a Dask client, runs and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.runs.trained import RunModel, load_run

__all__ = ["RunModel", "load_run"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import on first use, so that the command lines, which import parts of this package, answer at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipeline.runs import trained

    return getattr(trained, name)
