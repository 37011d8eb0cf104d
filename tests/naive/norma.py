"""NORMA as it is written down (algorithms.md 11.1 to 11.5): a list of terms, of which each is shrunk in each round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class NaiveNorma:
    """One function, kept as ``[(x_i, alpha_i), ...]``; kernel values are asked for anew in each round."""

    kernel: Callable[[Any, Any], float]
    loss: str
    nu: float = 0.1
    eta: float = 1.0
    decreasing: bool = True
    regularization: float = 1.0
    has_offset: bool = False
    threshold: float = 0.0
    clip_rho: bool = False
    tau: int | None = None
    terms: list[list[Any]] = field(default_factory=list)
    offset: float = 0.0
    rounds: int = 0
    #: Of all functions before each row, the last of them first: their terms, offsets and thresholds.
    history: list[tuple[list[tuple[Any, float]], float, float]] = field(default_factory=list)
    keep: bool = False

    def value(self, x: Any) -> float:
        """f(x), without the offset."""
        return math.fsum(alpha * self.kernel(z, x) for z, alpha, _ in self.terms)

    def learn(self, x: Any, y: float) -> tuple[float, bool]:
        """One round: g(x) before it, and whether the row was beyond the threshold."""
        if self.keep:
            self.history.append(([(z, alpha) for z, alpha, _ in self.terms], self.offset, self.threshold))
        self.rounds += 1
        eta = self.eta / math.sqrt(self.rounds) if self.decreasing else self.eta
        g = self.value(x) + self.offset
        alpha, beyond = 0.0, False
        if self.loss == "hinge":
            beyond = y * g < self.threshold
            alpha = eta * y if beyond else 0.0
        elif self.loss in ("nu", "novelty"):
            y = 1.0 if self.loss == "novelty" else y
            beyond = y * g < self.threshold
            if beyond:
                alpha = eta * y
                self.threshold -= eta * (1 - self.nu)
            else:
                self.threshold += eta * self.nu
            if self.clip_rho:
                self.threshold = max(0.0, self.threshold)
        elif self.loss == "perceptron":
            beyond = y * g <= 0
            alpha = eta * y if beyond else 0.0
        elif self.loss == "logistic":
            beyond = y * g <= 0
            alpha = eta * y * math.exp(-math.log1p(math.exp(y * g)))
        else:
            r = y - g
            if self.loss == "squared":
                alpha, beyond = eta * r, r != 0
            elif self.loss == "epsilon":
                beyond = abs(r) > self.threshold
                alpha = eta * math.copysign(1, r) if beyond else 0.0
                self.threshold = max(0.0, self.threshold + (eta * (1 - self.nu) if beyond else -eta * self.nu))
            elif self.loss == "insensitive":
                beyond = abs(r) > self.threshold
                alpha = eta * math.copysign(1, r) if beyond else 0.0
            else:
                beyond = abs(r) > self.threshold
                alpha = eta * math.copysign(1, r) if beyond else eta * r / self.threshold
                if self.loss == "trimmed":
                    move = eta * (1 - self.nu) if beyond else -eta * self.nu
                    self.threshold = max(1e-6, self.threshold + move)
        for term in self.terms:
            term[1] *= 1 - eta * self.regularization
        if alpha != 0:
            self.terms.append([x, alpha, self.rounds])
        if self.tau is not None:
            self.terms = [term for term in self.terms if term[2] > self.rounds - self.tau]
        if self.has_offset:
            self.offset += alpha
        return g, beyond

    def mean(self, x: Any, power: int = 0) -> tuple[float, float, float]:
        """Of the functions before each row: mean of f(x), of the offsets, and of the thresholds; i^power of row i."""
        values = [sum(alpha * self.kernel(z, x) for z, alpha in terms) for terms, _, _ in self.history]
        counts = np.arange(1.0, len(values) + 1) ** power
        return (
            float(np.average(values, weights=counts)),
            float(np.average([offset for _, offset, _ in self.history], weights=counts)),
            float(np.average([threshold for _, _, threshold in self.history], weights=counts)),
        )


def loss_value(loss: str, y: float, g: float, threshold: float, nu: float) -> float:
    """The loss whose gradient is descended (algorithms.md 11.2 to 11.4)."""
    r = y - g
    match loss:
        case "hinge":
            return max(0.0, threshold - y * g)
        case "nu" | "novelty":
            return max(0.0, threshold - y * g) - nu * threshold
        case "perceptron":
            return max(0.0, -y * g)
        case "squared":
            return r * r / 2
        case "logistic":
            return math.log1p(math.exp(-y * g))
        case "insensitive":
            return max(0.0, abs(r) - threshold)
        case "epsilon":
            return max(0.0, abs(r) - threshold) + nu * threshold
        case _:
            return abs(r) - threshold / 2 if abs(r) > threshold else r * r / (2 * threshold)
