"""The base of learners that weigh squared errors against the squared norm of a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from annotated_types import Gt

from ikmap.methods.fields import Doc
from ikmap.methods.learner import C_SYMBOL, Learner

if TYPE_CHECKING:
    from ikmap.json_values import Json

ALPHA_SCHEMA: Mapping[str, Mapping[str, Json]] = {
    "alpha": {
        "description": "Weight of the squared norm of the weights, as of scikit-learn's Ridge: 1 / (2 C).",
        "type": "number",
        "exclusiveMinimum": 0,
    }
}
"""JSON Schema of the field that all of them report."""
type SquaredC = Annotated[
    float,
    Gt(0),
    Doc(
        "weight of the squared errors, for features scaled so that K(x, x) = 1: 1 / (2 alpha), where Ridge of "
        "scikit-learn has alpha (default: 0.5)"
    ),
    C_SYMBOL,
]


class SquaredErrors(Learner):
    """Base of learners that weigh squared errors against the squared norm of a function.

    Attributes
    ----------
    C : float
    """

    C: SquaredC = 0.5

    @property
    def alpha(self) -> float:
        """Weight of the squared norm."""
        return 1 / (2 * self.C)
