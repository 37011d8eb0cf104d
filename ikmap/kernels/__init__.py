"""Exact kernels, which compare rows or cells in pairs.

Open ``base.py`` first: it says what every kernel offers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from ikmap.json_values import Json, JsonObject
from ikmap.kernels.base import KINDS, AnyKernel, Kernel
from ikmap.kernels.chi2 import AdditiveChi2Kernel
from ikmap.kernels.directions import CosineKernel, CosineRBFKernel, LinearKernel
from ikmap.kernels.isolation import IsolationKernel, isolation_kernel
from ikmap.kernels.min_max import MinMaxKernel
from ikmap.kernels.radial import GaussianKernel, LaplacianKernel
from ikmap.kernels.shared import SharedKernel

__all__ = [
    "KINDS",
    "AdditiveChi2Kernel",
    "AnyKernel",
    "CosineKernel",
    "CosineRBFKernel",
    "GaussianKernel",
    "IsolationKernel",
    "Kernel",
    "LaplacianKernel",
    "LinearKernel",
    "MinMaxKernel",
    "SharedKernel",
    "isolation_kernel",
    "kernel_as_dict",
    "kernel_from",
]


def kernel_as_dict(kernel: AnyKernel) -> JsonObject:
    """Return name and parameters of a kernel as JSON values."""
    return {"name": kernel.name, **asdict(kernel)}  # type: ignore[call-overload]


def kernel_from(values: Mapping[str, Json]) -> AnyKernel:
    """Return the kernel that :func:`kernel_as_dict` described."""
    parameters = dict(values)
    return KINDS[str(parameters.pop("name"))](**parameters)
