"""Linear support vector regression on cells, by dual descent."""

from __future__ import annotations

from typing import Any, ClassVar

from ikmap.methods.kinds import Choice, Real
from ikmap.methods.learners import BatchOptions, DualLearner, SolverOptions
from ikmap.methods.options import MethodOptions, option


class SVROptions(SolverOptions):
    """Of support vector regression."""

    C: float | str | None = option(
        None,
        Real(0, words=("auto",)),
        help="weight of the losses, for features scaled so that K(x, x) = 1 and targets of standard deviation 1; auto "
        "chooses it by cross-validation, with psi (default: auto with --psi auto, else 1)",
        setting=BatchOptions.specs()["C"].setting,
    )
    tol: float = option(1e-3, Real(0), help=BatchOptions.specs()["tol"].help)
    epsilon: float = option(
        0.1,
        Real(0),
        help="errors of svr up to so many standard deviations of the target cost nothing",
    )
    svr_loss: str = option(
        "squared_epsilon_insensitive",
        Choice(("squared_epsilon_insensitive", "epsilon_insensitive")),
        help="loss of svr: whether errors beyond epsilon cost their square, or their size",
    )


class _SVR(DualLearner):
    Options: ClassVar[type[MethodOptions]] = SVROptions

    def resolved(self, options: Any, *, searching: bool) -> Any:
        return options if options.C is not None else options.replace(C="auto" if searching else 1.0)

    def asked(self, options: Any) -> dict[str, Any]:
        return {"loss": options.svr_loss, "C": float(options.C), "tol": options.tol, "epsilon": options.epsilon}


SVR = _SVR(name="svr", title="support vector regression on cells", on="cells", tasks=frozenset({"regression"}))
