"""Linear support vector regression on cells, by dual descent."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc, Searched
from ikmap.methods.learner import C_SYMBOL, DualLearner, DualProblem


class LinearSVR(DualLearner):
    """Linear support vector regression on cells, by dual coordinate descent."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="svr", title="support vector regression on cells", tasks=frozenset({"regression"})
    )
    C: Annotated[
        float,
        Gt(0),
        Doc(
            "weight of the losses, for features scaled so that K(x, x) = 1 and targets of standard deviation 1; auto "
            "chooses it by cross-validation, with psi (default: auto with {psi} auto, else 1)"
        ),
        Searched(with_map=True),
        C_SYMBOL,
    ] = 1.0
    epsilon: Annotated[
        float, Ge(0), Doc("errors of svr up to so many standard deviations of the target cost nothing")
    ] = 0.1
    svr_loss: Annotated[
        Literal["squared_epsilon_insensitive", "epsilon_insensitive"],
        Doc("loss of svr: whether errors beyond epsilon cost their square, or their size"),
    ] = "squared_epsilon_insensitive"

    @property
    def problem(self) -> DualProblem:
        return DualProblem(self.svr_loss, self.C, self.tol, epsilon=self.epsilon)
