"""Checks of every kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, is_dataclass
from functools import partial

import numpy as np

from ikmap.conformance import CheckFailed, json_values, member, same, true
from ikmap.kernels import SharedKernel
from ikmap.kernels.base import KINDS
from ikmap.kernels.tabled import KernelTable, numbered
from ikmap.methods.checks.common import D, N, rows_to_check, searchable
from ikmap.methods.kernel import KernelMethod
from ikmap.methods.method import SearchSpace


def checks_of_kernel(method: KernelMethod) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the title and the function of each check of a kernel."""
    if method.about.on == "rows":
        yield "values of the kernel", partial(_values, method)
    if method.shares is not None:
        yield "shared part of its values", partial(_shared, method)


def _search_space(method: KernelMethod) -> SearchSpace:
    with member(method, "search_space"):
        return method.search_space(searchable(method), N)


def _values(method: KernelMethod) -> None:
    X = rows_to_check()
    space = _search_space(method)
    chosen = method.at({path: candidates.values[len(candidates.values) // 2] for path, candidates in space.items()})
    with member(method, "kernel"):
        kernel = chosen.kernel(D)
    with member(kernel, "matrix"):
        matrix = kernel.matrix(X, n_threads=1)
        same(matrix, matrix.T, "kernel matrix, against its transpose")
        true(np.isfinite(matrix).all(), "kernel matrix: found values that are not finite")
        least, largest = np.linalg.eigvalsh(matrix)[[0, -1]]
        true(least >= -1e-9 * largest, f"kernel matrix: found the eigenvalue {least}, expected none below zero")
        same(kernel.matrix(X, n_threads=2), matrix, "kernel matrix by two threads")
        same(kernel.matrix(X[7:40], X[3:9], 1), matrix[7:40, 3:9], "kernel matrix of some rows")
        sparse = rows_to_check(False)
        assert not isinstance(sparse, np.ndarray)
        of_sparse, of_dense = (kernel.matrix(rows, n_threads=1) for rows in (sparse, sparse.toarray()))
        # Entries are summed up in another order.
        true(
            np.allclose(of_sparse, of_dense, rtol=1e-12),
            "kernel matrix of sparse rows: found another one than of dense",
        )
    with member(method, "kernel"):
        if not is_dataclass(kernel):
            raise CheckFailed(f"found a {type(kernel).__name__}, expected a dataclass")
        values = asdict(kernel)
        json_values(values, "what a store keeps of the kernel")
        true(KINDS[kernel.name](**values) == kernel, "the kernel that a store gives back is another one")


def _shared(method: KernelMethod) -> None:
    X, shares = rows_to_check(), method.shares or ()
    with member(method, "shares"):
        names = method.tunable(frozenset())
        true(set(shares) < set(names), f"found {shares}, expected some of {names}")
    space = _search_space(method)
    first = method.at({path: candidates.values[0] for path, candidates in space.items()})
    other = first.at({path: candidates.values[-1] for path, candidates in space.items() if path not in shares})
    tables: list[KernelTable] = []
    kernels: list[SharedKernel] = []
    with member(method, "kernel"):
        for chosen in (first, other):
            kernel = chosen.kernel(D)
            if not isinstance(kernel, SharedKernel):
                raise CheckFailed(f"found a {type(kernel).__name__}, expected a SharedKernel")
            kernels.append(kernel)
            tables.append(KernelTable.of(kernel, X[:40], X[40:]))
        same(tables[0].values, tables[1].values, f"shared, with the same {', '.join(shares)} and another rest")
        for kernel in kernels:
            values = tables[0].kernel(kernel).matrix(numbered(0, 40), n_threads=1)
            same(values, kernel.matrix(X[:40], n_threads=1), "finish(shared), against values")
