"""The tunable min-max (GMM) kernels, each under the name that their paper gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kernel import Chosen, KernelMethod
from ikmap.methods.kinds import Real
from ikmap.methods.options import BASELINES, MethodOptions, Setting, option
from ikmap.methods.search import Search

if TYPE_CHECKING:
    from ikmap.kernels import Kernel

VALUES = {
    "p": (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0, 20.0, 50.0, 80.0),
    "gamma": (0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 15.0, 30.0, 60.0),
    "le": (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 300.0, 1000.0),
}
"""What cross-validation tries of one parameter: some of the values that the paper prints."""
FEW = {"p": (0.1, 0.5, 1.0, 5.0, 50.0), "gamma": (0.5, 1.0, 2.0, 5.0, 15.0), "le": (0.1, 1.0, 5.0, 20.0, 100.0)}
"""What it tries of several that are chosen together."""
SOURCE = "Li, Several tunable GMM kernels, section 1.1"
AUTO = Real(0, words=("auto",), instead="give auto to have it chosen")


class _OfP(MethodOptions):
    p: float | str = option(
        "auto",
        AUTO,
        group=BASELINES,
        help="power to which values are raised; auto chooses it by cross-validation",
        setting=Setting("p", "power of the values", "A large p lets the largest values of a row count only."),
    )


class _OfGamma(MethodOptions):
    gamma: float | str = option(
        "auto",
        AUTO,
        group=BASELINES,
        help="power to which the ratio of minima to maxima is raised; auto chooses it by cross-validation",
        setting=Setting("γ", "power of the ratio", "A large γ lets only rows count that are much alike."),
    )


class _OfLe(MethodOptions):
    le: float | str = option(
        "auto",
        AUTO,
        group=BASELINES,
        help="factor lambda_e of the exponential; auto chooses it by cross-validation",
        setting=Setting("λe", "factor of the exponential", "A large λe lets only rows count that are much alike."),
    )


class _Tunable(KernelMethod):
    """Base: each of its options is a parameter, chosen or given."""

    def searches(self, options: Any, n_rows: int) -> tuple[Search, ...]:
        asked = [name for name in self.Options.specs() if getattr(options, name) == "auto"]
        return tuple(Search(name, name, (VALUES if len(asked) == 1 else FEW)[name]) for name in asked)

    def given(self, options: Any) -> Chosen:
        return {name: value for name, value in vars(options).items() if value != "auto"}


class _MinMax(_Tunable):
    def kernel(self, options: Any, chosen: Chosen, n_columns: int) -> Kernel:
        from ikmap.kernels import MinMaxKernel

        return MinMaxKernel(**{name: float(value) for name, value in chosen.items()})


class _Cosine(_Tunable):
    Options: ClassVar[type[MethodOptions]] = _OfLe

    def kernel(self, options: Any, chosen: Chosen, n_columns: int) -> Kernel:
        from ikmap.kernels import CosineRBFKernel

        return CosineRBFKernel(float(chosen["le"]))


def _min_max(name: str, title: str, *options: type[MethodOptions]) -> _MinMax:
    """A kernel with these options."""
    of = type("Options", options or (MethodOptions,), {"__doc__": f"Of the {title}."})
    kind: type[_MinMax] = type("_Kernel", (_MinMax,), {"Options": of})
    names = of.specs()  # type: ignore[attr-defined]
    # Of p alone there is nothing to share: each of its values has a pass of its own.
    shares = tuple(name for name in names if name == "p") if set(names) - {"p"} else None
    return kind(name=name, title=title, source=SOURCE, shares=shares)


GMM_KERNELS = (
    _min_max("gmm", "GMM kernel"),
    _min_max("egmm", "eGMM kernel", _OfLe),
    _min_max("pgmm", "pGMM kernel", _OfP),
    _min_max("gamma-gmm", "γGMM kernel", _OfGamma),
    _min_max("p-gamma-gmm", "pγGMM kernel", _OfP, _OfGamma),
    _min_max("ep-gmm", "epGMM kernel", _OfP, _OfLe),
    _min_max("e-gamma-gmm", "eγGMM kernel", _OfGamma, _OfLe),
    _min_max("ep-gamma-gmm", "epγGMM kernel", _OfP, _OfGamma, _OfLe),
)
COSINE_RBF = _Cosine(name="cosine-rbf", title="radial kernel of directions", source=SOURCE, shares=())
