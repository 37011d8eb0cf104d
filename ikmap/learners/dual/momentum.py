"""Momentum between the sweeps of dual coordinate descent.

Sweeps in random order reduce the duality gap by about the same factor each. Before the next one, dual variables and
weights go on by a share ``beta`` in the direction in which the last sweep took them: Nesterov's momentum, which starts
afresh when the dual objective falls (O'Donoghue, Candes 2015).

How much is right is measured. The gap is quadratic in the error, so a gap that falls by the factor r in a sweep means
errors that fall by z = sqrt(r). With momentum beta, an error that would fall by q without it falls by the larger root
of z^2 - q (1 + beta) z + q beta = 0: so z tells q. And the best momentum for q is
(1 - sqrt(1 - q)) / (1 + sqrt(1 - q)). It comes out as none for a problem that is solved in a handful of sweeps, and
leaves a third of the sweeps of one that takes hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

FIRST, AGAIN = 4, 8
"""Sweeps after which momentum is chosen, and those in a row with a falling gap after which it is chosen again."""
SPAN = 2
"""Sweeps over which the first choice looks."""
RISES = 1.15
"""Momentum rests for a sweep after one in which the gap grew by more than this factor."""
MOST, LEAST = 0.9, 0.2
"""Bounds of momentum; less than the lower one would save less than it takes."""
LONGER = 4.0
"""Factor by which momentum may make weights and dual variables larger than they are without it."""


@dataclass
class Momentum:
    """The momentum of one problem before its next sweep.

    Attributes
    ----------
    beta : float
        Share of the last sweep's changes, in [0, 1); 0 is no momentum.
    """

    beta: float = 0.0
    _chosen: float = 0.0
    _gaps: list[float] = field(default_factory=list)
    _since: int = 0
    _best: float = -np.inf

    @property
    def possible(self) -> bool:
        """True if momentum is possible before the next sweep or a later one."""
        return len(self._gaps) < FIRST or self._chosen > 0.0

    def swept(self, gap: float, dual: float) -> None:
        """Take note of a sweep: of the relative gap that it saw, and the dual objective after it."""
        before = self._gaps[-1] if self._gaps else np.inf
        self._gaps.append(gap)
        made, fell = len(self._gaps), dual < self._best
        if made <= FIRST:
            if made == FIRST:
                self._choose(SPAN)
        elif fell or gap > before:
            self._since = made
        elif made - self._since == AGAIN:
            self._choose(AGAIN)
        rests = fell or (made > FIRST and gap > RISES * before)
        self.beta = 0.0 if rests else self._chosen
        self._best = max(self._best, dual)

    def _choose(self, span: int) -> None:
        """Choose momentum by the effect of the last sweeps on the gap."""
        size = right_size(self._gaps[-1 - span], self._gaps[-1], span, self._chosen)
        self._chosen, self._since = max(self._chosen, size), len(self._gaps)


def right_size(before: float, gap: float, sweeps: int, beta: float) -> float:
    """Return the best momentum if the sweeps with momentum ``beta`` took the gap from ``before`` to ``gap``."""
    if not 0.0 < gap < before < np.inf:
        return 0.0
    z = (gap / before) ** (0.5 / sweeps)
    if z * z <= beta:
        return 0.0  # It falls as fast as this momentum lets it.
    q = z * z / ((1.0 + beta) * z - beta)
    if q >= 1.0:
        return MOST
    root = np.sqrt(1.0 - q)
    best = float((1.0 - root) / (1.0 + root))
    return min(best, MOST) if best >= LEAST else 0.0


def ahead(w: np.ndarray, before: np.ndarray, beta: float) -> np.ndarray:
    """Return the weights after momentum, w + beta (w - before), rounded for fixed-point weights."""
    way = beta * (w - before)
    ahead: np.ndarray = w + (way if w.dtype == np.float64 else np.rint(way).astype(w.dtype))
    return ahead
