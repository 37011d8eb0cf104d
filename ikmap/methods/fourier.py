"""Random Fourier features (Rahimi and Recht) with a linear SVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge

from ikmap.capability import capability
from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc, FieldError
from ikmap.methods.kernel import HasFourier, HasOrthogonalFourier
from ikmap.methods.kernel_on_rows import OnKernel
from ikmap.methods.mapped import LinearOnMap
from ikmap.methods.sample import Shape, Training

if TYPE_CHECKING:
    from ikmap.maps import FourierMap

type Frequencies = Annotated[int, Ge(1), Doc("random frequencies")]
MODELS = ("ikmap.learners.mapped_model", "ikmap.maps.fourier")


class OnFourier(OnKernel):
    """Base of learners on random Fourier features of a kernel.

    Attributes
    ----------
    features : int
        Number of frequencies; each gives a sine and a cosine.
    orthogonal : bool
        True to draw frequencies orthogonal to each other.
    """

    features: Frequencies = 50
    orthogonal: Annotated[
        bool,
        Doc(
            "draw the frequencies of the Gaussian kernel at right angles to each other, as many at a time as there are "
            "columns: products are nearer to the kernel"
        ),
    ] = False

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        name = self.kernel.about.name
        if capability(self.kernel, HasFourier) is None:
            found = f"{{learner}} {self.about.name}, and no random Fourier features of it"
            raise FieldError("kernel", found, f"one of {', '.join(_kernels_with(HasFourier))}", value=name)
        if self.orthogonal and capability(self.kernel, HasOrthogonalFourier) is None:
            expected = " or ".join(f"{{kernel}} {able}" for able in _kernels_with(HasOrthogonalFourier))
            raise FieldError("orthogonal", f"{{kernel}} {name}, and no orthogonal features of its kernel", expected)

    def fourier_map(self, n_columns: int, seed: int) -> FourierMap:
        """Return the map of rows to features."""
        if self.orthogonal:
            orthogonal = capability(self.kernel, HasOrthogonalFourier)
            assert orthogonal is not None
            return orthogonal.orthogonal_fourier(self.features, n_columns, seed)
        kernel = capability(self.kernel, HasFourier)
        assert kernel is not None
        return kernel.fourier(self.features, n_columns, seed)


def _kernels_with(kind: type[HasFourier]) -> list[str]:
    """Return the names of the registered kernels with a capability."""
    from ikmap.methods.registry import KERNELS

    return [name for name, kernel in KERNELS.items() if issubclass(kernel, kind)]


class FourierLinear(OnFourier, LinearOnMap):
    """Linear SVM on random Fourier features of a kernel."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="fourier-linear", title="linear SVM on random Fourier features", on="rows", models=MODELS
    )

    def feature_map(self, training: Training) -> FourierMap:
        return self.fourier_map(training.rows.shape[1], training.seed)

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        return shape.rows_bytes + 8 * (3 * 2 * self.features * shape.n + 3 * self.features * shape.d)
