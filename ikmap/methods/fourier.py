"""Random Fourier features (Rahimi and Recht) with a linear SVM."""

from __future__ import annotations

from typing import Any, ClassVar

from ikmap.methods.kernel import KERNELS
from ikmap.methods.kernel_on_rows import KernelOptions, OnKernel, kernel_of, kernel_on_rows
from ikmap.methods.kinds import Integer
from ikmap.methods.learners import BatchOptions
from ikmap.methods.linear_on_cells import LossOptions
from ikmap.methods.mapped import LinearOnMap
from ikmap.methods.options import BASELINES, MethodOptions, OptionError, one_of, option
from ikmap.methods.sample import Shape, Training


class FeaturesOptions(MethodOptions):
    """Of methods with random frequencies."""

    features: int = option(
        50, Integer(1), group=BASELINES, help="random frequencies of fourier-linear and of each kernel of adaraker"
    )


class FourierOptions(FeaturesOptions, KernelOptions, LossOptions, BatchOptions):
    """Of the linear SVM on random Fourier features."""

    def check_together(self) -> None:
        super().check_together()
        if not kernel_of(self).has_fourier:
            able = [one.name for one in KERNELS.values() if one.has_fourier]
            found = "found --learner fourier-linear, and no random Fourier features of it"
            raise OptionError(f"--kernel {self.kernel}: {found}; expected {one_of(able)}")


class _Fourier(OnKernel, LinearOnMap):
    Options: ClassVar[type[MethodOptions]] = FourierOptions

    def map(self, options: Any, training: Training) -> Any:
        n_columns = training.rows.shape[1]
        kernel = kernel_on_rows(options, training.value, n_columns)
        return kernel_of(options).fourier(kernel, options.features, n_columns, training.seed)

    def needed_bytes(self, options: Any, shape: Shape, rows: int | None = None) -> int:
        return shape.rows_bytes + 8 * (3 * 2 * options.features * shape.n + 3 * options.features * shape.d)


FOURIER_LINEAR = _Fourier(name="fourier-linear", title="linear SVM on random Fourier features")
