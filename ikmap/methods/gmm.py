"""The tunable min-max (GMM) kernels, under their names in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from annotated_types import Gt

from ikmap.methods.about import KernelAbout
from ikmap.methods.fields import Advice, Doc, FieldError, Searched, Symbol, fields_of
from ikmap.methods.kernel import KernelMethod
from ikmap.methods.method import Candidates, SearchSpace
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from ikmap.kernels import CosineRBFKernel, MinMaxKernel

VALUES = {
    "p": (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0, 20.0, 50.0, 80.0),
    "gamma": (0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 15.0, 30.0, 60.0),
    "le": (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 300.0, 1000.0),
}
"""Values that cross-validation tries of a single parameter: some of those that the paper prints."""
FEW = {"p": (0.1, 0.5, 1.0, 5.0, 50.0), "gamma": (0.5, 1.0, 2.0, 5.0, 15.0), "le": (0.1, 1.0, 5.0, 20.0, 100.0)}
"""Values that it tries of several parameters together. The defaults of the fields are the middle values."""
MOST_P = 1000.0
"""Largest p; powers of values may overflow beyond it (:data:`ikmap.kernels.min_max.MOST_P`)."""
SOURCE = "Li, Several tunable GMM kernels, section 1.1"

type P = Annotated[
    float,
    Gt(0),
    Doc("power to which values are raised; auto chooses it by cross-validation"),
    Searched(by_default=True),
    Symbol("p", "power of the values", "A large p lets the largest values of a row count only."),
    Advice("give auto to have it chosen"),
]
type Gamma = Annotated[
    float,
    Gt(0),
    Doc("power to which the ratio of minima to maxima is raised; auto chooses it by cross-validation"),
    Searched(by_default=True),
    Symbol("γ", "power of the ratio", "A large γ lets only rows count that are much alike."),
    Advice("give auto to have it chosen"),
]
type Le = Annotated[
    float,
    Gt(0),
    Doc("factor lambda_e of the exponential; auto chooses it by cross-validation"),
    Searched(by_default=True),
    Symbol("λe", "factor of the exponential", "A large λe lets only rows count that are much alike."),
    Advice("give auto to have it chosen"),
]


class Tunable(KernelMethod):
    """Base of the kernels of the paper: each field is a parameter of the kernel, chosen or given."""

    @classmethod
    def of_record(cls, record: Mapping[str, object]) -> tuple[Self, frozenset[str]]:
        """Return the kernel of a record; a searched field has the middle of its candidates until it is chosen."""
        kernel, searched = super().of_record(record)
        space = kernel.search_space(searched, 1)
        middles = {name: candidates.values[len(candidates.values) // 2] for name, candidates in space.items()}
        return kernel.at(middles), searched

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        tried = VALUES if len(searched) == 1 else FEW
        return {name: Candidates(tried[name]) for name in fields_of(type(self)) if name in searched}


class MinMax(Tunable):
    """Base of the min-max kernels, whose fields have the names of the parameters of the arithmetic."""

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        p = getattr(self, "p", 1.0)
        if "p" not in searched and p > MOST_P:
            raise FieldError(
                "p",
                "a p by which powers of values overflow",
                f"at most {MOST_P:g}",
                value=p,
                instead="give {p} 80 to have only the largest values count, or auto to have it chosen",
            )

    def kernel(self, n_columns: int) -> MinMaxKernel:
        from ikmap.kernels import MinMaxKernel

        return MinMaxKernel(**{name: float(getattr(self, name)) for name in fields_of(type(self))})


class GMM(MinMax):
    """The min-max kernel for rows of either sign."""

    about: ClassVar[KernelAbout] = KernelAbout(name="gmm", title="GMM kernel", source=SOURCE)


class EGMM(MinMax):
    """An exponential of the min-max kernel."""

    about: ClassVar[KernelAbout] = KernelAbout(name="egmm", title="eGMM kernel", source=SOURCE)
    shares: ClassVar[tuple[str, ...] | None] = ()
    le: Le = 10.0


class PGMM(MinMax):
    """The min-max kernel of powers of the values. No work is shared: each p takes a pass of its own."""

    about: ClassVar[KernelAbout] = KernelAbout(name="pgmm", title="pGMM kernel", source=SOURCE)
    p: P = 1.5


class GammaGMM(MinMax):
    """A power of the min-max kernel."""

    about: ClassVar[KernelAbout] = KernelAbout(name="gamma-gmm", title="γGMM kernel", source=SOURCE)
    shares: ClassVar[tuple[str, ...] | None] = ()
    gamma: Gamma = 2.0


class PGammaGMM(MinMax):
    """A power of the min-max kernel of powers of the values."""

    about: ClassVar[KernelAbout] = KernelAbout(name="p-gamma-gmm", title="pγGMM kernel", source=SOURCE)
    shares: ClassVar[tuple[str, ...] | None] = ("p",)
    gamma: Gamma = 2.0
    p: P = 1.0


class EpGMM(MinMax):
    """An exponential of the min-max kernel of powers of the values."""

    about: ClassVar[KernelAbout] = KernelAbout(name="ep-gmm", title="epGMM kernel", source=SOURCE)
    shares: ClassVar[tuple[str, ...] | None] = ("p",)
    le: Le = 5.0
    p: P = 1.0


class EGammaGMM(MinMax):
    """An exponential of a power of the min-max kernel."""

    about: ClassVar[KernelAbout] = KernelAbout(name="e-gamma-gmm", title="eγGMM kernel", source=SOURCE)
    shares: ClassVar[tuple[str, ...] | None] = ()
    le: Le = 5.0
    gamma: Gamma = 2.0


class EpGammaGMM(MinMax):
    """An exponential of a power of the min-max kernel of powers of the values."""

    about: ClassVar[KernelAbout] = KernelAbout(name="ep-gamma-gmm", title="epγGMM kernel", source=SOURCE)
    shares: ClassVar[tuple[str, ...] | None] = ("p",)
    le: Le = 5.0
    gamma: Gamma = 2.0
    p: P = 1.0


class CosineRBF(Tunable):
    """The radial kernel of the directions of rows."""

    about: ClassVar[KernelAbout] = KernelAbout(name="cosine-rbf", title="radial kernel of directions", source=SOURCE)
    shares: ClassVar[tuple[str, ...] | None] = ()
    le: Le = 10.0

    def kernel(self, n_columns: int) -> CosineRBFKernel:
        from ikmap.kernels import CosineRBFKernel

        return CosineRBFKernel(self.le)


GMM_KERNELS = (GMM, EGMM, PGMM, GammaGMM, PGammaGMM, EpGMM, EGammaGMM, EpGammaGMM)
