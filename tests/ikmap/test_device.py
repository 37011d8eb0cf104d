"""Cells on a device: those of the definition, on stand-ins for a GPU everywhere and on one where there is one."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.device import LOOSE_ERROR, LOOSE_PRODUCTS, Device, Gpu, Host, find_gpu
from ikmap.partitioners import draw_subsamples, fit_partitions, tree_kernel
from ikmap.partitioners.mapper import LEAST_BUDGET
from ikmap.partitioners.mondrian import fit_mondrian
from ikmap.partitioners.side_by_side import SideBySide
from ikmap.partitioners.tree_descent import Descent
from ikmap.partitioners.tree_kernel import Walk
from ikmap.partitioners.voronoi import array_choice, device_rows, fit_voronoi, fused, lowest
from ikmap.partitioners.voronoi import model as voronoi_model
from ikmap.partitioners.voronoi.array_choice import ArrayChoice
from ikmap.partitioners.voronoi.device_rows import DenseRows, SparseRows, spread_out
from ikmap.partitioners.voronoi.fused import Fused
from ikmap.partitioners.voronoi.kernels import source
from ikmap.partitioners.voronoi.lowest import KernelChoice
from ikmap.partitioners.voronoi.products import Products
from ikmap.partitioners.voronoi.scores import DenseScores, SparseScores
from ikmap.partitioners.voronoi.search import choose_scores
from ikmap.rows import as_csr, as_dense
from tests.naive.partitioners import voronoi_cells
from tests.support.calls import counted
from tests.support.devices import Crowded, KernelsOnCpu, Strict
from tests.support.point_sets import DATA, LAYOUTS, N, queries_of

pytestmark = pytest.mark.slow

T, PSI = 5, 8
DEVICES = {"numpy": Host, "strict": Strict}
SEVERAL = ["continuous", "integer grid", "near ties", "sparse", "far outlier", "squares overflow", "tiny beside units"]
GPUS = ("sm_80", "sm_90", "sm_120")
EVIDENCE = "IKMAP_GPU_EVIDENCE"
"""Where tests on a GPU leave what they found: a file of one JSON object a line."""


WAYS = ("one kernel", "products", "sparse products")
"""Ways to map rows on a device that runs kernels."""


def force(way: str, patch: pytest.MonkeyPatch) -> None:
    """Have cells found in one way, whichever is the fastest."""
    patch.setattr(voronoi_model, "fits", lambda *_: way == "one kernel")
    patch.setattr(voronoi_model, "spread_out", lambda _: way != "sparse products")
    if way == "sparse products":
        patch.setattr(voronoi_model, "choose_scores", lambda centers: SparseScores(as_csr(centers)))


@pytest.fixture(scope="module")
def libraries(kept: Callable[[str], Path]) -> Path:
    """Kernels that were compiled before, by this session or an earlier one."""
    return kept("kernels")


@pytest.fixture(scope="module")
def kernels(libraries: Path) -> Iterator[KernelsOnCpu]:
    """Blocks of few threads, each of which takes a processor its time, with room for the scores of eleven centres."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "THREADS", 16)
        patch.setattr(lowest, "THREADS", 16)
        patch.setattr(lowest, "SETTLING_THREADS", 8)
        patch.setattr(lowest, "SETTLING_BLOCKS", 3)
        patch.setattr(tree_kernel, "THREADS", 64)
        patch.setattr(tree_kernel, "TREES", 3)
        room = lowest.RESERVED + 4 * lowest.ROWS * 12
        yield KernelsOnCpu(libraries, lowest.BLOCKS * room)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("name", "device"), [*((name, "numpy") for name in DATA), *((name, "strict") for name in SEVERAL)]
)
def test_voronoi_cells_are_those_of_the_definition(name: str, device: str, layout: str) -> None:
    X, queries = DATA[name], queries_of(DATA[name])
    draws = draw_subsamples(X.shape[0], T, PSI, 3)
    mapper = fit_voronoi(LAYOUTS[layout](X), draws).mapper(DEVICES[device]())
    assert isinstance(mapper, Products)
    cells = mapper.cells(LAYOUTS[layout](queries))
    assert cells.codes.dtype == np.int32
    np.testing.assert_array_equal(cells.codes, voronoi_cells(queries, X, draws))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "layout"), [*((name, "dense") for name in DATA), *((name, "csr") for name in SEVERAL)]
)
def test_kernels_give_them(
    name: str, way: str, layout: str, kernels: KernelsOnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(way, monkeypatch)
    X, queries = DATA[name], queries_of(DATA[name])
    draws = draw_subsamples(X.shape[0], T, PSI, 4)
    mapper = fit_voronoi(LAYOUTS[layout](X), draws).mapper(kernels)
    assert isinstance(mapper, Fused if way == "one kernel" else Products)
    if isinstance(mapper, Products):
        assert isinstance(mapper._choice, KernelChoice)
        assert isinstance(mapper._rows, SparseRows if way == "sparse products" else DenseRows)
    np.testing.assert_array_equal(mapper.cells(LAYOUTS[layout](queries)).codes, voronoi_cells(queries, X, draws))


@pytest.mark.parametrize(("t", "psi"), [(1, 1), (3, 1), (20, 7), (16, N)])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_kernels_give_them_for_any_numbers(
    rows: int, t: int, psi: int, kernels: KernelsOnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More partitionings than threads, as many as them, one; centres in one part or several."""
    force("products", monkeypatch)
    monkeypatch.setattr(lowest, "ROWS", rows)
    for name in SEVERAL:
        X, queries = DATA[name], queries_of(DATA[name])
        draws = draw_subsamples(X.shape[0], t, psi, 5)
        codes = fit_voronoi(X, draws).mapper(kernels).cells(queries).codes
        np.testing.assert_array_equal(codes, voronoi_cells(queries, X, draws))


@pytest.mark.parametrize(
    ("t", "psi", "n_centers", "part"), [(5, 8, 30, 30), (5, 8, 30, 7), (40, 9, 30, 29), (1, 1, 1, 1)]
)
def test_every_member_has_one_place_that_threads_read(
    t: int, psi: int, n_centers: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lowest, "THREADS", 16)
    members = np.random.default_rng(0).integers(0, n_centers, size=(t, psi)).astype(np.int32)
    layout = lowest.layout(members, n_centers, part)
    parts = -(-n_centers // part)
    assert layout.group * layout.slices <= 16
    assert layout.words.shape == (layout.begins[-1], layout.group * layout.slices)
    seen = []
    for line, (begin, end) in enumerate(zip(layout.begins[:-1], layout.begins[1:], strict=True)):
        for place in range(layout.words.shape[1]):
            words = layout.words[begin:end, place]
            there = words != part << 16 | lowest.NONE
            seen += [
                (line // parts * layout.group + place % layout.group, line % parts * part + (word >> 16), word & 65535)
                for word in words[there].tolist()
            ]
    assert sorted(seen) == sorted((i, members[i, k], k) for i in range(t) for k in range(psi))


@pytest.mark.parametrize(("t", "psi", "size"), [(300, 4096, 100), (300, 256, 300), (100, 256, 100), (513, 1, 257)])
def test_threads_are_seldom_idle(t: int, psi: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless scores that are loaded once more cost more than that."""
    monkeypatch.setattr(lowest, "THREADS", 512)
    members = np.zeros((t, psi), dtype=np.int32)
    assert lowest.layout(members, 20_000, 20_000).group == size


@pytest.mark.parametrize("name", DATA)
def test_zeros_change_no_bit_of_a_distance(name: str) -> None:
    """So sparse rows may be spread out."""
    X, queries = DATA[name], queries_of(DATA[name])
    sparse: Any = SparseRows(SparseScores(as_csr(X)), Host())
    dense: Any = DenseRows(DenseScores(X), Host())
    row, center = (place.ravel() for place in np.indices((len(queries), len(X))))
    with np.errstate(all="ignore"):
        distances = [
            rows.distances(rows.block(layout(queries)), row, center)
            for rows, layout in ((sparse, as_csr), (dense, as_dense), (dense, as_csr))
        ]
    bits = [values.view(np.int64) for values in distances]
    np.testing.assert_array_equal(bits[0], bits[1])
    np.testing.assert_array_equal(bits[0], bits[2])


@pytest.mark.parametrize("way", WAYS)
def test_kernels_in_blocks_as_large_as_on_a_gpu(way: str, libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, threads in ((fused, "THREADS", 128), (lowest, "THREADS", 512), (lowest, "SETTLING_THREADS", 128)):
        monkeypatch.setattr(module, name, threads)
    force(way, monkeypatch)
    X = DATA["near ties"]
    queries, draws = queries_of(X), draw_subsamples(N, T, N, 4)
    queries = np.tile(queries, (4, 1)) if way == "one kernel" else queries[::8]
    codes = fit_voronoi(X, draws).mapper(KernelsOnCpu(libraries)).cells(queries).codes
    np.testing.assert_array_equal(codes, voronoi_cells(queries, X, draws))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("name", "device"), [*((name, "numpy") for name in DATA), *((name, "strict") for name in SEVERAL)]
)
def test_iforest_cells(name: str, device: str, layout: str) -> None:
    X, queries = LAYOUTS[layout](DATA[name]), LAYOUTS[layout](queries_of(DATA[name]))
    model = fit_partitions(X, draw_subsamples(X.shape[0], T, PSI, 5), method="iforest", seed=5)
    mapper = model.mapper(DEVICES[device]())
    assert isinstance(mapper, Descent)
    np.testing.assert_array_equal(mapper.cells(queries).codes, model.cells(queries).codes)


@pytest.mark.parametrize(
    ("name", "layout"), [*((name, "dense") for name in DATA), *((name, "csr") for name in SEVERAL)]
)
def test_a_kernel_gives_iforest_cells(
    name: str, layout: str, kernels: KernelsOnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows go to the device whole, or the columns that trees use alone, or lie there already."""
    X, queries = LAYOUTS[layout](DATA[name]), LAYOUTS[layout](queries_of(DATA[name]))
    model = fit_partitions(X, draw_subsamples(X.shape[0], T, PSI, 5), method="iforest", seed=5)
    expected = model.cells(queries).codes
    for share in (0.0, 1.0):
        monkeypatch.setattr(tree_kernel, "COLUMN_SHARE", share)
        mapper = model.mapper(kernels)
        assert isinstance(mapper, Walk)
        np.testing.assert_array_equal(mapper.cells(queries).codes, expected)
        there = np.asfortranarray(as_dense(queries))
        np.testing.assert_array_equal(mapper.device.get(mapper.block(there)), expected)


def test_a_kernel_gives_cells_of_trees_that_are_leaves(kernels: KernelsOnCpu) -> None:
    X = np.zeros((N, 2))
    model = fit_partitions(X, draw_subsamples(N, T, PSI, 5), method="iforest", seed=5)
    np.testing.assert_array_equal(model.mapper(kernels).cells(X).codes, model.cells(X).codes)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SEVERAL)
def test_any_sizes_of_blocks_and_pieces_give_them(
    name: str, layout: str, kernels: KernelsOnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, partitionings, centres and close pairs a few at a time; more members than a tile, rows than a block."""
    monkeypatch.setattr(array_choice, "LEAST_PIECE", 1)
    monkeypatch.setattr(device_rows, "CENTRE_BYTES", 4 * 7 * DATA[name].shape[1])
    X, t, psi = DATA[name], 11, N
    queries, draws = np.tile(queries_of(X), (2, 1)), draw_subsamples(N, t, psi, 2)
    model = fit_voronoi(LAYOUTS[layout](X), draws)
    expected = np.tile(voronoi_cells(queries_of(X), X, draws), (2, 1))
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            force(way, patch)
            mapper = model.mapper(kernels)
        np.testing.assert_array_equal(mapper.cells(LAYOUTS[layout](queries)).codes, expected)
    few = model.mapper(Host(), budget=1 << 16)
    assert isinstance(few, Products)
    assert 1 < few.rows_at_once() < 50
    np.testing.assert_array_equal(few.cells(LAYOUTS[layout](queries)).codes, expected)
    np.testing.assert_array_equal(model.mapper(Host(), budget=1).cells(queries[:7]).codes, expected[:7])


@pytest.mark.parametrize("method", ["anne", "iforest"])
def test_rows_that_lie_on_the_device(method: str) -> None:
    X, device = DATA["continuous"], Strict()
    model = fit_partitions(X, draw_subsamples(N, T, PSI, 6), method=method, seed=6)
    expected = model.cells(X).codes
    np.testing.assert_array_equal(model.mapper(device).cells(device.put(X)).codes, expected)
    with pytest.raises(ValueError, match="X has 3 columns, the model was fitted on 4"):
        model.mapper(device).cells(device.put(X[:, :3]))


def test_rows_that_lie_on_the_device_of_maps_that_the_processor_maps() -> None:
    X, device = DATA["continuous"], Strict()
    trees = fit_mondrian(X, T, 2.0, 6)
    both = SideBySide((fit_voronoi(X, draw_subsamples(N, T, PSI, 6)), trees))
    for model in (trees, both):
        expected = model.cells(X).codes
        for rows in (X, sp.csr_array(X), device.put(X)):
            np.testing.assert_array_equal(model.mapper(device).cells(rows).codes, expected)
    with pytest.raises(ValueError, match="X has 3 columns, the model was fitted on 4"):
        trees.mapper(device).cells(device.put(X[:, :3]))


def test_rows_in_another_order_in_memory(kernels: KernelsOnCpu) -> None:
    """As an array on a device may be: the host's are put in order before."""
    X = DATA["continuous"]
    model = fit_voronoi(X, draw_subsamples(N, T, PSI, 6))
    mapper = model.mapper(kernels)
    np.testing.assert_array_equal(mapper.device.get(mapper.block(np.asfortranarray(X))), model.cells(X).codes)


@pytest.mark.parametrize("method", ["anne", "iforest"])
def test_a_device_that_is_full_gets_fewer_rows(method: str) -> None:
    X = np.tile(DATA["continuous"], (20, 1))
    model = fit_partitions(X, draw_subsamples(len(X), T, PSI, 7), method=method, seed=7)
    device = Crowded(1 << 30)
    mapper = model.mapper(device)
    device.room = 8 * 4 * 100
    np.testing.assert_array_equal(mapper.cells(X).codes, model.cells(X).codes)
    assert device.refused == 4  # 1200, 600, 300 and 150 rows
    device.room = 0
    with pytest.raises(MemoryError):
        mapper.cells(X)


class Loose(Host):
    """Products of numbers cut to TF32's ten bits."""

    def __init__(self, error: float) -> None:
        self.product_error = error
        self.xp = SimpleNamespace(**{name: getattr(np, name) for name in dir(np)})
        self.xp.matmul = lambda a, b: np.matmul(_cut(a), _cut(b))

    def put_csr(self, rows: sp.csr_array) -> Any:
        dense = rows.toarray()
        return LooseMatrix(dense) if rows.dtype == np.float32 else rows


class LooseMatrix:
    """What a device's sparse matrix has to offer."""

    def __init__(self, dense: np.ndarray) -> None:
        self.toarray = lambda: dense

    def __matmul__(self, right: np.ndarray) -> Any:
        return np.matmul(_cut(self.toarray()), _cut(right))


def _cut(values: np.ndarray) -> np.ndarray:
    return (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


WIDE = {"dense": as_dense, "csr": lambda X: as_csr(np.pad(X, ((0, 0), (0, 200))))}
"""Rows that are scored by all their coordinates, and by those that are not 0."""


@pytest.mark.parametrize("layout", WIDE)
def test_products_of_fewer_bits_are_allowed_for(layout: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    # Scores that float32 holds exactly, of rows of twelve bits.
    small = rng.integers(-600, 600, size=(400, 2)).astype(float)
    odd = np.c_[2.0 * rng.integers(1024, 1400, size=4000) + 1.0, rng.integers(-600, 600, size=4000)]
    for points, queries in ((X, X), (small, odd)):
        model, rows = fit_voronoi(WIDE[layout](points), draw_subsamples(400, 20, 64, 0)), WIDE[layout](queries)
        assert isinstance(choose_scores(model.centers), DenseScores) == (layout == "dense")
        expected = model.cells(rows).codes
        np.testing.assert_array_equal(model.mapper(Loose(LOOSE_ERROR)).cells(rows).codes, expected)
        assert (model.mapper(Loose(0.0)).cells(rows).codes != expected).any()


@pytest.mark.parametrize("layout", WIDE)
def test_whole_numbers_are_trusted_as_far_as_float32_goes(
    layout: str, kernels: KernelsOnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Near rows are not settled again, ties or not; far ones are: their scores are rounded."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, size=(60, 2)).astype(float)
    far, draws = X + np.array([1e6, 0.0]), draw_subsamples(60, T, 30, 0)
    model = fit_voronoi(WIDE[layout](X), draws)
    for device in (Host(), kernels):
        codes = model.mapper(device).cells(WIDE[layout](far)).codes
        np.testing.assert_array_equal(codes, voronoi_cells(far, X, draws))
    with counted(ArrayChoice._settle) as settled:
        codes = model.mapper(Host()).cells(WIDE[layout](X)).codes
    assert not settled.number
    np.testing.assert_array_equal(codes, voronoi_cells(X, X, draws))

    force("products" if layout == "dense" else "sparse products", monkeypatch)
    mapper = model.mapper(kernels)
    assert isinstance(mapper, Products)
    assert isinstance(mapper._choice, KernelChoice)
    kernels.launched.clear()
    np.testing.assert_array_equal(mapper.cells(WIDE[layout](X)).codes, voronoi_cells(X, X, draws))
    mapper.cells(WIDE[layout](far))
    settled_rows = [int(arguments[3][0]) for name, arguments in kernels.launched if name == lowest.SETTLING_NAME]
    assert settled_rows[0] == 0 < settled_rows[1]


def test_which_way_is_for_which_rows(kernels: KernelsOnCpu) -> None:
    """The examples were measured on an H200."""
    assert fused.fits(8, (100, 256), 17_760)
    assert fused.fits(54, (100, 256), 17_760)
    assert not fused.fits(8, (100, 4096), 32_768)
    assert not fused.fits(54, (100, 4096), 74_111)
    # What one of them cannot do.
    assert fused.fits(64, (65_535, 1), 65_535)
    assert not fused.fits(65, (1, 1), 1)
    assert not fused.fits(1, (65_536, 1), 65_536)
    assert fused.fits(54, (1, 65_537), 1)
    assert spread_out(sp.random_array((400, 1000), density=1 / 64, format="csr", rng=np.random.default_rng(0)))
    assert not spread_out(sp.random_array((400, 1000), density=1 / 80, format="csr", rng=np.random.default_rng(0)))
    assert spread_out(sp.csr_array((10, 64)))
    assert not spread_out(sp.csr_array((10, 65)))
    draws = draw_subsamples(N, T, PSI, 0)
    assert isinstance(fit_voronoi(np.ones((N, 65)), draws).mapper(kernels), Products)
    assert isinstance(fit_voronoi(sp.csr_array(DATA["sparse"]), draws).mapper(kernels), Fused)
    assert isinstance(fit_voronoi(DATA["continuous"], draws).mapper(Host()), Products)


def test_many_members_are_not_numbered_by_half_a_word(kernels: KernelsOnCpu, monkeypatch: pytest.MonkeyPatch) -> None:
    force("products", monkeypatch)
    monkeypatch.setattr("ikmap.partitioners.voronoi.products.MOST_NUMBERS", PSI - 1)
    X, draws = DATA["continuous"], draw_subsamples(N, T, PSI, 0)
    mapper = fit_voronoi(X, draws).mapper(kernels)
    assert isinstance(mapper, Products)
    assert isinstance(mapper._choice, ArrayChoice)
    np.testing.assert_array_equal(mapper.cells(X).codes, voronoi_cells(X, X, draws))


def test_what_it_takes_is_told() -> None:
    model = fit_voronoi(DATA["continuous"], draw_subsamples(N, T, PSI, 0))
    mapper = model.mapper(Strict(free=1 << 21))
    assert mapper.budget == LEAST_BUDGET
    assert model.mapper(Strict(free=1 << 31)).budget == 1 << 30
    assert model.mapper(Strict(free=1 << 40)).budget == model.mapper(Strict(), budget=1 << 40).budget == 1 << 33
    mapper = model.mapper(Strict(), budget=1 << 20)
    assert mapper.rows_at_once() == (1 << 20) // mapper.row_bytes
    assert f"{mapper.rows_at_once():,} rows at a time in 1 MB" in mapper.explain()
    assert model.mapper(Strict(), budget=1 << 40).rows_at_once() == 1 << 16


def test_kernels_on_the_processor_notice_a_barrier_that_some_threads_miss(libraries: Path) -> None:
    code = """extern "C" __global__ void f(int* x, int missing) {
        if (threadIdx.x < missing) return;
        __syncthreads();
        x[0] = 1;
    }"""
    done, kernel = np.zeros(1, dtype=np.int32), KernelsOnCpu(libraries).compile(code, "f", {})
    kernel((1, 1), (4,), (done, np.int32(0)))
    assert done[0] == 1
    with pytest.raises(AssertionError, match="barrier"):
        kernel((1, 1), (4,), (done, np.int32(2)))


# --- compiled for GPUs that are not here


def options_of(defines: dict[str, int]) -> list[str]:
    """What a compiler is told on a GPU: by us, and by CuPy of its own accord."""
    cupy = cupy_like()
    Gpu(cupy).compile("", "", defines)
    return [*cupy.compiled[0][1], "-ftz=true"]


def by_nvcc(source: str, gpu: str, options: list[str], folder: Path) -> tuple[bytes, str]:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc")
    command = [nvcc, "-cubin", "-Werror", "all-warnings", "-Xptxas", "-v", "-arch", gpu, *options, "kernel.cu"]
    # The same compiler makes the same of the same source: what it accepted once is read from then on.
    parts = [source, *command, str(os.stat(nvcc).st_mtime_ns)]
    kept = folder / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}.cubin"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=folder) as own:
            Path(own, "kernel.cu").write_text(source)
            done = subprocess.run([*command, "-o", kept.name], cwd=own, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ValueError(done.stdout + done.stderr)
            kept.with_suffix(".txt").write_text(done.stderr)
            Path(own, kept.name).replace(kept)
    return kept.read_bytes(), kept.with_suffix(".txt").read_text()


def by_nvrtc(source: str, gpu: str, options: list[str], folder: Path) -> tuple[bytes, str]:  # noqa: ARG001
    needed = "needs CuPy with NVRTC"
    nvrtc = pytest.importorskip("cupy", reason=needed).cuda.nvrtc
    try:
        nvrtc.getVersion()
    except RuntimeError:  # the library is not there
        pytest.skip(needed)
    program = nvrtc.createProgram(source, "kernel.cu", [], [])
    try:
        nvrtc.compileProgram(program, [f"-arch={gpu}", *options])
    except nvrtc.NVRTCError as error:
        raise ValueError(nvrtc.getProgramLog(program)) from error
    return bytes(nvrtc.getCUBIN(program)), ""


COMPILERS = pytest.mark.parametrize("compiler", [by_nvcc, by_nvrtc])
"""Each gives the machine code of a kernel and what it says of it, or raises ValueError with what is wrong."""


NEAREST = [*((GPUS[0], n) for n in (1, 17, 33, 41, 64)), *product(GPUS[1:], (64,))]
KERNELS = [
    *((gpu, "nearest.cu", fused.NAME, fused.defines(n)) for gpu, n in NEAREST),
    *((gpu, "lowest.cu", lowest.NAME, {"THREADS": lowest.THREADS, **lowest.defines(sparse=False)}) for gpu in GPUS),
    *(
        (GPUS[0], "lowest.cu", lowest.SETTLING_NAME, {"THREADS": lowest.SETTLING_THREADS, **lowest.defines(sparse)})
        for sparse in (False, True)
    ),
    *((gpu, "tree_walk.cu", tree_kernel.NAME, tree_kernel.defines()) for gpu in GPUS),
]


@COMPILERS
@pytest.mark.parametrize(("gpu", "file", "name", "defines"), KERNELS)
def test_kernels_compile(
    gpu: str, file: str, name: str, defines: dict[str, int], compiler: Any, libraries: Path
) -> None:
    text = tree_kernel.source() if file == "tree_walk.cu" else source(file)
    code, said = compiler(text, gpu, options_of(defines), libraries)
    assert code.startswith(b"\x7fELF")
    assert name.encode() in code
    if said:
        # A thread's rows fit into its registers, and a block's shared memory into what every GPU gives unasked.
        assert max(int(found) for found in re.findall(r"(\d+) bytes spill stores", said)) <= 16
        assert max(map(int, re.findall(r"(\d+) bytes smem", said)), default=0) <= 48 << 10


@COMPILERS
def test_a_fault_in_a_kernel_is_told(compiler: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tile"):
        compiler(source("nearest.cu").replace("float4 tile[", "float4 tiles["), GPUS[-1], options_of({}), tmp_path)


# --- what is asked of CuPy


class Launched(str):
    """A kernel that is known by its name, and tells how it is called."""

    max_dynamic_shared_size_bytes: int

    def __call__(self, grid: Any, block: Any, args: Any, **named: Any) -> Any:  # noqa: ARG002
        return named


class OnGpu(np.ndarray):
    """An array with the methods of CuPy's that copy."""

    def set(self, array: np.ndarray) -> None:
        assert (array.dtype, array.shape) == (self.dtype, self.shape)
        assert array.flags.c_contiguous
        self[...] = array

    def get(self, *, out: np.ndarray) -> None:
        assert out.flags.c_contiguous
        out[...] = self


def cupy_like(available: bool = True) -> Any:
    """As much of CuPy as is asked before any array is made."""
    properties = {"name": b"A GPU", "major": 9, "minor": 0, "totalGlobalMem": 1 << 36, "sharedMemPerBlockOptin": 999}
    compiled: list[Any] = []

    def module(code: str, options: tuple[str, ...]) -> Any:
        compiled.append((code, options))
        return SimpleNamespace(get_function=Launched)

    runtime = SimpleNamespace(
        getDevice=lambda: 0,
        getDeviceProperties=lambda _: properties,
        memGetInfo=lambda: (300, 1 << 36),
        driverGetVersion=lambda: 13010,
        runtimeGetVersion=lambda: 12090,
    )
    return SimpleNamespace(
        __version__="14.2.0",
        cuda=SimpleNamespace(runtime=runtime, is_available=lambda: available),
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 45),
        RawModule=module,
        compiled=compiled,
        empty=lambda shape, dtype: np.empty(shape, dtype).view(OnGpu),
        zeros=lambda shape, dtype: np.zeros(shape, dtype).view(OnGpu),
        reshape=np.reshape,
        asnumpy=np.asarray,
        matmul=np.matmul,
    )


def test_a_gpu_tells_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LOOSE_PRODUCTS:
        monkeypatch.delenv(name, raising=False)
    cupy = cupy_like()
    gpu = Gpu(cupy)
    assert gpu.evidence() == {
        "name": "A GPU",
        "compute_capability": "9.0",
        "memory_bytes": 1 << 36,
        "driver": "13.1",
        "runtime": "12.9",
        "cupy": "14.2.0",
    }
    assert gpu.free_bytes() == 345
    assert gpu.product_error == 0.0
    function: object = gpu.compile("code", "f", {"A": 1, "B": 2})
    assert str(function) == "f"
    assert cupy.compiled == [("code", ("-std=c++17", "-DA=1", "-DB=2"))]
    kernel: Any = gpu.compile("code", "f", {}, 60_000)
    assert kernel.func.max_dynamic_shared_size_bytes == 60_000
    assert kernel((1,), (1,), ()) == {"shared_mem": 60_000}
    monkeypatch.setenv("CUPY_TF32", "0")
    assert Gpu(cupy).product_error == 0.0
    monkeypatch.setenv("CUPY_TF32", "1")
    assert Gpu(cupy).product_error == LOOSE_ERROR


def test_a_gpu_is_given_arrays() -> None:
    gpu = Gpu(cupy_like())
    for name in ("sparse", "one column"):
        X = DATA[name]
        for array in (X, np.asfortranarray(X), X[:0], X[::2].astype(np.float32)):
            here = gpu.put(array)
            assert isinstance(here, OnGpu)
            out = np.empty(array.shape, array.dtype)
            gpu.get_into(here, out)
            np.testing.assert_array_equal(out, array)
            spread = gpu.put_dense(sp.csr_array(array))
            assert isinstance(spread, OnGpu)
            np.testing.assert_array_equal(gpu.get(spread), array)
    assert gpu.shared_bytes == 999


def test_what_a_pool_of_rmm_holds_counts_as_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not in the driver's figure, and CuPy's own pool is then empty."""
    gpu, pool = Gpu(cupy_like()), SimpleNamespace(pool_size=lambda: 10_000)
    tracked = SimpleNamespace(get_upstream=lambda: pool)
    for resource, held in ((pool, 10_000), (tracked, 10_000), (SimpleNamespace(), 0)):
        mr = SimpleNamespace(get_current_device_resource=lambda resource=resource: resource)
        monkeypatch.setitem(sys.modules, "rmm", SimpleNamespace(mr=mr))
        assert gpu.free_bytes() == 345 + held


def test_why_there_is_no_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    look = find_gpu.__wrapped__
    monkeypatch.setitem(sys.modules, "cupy", None)
    why = look()
    assert isinstance(why, str)
    assert "pip install 'ikmap[gpu]'" in why
    monkeypatch.setitem(sys.modules, "cupy", cupy_like(available=False))
    assert look() == "CuPy finds no CUDA device"
    broken = cupy_like()
    broken.cuda.runtime.getDevice = lambda: 1 / 0
    monkeypatch.setitem(sys.modules, "cupy", broken)
    assert look() == "the CUDA device cannot be used: division by zero"
    broken = cupy_like()
    broken.matmul = lambda *_: importlib.import_module("libcublas")
    monkeypatch.setitem(sys.modules, "cupy", broken)
    assert look() == "the CUDA device cannot be used: No module named 'libcublas'"
    broken.matmul = lambda a, b: np.matmul(a, b) * 0
    assert look() == "the CUDA device cannot be used: 1 + 1 is not 2 there"
    monkeypatch.setitem(sys.modules, "cupy", cupy_like())
    assert isinstance(look(), Gpu)


class Noted:
    """NumPy's namespace, which lets a function be called only as `other` has it."""

    def __init__(self, other: Any) -> None:
        self.other, self.names = other, set[str]()

    def __getattr__(self, name: str) -> Any:
        found, theirs = getattr(np, name), getattr(self.other, name)
        self.names.add(name)
        # A ufunc of CuPy tells no signature; ours are given arrays only.
        signature = inspect.signature(theirs) if inspect.isfunction(theirs) else None
        if signature is None:
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            signature.bind(*arguments, **named)
            return found(*arguments, **named)

        return called


def test_cupy_has_every_function_that_is_used(kernels: KernelsOnCpu) -> None:
    cupy = pytest.importorskip("cupy", reason="needs CuPy, though no GPU")
    for device in (Host(), kernels):
        noted = device.xp = Noted(cupy)
        for name in ("near ties", "sparse", "integer grid"):
            X = DATA[name]
            for layout in LAYOUTS.values():
                for method in ("anne", "iforest"):
                    model = fit_partitions(layout(X), draw_subsamples(N, T, PSI, 0), method=method, seed=0)
                    np.testing.assert_array_equal(model.mapper(device).cells(layout(X)).codes, model.cells(X).codes)
        del device.xp
        assert len(noted.names) > 15


# --- on a GPU


@pytest.fixture
def gpu() -> Device:
    found = find_gpu()
    if isinstance(found, str):
        pytest.skip(f"needs a GPU: {found}")
    return found


def leave(device: Device, what: str, **found: Any) -> None:
    """Add a line to the evidence, where it is wanted."""
    if path := os.environ.get(EVIDENCE):
        with Path(path).open("a") as file:
            file.write(json.dumps({"test": what, **device.evidence(), **found}) + "\n")


@pytest.mark.gpu
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("method", ["anne", "iforest"])
def test_cells_of_a_gpu(method: str, layout: str, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = mismatches = 0
    for way in WAYS:
        force(way, monkeypatch)
        for X in DATA.values():
            queries = queries_of(X)
            draws = draw_subsamples(X.shape[0], T, PSI, 8)
            model = fit_partitions(LAYOUTS[layout](X), draws, method=method, seed=8)
            codes = model.mapper(gpu).cells(LAYOUTS[layout](queries)).codes
            expected = voronoi_cells(queries, X, draws) if method == "anne" else model.cells(queries).codes
            checked, mismatches = checked + codes.size, mismatches + int((codes != expected).sum())
    leave(gpu, f"{method}, {layout}", cells_checked=checked, mismatches=mismatches)
    assert mismatches == 0


@pytest.mark.gpu
@pytest.mark.parametrize("d", [8, 54, 200])
def test_many_rows_on_a_gpu(d: int, gpu: Device) -> None:
    rng = np.random.default_rng(d)
    X = rng.random((20_000, d))
    model = fit_voronoi(X, draw_subsamples(len(X), 100, 1024, 0))
    mapper = model.mapper(gpu)
    rows = slice(0, len(X), 10)
    mapper.cells(X)
    began = time.perf_counter()
    codes = mapper.cells(X).codes
    speed = len(X) / (time.perf_counter() - began)
    mismatches = int((codes[rows] != model.cells(X[rows]).codes).sum())
    leave(
        gpu,
        f"{d} columns",
        how=mapper.explain(),
        rows_per_second=speed,
        cells_checked=codes[rows].size,
        mismatches=mismatches,
    )
    assert mismatches == 0
