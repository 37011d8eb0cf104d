"""Parameters of a linear problem, and of the quality of its solution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from ikmap.json_values import JsonObject
from ikmap.learners.dual import _linear_svr_loops as svr_loops
from ikmap.learners.dual._linear_svm_loops import LOSSES


@dataclass(frozen=True)
class SVMParams:
    """Parameters of a linear problem and of its solution.

    Minimises ``|w|^2 / 2 + sum_i C_i loss(c_i w.x_i)``, C_i = C times class weight times sample weight.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge", "logistic", "epsilon_insensitive", "squared_epsilon_insensitive"}
        ``max(0, 1 - m)^2``, ``max(0, 1 - m)`` or ``log(1 + exp(-m))`` of classes; ``max(0, |r| - epsilon)`` or its
        square of numbers, where r is what a prediction is off by, in standard deviations of the target.
    C : float
        Weight of the losses against the regulariser, > 0.
    class_weight : dict of class number to weight, "balanced" or None
        "balanced" gives class k the weight ``n / (n_classes n_k)``, rows counted by sample weight. A row
        keeps its weight in all one-vs-rest problems.
    normalize : bool
        True for a feature value of 1/sqrt(t) of a cell, so that K(x, x) = 1, instead of 1. Raw features with C/t
        give the same decisions as normalised ones with C (algorithms.md 8.6).
    tol : float
        Wanted relative duality gap (P - D) / P, > 0: the objective is then certified to be that close to
        optimal.
    max_iter : int
        Largest number of sweeps over the rows; with several blocks, of visits to every block.
    inner_sweeps : int
        With several blocks: largest number of sweeps over a block while it is in memory. More than one rarely
        saves a visit.
    shrinking : bool
        True to leave out rows whose dual variable rests at a bound, for the same solution in less time.
    fit_intercept : bool
        Append a constant feature 1, regularised like the others.
    seed : int
        Seed of the order of rows, >= 0.
    epsilon : float
        Width of the losses of numbers, >= 0, in standard deviations of the target.
    """

    loss: Literal["squared_hinge", "hinge", "logistic", "epsilon_insensitive", "squared_epsilon_insensitive"] = (
        "squared_hinge"
    )
    C: float = 1.0
    class_weight: Mapping[int, float] | Literal["balanced"] | None = None
    normalize: bool = True
    tol: float = 1e-3
    max_iter: int = 1000
    inner_sweeps: int = 1
    shrinking: bool = True
    fit_intercept: bool = False
    seed: int = 0
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        if self.loss not in LOSSES | svr_loops.LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES | svr_loops.LOSSES)}, got {self.loss!r}")
        if not 0 <= self.epsilon < np.inf:
            raise ValueError(f"epsilon must be a number >= 0, got {self.epsilon!r}")
        for name in ("C", "tol"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a positive number, got {getattr(self, name)!r}")
        for name in ("max_iter", "inner_sweeps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if isinstance(self.class_weight, str) and self.class_weight != "balanced":
            raise ValueError(f"class_weight must be 'balanced', a dict or None, got {self.class_weight!r}")
        if isinstance(self.class_weight, Mapping) and any(not 0 <= v < np.inf for v in self.class_weight.values()):
            raise ValueError(f"class weights must be >= 0 and finite, got {dict(self.class_weight)}")

    @property
    def regression(self) -> bool:
        """True if targets are numbers."""
        return self.loss in svr_loops.LOSSES

    def as_json(self) -> JsonObject:
        """Return the parameters as JSON values."""
        values = asdict(self)
        if not self.regression:
            del values["epsilon"]
        if isinstance(self.class_weight, Mapping):
            values["class_weight"] = {str(k): float(v) for k, v in self.class_weight.items()}
        return values
