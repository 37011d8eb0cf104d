"""What every kernel on rows has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from ikmap.kernels import SharedKernel
from ikmap.kernels.base import KINDS
from ikmap.kernels.tabled import KernelTable, numbered
from ikmap.methods.checks.common import D, N, json_values, rows_to_check, same, true
from ikmap.methods.kernel import KernelMethod


def checks_of_kernel(one: KernelMethod) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield what a kernel has to do: title, and how to find out."""
    yield "what is searched is an option and its values can be given", partial(_searches, one)
    if one.on == "rows":
        yield "values of the kernel", partial(_values, one)
    if one.shares is not None:
        yield "shared part of its values", partial(_shared, one)


def _searching(one: KernelMethod) -> Any:
    """Options with which all that can be chosen is to be chosen."""
    options = one.Options()
    for name, spec in one.Options.specs().items():
        try:
            spec.check("auto")
        except ValueError:
            continue
        options = options.replace(**{name: "auto"})
    return options


def _searches(one: KernelMethod) -> None:
    options = _searching(one)
    for search in one.searches(options, N):
        true(list(search.values) == sorted(set(search.values)), f"values of {search.option}: expected them to ascend")
        true(search.option in one.Options.specs(), f"search of {search.option!r}: expected the name of an option")
        for value in search.values:
            given = one.given(options.replace(**{search.option: value})).get(search.parameter)
            true(given == value, f"{search.option} = {value}: given() says {given}, expected the same")
    true(len(set(one.parameters(options))) == len(one.parameters(options)), "parameters: expected each once")


def _values(one: KernelMethod) -> None:
    options, X = _searching(one), rows_to_check()
    chosen = {**one.given(options), **{s.parameter: s.values[len(s.values) // 2] for s in one.searches(options, N)}}
    true(set(chosen) == set(one.parameters(options)), f"parameters: found {one.parameters(options)}, not {set(chosen)}")
    kernel: Any = one.kernel(options, chosen, D)
    matrix = kernel.matrix(X, n_threads=1)
    same(matrix, matrix.T, "kernel matrix, against its transpose")
    true(np.isfinite(matrix).all(), "kernel matrix: found values that are not finite")
    least, largest = np.linalg.eigvalsh(matrix)[[0, -1]]
    true(least >= -1e-9 * largest, f"kernel matrix: found the eigenvalue {least}, expected none below zero")
    same(kernel.matrix(X, n_threads=2), matrix, "kernel matrix by two threads")
    same(kernel.matrix(X[7:40], X[3:9], 1), matrix[7:40, 3:9], "kernel matrix of some rows")
    sparse = rows_to_check(False)
    of_sparse, of_dense = (kernel.matrix(rows, n_threads=1) for rows in (sparse, sparse.toarray()))
    # Entries are summed up in another order.
    true(np.allclose(of_sparse, of_dense, rtol=1e-12), "kernel matrix of sparse rows: found another one than of dense")
    values = asdict(kernel)
    json_values(values, "what a store keeps of the kernel")
    true(KINDS[kernel.name](**values) == kernel, "the kernel that a store gives back is another one")


def _shared(one: KernelMethod) -> None:
    options, X, shares = _searching(one), rows_to_check(), one.shares or ()
    first = {**one.given(options), **{s.parameter: s.values[0] for s in one.searches(options, N)}}
    others = {s.parameter: s.values[-1] for s in one.searches(options, N) if s.parameter not in shares}
    true(set(shares) < set(first), f"shares: found {shares}, expected some of {one.parameters(options)}")
    kernels: list[Any] = [one.kernel(options, chosen, D) for chosen in (first, {**first, **others})]
    for kernel in kernels:
        true(isinstance(kernel, SharedKernel), f"kernel: found a {type(kernel).__name__}, expected a SharedKernel")
    tables = [KernelTable.of(kernel, X[:40], X[40:]) for kernel in kernels]
    same(tables[0].values, tables[1].values, f"shared, with the same {', '.join(shares)} and another rest")
    for kernel in kernels:
        values = tables[0].kernel(kernel).matrix(numbered(0, 40), n_threads=1)
        same(values, kernel.matrix(X[:40], n_threads=1), "finish(shared), against values")
