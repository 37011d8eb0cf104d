"""AdaRaker and Raker, slow and obvious: everything dense, one Python step at a time (algorithms.md 7)."""

from __future__ import annotations

import numpy as np
from scipy.special import expit


class Raker:
    """One learner of every kernel, with an interval's step."""

    def __init__(self, n_kernels: int, width: int, step: float) -> None:
        self.theta = np.zeros((n_kernels, width))
        self.u = np.full(n_kernels, 1.0 / n_kernels)
        self.step, self.h = step, step

    def decide(self, z: np.ndarray) -> float:
        self.values = np.array([self.theta[p] @ z[p] for p in range(len(z))])
        self.f = (self.u @ self.values) / self.u.sum()
        return self.f


def raker_losses(f: float, c: float, loss: str) -> tuple[float, float]:
    """(loss, at most 1, and its derivative) at decision f for the sign c."""
    if loss == "hinge":
        return min(1.0, max(0.0, 1.0 - c * f)), (-c if c * f < 1 else 0.0)
    return min(1.0, np.logaddexp(0, -c * f)), -c * expit(-c * f)


def intervals(t: int) -> list[tuple[int, int]]:
    """All (start, length) with start <= t < start + length, from the definition of 7.3."""
    found = []
    for j in range(64):
        length = 2**j
        if length > t:
            break
        found += [(k * length, length) for k in range(1, t // length + 1) if k * length <= t < (k + 1) * length]
    return found


def adaraker(
    z: np.ndarray,
    c: np.ndarray,
    eta: float,
    decay: float,
    loss: str = "hinge",
    adaptive: bool = True,
    flavour: str = "published",
) -> tuple[np.ndarray, list[int]]:
    """Decisions and support set of the listing in 7.2 and 7.3; z: features, shape (n, P, 2 D)."""
    if flavour == "script" and adaptive:
        return adaraker_script(z, c, eta, decay, loss)
    learners, decisions, support = {}, [], []
    n_frequencies = z.shape[2] // 2
    for i in range(len(c)):
        active = intervals(i + 1) if adaptive else [(1, 0)]
        for start, length in active:
            if start == i + 1:
                step = min(0.5, n_frequencies * np.sqrt(eta / length)) if adaptive else eta
                learners[start, length] = Raker(z.shape[1], z.shape[2], step)
        alive = [learners[key] for key in active]
        h = np.array([learner.h for learner in alive])
        f = (h @ [learner.decide(z[i]) for learner in alive]) / h.sum()
        decisions.append(f)
        own, stepped = raker_losses(f, c[i], loss)[0], False
        for learner in alive:
            for p, value in enumerate(learner.values):
                lost, slope = raker_losses(value, c[i], loss)
                stepped |= slope != 0
                learner.theta[p] = (1 - learner.step * decay) * learner.theta[p] - learner.step * slope * z[i, p]
                wrong = c[i] * value < 0
                learner.u[p] *= 0.5**wrong if flavour == "script" else np.exp(-learner.step * lost)
            if flavour == "script":
                learner.u = learner.u + 1e-4
            learner.u /= learner.u.sum()
            if adaptive:
                learner.h *= np.exp(learner.step * (own - raker_losses(learner.f, c[i], loss)[0]))
        if stepped:
            support.append(i)
    return np.array(decisions), support


def adaraker_script(
    z: np.ndarray, c: np.ndarray, eta: float, decay: float, loss: str = "logistic"
) -> tuple[np.ndarray, list[int]]:
    """Decisions and support set of the authors' script, line by line; only intervals that have begun are weighed.

    There the base S of intervals is 1 / eta = 2, so that interval k = 1, 2, ... has the step min(1/S, 1/sqrt(S^k)).
    """
    n, n_kernels, width = z.shape
    most = int(np.floor(np.log2(max(1, n)))) + 1
    theta, w = np.full((most, n_kernels), 1 / n_kernels), np.zeros((most, n_kernels, width))
    act, n_act, decisions, support = np.zeros(most), 1, [], []
    for t in range(1, n + 1):
        y, f_hat, errors, stepped = c[t - 1], np.zeros(most), [], False
        steps = [min(0.5, np.sqrt(eta / 2**k)) for k in range(n_act)]
        for k in range(n_act):
            if (t - 1) % 2**k == 0:
                act[k] = steps[k]
            f = np.array([w[k, p] @ z[t - 1, p] for p in range(n_kernels)])
            wrong = np.maximum(0, np.sign(-y * f))
            for p in range(n_kernels):
                slope = raker_losses(f[p], y, loss)[1]
                stepped |= slope != 0
                w[k, p] = (1 - steps[k] * decay) * w[k, p] - steps[k] * slope * z[t - 1, p]
            theta[k] /= theta[k].sum()
            f_hat[k] = f @ theta[k]
            theta[k] = theta[k] * 0.5**wrong + 1e-4
            errors.append(max(0, np.sign(-y * f_hat[k])))
        decisions.append(act @ f_hat / act.sum())
        middle, half = (max(errors) + min(errors)) / 2, (max(errors) - min(errors)) / 2
        ratio = (np.array(errors) - middle + 1e-10) / (half + 1e-10)
        act[:n_act] = act[:n_act] * steps[-1] ** ratio + 1e-10
        act /= act.sum()
        if stepped:
            support.append(t - 1)
        n_act = int(np.floor(np.log2(t))) + 1
    return np.array(decisions), support
