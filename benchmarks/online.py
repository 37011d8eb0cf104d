"""Online kernel learners against KOL, and IK-OGD against kernel OGD on the stream of the Isolation Kernel paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from benchmarks import environment, kol
from benchmarks.data import load
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from benchmarks.kol import KOLRun
from ikmap.cells import Cells
from ikmap.kernels import GaussianKernel, IsolationKernel, LaplacianKernel
from ikmap.learners.online.kernel_ogd import KernelOGDState
from ikmap.learners.online.ogd import OGDState
from ikmap.partitioners import Partitions, draw_subsamples, fit_partitions
from ikmap.rows import Rows, as_csr, as_dense
from ikmap.seeds import generator
from ikmap_papers.isolation_kernel.nogd_state import NOGDState

TITLE = "Online kernel learning"
ABOUT = (
    "kernel OGD and NOGD against KOL (C++, one thread), one pass and the test rows; then, all on one thread, IK-OGD "
    "with t = 100 against kernel OGD on a stream: its first part learned, the rest predicted and learned by blocks"
)

GAMMA, ETA, B, RANK = 0.02, 0.5, 100, 20
"""KOL's defaults, but for gamma: with 0.02 (0.01 there) kernel OGD has 10,854 support points on a9a."""
T, BLOCK_ROWS = 100, 1000
PSIS = {"anne": 64, "iforest": 256}
"""As 5-fold cross-validation of ``flows.online`` chooses them on a9a."""
LAPLACIAN_PSI = 2048
"""The same for kernel OGD."""

type Part = Literal["training", "testing"]


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("a9a",):
        for learner, compared in (("kernel OGD", kernel_ogd), ("NOGD", nogd)):
            for part in ("training", "testing"):
                for threads in (1, 2):
                    text = f"{name}, {learner}, {part}, {threads} thread{'s' if threads > 1 else ''}"
                    yield Case(text, partial(compared, name, part, threads, options))
        for method, psi in PSIS.items():
            for mapping in (False, True):
                text = f"{name} stream, IK-OGD {method}, psi {psi}{', with mapping' if mapping else ''}"
                yield Case(text, partial(stream_against_kernels, name, method, psi, mapping, options))


# Against KOL.


@dataclass(frozen=True)
class Outcome:
    """What a learner did with the training and the test rows: see :class:`KOLRun`."""

    n_support: int
    train_errors: int
    test_errors: int


def kernel_ogd(name: str, part: Part, threads: int, options: Options) -> Comparison:
    def check(ours: Outcome, theirs: KOLRun) -> str:
        # KOL adds up in single precision: a few margins end on the other side of 1.
        if abs(ours.n_support - theirs.n_support) > 1e-3 * theirs.n_support:
            raise Disagreement(f"{ours.n_support} support points, KOL {theirs.n_support}")
        return f"{ours.n_support} and {theirs.n_support} support points"

    start = partial(KernelOGDState, GaussianKernel(GAMMA), 2, ETA, threads)
    return against_kol("kernel-ogd", start, check, 1e-4, 5.0, name, part, options)


def nogd(name: str, part: Part, threads: int, options: Options) -> Comparison:
    def start() -> NOGDState:
        return NOGDState(GaussianKernel(GAMMA), 2, B, RANK, ETA, average=True, n_threads=threads)

    # The linear phase starts from weights of 0 at KOL, here from the sum that the dual phase has found.
    return against_kol("kernel-nogd", start, lambda *_: f"b = {B}, r = {RANK}", 0.02, 1.0, name, part, options)


def against_kol(
    learner: str,
    start: Callable[[], Any],
    agrees: Callable[[Outcome, KOLRun], str],
    alike: float,
    target: float,
    name: str,
    part: Part,
    options: Options,
) -> Comparison:
    """One pass in the order of the file and the prediction of the test rows, of which one part is timed.

    `alike` is the share of the rows in whose errors the two may differ.
    """
    data = load(name, options)
    X, X_test = sp.csr_array(as_csr(data.X)), sp.csr_array(as_csr(data.X_test))
    y, y_test = data.two_classes, data.two_classes_test
    trained: dict[str, Any] = {}

    def train() -> None:
        state = start()
        trained["errors"] = int((state.partial_fit(X, y).predicted != y).sum())
        trained["state"] = state

    def test() -> None:
        trained["test_errors"] = int(((trained["state"].decision_function(X_test)[:, 0] >= 0) != y_test).sum())

    def ours() -> Outcome:
        # What the other part has to say was found by `warm`.
        (train if part == "training" else test)()
        return Outcome(trained["state"].n_support, trained["errors"], trained["test_errors"])

    def warm() -> None:
        train()
        test()

    def check(results: dict[str, Any]) -> str:
        if (found := results.get("KOL")) is None:
            return ""
        said = [agrees(results["ours"], found)]
        for what, n in (("train_errors", y.size), ("test_errors", y_test.size)):
            us, them = (getattr(results[who], what) for who in ("ours", "KOL"))
            if abs(us - them) > max(2.0, alike * n):
                raise Disagreement(f"{us} {what.replace('_', ' ')}, KOL {them}")
            said.append(f"{us} and {them} of {n:,} {what.partition('_')[0]}ing rows wrong")
        return ", ".join(said)

    def bound(seconds: float) -> str:
        support, n = trained["state"].n_support, y.size if part == "training" else y_test.size
        return f"{n * support / 1e6:.3g} M pairs of a row and a support point at most, {seconds:.3g} s"

    program = kol.find()
    peer = Side.absent("KOL", kol.ABSENT, target=target)
    if program is not None:
        files = [
            kol.texts().write(f"{name}-{y.size}-{kind}", *rows)
            for kind, rows in (("train", (X, y)), ("test", (X_test, y_test)))
        ]
        peer = Side(
            "KOL",
            lambda: kol.run(program, files[0], files[1], learner, gamma=GAMMA),
            target=target,
            seconds=lambda run: run.train_seconds if part == "training" else run.test_seconds,
            peak=lambda run: run.peak_bytes,
        )
    used = X if part == "training" else X_test
    size = used.data.nbytes + used.indices.nbytes + used.indptr.nbytes
    return Comparison(Side("ours", ours, warm=warm, input_bytes=size), [peer], check, bound=bound, memory=True)


# The stream.


@dataclass
class Stream:
    """Training and test rows in one seeded order; the first `n_initial` make the map (algorithms.md 9.4)."""

    name: str
    X: Rows
    y: np.ndarray
    n_initial: int

    @property
    def blocks(self) -> list[slice]:
        """The rows that are predicted, then learned from."""
        return [slice(k, min(k + BLOCK_ROWS, self.y.size)) for k in range(self.n_initial, self.y.size, BLOCK_ROWS)]

    @cached_property
    def dense(self) -> np.ndarray:
        """All rows as an array."""
        return np.ascontiguousarray(as_dense(self.X))

    @cached_property
    def sparse(self) -> sp.csr_array:
        """All rows as CSR."""
        return sp.csr_array(as_csr(self.X))

    def follow(self, state: Any, rows: Any) -> tuple[np.ndarray, int]:
        """Learn the first part, predict and learn the rest; return the predictions and the number of support points."""
        state.partial_fit(rows[: self.n_initial], self.y[: self.n_initial])
        predicted = []
        for block in self.blocks:
            part = rows[block]
            predicted.append(state.decision_function(part)[:, 0] >= 0)
            state.partial_fit(part, self.y[block])
        return np.concatenate(predicted), state.n_support

    def accuracy(self, predicted: np.ndarray) -> float:
        """Share of the stream's rows predicted right."""
        return float(np.mean(predicted == self.y[self.n_initial :]))

    def fit(self, method: str, psi: int, t: int = T) -> Partitions:
        """The map, of the first part."""
        draws = draw_subsamples(self.n_initial, t, min(psi, self.n_initial), 0)
        return fit_partitions(self.X[: self.n_initial], draws, method=method, seed=0, n_threads=1)

    def cells(self, model: Partitions) -> Cells:
        """All rows mapped, on one thread."""
        return model.cells(self.X, 1).packed()


@lru_cache(maxsize=1)
def stream(name: str, options: Options) -> Stream:
    """The stream of a data set, its classes made two."""
    data = load(name, options)
    X = sp.csr_array(sp.vstack([as_csr(data.X), as_csr(data.X_test)]))
    y = np.concatenate([data.two_classes, data.two_classes_test])
    order = generator(0).permutation(y.size)
    rows = X[order] if sp.issparse(data.X) else np.ascontiguousarray(as_dense(X[order]))
    return Stream(name, rows, y[order], data.y.size)


def ik_ogd(cells: Cells) -> OGDState:
    """IK-OGD before its first row."""
    return OGDState.start(cells.n_columns, 2, ETA, float(cells.n_partitions))


def stream_against_kernels(name: str, method: str, psi: int, mapping: bool, options: Options) -> Comparison:
    rows = stream(name, options)
    cells = rows.cells(rows.fit(method, psi))
    laplacian = LaplacianKernel.of_psi(LAPLACIAN_PSI, rows.X.shape[1])

    def mapped() -> Cells:
        return rows.cells(rows.fit(method, psi)) if mapping else cells

    def ours() -> tuple[np.ndarray, int]:
        found = mapped()
        return rows.follow(ik_ogd(found), found)

    def of_kernel(label: str, kernel: Any, features: Any, target: float | None = None) -> Side:
        def work() -> tuple[np.ndarray, int]:
            return rows.follow(KernelOGDState(kernel, 2, ETA, 1), features())

        return Side(label, work, target=target, warm=work)

    program = kol.find()
    wanted = None if mapping else 1000.0
    by_kol = Side.absent(LEAST, kol.ABSENT, target=wanted)
    if program is not None:
        file = kol.texts().write(f"{name}-{rows.y.size}-stream", rows.sparse, rows.y)
        by_kol = Side(
            LEAST,
            lambda: kol.run(program, file, None, "kernel-ogd", gamma=GAMMA),
            target=wanted,
            seconds=lambda run: run.train_seconds,
        )
    dual, dense, csr = "ours, IK-OGD(dual)", "ours, kernel OGD, dense rows", "ours, kernel OGD, CSR"

    def check(results: dict[str, Any]) -> str:
        for one, other in (("ours", dual), (dense, csr)):
            if results[one][1] != results[other][1] or not np.array_equal(results[one][0], results[other][0]):
                raise Disagreement(f"{other}: not the predictions of {one}")
        said = [
            f"{text}: accuracy {rows.accuracy(results[who][0]):.4f}, {results[who][1]} support points"
            for text, who in (("IK-OGD, primal and dual equal", "ours"), (f"Laplacian, psi {LAPLACIAN_PSI}", dense))
        ]
        return "; ".join(said)

    def bound(seconds: float) -> str:
        visits = cells.codes.size + cells.codes[rows.n_initial :].size
        return (
            f"{seconds / visits * 1e9:.2g} ns a cell of a row predicted or learned; a gather from weights of this "
            f"size takes {1e9 / environment.gather_rate(cells.n_columns):.2g} ns"
        )

    sides = [
        by_kol,
        of_kernel(dense, laplacian, lambda: rows.dense),
        of_kernel(csr, laplacian, lambda: rows.sparse),
        of_kernel(dual, IsolationKernel(T), mapped),
    ]
    return Comparison(Side("ours", ours, warm=ours), sides, check, bound=bound)


LEAST = "KOL, kernel OGD, each row predicted once"
"""KOL has no blocks: it predicts a row when it learns it, and so does less than the protocol asks for."""
