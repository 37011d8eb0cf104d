"""Voronoi cells against ikpykit with the same subsets, against a sparse product, and the psi path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import environment, peers
from benchmarks.data import load
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from ikmap.partitioners import VoronoiPartitions, draw_subsamples, fit_partitions
from ikmap.rows import Rows, take_rows

TITLE = "Voronoi cells"
ABOUT = (
    "mapping rows to t = 100 Voronoi cells each, exactly: ikpykit, scipy.sparse; all psi at once against the largest"
)

T = 100
#: psi: times ikpykit's speed.
TARGETS = {16: 4.0, 256: 12.0, 4096: 40.0}
ROWS = 4096
"""Rows that are mapped: ikpykit keeps their distances to all centres, and there are up to 74,000 of those."""
SAMPLE = 24
PATH = tuple(2**m for m in range(2, 13))


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("a9a", "covtype-93k", "usps"):
        for psi in TARGETS:
            if not (options.quick and psi > 256):
                yield Case(f"{name}, psi {psi}", partial(against_ikpykit, name, psi, options))
    for psi in (256,) if options.quick else (256, 4096):
        for name in options.datasets or ("sector",):
            yield Case(f"{name}, sparse, psi {psi}", partial(against_sparse_product, name, psi, options))
    for name in options.datasets or ("a9a", "covtype-93k", "usps"):
        yield Case(f"{name}, psi path", partial(all_psi_against_largest, name, options))


class Mapping:
    """A fitted model and rows to map with it; what the search remembers can be forgotten."""

    def __init__(self, model: VoronoiPartitions, rows: Rows, threads: int) -> None:
        self.model, self.rows, self.threads = model, rows, threads

    def fresh(self) -> None:
        self.model = replace(self.model)

    def cells(self) -> np.ndarray:
        return self.model.cells(self.rows, self.threads).codes

    def cells_of_prefixes(self, psis: tuple[int, ...]) -> list[np.ndarray]:
        return [cells.codes for cells in self.model.cells_of_prefixes(self.rows, psis, self.threads)]


def against_ikpykit(name: str, psi: int, options: Options) -> Comparison:
    """Same subsets, same rows; ikpykit takes dense rows, we take what the pipeline would store."""
    data = load(name, options)
    psi = min(psi, data.y.size // 2)
    rows = np.sort(np.random.default_rng(0).permutation(data.y.size)[:ROWS])
    ikpykit = peers.find("ikpykit.kernel")
    label = "ikpykit IsoKernel(anne)"
    if ikpykit is None:
        draws = draw_subsamples(data.y.size, T, psi, 0)
        peer = Side.absent(label, "ikpykit", target=TARGETS.get(psi))
    else:
        dense = data.dense
        kernel = ikpykit.IsoKernel(method="anne", n_estimators=T, max_samples=psi, random_state=0).fit(dense)
        draws, taken = kernel.iso_kernel_.center_ids.astype(np.int64), dense[rows]
        peer = Side(
            label,
            lambda: kernel.transform(taken),
            target=TARGETS.get(psi),
            memory_target=10.0 if psi == max(TARGETS) else None,
            warm=lambda: kernel.transform(taken[:16]),
        )
    model = fit_partitions(data.X, draws, method="anne", seed=0)
    assert isinstance(model, VoronoiPartitions)
    work = Mapping(model, take_rows(data.X, rows), options.threads)

    def check(results: dict[str, Any]) -> str:
        sample, expected = brute_force(work)
        _equal(results["ours"][sample], expected, "our cells")
        if label not in results:
            return f"{expected.size} cells equal to float64 brute force"
        theirs = results[label].indices.reshape(-1, T)[sample] - np.arange(T) * psi
        wrong = int((theirs != expected).sum())
        # Rounding decides otherwise in ikpykit only where two centres are all but equally far.
        if wrong > expected.size // 20:
            raise Disagreement(f"ikpykit: {wrong} of {expected.size} cells differ from brute force")
        return f"{expected.size} cells equal to float64 brute force (ikpykit: {wrong} differ)"

    return Comparison(
        Side("ours", work.cells, fresh=work.fresh), [peer], check,
        rows=rows.size, memory=True, bound=partial(_bound, work),
    )  # fmt: skip


def against_sparse_product(name: str, psi: int, options: Options) -> Comparison:
    """scipy.sparse: one product for each block of rows with all distinct centres, then an argmin for each subset."""
    data = load(name, options)
    X = sp.csr_array(data.X)
    psi = min(psi, data.y.size // 2)
    model = fit_partitions(X, draw_subsamples(X.shape[0], T, psi, 0), method="anne", seed=0)
    assert isinstance(model, VoronoiPartitions)
    rows = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:ROWS])
    work = Mapping(model, X[rows], options.threads)
    centers = sp.csr_array(model.centers)
    half = 0.5 * np.asarray(centers.multiply(centers).sum(axis=1)).ravel()
    transposed = centers.T.tocsr()

    def product() -> np.ndarray:
        codes = np.empty((rows.size, T), dtype=np.int32)
        for start in range(0, rows.size, 256):
            scores = half - (work.rows[start : start + 256] @ transposed).toarray()
            for i, members in enumerate(model.members):
                codes[start : start + 256, i] = scores[:, members].argmin(axis=1)
        return codes

    def check(results: dict[str, Any]) -> str:
        sample, expected = brute_force(work, 4)
        _equal(results["ours"][sample], expected, "our cells")
        wrong = int((results[label][sample] != expected).sum())
        return f"{expected.size} cells equal to float64 brute force (scipy.sparse: {wrong} differ)"

    label = "scipy.sparse product + argmin"
    return Comparison(
        Side("ours", work.cells, fresh=work.fresh), [Side(label, product, target=5.0)], check,
        rows=rows.size, bound=partial(_bound, work),
    )  # fmt: skip


def all_psi_against_largest(name: str, options: Options) -> Comparison:
    """All psi of the papers' search in one search, against the largest alone."""
    data = load(name, options)
    psis = tuple(psi for psi in PATH if psi <= data.y.size // 2)
    model = fit_partitions(data.X, draw_subsamples(data.y.size, T, psis[-1], 0), method="anne", seed=0)
    assert isinstance(model, VoronoiPartitions)
    rows = np.sort(np.random.default_rng(0).permutation(data.y.size)[:ROWS])
    work = Mapping(model, take_rows(data.X, rows), options.threads)

    def check(results: dict[str, Any]) -> str:
        _equal(results["ours"][-1], results["psi largest alone"], "cells of the largest psi")
        for k in (0, len(psis) // 2):
            smaller = replace(model, members=np.ascontiguousarray(model.members[:, : psis[k]]))
            _equal(results["ours"][k], smaller.cells(work.rows, options.threads).codes, f"cells of psi {psis[k]}")
        return f"psi {psis[0]}, {psis[len(psis) // 2]} and {psis[-1]} equal to models of their own"

    return Comparison(
        Side("ours", lambda: work.cells_of_prefixes(psis)),
        [Side("psi largest alone", work.cells, target=1.5)],
        check,
        rows=rows.size,
        relation="<=",
        bound=lambda seconds: (
            f"{len(psis)} cells are written for one: {1e6 * 8 * len(psis) * T / environment.copy_rate():.2g} of "
            f"{1e6 * seconds / rows.size:.3g} us a row at the speed of a copy"
        ),
    )


def brute_force(work: Mapping, n: int = SAMPLE) -> tuple[np.ndarray, np.ndarray]:
    """Some row numbers, and their cells from the definition: float64, added up in column order, ties to the lowest."""
    sample = np.linspace(0, work.rows.shape[0] - 1, n).astype(np.int64)
    X, Z = sp.csc_array(work.rows[sample]), sp.csc_array(work.model.centers)
    total = np.zeros((X.shape[0], Z.shape[0]))
    # A column that is 0 everywhere adds nothing.
    for j in np.flatnonzero(np.diff(X.indptr) + np.diff(Z.indptr)):
        x, z = np.zeros(X.shape[0]), np.zeros(Z.shape[0])
        for column, matrix in ((x, X), (z, Z)):
            inside = slice(matrix.indptr[j], matrix.indptr[j + 1])
            column[matrix.indices[inside]] = matrix.data[inside]
        difference = x[:, None] - z
        total += difference * difference
    return sample, np.stack([total[:, members].argmin(axis=1) for members in work.model.members], axis=1)


def _equal(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    if not np.array_equal(found, expected):
        raise Disagreement(f"{what}: {int((found != expected).sum())} of {expected.size} are not as they must be")


def _bound(work: Mapping, seconds: float) -> str:
    """What one product with all distinct centres would cost, and what writing the cells does."""
    centers = work.model.centers.shape
    each = 1e6 / work.rows.shape[0]
    product = each * work.rows.shape[0] * centers[0] * (centers[1] + 1) / environment.product_rate()
    write = each * 4 * T * work.rows.shape[0] / environment.copy_rate()
    compare = centers[0] / 16 / 2500 / work.threads
    return (
        f"{centers[0]} distinct centres in {centers[1]} columns, {seconds * each:.3g} us a row; a float32 product "
        f"with all centres alone takes {product:.3g}, comparing {centers[0]} distances at 16 a cycle of 2.5 GHz on "
        f"every thread {compare:.3g}, writing the cells {write:.2g}"
    )
