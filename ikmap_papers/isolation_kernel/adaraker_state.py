"""AdaRaker: an online ensemble over intervals of the stream, with many kernels in random features (algorithms.md 7).

Raker, without intervals, is the same with ``adaptive=False``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import JsonObject, Label
from ikmap.learners.linear_model import LinearModel, decision_to_index
from ikmap.learners.mapped_model import MappedModel
from ikmap.learners.online.ogd import OGDProgress
from ikmap.learners.rows import check_classes, check_rows, n_rows
from ikmap.maps.fourier import FourierMap, orthogonal_directions
from ikmap.rows import Rows
from ikmap.seeds import generator
from ikmap_papers.isolation_kernel._adaraker_loops import (
    HINGE,
    LOGISTIC,
    Rules,
    active_levels,
    adaraker_pass,
    round_of,
    step_size,
)

SIGMAS = tuple(2.0**m for m in range(-10, 6))
"""Sixteen kernels, as in the paper's Table 3."""
BLOCK = 256
"""Rows whose features are in memory at a time."""


def adaraker_map(
    n_columns: int,
    seed: int,
    n_frequencies: int = 50,
    sigmas: tuple[float, ...] = SIGMAS,
    sigma_is: Literal["frequency", "width"] = "frequency",
    *,
    orthogonal: bool = True,
    flavour: Literal["published", "script"] = "published",
) -> FourierMap:
    """Return the map of the random frequencies of all kernels, `n_frequencies` each, kernel after kernel.

    Parameters
    ----------
    sigma_is : {"frequency", "width"}
        Kernel exp(-sigma^2 |x - y|^2 / 2), as the reference script has it, or exp(-|x - y|^2 / (2 sigma^2)).
    flavour : {"published", "script"}
        In the script orthogonal frequencies have the lengths of normal vectors of one column, not of d.
    """
    scales = sigmas if sigma_is == "frequency" else [1.0 / sigma for sigma in sigmas]
    degrees = 1 if flavour == "script" else n_columns

    def drawn(p: int) -> Floats:
        if not orthogonal:
            return generator(seed, p).standard_normal((n_frequencies, n_columns))
        blocks = [
            directions * np.sqrt(rng.chisquare(degrees, len(directions)))[:, None]
            for directions, rng in orthogonal_directions(n_frequencies, n_columns, seed, p)
        ]
        return np.concatenate(blocks)

    parts = [scale * drawn(p) for p, scale in enumerate(scales)]
    return FourierMap(np.concatenate(parts))


@dataclass
class AdaRakerState:
    """The state of AdaRaker: a learner for every kernel in every active interval.

    Parameters
    ----------
    map : FourierMap
        Frequencies of all kernels, equally many each, see :func:`adaraker_map`.
    n_kernels : int
        Number P of kernels.
    n_classes : int
        Two: one ensemble; more: one for each class, against the rest.
    eta : float
        Intervals of length l take steps of ``min(1/2, sqrt(eta / l))`` in the script, where features have squares of D,
        and of ``min(1/2, D sqrt(eta / l))`` as published, where they have squares of 1. Of Raker: the step.
    decay : float
        Factor lambda >= 0 of the penalty.
    adaptive : bool
        False: Raker, one learner of every kernel for all the stream.
    loss : {"hinge", "logistic"}, optional
        Default: hinge, as for the other online learners; for the script's flavour logistic, as there.
    flavour : {"published", "script"}
        "script": as in the authors' reference script, a new interval keeps the weights of the last one of its length,
        features are not divided by sqrt(D), weights of kernels are halved on mistakes, and those of intervals divided
        and multiplied by the step of the longest one. Its map is that of :func:`adaraker_map` with the same flavour.
    """

    map: FourierMap
    n_kernels: int
    n_classes: int
    eta: float = 0.5
    decay: float = 1e-3
    adaptive: bool = True
    loss: Literal["hinge", "logistic"] | None = None
    flavour: Literal["published", "script"] = "published"
    n_threads: int | None = None
    n_seen: int = field(default=0, init=False)
    n_support: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0 < self.eta < np.inf or not 0 <= self.decay < np.inf:
            raise ValueError(f"eta must be > 0 and decay >= 0, got {self.eta!r} and {self.decay!r}")
        if self.loss not in (None, "hinge", "logistic") or self.flavour not in ("published", "script"):
            raise ValueError(f"unknown loss {self.loss!r} or flavour {self.flavour!r}")
        if self.n_classes < 2:
            raise ValueError(f"at least 2 classes are needed, got {self.n_classes}")
        if self.n_kernels < 1 or self.map.frequencies.shape[0] % self.n_kernels:
            raise ValueError(
                f"{self.map.frequencies.shape[0]} frequencies are not as many for each of {self.n_kernels} kernels"
            )
        if self.loss is None:
            self.loss = "hinge" if self.flavour == "published" else "logistic"
        outputs = 1 if self.n_classes == 2 else self.n_classes
        width, levels = self.map.n_features // self.n_kernels, 1
        self._theta = np.zeros((outputs, levels, self.n_kernels, width))
        self._u = np.full((outputs, levels, self.n_kernels), 1.0 / self.n_kernels)
        self._log_h = np.full((outputs, levels), np.log(step_size(self.first_step, 0)))

    @property
    def first_step(self) -> float:
        """Step of an interval of length 1, before the cap; for Raker, the step."""
        if not self.adaptive:
            return self.eta
        per_kernel = self.map.frequencies.shape[0] // self.n_kernels
        return float(np.sqrt(self.eta)) * (1 if self.flavour == "script" else per_kernel)

    def _levels(self, rounds: int) -> int:
        """Return the number of intervals in the last of some rounds."""
        return int(active_levels(round_of(rounds, self.flavour == "script"))) if self.adaptive and rounds else 1

    @property
    def _scale(self) -> float:
        """Return the factor of the map's features."""
        return float(np.sqrt(self.map.frequencies.shape[0] if self.flavour == "script" else self.n_kernels))

    def _grow(self, rounds: int) -> None:
        """Make room for the intervals that `rounds` rounds have."""
        more = self._levels(rounds) - self._u.shape[1]
        if more > 0:
            outputs, _, kernels, width = self._theta.shape
            self._theta = np.concatenate([self._theta, np.zeros((outputs, more, kernels, width))], axis=1)
            self._u = np.concatenate([self._u, np.full((outputs, more, kernels), 1.0 / kernels)], axis=1)
            self._log_h = np.concatenate([self._log_h, np.zeros((outputs, more))], axis=1)

    def features(self, rows: Rows) -> np.ndarray:
        """Return the random features of rows, kernel by kernel, float64 of shape (n, P, 2 D).

        Those of a kernel have unit length, in the script the square D.
        """
        z = self.map.transform(rows, self.n_threads) * self._scale
        z = z.reshape(z.shape[0], 2, self.n_kernels, -1).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(z).reshape(z.shape[0], self.n_kernels, -1)

    def partial_fit(self, rows: Rows, y: np.ndarray) -> OGDProgress:
        """Predict and then learn from each row in turn.

        Parameters
        ----------
        rows : dense array or CSR matrix, n rows
        y : ndarray of int, shape (n,)
            Class numbers.

        Raises
        ------
        ValueError
            If rows or classes are not valid; nothing has been learned then.
        """
        check_rows(rows, self.map.frequencies.shape[1])
        n, y = n_rows(rows), np.asarray(y)
        check_classes(y, n, self.n_classes)
        self._grow(self.n_seen + n)
        decisions, before = np.empty((self._u.shape[0], n)), self.n_support
        stepped = np.zeros(n, dtype=np.bool_)
        loss = HINGE if self.loss == "hinge" else LOGISTIC
        rules = Rules(self.adaptive, self.first_step, self.decay, loss, self.flavour == "script")
        for start in range(0, n, BLOCK):
            inside = slice(start, start + BLOCK)
            z = self.features(rows[inside])
            for k in range(self._u.shape[0]):
                signs = np.where(y[inside] == (k if self.n_classes > 2 else 1), 1, -1).astype(np.int8)
                learners = self._theta[k], self._u[k], self._log_h[k]
                adaraker_pass(z, signs, self.n_seen + 1, *learners, rules, decisions[k, inside], stepped[inside])
            self.n_seen += z.shape[0]
        self.n_support += int(stepped.sum())
        by_row = decisions[0] if self.n_classes == 2 else decisions.T
        return OGDProgress(decision_to_index(by_row), self.n_support - before)

    def weights(self) -> np.ndarray:
        """Return the ensemble as one linear function of the features, float64 of shape (P, 2 D, K)."""
        levels = self._levels(self.n_seen)
        h = np.exp(self._log_h[:, :levels] - self._log_h[:, :levels].max(axis=1, keepdims=True))
        share = h / h.sum(axis=1, keepdims=True)
        u = self._u[:, :levels]
        u = u / u.sum(axis=2, keepdims=True)
        weights: np.ndarray = np.einsum("cj,cjp,cjpk->pkc", share, u, self._theta[:, :levels])
        return weights

    def decision_function(self, rows: Rows) -> np.ndarray:
        """Return decisions with all weights frozen, shape (n, K), one column for two classes."""
        return self.model(list(range(self.n_classes))).decision_function(rows)

    def model(self, classes: list[Label], params: JsonObject | None = None) -> MappedModel:
        """Return the classifier with the current weights, without further intervals."""
        weights = self.weights() * self._scale
        kernels, width, outputs = weights.shape
        # The map has the sines of all kernels before the cosines.
        coef = weights.reshape(kernels, 2, width // 2, outputs).transpose(1, 0, 2, 3).reshape(-1, outputs)
        name = "adaraker" if self.adaptive else "raker"
        asked = {"eta": self.eta, "lambda": self.decay, "loss": self.loss, "flavour": self.flavour, **(params or {})}
        linear = LinearModel(np.ascontiguousarray(coef), np.zeros(outputs), 1.0, name, classes, asked)
        return MappedModel(self.map, linear)

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copy of what changes in the course of a run, for :meth:`restore`."""
        counts = np.array([self.n_seen, self.n_support], dtype=np.int64)
        return {"counts": counts, "theta": self._theta.copy(), "u": self._u.copy(), "log_h": self._log_h.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """Continue from a :meth:`checkpoint` of a run with the same parameters."""
        self.n_seen, self.n_support = (int(v) for v in arrays["counts"])
        self._theta, self._u, self._log_h = (np.array(arrays[name], order="C") for name in ("theta", "u", "log_h"))
        return self


def adaraker_bytes(
    n: int, d: int, n_kernels: int = len(SIGMAS), n_frequencies: int = 50, n_classes: int = 2, adaptive: bool = True
) -> int:
    """Return the bytes that a run over n rows takes, beside the rows: mostly the P D d random numbers.

    Parameters
    ----------
    n, d : int
        Numbers of rows and columns.
    n_kernels, n_frequencies : int
        P and D.
    n_classes, adaptive
        The same as in :class:`AdaRakerState`.
    """
    R, outputs = n_kernels * n_frequencies, 1 if n_classes == 2 else n_classes
    levels = max(1, n.bit_length()) if adaptive else 1
    # Frequencies are put together from a part for each kernel, and turned round once for the product with rows.
    return 8 * (3 * R * d + 2 * 2 * R * outputs * levels + 5 * BLOCK * 2 * R)
