"""Exact kernels, which compare rows or cells in pairs: the isolation kernel and those that it is compared with.

Open ``base.py`` first: it says what every kernel offers.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ikmap.kernels.base import KINDS, Kernel
from ikmap.kernels.chi2 import AdditiveChi2Kernel
from ikmap.kernels.directions import CosineKernel, CosineRBFKernel, LinearKernel
from ikmap.kernels.isolation import IsolationKernel, isolation_kernel
from ikmap.kernels.min_max import MinMaxKernel
from ikmap.kernels.radial import GaussianKernel, LaplacianKernel
from ikmap.kernels.shared import SharedKernel

__all__ = [
    "KINDS",
    "AdditiveChi2Kernel",
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


def kernel_as_dict(kernel: Kernel) -> dict[str, Any]:
    """Name and parameters of a kernel, as JSON values."""
    return {"name": kernel.name, **asdict(kernel)}  # type: ignore[call-overload]


def kernel_from(values: dict[str, Any]) -> Kernel:
    """Return the kernel that :func:`kernel_as_dict` described."""
    parameters = dict(values)
    kernel: Kernel = KINDS[parameters.pop("name")](**parameters)
    return kernel
