"""The additive chi-square kernel: an SVM with it, and a linear one on its map (Vedaldi and Zisserman)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Le

from ikmap.methods.about import LearnerAbout
from ikmap.methods.additive_chi2 import AdditiveChi2
from ikmap.methods.fields import Doc
from ikmap.methods.kernel import NonNegativeRows
from ikmap.methods.kernel_svm import METRICS_SCHEMA, MODELS, ExactKernelSVM
from ikmap.methods.mapped import LinearOnMap
from ikmap.methods.sample import Shape, Training

if TYPE_CHECKING:
    from ikmap.kernels import Kernel
    from ikmap.maps import Chi2Map


class Chi2SVM(NonNegativeRows, ExactKernelSVM):
    """SVM with the additive chi-square kernel."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="chi2-svm",
        title="SVM with the additive chi-square kernel",
        on="rows",
        models=MODELS,
        metrics_schema=METRICS_SCHEMA,
    )

    def kernel_for(self, training: Training) -> Kernel:
        return AdditiveChi2().kernel(training.rows.shape[1])


class Chi2Linear(NonNegativeRows, LinearOnMap):
    """Linear SVM on the chi-square map."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="chi2-linear",
        title="linear SVM on the chi-square map",
        on="rows",
        models=("ikmap.learners.mapped_model", "ikmap.maps.chi2"),
    )
    chi2_order: Annotated[int, Ge(0), Le(2), Doc("order of chi2-linear's map; the paper has 0")] = 0

    def feature_map(self, training: Training) -> Chi2Map:
        from ikmap.maps import Chi2Map

        return Chi2Map(self.chi2_order)

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        return 3 * shape.rows_bytes * (2 * self.chi2_order + 1)
