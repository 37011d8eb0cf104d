"""Random Fourier features (Rahimi and Recht) with a linear SVM."""

from __future__ import annotations

from typing import Any, ClassVar

from ikmap.methods.kernel_on_rows import KernelOptions, OnKernel, kernel_on_rows
from ikmap.methods.kinds import Integer
from ikmap.methods.learner import BatchOptions, Shape, Training
from ikmap.methods.linear_on_cells import LossOptions
from ikmap.methods.mapped import LinearOnMap
from ikmap.methods.options import BASELINES, MethodOptions, option


class FeaturesOptions(MethodOptions):
    """Of methods with random frequencies."""

    features: int = option(
        50, Integer(1), group=BASELINES, help="random frequencies of fourier-linear and of each kernel of adaraker"
    )


class FourierOptions(FeaturesOptions, KernelOptions, LossOptions, BatchOptions):
    """Of the linear SVM on random Fourier features."""


class _Fourier(OnKernel, LinearOnMap):
    Options: ClassVar[type[MethodOptions]] = FourierOptions

    def map(self, options: Any, training: Training) -> Any:
        from ikmap.kernels import GaussianKernel
        from ikmap.maps import FourierMap

        n_columns = training.rows.shape[1]
        kernel: Any = kernel_on_rows(options, training.value, n_columns)
        make = FourierMap.gaussian if isinstance(kernel, GaussianKernel) else FourierMap.laplacian
        return make(options.features, n_columns, kernel.gamma, training.seed)

    def needed_bytes(self, options: Any, shape: Shape, rows: int | None = None) -> int:
        return shape.rows_bytes + 8 * (3 * 2 * options.features * shape.n + 3 * options.features * shape.d)


FOURIER_LINEAR = _Fourier(name="fourier-linear", title="linear SVM on random Fourier features")
