"""Mondrian sweeps: all lifetimes in one pass, beside what one would write with NumPy and SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
import scipy.sparse.linalg as ssl

from benchmarks.data import read_labels_and_rows
from benchmarks.harness import Case, Comparison, Disagreement, Options, Row, Side, interleave
from ikmap.learners.sweeps.columns import Columns, to_checkpoints
from ikmap.learners.sweeps.gradient import GradientSettings, GradientSweep
from ikmap.learners.sweeps.ridge import RidgeSweep
from ikmap.partitioners.mondrian import MondrianPartitions, fit_mondrian, mondrian_splits
from ikmap.seeds import generator
from ikmap.splits import CellSplit

if TYPE_CHECKING:
    from ikmap_papers.mondrian.splits import Splits

TITLE = "Mondrian sweeps"
ABOUT = (
    "cpu_act as in the Mondrian paper: 6,554 rows to learn from, 819 to validate on, M = 350 trees, delta^2 = 1e-4, up "
    "to the lifetime 1e-6 where nothing else is said; one thread, but for the cells"
)
DELTA_SQUARED = 1e-4
"""Ridge constant of the paper."""
CHECKPOINTS = 50
STEEP = 1e-5
"""A lifetime with more columns than rows."""
REBUILD = 200
"""Rank updates begin anew after so many splits (algorithms.md, 12.4)."""
STEADY = 1.0
"""delta^2 for rank updates of the inverse, which with 1e-4 lose all of their digits within four splits: at the start
all columns are the same. Ours do not, and neither is faster or slower for it."""
CLOSE = 1e-6
"""Relative residual to which conjugate gradients go."""


def cases(options: Options) -> Iterator[Case]:
    yield Case("SGD sweep, squared loss, M = 350", partial(one_training, options))
    yield Case("the same steps", partial(vectorised, options))
    yield Case("exact ridge at every split, first 1,000 splits", partial(rank_updates, options))
    yield Case(f"exact ridge at {CHECKPOINTS} checkpoints", partial(checkpoints, options))
    yield Case(f"exact ridge at lifetime {STEEP:g}", partial(dual, options))
    for lifetime in (1e-6, STEEP):
        yield Case(f"frozen transform, lifetime {lifetime:g}", rows=partial(transform, lifetime, options))


@dataclass(frozen=True, eq=False)
class Problem:
    """Trees, and all of their splits for rows to learn from and rows to validate on."""

    of: Splits
    model: MondrianPartitions
    start: list[Any]
    splits: list[CellSplit]

    @property
    def y(self) -> np.ndarray:
        return self.of.train[1]


@lru_cache(maxsize=1)
def problem(options: Options, lifetime: float = 1e-6) -> Problem:
    """The first split of the rows of cpu_act (`ikmap_papers.mondrian`)."""
    from ikmap_papers.mondrian.splits import Splits  # a listing of the benchmarks does without the papers

    X, y, _ = read_labels_and_rows("cpu_act", options)
    of = Splits.of(X, y, 0, 0)
    model = fit_mondrian(of.train[0], 20 if options.quick else 350, lifetime, 0)
    start, splits = mondrian_splits(model, [of.train[0], of.validation[0]])
    return Problem(of, model, start, list(splits))


def as_features(columns: np.ndarray, n_columns: int) -> sp.csr_array:
    """Rows, all of whose cells are known, with a 1 for each of their columns."""
    n, t = columns.shape
    starts = np.arange(0, n * t + 1, t)
    return sp.csr_array((np.ones(columns.size), columns.ravel(), starts), shape=(n, n_columns))


def predicted(w: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Of rows with these columns, -1 for none, and these weights."""
    found: np.ndarray = np.where(columns >= 0, w[columns], 0.0).sum(axis=1) / math.sqrt(columns.shape[1])
    return found


def growth_of(work: Problem) -> float:
    """With which there are :data:`CHECKPOINTS` checkpoints."""
    return float((work.model.offsets[-1] / work.model.n_partitions) ** (1 / CHECKPOINTS) - 1)


def settings(work: Problem) -> GradientSettings:
    """An epoch at each checkpoint."""
    return GradientSettings("squared", DELTA_SQUARED / len(work.y), growth=growth_of(work))


def one_training(options: Options) -> Comparison:
    """The sweep from grown trees, rows followed and all checkpoints validated, and a training at the last lifetime."""
    work = problem(options)
    asked, sides = settings(work), [work.of.train[0], work.of.validation[0]]
    n = len(list(to_checkpoints(iter(work.splits), work.model.n_partitions, asked.growth)))

    def sweep() -> float:
        start, splits = mondrian_splits(work.model, sides, 1)
        found = GradientSweep(start, work.y[:, None], asked)
        return min(work.of.error(found.decisions()[:, 0], work.of.validation) for _ in found.follow(splits))

    def train() -> float:
        found = GradientSweep([work.model.cells(side, 1) for side in sides], work.y[:, None], asked)
        found.learn(n)
        return work.of.error(found.decisions()[:, 0], work.of.validation)

    def check(results: dict[str, Any]) -> str:
        best, last = results["one sweep"], results["one training"]
        if not best <= last:
            raise Disagreement(f"error {best:.3g} % of the sweep's best lifetime, {last:.3g} % of the last")
        return f"{n} epochs each; error {best:.3g} % at the best lifetime of the sweep, {last:.3g} % at the last"

    return Comparison(
        Side("one sweep", sweep), [Side("one training", train, target=3.0)], check, relation="<=",
        bound=lambda _: "following the rows, and moving them at each split, beside the epochs",
    )  # fmt: skip


def vectorised(options: Options) -> Comparison:
    """Every step over all trees at once, as NumPy does it."""
    work = problem(options)
    asked = settings(work)

    def ours() -> np.ndarray:
        sweep = GradientSweep(work.start, work.y[:, None], asked)
        for _ in sweep.follow(iter(work.splits)):
            pass
        return sweep.weights[:, 0]

    def numpy() -> np.ndarray:
        columns, value = Columns(work.start), 1 / math.sqrt(work.model.n_partitions)
        v, scale, k = np.zeros(int(work.model.offsets[-1])), 1.0, 0.0
        y, alpha, eta = work.y, asked.alpha, asked.eta
        for epoch, done in enumerate(to_checkpoints(iter(work.splits), columns.n, asked.growth)):
            k *= columns.n / (columns.n + len(done))
            for split in done:
                of = columns.apply(split)
                v[of.right] = v[of.left]
            rows = columns.of[0]
            for i in generator(asked.seed, epoch).permutation(len(y)):
                step = eta / (1.0 + eta * alpha * k)
                k += 1
                own = rows[i]
                error = y[i] - value * scale * v[own].sum()  # at the weights before they shrink
                scale *= 1.0 - step * alpha
                v[own] += value * step / scale * 2.0 * error
        found: np.ndarray = scale * v
        return found

    def check(results: dict[str, Any]) -> str:
        a, b = results.values()
        off = float(np.abs(a - b).max() / np.abs(b).max())
        if not off < 1e-8:
            raise Disagreement(f"weights differ by {off:.1g} of the largest")
        return f"weights differ by {off:.1g} of the largest"

    return Comparison(Side("ours", ours), [Side("NumPy over all trees", numpy, target=20.0)], check)


class RankUpdates:
    """The inverse of A by rank updates, in place and with one buffer: what one would write with NumPy.

    A column that is split is deleted, which leaves its row and column of the inverse zero; its parts are appended, one
    in its place (algorithms.md, 12.4).
    """

    def __init__(self, work: Problem, most: int) -> None:
        self.columns, self.y, self.t = Columns(work.start), work.y, work.model.n_partitions
        self.P, self.buffer, self.b = np.zeros((most, most)), np.zeros((most, most)), np.zeros(most)
        self.n_splits = 0
        self.rebuild()

    def rebuild(self) -> None:
        n = self.columns.n
        phi = as_features(self.columns.of[0], n) / math.sqrt(self.t)
        A = (phi.T @ phi).toarray()
        A[np.diag_indices(n)] += STEADY
        self.b[:n] = phi.T @ self.y
        self.P[:n, :n] = np.linalg.inv(A)
        self.log_determinant = float(np.linalg.slogdet(A)[1])

    def add(self, n: int, u: np.ndarray, factor: float) -> None:
        buffer = self.buffer[:n, :n]
        np.multiply.outer(u * factor, u, out=buffer)
        self.P[:n, :n] += buffer

    def split(self, split: CellSplit) -> np.ndarray:
        """The weights after a split."""
        of = self.columns.apply(split)
        n, P = self.columns.n, self.P
        self.n_splits += 1
        if self.n_splits % REBUILD == 0:
            self.rebuild()
            return P[:n, :n] @ self.b[:n]
        p, s = P[:n, of.left].copy(), float(P[of.left, of.left])
        self.add(n, p, -1 / s)
        P[of.left, :n] = P[:n, of.left] = 0.0
        self.log_determinant += math.log(s)
        for at, rows in zip((of.left, of.right), split.rows[0], strict=True):
            g = np.bincount(self.columns.of[0][rows].ravel(), minlength=n) / self.t
            g[at] = 0.0
            T = P[:n, :n] @ g
            T[at] = 0.0
            S = len(rows) / self.t + STEADY - float(g @ T)
            T[at] = -1.0
            self.add(n, T, 1 / S)
            self.b[at] = self.y[rows].sum() / math.sqrt(self.t)
            self.log_determinant += math.log(S)
        return P[:n, :n] @ self.b[:n]


def rank_updates(options: Options) -> Comparison:
    """Weights, validation error and log determinant after every split."""
    work = problem(options)
    splits = work.splits[: 50 if options.quick else 1000]

    def ours() -> np.ndarray:
        sweep = RidgeSweep(work.start, work.y, STEADY, 0.0)
        return np.array([work.of.error(sweep.decisions(point), work.of.validation) for point in sweep.follow(splits)])

    def numpy() -> np.ndarray:
        ranks = RankUpdates(work, work.model.n_partitions + len(splits))
        return np.array(
            [work.of.error(predicted(ranks.split(split), ranks.columns.of[1]), work.of.validation) for split in splits]
        )

    def check(results: dict[str, Any]) -> str:
        a, b = results.values()
        off = float(np.abs(a - b).max() / b.max())
        if not (a.shape == b.shape and off < 1e-3):
            raise Disagreement(f"{a.size} and {b.size} errors, apart by {off:.1g}")
        return f"{a.size} lifetimes, to {work.model.n_partitions + len(splits):,} columns; errors differ by {off:.1g}"

    return Comparison(Side("ours", ours), [Side("NumPy rank updates", numpy, target=3.0)], check)


def checkpoints(options: Options) -> Comparison:
    """Ours, and solving anew at the same checkpoints from the weights of the one before."""
    work = problem(options)
    growth = growth_of(work)

    def ours() -> list[float]:
        sweep = RidgeSweep(work.start, work.y, DELTA_SQUARED, growth)
        return [work.of.error(sweep.decisions(point), work.of.validation) for point in sweep.follow(iter(work.splits))]

    def anew(solve: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]) -> list[float]:
        columns, w, found = Columns(work.start), np.zeros(int(work.model.offsets[-1])), []
        t = work.model.n_partitions
        for done in to_checkpoints(iter(work.splits), columns.n, growth):
            for split in done:
                of = columns.apply(split)
                w[of.right] = w[of.left]
            n = columns.n
            phi = as_features(columns.of[0], n) / math.sqrt(t)
            w[:n] = solve(phi, phi.T @ work.y, w[:n])
            found.append(work.of.error(predicted(w, columns.of[1]), work.of.validation))
        return found

    def conjugate(phi: Any, b: np.ndarray, w: np.ndarray) -> np.ndarray:
        back = phi.T.tocsr()
        A = ssl.LinearOperator((len(w), len(w)), lambda v: back @ (phi @ v) + DELTA_SQUARED * v, dtype=np.float64)
        solved: np.ndarray
        solved, _ = ssl.cg(A, b, x0=w, rtol=CLOSE, maxiter=20 * len(w))
        return solved

    def cholesky(phi: Any, b: np.ndarray, _: np.ndarray) -> np.ndarray:
        A = (phi.T @ phi).toarray()
        A[np.diag_indices(len(b))] += DELTA_SQUARED
        factor = sl.cho_factor(A, overwrite_a=True, check_finite=False)
        solution: np.ndarray = sl.cho_solve(factor, b, check_finite=False)
        return solution

    def check(results: dict[str, Any]) -> str:
        first = np.array(results["ours"])
        off = {name: float(np.abs(np.array(of) - first).max() / first.min()) for name, of in results.items()}
        if max(off.values()) > 0.02:
            raise Disagreement(f"errors differ by {off}")
        return f"{len(first)} checkpoints; errors are apart by " + ", ".join(
            f"{of:.1g} ({name})" for name, of in off.items() if name != "ours"
        )

    return Comparison(
        Side("ours", ours),
        [
            Side(f"conjugate gradients to {CLOSE:g}, warm", lambda: anew(conjugate), target=2.0),
            Side("Cholesky anew", lambda: anew(cholesky), target=2.0),
        ],
        check, relation="<=", bound=lambda _: "Cholesky factors of all columns, as fast as the library has them",
    )  # fmt: skip


def dual(options: Options) -> Comparison:
    """More columns than rows: the equations of the rows, beside conjugate gradients on the columns."""
    work = problem(options, 1e-3 if options.quick else STEEP)
    cells = [work.model.cells(side, 1) for side in (work.of.train[0], work.of.validation[0])]
    phi, tested = (of.to_csr() for of in cells)
    b, back = phi.T @ work.y, phi.T.tocsr()

    def ours() -> np.ndarray:
        sweep = RidgeSweep(cells, work.y, DELTA_SQUARED)
        return sweep.decisions(sweep.solved())

    def conjugate() -> np.ndarray:
        size = len(b)
        A = ssl.LinearOperator((size, size), lambda v: back @ (phi @ v) + DELTA_SQUARED * v, dtype=np.float64)
        found: np.ndarray = tested @ ssl.cg(A, b, rtol=CLOSE, maxiter=100_000)[0]
        return found

    def check(results: dict[str, Any]) -> str:
        a, b = results.values()
        off, size = float(np.linalg.norm(a - b) / np.linalg.norm(b)), cells[0].n_columns
        if off > 0.02:
            raise Disagreement(f"predictions are apart by {off:.1g}")
        return f"{size:,} columns; predictions are apart by {off:.1g}; A would take {8e-9 * size**2:.3g} GB"

    return Comparison(Side("ours", ours), [Side(f"conjugate gradients to {CLOSE:g}", conjugate)], check)


def transform(lifetime: float, options: Options) -> list[Row]:
    """Millions of cells a second, of rows that the trees were grown on and of others."""
    work = problem(options, lifetime)
    rows = []
    for name, X in (
        ("rows that it was fitted on", work.of.train[0]),
        ("other rows", np.concatenate([work.of.validation[0], work.of.test[0]])),
    ):
        side = Side(name, partial(work.model.cells, X, options.threads))
        work.model.cells(X, options.threads)
        seconds, results = interleave([side], 3 * options.repeats, options.limit)
        cells = results[name]
        rate = cells.codes.size / float(np.median(seconds[name])) / 1e6
        notes = [f"{rate:.3g} million cells a second, {cells.n_columns / cells.n_partitions:.3g} cells in a tree"]
        notes.append(f"{np.mean(cells.codes < 0):.2%} of them unknown")
        rows.append(
            Row(f"frozen transform, lifetime {lifetime:g}", name, seconds[name], value=rate, target=5.0, notes=notes)
        )
    return rows
