"""Random Fourier features (Rahimi and Recht) with a linear SVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ikmap.methods.learner import Shape, kernel_on_rows
from ikmap.methods.mapped import LinearOnMap


@dataclass(frozen=True, kw_only=True)
class _Fourier(LinearOnMap):
    models = ("ikmap.learners.mapped_model", "ikmap.maps.fourier")

    def map(self, options: Any, value: float | None, n_columns: int) -> Any:
        from ikmap.kernels import GaussianKernel
        from ikmap.maps import FourierMap

        kernel: Any = kernel_on_rows(options, value, n_columns)
        make = FourierMap.gaussian if isinstance(kernel, GaussianKernel) else FourierMap.laplacian
        return make(options.features, n_columns, kernel.gamma, options.seed)

    def needed_bytes(self, options: Any, shape: Shape, rows: int | None = None) -> int:
        return shape.rows_bytes + 8 * (3 * 2 * options.features * shape.n + 3 * options.features * shape.d)


FOURIER_LINEAR = _Fourier(
    name="fourier-linear",
    title="linear SVM on random Fourier features",
    on="rows",
    own="kernel gamma loss features",
)
