"""Linear SVMs, logistic and support vector regression on separate parts of the data, by accelerated CoCoA+.

Ma, Smith, Jaggi, Jordan, Richtarik, Takac (2015), "Adding vs. averaging in distributed primal-dual optimization",
algorithm 1 with additive aggregation: in a round, every part improves its own dual variables from the same weights by
coordinate descent on a local subproblem whose quadratic term is multiplied by sigma' = K, the number of parts; the
changes of the weights are added up. Rounds are accelerated as in Ma, Jaggi, Curtis, Srebro, Takac (2017), "An
accelerated communication-efficient primal-dual optimization framework", by Nesterov's momentum, which starts afresh
when the dual objective falls (O'Donoghue, Candes 2015). Without it, parts undo each other's work: 200 rounds where 30
suffice (covtype-93k, psi 256, C = 1, four parts).

A round is a pure function of dual variables and weights (:func:`improve`), so it may run anywhere, again if need be;
:class:`Coordinator` sums up, certifies and decides.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import ModuleType

import numpy as np

from ikmap import seed_paths
from ikmap.arrays import Floats
from ikmap.learners.dual import (
    _cocoa_loops,
    _cocoa_svr_loops,
    _linear_svm_loops,
    _linear_svr_loops,
    _momentum_loops,
    _momentum_svr_loops,
)
from ikmap.learners.dual._linear_svm_loops import LOSSES
from ikmap.learners.dual.block_reader import BlockReader
from ikmap.learners.dual.linear_svm import SVMFit, SVMParams, class_costs, solution
from ikmap.learners.dual.regression_problem import moments, standardisation, together
from ikmap.seeds import generator

MOST_ROUNDS_BETWEEN = 8
"""Certificates are at most this many rounds apart; one costs about half a sweep."""
OPTIMISM = 0.8
"""Share of the predicted rounds to the wanted gap after which a certificate is made."""


@dataclass(frozen=True)
class RoundOrder:
    """The order of a round for all parts.

    Attributes
    ----------
    round : int
        From 1. Dual variables and weights that go in are those after round ``round - 1``.
    problems : tuple of int
        Places, among the problems that are solved together, of those still unsolved.
    beta : tuple of float
        Momentum of each, in [0, 1).
    certify : bool
        True if the duality gap at the start of the round is wanted.
    """

    round: int
    problems: tuple[int, ...]
    beta: tuple[float, ...]
    certify: bool


@dataclass(frozen=True, eq=False)
class Report:
    """The report of one part on a round, for each problem of its order.

    Attributes
    ----------
    change : ndarray of float64, shape (p, n_columns + 1)
        Change of the extrapolated weights by the dual variables of the part.
    dual : ndarray of float64, shape (p,)
        Its share of the dual objective after the round, without the quadratic term.
    loss, gap, n_support : ndarrays, shape (p,)
        Its shares of the losses and of the duality gap, and its rows with a dual variable that is not 0, at the start
        of the round; zeros where no certificate was ordered.
    """

    change: Floats
    dual: Floats
    loss: Floats
    gap: Floats
    n_support: np.ndarray


@dataclass(frozen=True)
class RoundConstants:
    """Constants of all rounds.

    Attributes
    ----------
    params : SVMParams
        ``max_iter`` bounds the rounds, ``inner_sweeps`` is the number of sweeps that a part makes in a round; more
        than one saves no rounds once they are accelerated.
    n_classes : int
        0 where targets are numbers.
    problems : tuple of int
        Numbers of the one-vs-rest problems; for two classes, and for numbers, (0,).
    n_parts : int
    class_cost : tuple of float
        C times class weight, of every class; of numbers C.
    center, scale : float
        Mean and standard deviation of targets that are numbers.
    """

    params: SVMParams
    n_classes: int
    problems: tuple[int, ...]
    n_parts: int
    class_cost: tuple[float, ...]
    center: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(
        cls, params: SVMParams, n_classes: int, problems: tuple[int, ...], surveys: Sequence[Sequence[float]]
    ) -> RoundConstants:
        """Return the constants for parts with these results of :func:`survey`."""
        if n_classes:
            counts = np.sum([np.asarray(survey) for survey in surveys], axis=0)
            return cls(params, n_classes, problems, len(surveys), class_costs(params, counts))
        found = reduce(together, [(weight, mean, squares) for weight, mean, squares in surveys])
        return cls(params, 0, problems, len(surveys), (params.C,), *standardisation(found))

    @property
    def loops(self) -> tuple[ModuleType, ModuleType, ModuleType]:
        """Compiled loops of a round, of a round with the certificate, and of momentum."""
        if self.n_classes:
            return _cocoa_loops, _linear_svm_loops, _momentum_loops
        return _cocoa_svr_loops, _linear_svr_loops, _momentum_svr_loops

    def objective(
        self, place: int, y: np.ndarray, weight: Floats
    ) -> _linear_svm_loops.Objective | _linear_svr_loops.Targets:
        """Return the arguments of the loops for a problem after rows and norms."""
        params, cost, bias = self.params, np.array(self.class_cost), float(self.params.fit_intercept)
        if not self.n_classes:
            z, loss = (y - self.center) / self.scale, _linear_svr_loops.LOSSES[params.loss]
            return _linear_svr_loops.Targets(z, cost, weight, bias, params.epsilon, loss)
        positive = 1 if self.n_classes == 2 else self.problems[place]
        return _linear_svm_loops.Objective(y, positive, cost, weight, bias, LOSSES[params.loss])


def survey(reader: BlockReader, n_classes: int) -> list[float]:
    """Return the weighted number of rows of every class in one part, or the moments of numbers."""
    if not n_classes:
        return list(moments(reader))
    counts = np.zeros(n_classes)
    for b in range(len(reader)):
        _, _, y, weight = reader[b]
        counts += np.bincount(y, weights=weight if weight.size else None, minlength=n_classes)
    return counts.tolist()


def improve(
    rounds: RoundConstants,
    part: int,
    reader: BlockReader,
    order: RoundOrder,
    alpha: Floats,
    alpha_before: Floats,
    w: Floats,
    w_before: Floats,
) -> tuple[np.ndarray, Report]:
    """Do one round's work on one part.

    Parameters
    ----------
    part : int
        Number of the part: it decides the order in which rows are visited.
    reader : BlockReader
        The rows of the part. Each block is read once.
    alpha, alpha_before : ndarrays of float64, shape (P, n)
        Dual variables of its rows, in the order of the blocks, after the last round and after the one before.
    w, w_before : ndarrays of float64, shape (P, n_columns + 1)
        Weights after the last round and after the one before; the last one is that of the constant feature.

    Returns
    -------
    (ndarray of float64, shape (P, n), Report)
        The new dual variables; rows of problems that were not ordered are those of `alpha`.
    """
    params, sigma = rounds.params, float(rounds.n_parts)
    loops, certifying, momentum_loops = rounds.loops
    count = len(order.problems)
    target = [w[p] + beta * (w[p] - w_before[p]) for p, beta in zip(order.problems, order.beta, strict=True)]
    moving = [v.copy() for v in target]
    new = alpha.copy()
    sums = np.zeros((4, count))
    starts = np.cumsum([0, *reader.rows_of_blocks()])
    for b in generator(params.seed, seed_paths.COCOA, part, order.round).permutation(len(reader)).tolist():
        rows, norms, y, weight = reader[b]
        inside = slice(starts[b], starts[b + 1])
        for slot, (p, beta) in enumerate(zip(order.problems, order.beta, strict=True)):
            objective = rounds.objective(p, y, weight)
            old, mine = alpha[p, inside], new[p, inside]
            if order.certify:
                sums[1:3, slot] += certifying.certificate(rows, objective, w[p], old, 0, -1)[:2]
                sums[3, slot] += np.count_nonzero(old)
            if beta > 0.0:
                before = alpha_before[p, inside]
                momentum_loops.extrapolate(rows, objective, moving[slot], old, before, beta, sigma, mine)
            random = np.uint64(generator(params.seed, seed_paths.COCOA, part, order.round, p, b).integers(2**63))
            loops.sweeps(
                rows, norms, objective, moving[slot], mine, 0.0, params.inner_sweeps, params.shrinking, random, sigma
            )
            sums[0, slot] += momentum_loops.dual_sum(objective, mine)
    change = np.array([(m - v) / sigma for m, v in zip(moving, target, strict=True)])
    return new, Report(change, sums[0], sums[1], sums[2], sums[3].astype(np.int64))


class Coordinator:
    """Adds up the reports of the parts in each round, and gives the next order.

    Parameters
    ----------
    rounds : RoundConstants
    n_columns : int

    Attributes
    ----------
    w, w_before : ndarrays of float64, shape (P, n_columns + 1)
        Weights after the last round and after the one before.
    round : int
        Rounds made.
    history : list of lists of (round, primal, dual, gap)
        Certificates of each problem.
    """

    def __init__(self, rounds: RoundConstants, n_columns: int) -> None:
        self.rounds = rounds
        n = len(rounds.problems)
        self.w = np.zeros((n, n_columns + 1))
        self.w_before = self.w
        self.round = 0
        self.history: list[list[tuple[int, float, float, float]]] = [[] for _ in range(n)]
        self.n_support = [0] * n
        self._dual = [0.0] * n
        self._theta = [1.0] * n
        self._unsolved = list(range(n))
        self._certify_at = min(3, rounds.params.max_iter)

    @property
    def order(self) -> RoundOrder | None:
        """Order of the next round; None when everything is solved or ``max_iter`` is reached."""
        if not self._unsolved:
            return None
        beta = tuple((self._theta[p] - 1.0) / _next(self._theta[p]) for p in self._unsolved)
        return RoundOrder(self.round + 1, tuple(self._unsolved), beta, self.round >= self._certify_at)

    def absorb(self, order: RoundOrder, reports: Iterable[Report]) -> None:
        """Take the reports of all parts, in the order of the parts, on what `order` asked for."""
        finished = self.round >= self.rounds.params.max_iter
        count = len(order.problems)
        change = np.zeros((count, self.w.shape[1]))
        dual, loss, gap, support = np.zeros((4, count))
        for report in reports:
            change += report.change
            dual += report.dual
            loss += report.loss
            gap += report.gap
            support += report.n_support
        w = self.w.copy()
        for slot, (p, beta) in enumerate(zip(order.problems, order.beta, strict=True)):
            if order.certify:
                primal = 0.5 * float(self.w[p] @ self.w[p]) + float(loss[slot])
                relative = float(gap[slot]) / max(primal, np.finfo(float).tiny)
                self.history[p].append((self.round, primal, primal - float(gap[slot]), relative))
                if relative <= self.rounds.params.tol or finished:
                    # Solved as it was at the start of the round, the rest of which was for nothing.
                    self.n_support[p] = int(support[slot])
                    self._unsolved.remove(p)
                    continue
            w[p] += beta * (self.w[p] - self.w_before[p]) + change[slot]
            objective = float(dual[slot]) - 0.5 * float(w[p] @ w[p])
            self._theta[p] = _next(self._theta[p]) if objective > self._dual[p] else 1.0
            self._dual[p] = objective
        self.w_before, self.w = self.w, w
        self.round += 1
        if order.certify and self._unsolved:
            ahead = max(self._predicted(p) for p in self._unsolved)
            self._certify_at = min(self.round - 1 + ahead, self.rounds.params.max_iter)

    def _predicted(self, p: int) -> int:
        """Return the rounds to the next certificate, by the fall of the gap between the last two."""
        history, tol = self.history[p], self.rounds.params.tol
        if len(history) < 2 or not history[-1][3] < history[-2][3]:
            return 3
        (first, _, _, before), (last, _, _, now) = history[-2:]
        more = math.log(now / tol) * (last - first) / math.log(before / now)
        return int(min(max(1, math.ceil(OPTIMISM * more)), MOST_ROUNDS_BETWEEN))

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return the state, with the constants that follow from the rows, as arrays that are read back exactly."""
        rounds = self.rounds
        numbers = {
            "problems": rounds.problems,
            "n_parts": rounds.n_parts,
            "class_cost": rounds.class_cost,
            "center": rounds.center,
            "scale": rounds.scale,
            "round": self.round,
            "history": self.history,
            "n_support": self.n_support,
            "dual": self._dual,
            "theta": self._theta,
            "unsolved": self._unsolved,
            "certify_at": self._certify_at,
        }
        text = np.frombuffer(json.dumps(numbers).encode(), dtype=np.uint8)
        return {"w": self.w, "w_before": self.w_before, "numbers": text}

    @classmethod
    def restore(cls, params: SVMParams, n_classes: int, arrays: Mapping[str, np.ndarray]) -> Coordinator:
        """Return the state from which :meth:`checkpoint` made the arrays."""
        numbers = json.loads(arrays["numbers"].tobytes())
        constants = numbers["n_parts"], tuple(numbers["class_cost"]), numbers["center"], numbers["scale"]
        self = cls(RoundConstants(params, n_classes, tuple(numbers["problems"]), *constants), arrays["w"].shape[1] - 1)
        self.w, self.w_before, self.round = arrays["w"], arrays["w_before"], int(numbers["round"])
        self.history = [[(entry[0], *entry[1:]) for entry in problem] for problem in numbers["history"]]
        self.n_support, self._dual, self._theta = numbers["n_support"], numbers["dual"], numbers["theta"]
        self._unsolved, self._certify_at = numbers["unsolved"], int(numbers["certify_at"])
        return self

    def fit(self, alphas: Floats | None = None) -> SVMFit:
        """Return the solution when there are no more orders; `alphas` has shape (P, n), if known."""
        if alphas is None:
            alphas = np.empty((len(self.rounds.problems), 0))
        coef, intercept = np.ascontiguousarray(self.w[:, :-1].T), self.w[:, -1].copy()
        support = np.array(self.n_support)
        rounds = self.rounds
        fit = solution(rounds.problems, coef, intercept, alphas, support, self.history, rounds.params)
        return replace(fit, center=rounds.center, scale=rounds.scale)


def _next(theta: float) -> float:
    """Return the next number of Nesterov's sequence."""
    return 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * theta * theta))
