"""The additive chi-square kernel: an SVM with it, and a linear one on its map (Vedaldi and Zisserman)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.additive_chi2 import ADDITIVE_CHI2
from ikmap.methods.kernel_svm import KernelSVM
from ikmap.methods.kinds import Integer
from ikmap.methods.learners import BatchOptions
from ikmap.methods.linear_on_cells import LossOptions
from ikmap.methods.mapped import LinearOnMap
from ikmap.methods.options import BASELINES, MethodOptions, option
from ikmap.methods.sample import Shape, Training

if TYPE_CHECKING:
    from ikmap.kernels import Kernel


class _Chi2SVM(KernelSVM):
    def kernel(self, options: Any, training: Training) -> Kernel:
        return ADDITIVE_CHI2.kernel(options, {}, training.rows.shape[1])

    def refused(self, rows: Any) -> tuple[int, int, float, str] | None:
        return ADDITIVE_CHI2.refused(rows)


class Chi2Options(LossOptions, BatchOptions):
    """Of the linear SVM on the chi-square map."""

    chi2_order: int = option(0, Integer(0, 2), group=BASELINES, help="order of chi2-linear's map; the paper has 0")


class _Chi2Linear(LinearOnMap):
    Options: ClassVar[type[MethodOptions]] = Chi2Options
    models = ("ikmap.learners.mapped_model", "ikmap.maps.chi2")

    def map(self, options: Any, training: Training) -> Any:
        from ikmap.maps import Chi2Map

        return Chi2Map(options.chi2_order)

    def needed_bytes(self, options: Any, shape: Shape, rows: int | None = None) -> int:
        return 3 * shape.rows_bytes * (2 * options.chi2_order + 1)

    def refused(self, rows: Any) -> tuple[int, int, float, str] | None:
        return ADDITIVE_CHI2.refused(rows)


CHI2_SVM = _Chi2SVM(name="chi2-svm", title="SVM with the additive chi-square kernel", on="rows")
CHI2_LINEAR = _Chi2Linear(name="chi2-linear", title="linear SVM on the chi-square map", on="rows")
