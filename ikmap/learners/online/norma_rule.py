"""The objective and the steps of NORMA: loss, regularisation and step sizes, in one record for all its forms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ikmap.arrays import Floats
from ikmap.step_size import StepTooLarge

if TYPE_CHECKING:
    pass

HINGE, NU, PERCEPTRON, SQUARED, EPSILON, HUBER, TRIMMED, LOGISTIC, INSENSITIVE = range(9)
"""Losses by number, in compiled loops. Novelty detection is NU with the target 1 for all rows."""
SMALLEST_SIGMA = 1e-6
LATE = 8
"""The power of a row's number that says what the function before it counts in a mean of late functions
(polynomial-decay averaging: Shamir and Zhang, ICML 2013). Of 0, 3, 8 and 30 it was never more than 3 % from the best in
progressive error with steps of 0.5, on cpu_act, california and electricity in random order."""
CODES: dict[str, int] = {
    "hinge": HINGE,
    "nu": NU,
    "perceptron": PERCEPTRON,
    "logistic": LOGISTIC,
    "novelty": NU,
    "squared": SQUARED,
    "epsilon": EPSILON,
    "insensitive": INSENSITIVE,
    "huber": HUBER,
    "trimmed": TRIMMED,
}
OF_CLASSES = ("hinge", "nu", "perceptron", "logistic")
OF_NUMBERS = ("squared", "epsilon", "insensitive", "huber", "trimmed")
LEARNS_THRESHOLD = ("nu", "novelty", "epsilon", "trimmed")
"""Losses with nu: the share of rows beyond a threshold that is learned."""


@dataclass(frozen=True, kw_only=True)
class NormaRule:
    """Loss, regularisation and step sizes (algorithms.md 11.1 to 11.4, 11.7).

    Parameters
    ----------
    loss : str
        Of classes: "hinge" (soft margin), "nu" (the margin is learned), "perceptron", "logistic"; "novelty"; of
        numbers: "squared", "epsilon" (epsilon-insensitive, epsilon is learned), "insensitive" (the same, epsilon is
        fixed), "huber", "trimmed" (Huber's loss, sigma is learned).
    nu : float
        Share of rows beyond the threshold, in [0, 1], for losses that learn one. With 0 a threshold only moves one way:
        a margin falls, epsilon and sigma rise, until no row lies beyond.
    eta : float
        Step size, > 0.
    decreasing : bool
        Steps are ``eta / sqrt(round)``, rounds from 1; else all are eta.
    regularization : float
        lambda >= 0: weights shrink by ``1 - eta lambda`` in each round.
    offset : bool
        Predictions have an offset, which is learned and does not shrink.
    threshold : float
        rho of "hinge", epsilon of "insensitive", sigma of "huber"; of losses that learn it, what it is before the first
        row.
    clip_rho : bool
        A learned rho stays at 0 or above. The share of rows beyond it then does not come near nu.
    average : bool
        Decisions are those of the mean of the functions, and thresholds, before each row so far; without it, those
        after the last row.
    late : bool
        In that mean the function before row i counts i^8: half of it is of the last 7 % of the rows, so that what was
        learned from few rows soon counts nothing.

    Raises
    ------
    ValueError
        A value is out of its range, or steps are so large that errors would grow.
    """

    loss: str
    nu: float = 0.1
    eta: float = 1.0
    decreasing: bool = True
    regularization: float = 1.0
    offset: bool = False
    threshold: float = 0.0
    clip_rho: bool = False
    average: bool = False
    late: bool = False

    def __post_init__(self) -> None:
        if self.loss not in CODES:
            raise ValueError(f"loss: found {self.loss!r}, expected one of {', '.join(CODES)}")
        if not 0 <= self.nu <= 1:
            raise ValueError(f"nu: found {self.nu:g}, expected a number from 0 to 1, the share of rows beyond rho")
        if self.code == NU and self.nu == 0 and self.threshold == 0:
            instead = "a number > 0" if self.loss == "novelty" else "a number > 0, or a threshold > 0"
            raise ValueError(
                f"nu: found 0 and rho 0 at first: nothing is ever below rho, and nothing is learned; expected {instead}"
            )
        if not 0 < self.eta < math.inf:
            raise ValueError(f"eta: found {self.eta:g}, expected a finite number > 0")
        if not 0 <= self.regularization < math.inf:
            raise ValueError(f"regularization: found {self.regularization:g}, expected a finite number >= 0")
        if self.eta * self.regularization > 1:
            raise ValueError(
                f"eta: found {self.eta:g} with regularization {self.regularization:g}, expected a product of at most "
                f"1, as eta {1 / self.regularization:g}: larger steps turn weights around instead of shrinking them"
            )
        if not 0 <= self.threshold < math.inf:
            raise ValueError(f"threshold: found {self.threshold:g}, expected a finite number >= 0")
        if self.loss in ("huber", "trimmed") and self.threshold < SMALLEST_SIGMA:
            expected = f"expected a number >= {SMALLEST_SIGMA:g}"
            raise ValueError(f"threshold: found {self.threshold:g} with the loss {self.loss}, {expected}")
        if self.loss == "novelty" and self.offset:
            raise ValueError("offset: found one with the loss novelty, which has none: rho stands in its place")

    def check_norm(self, largest: float) -> None:
        """Refuse steps that make squared errors larger, where no k(x, x) is larger than this.

        Raises
        ------
        StepTooLarge
        """
        if self.loss == "squared" and self.eta * (largest + self.regularization) >= 2:
            most = 2 / (largest + self.regularization)
            raise StepTooLarge(
                f"eta: found {self.eta:g} with the squared loss, expected a number below {most:g}: eta times k(x, x) + "
                "lambda has to stay below 2, or errors grow without bound"
            )

    @property
    def code(self) -> int:
        """Number of the loss in compiled loops."""
        return CODES[self.loss]

    @property
    def of_classes(self) -> bool:
        """True if targets are classes."""
        return self.loss in OF_CLASSES

    @property
    def of_numbers(self) -> bool:
        """True if targets are numbers."""
        return self.loss in OF_NUMBERS

    @property
    def learns_threshold(self) -> bool:
        """True if it has a nu."""
        return self.loss in LEARNS_THRESHOLD

    def fixed(self) -> Floats:
        """Return the numbers of the rule, as :func:`~ikmap.learners.online.norma_steps.respond` takes them."""
        import numpy as np

        flags = float(self.offset), float(self.clip_rho), float(self.average and self.loss == "novelty")
        power = float(LATE) if self.late else 0.0
        return np.array([self.nu, self.eta, float(self.decreasing), self.regularization, *flags, power])


def usual_rule(loss: str, **given: float | bool | str | None) -> NormaRule:
    """The rule of a loss, with values that are not given, or None, as they serve kernels with k(x, x) = 1.

    Parameters
    ----------
    **given
        Fields of :class:`NormaRule`; `average` may also be "late".
    """
    if loss not in CODES:
        raise ValueError(f"loss: found {loss!r}, expected one of {', '.join(CODES)}")
    values: dict[str, Any] = {**USUAL[loss], **{name: value for name, value in given.items() if value is not None}}
    if given.get("eta") is None and values["regularization"] > 0:
        values["eta"] = min(values["eta"], 1 / values["regularization"])
    average = values.pop("average", False)
    return NormaRule(loss=loss, average=bool(average), late=average == "late", **values)


_WITH_RHO = {"eta": 1.0, "regularization": 1.0, "decreasing": True, "nu": 0.1}
_STEADY = {"eta": 0.5, "regularization": 1e-5, "decreasing": False}
USUAL: dict[str, dict[str, float | bool]] = {
    "hinge": {**_STEADY, "threshold": 1.0, "offset": True},
    "nu": {**_WITH_RHO, "average": True},  # without an offset, which rho would drive off: docs/norma.md
    "perceptron": {**_STEADY, "regularization": 0.0, "offset": True},
    "logistic": {**_STEADY, "offset": True},
    "novelty": {**_WITH_RHO, "average": True},
    "squared": _STEADY,
    "epsilon": {**_STEADY, "nu": 0.5},
    "insensitive": {**_STEADY, "threshold": 0.1},
    "huber": {**_STEADY, "threshold": 1.0},
    "trimmed": {**_STEADY, "threshold": 1.0, "nu": 0.2},
}
"""Values of each loss that hold unless others are given: steps for targets of a deviation of about 1."""
