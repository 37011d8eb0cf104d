"""Linear support vector regression on cells, by dual descent."""

from __future__ import annotations

from typing import Any, ClassVar

from ikmap.methods.kinds import Choice, Real
from ikmap.methods.learners import BatchOptions, DualLearner
from ikmap.methods.options import MethodOptions, OptionError, option


class SVROptions(MethodOptions):
    """Of support vector regression. There is no distributed solver of it: the rows of one are visited by one worker."""

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
    solver: str = option(
        "auto",
        Choice(("auto", "memory", "block", "distributed")),
        help="how svr is solved: all rows in memory, or block by block from a file; auto goes by size",
    )

    def check_together(self) -> None:
        super().check_together()
        if self.solver == "distributed":
            raise OptionError("--solver distributed: found --learner svr, which is not solved in parts; give block")


class _SVR(DualLearner):
    usual_map: ClassVar[str] = "iforest"
    Options: ClassVar[type[MethodOptions]] = SVROptions

    def resolved(self, options: Any, *, searching: bool) -> Any:
        return options if options.C is not None else options.replace(C="auto" if searching else 1.0)

    def asked(self, options: Any) -> dict[str, Any]:
        return {"loss": options.svr_loss, "C": float(options.C), "tol": options.tol, "epsilon": options.epsilon}


SVR = _SVR(name="svr", title="support vector regression on cells", on="cells", tasks=frozenset({"regression"}))
