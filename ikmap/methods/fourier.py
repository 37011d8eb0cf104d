"""Random Fourier features (Rahimi and Recht) with a linear SVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge

from ikmap.capability import capability
from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc, FieldError
from ikmap.methods.kernel import HasFourier
from ikmap.methods.kernel_on_rows import OnKernel
from ikmap.methods.mapped import LinearOnMap
from ikmap.methods.sample import Shape, Training

if TYPE_CHECKING:
    from ikmap.maps import FourierMap

type Frequencies = Annotated[int, Ge(1), Doc("random frequencies of fourier-linear and of each kernel of adaraker")]


class FourierLinear(OnKernel, LinearOnMap):
    """Linear SVM on random Fourier features of a kernel."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="fourier-linear",
        title="linear SVM on random Fourier features",
        on="rows",
        models=("ikmap.learners.mapped_model", "ikmap.maps.fourier"),
    )
    features: Frequencies = 50

    def check(self, searched: frozenset[str]) -> None:
        from ikmap.methods.registry import KERNELS

        super().check(searched)
        if capability(self.kernel, HasFourier) is None:
            able = [name for name, kind in KERNELS.items() if issubclass(kind, HasFourier)]
            raise FieldError(
                "kernel",
                "{learner} fourier-linear, and no random Fourier features of it",
                able[0] if len(able) == 1 else f"one of {', '.join(able)}",
                value=self.kernel.about.name,
            )

    def feature_map(self, training: Training) -> FourierMap:
        kernel = capability(self.kernel, HasFourier)
        assert kernel is not None
        return kernel.fourier(self.features, training.rows.shape[1], training.seed)

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        return shape.rows_bytes + 8 * (3 * 2 * self.features * shape.n + 3 * self.features * shape.d)
