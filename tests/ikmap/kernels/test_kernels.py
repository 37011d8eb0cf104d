"""Exact kernels of dense and sparse rows: values bit for bit, whatever the layout, tiles and threads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ikmap.kernels.points as points_module
from ikmap.cells import Cells
from ikmap.kernels import (
    KINDS,
    AdditiveChi2Kernel,
    GaussianKernel,
    IsolationKernel,
    LaplacianKernel,
    kernel_as_dict,
    kernel_from,
)
from ikmap.kernels.base import AnyKernel
from ikmap.kernels.intersection import IntersectionKernel
from ikmap.kernels.points import PointKernel
from tests.naive import kernels as naive

GAMMA = 0.37
OF: dict[str, PointKernel | IntersectionKernel] = {
    "laplacian": LaplacianKernel(GAMMA),
    "gaussian": GaussianKernel(GAMMA),
    "chi2": AdditiveChi2Kernel(),
}
OF["intersection"] = IntersectionKernel()
NAMES = sorted(OF)


def points(kind: str, n: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows that every kernel takes."""
    rng = np.random.default_rng(seed)
    there = rng.random((n, d)) < 0.3
    values = {
        "any": rng.random((n, d)),
        "gaps": rng.random((n, d)) * there,
        "whole": rng.integers(0, 9, (n, d)) * there,
        "bits": there,
    }
    return values[kind].astype(float)


SHAPES = [(9, 7, 3), (1, 5, 1), (0, 4, 2), (4, 0, 2), (6, 5, 300), (5, 6, 65), (3, 2, 0)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["any", "gaps", "whole", "bits"])
@pytest.mark.parametrize(("n", "m", "d"), SHAPES)
def test_values_are_those_of_the_definition(name: str, kind: str, n: int, m: int, d: int) -> None:
    X, Y = points(kind, n, d), points(kind, m, d, 1)
    expected = naive.kernel(X, Y, name, GAMMA)
    np.testing.assert_array_equal(OF[name].matrix(X, Y), expected)
    sparse = OF[name].matrix(sp.csr_array(X), sp.csr_array(Y))
    np.testing.assert_array_equal(sparse, naive.sparse_kernel(X, Y, name, GAMMA))
    np.testing.assert_allclose(sparse, expected, rtol=1e-12, atol=1e-13)
    if (kind in ("whole", "bits") and name != "chi2") or kind == "bits":
        np.testing.assert_array_equal(sparse, expected)


@pytest.mark.parametrize("name", ["laplacian", "gaussian"])
def test_values_of_both_signs(name: str) -> None:
    rng = np.random.default_rng(0)
    X, Y = (rng.normal(size=(n, 30)) * (rng.random((n, 30)) < 0.5) for n in (8, 9))
    np.testing.assert_array_equal(OF[name].matrix(X, Y), naive.kernel(X, Y, name, GAMMA))
    sparse = OF[name].matrix(sp.csr_array(X), sp.csr_array(Y))
    np.testing.assert_array_equal(sparse, naive.sparse_kernel(X, Y, name, GAMMA))
    np.testing.assert_allclose(sparse, naive.kernel(X, Y, name, GAMMA), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_zeros_and_ones_packed_or_not(
    name: str, layout: Callable[[np.ndarray], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y = points("bits", 40, 130), points("bits", 21, 130, 1)
    packed = OF[name].matrix(layout(X), layout(Y))
    np.testing.assert_array_equal(OF[name].matrix(layout(X), sp.csr_array(Y)), packed)
    assert points_module.Points(layout(X)).binary
    monkeypatch.setattr(points_module, "PACKED_COLUMNS", 129)
    assert not points_module.Points(layout(X)).binary
    np.testing.assert_array_equal(OF[name].matrix(layout(X), layout(Y)), packed)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kind", ["gaps", "bits"])
def test_tiles_and_threads_change_nothing(name: str, layout: Callable[[np.ndarray], Any], kind: str) -> None:
    X = points(kind, 601, 12)
    if kind == "bits":
        X[300:400] *= 0.5  # Tiles of other rows stand among tiles of bits.
    rows = layout(X)
    K = OF[name].matrix(rows, n_threads=1)
    np.testing.assert_array_equal(K, K.T)
    if name not in naive.ADDITIVE:
        assert (np.diag(K) == 1.0).all()
    for n_threads in (1, 2, 4):
        np.testing.assert_array_equal(OF[name].matrix(rows, n_threads=n_threads), K)
        np.testing.assert_array_equal(OF[name].matrix(rows, rows, n_threads=n_threads), K)
    for i, j in ((0, 1), (3, 300), (255, 601), (600, 601), (280, 320)):
        np.testing.assert_array_equal(OF[name].matrix(rows[i:j], rows), K[i:j])
        np.testing.assert_array_equal(OF[name].matrix(rows, rows[i:j]), K[:, i:j])


@pytest.mark.parametrize("name", NAMES)
def test_dense_beside_sparse(name: str) -> None:
    X, Y = points("gaps", 5, 9), points("gaps", 4, 9, 1)
    expected = OF[name].matrix(sp.csr_array(X), sp.csr_array(Y))
    np.testing.assert_array_equal(OF[name].matrix(X, sp.csr_array(Y)), expected)
    np.testing.assert_array_equal(OF[name].matrix(sp.csr_array(X), Y), expected)


@pytest.mark.parametrize("name", NAMES)
def test_any_form_of_rows(name: str) -> None:
    X = points("gaps", 12, 5)
    expected, sparse = OF[name].matrix(X), OF[name].matrix(sp.csr_array(X))
    doubled = sp.csr_array((np.repeat(X.ravel() / 2, 2), np.repeat(np.tile(np.arange(5), 12), 2),
                            np.arange(0, 121, 10)), shape=X.shape)  # fmt: skip
    for form in (np.asfortranarray(X), X[:, ::-1].copy()[:, ::-1], X.tolist()):
        np.testing.assert_array_equal(OF[name].matrix(form), expected)
    for form in (sp.csr_matrix(X), sp.coo_array(X), sp.csc_array(X), doubled):
        np.testing.assert_array_equal(OF[name].matrix(form), sparse)
    single = X.astype(np.float32)
    np.testing.assert_array_equal(OF[name].matrix(single), OF[name].matrix(single.astype(np.float64)))


@pytest.mark.parametrize("name", NAMES)
def test_matrices_are_positive_semidefinite(name: str) -> None:
    K = OF[name].matrix(points("gaps", 80, 6))
    assert np.linalg.eigvalsh(K).min() >= -1e-10


@pytest.mark.parametrize("kernel", [*OF.values(), IsolationKernel(7)], ids=[*OF, "isolation"])
def test_steps_of_normalized_kernels_are_values_in_whole_numbers(kernel: AnyKernel) -> None:
    rng = np.random.default_rng(0)
    rows = Cells(rng.integers(0, 3, (30, 7)), np.arange(8) * 3) if kernel.name == "isolation" else points("any", 30, 6)
    prepared = kernel.points(kernel.checked(rows))
    values, steps = np.empty((30, 30)), np.empty((30, 30))
    kernel.values(prepared, prepared, values)
    kernel.steps(prepared, prepared, steps)
    np.testing.assert_array_equal(steps, np.rint(values * kernel.unit) if kernel.normalized else values)
    assert kernel.unit == (7 if kernel.name == "isolation" else 2**32 if kernel.normalized else 1)
    assert kernel.normalized == (kernel.name not in naive.ADDITIVE)
    np.testing.assert_array_equal(kernel.matrix(rows), values)


def test_laplacian_width_by_psi() -> None:
    X = points("any", 6, 5)
    l1 = np.abs(X[:, None] - X[None]).sum(axis=2)
    np.testing.assert_allclose(LaplacianKernel.of_psi(256, 5).matrix(X), 256.0 ** (-l1 / 5), rtol=1e-13)
    assert (LaplacianKernel.of_psi(1, 5).matrix(X) == 1).all()


def test_no_cell_equals_nothing() -> None:
    codes = np.array([[0, -1, 2], [0, -1, 1], [-1, -1, -1]], dtype=np.int32)
    cells = Cells(codes, np.arange(4) * 3)
    Phi = cells.codes[:, :, None] == np.arange(3)
    expected = np.einsum("aik,bik->ab", Phi.astype(float), Phi.astype(float)) / 3
    np.testing.assert_array_equal(IsolationKernel(3).matrix(cells), expected)


@pytest.mark.parametrize("kernel", [*OF.values(), IsolationKernel(7)], ids=[*OF, "isolation"])
def test_name_and_parameters_as_json(kernel: AnyKernel) -> None:
    assert kernel_from(json.loads(json.dumps(kernel_as_dict(kernel)))) == kernel
    assert KINDS[kernel.name] is type(kernel)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_bad_rows_are_named(layout: Callable[[np.ndarray], Any]) -> None:
    """Also beyond the first tile."""
    good = points("any", 400, 4)
    nan, negative = good.copy(), good.copy()
    nan[300, 2], negative[301, 1] = np.nan, -0.5
    for kernel in OF.values():
        message = "row 300, column 2: found nan, expected a finite number, not NaN or inf"
        for pair in ((layout(nan), None), (layout(good), layout(nan))):
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                kernel.matrix(*pair)
        with pytest.raises(ValueError, match=r"^rows have 3 columns, those that they are compared with 4$"):
            kernel.matrix(layout(good[:, :3]), layout(good))
        with pytest.raises(ValueError, match=f"^the {kernel.name} kernel takes dense or CSR rows, got cells$"):
            kernel.matrix(Cells(np.zeros((2, 3), dtype=np.int32), np.arange(4)))
    kernels: tuple[tuple[PointKernel | IntersectionKernel, str], ...] = (
        (AdditiveChi2Kernel(), "chi-square"),
        (IntersectionKernel(), "the intersection kernel"),
    )
    for kernel, words in kernels:
        message = (
            f"row 301, column 1: found -0.5, expected a value >= 0: {words} is not defined for negative ones "
            "(scale the columns to [0, 1])"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            kernel.matrix(layout(negative))
    assert LaplacianKernel(1.0).matrix(layout(negative)).shape == (400, 400)


def test_bad_cells_and_parameters() -> None:
    with pytest.raises(ValueError, match=r"^cells of 3 partitionings, expected 4$"):
        IsolationKernel(4).matrix(Cells(np.zeros((2, 3), dtype=np.int32), np.arange(4)))
    with pytest.raises(ValueError, match=r"^the isolation kernel takes cells, got ndarray$"):
        IsolationKernel(4).matrix(np.zeros((2, 4)))
    for kernel in (LaplacianKernel, GaussianKernel):
        for gamma in (-1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match="gamma must be a number >= 0"):
                kernel(gamma)
