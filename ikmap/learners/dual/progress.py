"""Progress of a problem: the sweeps after which to compute a certificate, and the end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

#: Projected gradients up to 1e-12 count as zero in a step (8.2): below this nothing moves any more.
STILL = 5e-12


@dataclass
class Progress:
    """Progress of one problem to the relative duality gap ``tol``, to ``max_iter`` sweeps or the limit of float64.

    Each sweep adds up every row's share of the duality gap as seen at its visit, which costs nothing. That sum is the
    gap of weights that are half a sweep old; together with the one before it tells how large the gap is by now, so the
    certificate, a pass of its own, is computed about once.

    Attributes
    ----------
    length : float
        ``|w|^2``.
    history : list of tuples
        At every certificate: sweeps made, primal, dual, gap.
    """

    tol: float
    max_iter: int
    length: float
    n_iter: int = 0
    history: list[tuple[float, float, float, float]] = field(default_factory=list)
    primal: float = 0.0
    whole: bool = True
    still: bool = False
    before: float = 0.0
    expected: float = 0.0

    def __post_init__(self) -> None:
        self.goal = self.tol

    def swept(self, whole: bool, losses: float, gap_sum: float, most: float, growth: float) -> bool:
        """Take note of a sweep; whether it is time for a certificate.

        Parameters
        ----------
        whole : bool
            True if the sweep visited every row.
        losses, gap_sum : float
            Sums over the visits.
        most : float
            Largest projected gradient.
        growth : float
            Growth of ``|w|^2``.
        """
        self.n_iter += 1
        self.whole, self.still = whole, most <= STILL
        self.length += growth
        if whole:
            self.primal = 0.5 * self.length + losses
        seen = gap_sum / max(self.primal, np.finfo(float).tiny)
        self.expected = seen * min(1.0, seen / self.before) if self.before > 0.0 else seen
        self.before = seen
        return self.expected <= self.goal or self.n_iter >= self.max_iter or self.still

    def certified(self, losses: float, gap_sum: float, length: float) -> bool:
        """Take note of a certificate; whether that is the end. If not, every row counts again."""
        self.length, self.primal = length, 0.5 * length + losses
        gap = gap_sum / max(self.primal, np.finfo(float).tiny)
        self.history.append((self.n_iter, self.primal, self.primal - gap_sum, gap))
        if gap <= self.tol or self.n_iter >= self.max_iter or (self.still and self.whole):
            return True
        if self.whole:
            self.goal = min(self.goal, self.tol * self.expected / gap)
        self.before = 0.0
        return False
