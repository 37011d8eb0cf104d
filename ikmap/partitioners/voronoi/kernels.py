"""Sources of the kernels for Voronoi partitions, in CUDA C."""

from __future__ import annotations

from importlib.resources import files


def source(name: str) -> str:
    """Return the source of a kernel, after what all kernels of this folder share."""
    folder = files(__package__)
    return "".join((folder / file).read_text(encoding="utf-8") for file in ("exact.cu", name))
